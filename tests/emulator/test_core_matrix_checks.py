"""Matrix instructions that the chip would get wrong to findings."""

import pytest

pytest.importorskip("tinygrad")

from emulator_witness.assembler import isa, v
from emulator_witness.sanitized import buffers, clean, finding_of

from tessera import emulator

FILL = [isa.v_mov_b32_e32(v[register], 0) for register in range(16, 48)]


def wmma(destination, a, b):
    return isa.v_wmma_f32_16x16x16_f16(
        vdst=v[destination : destination + 7],
        src0=v[a : a + 7],
        src1=v[b : b + 7],
        src2=v[destination : destination + 7],
    )


def test_operands_must_agree_in_both_lane_halves():
    """v0 holds the lane's number, which differs between lane i and lane i + 16."""
    body = [*FILL, isa.v_mov_b32_e32(v[27], v[0]), wmma(16, 24, 32)]
    finding = finding_of(emulator.MatrixOperandError, body, buffers(), len(FILL) + 1)
    assert finding.kind == "matrix_operands"
    assert "lanes 0-15 and 16-31" in finding.message
    same = isa.v_and_b32_e32(v[27], 15, v[0])
    clean([*FILL, same, wmma(16, 24, 32)], buffers())


def test_result_must_not_be_the_next_operand():
    body = [*FILL, wmma(40, 24, 32), wmma(16, 40, 32)]
    finding = finding_of(emulator.HazardError, body, buffers(), len(FILL) + 1)
    assert finding.kind == "hazard"
    clean([*body[:-1], isa.v_nop_e32(), body[-1]], buffers())


def test_accumulators_may_follow_each_other():
    clean([*FILL, wmma(40, 24, 32), wmma(40, 24, 32)], buffers())
