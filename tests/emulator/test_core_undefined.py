"""Copies of registers without a value are silent; what computes with the copies is found."""

import pytest

pytest.importorskip("tinygrad")

from emulator_witness.assembler import isa, s, v
from emulator_witness.sanitized import buffers, clean, finding_of

from tessera import emulator


@pytest.mark.parametrize(
    "copy, use, name",
    [
        (isa.s_mov_b32(s[20], s[21]), isa.s_add_u32(s[22], s[20], 1), "s20"),
        (isa.s_mov_b64(s[20:21], s[22:23]), isa.s_add_u32(s[24], s[21], 1), "s21"),
        (isa.v_mov_b32_e32(v[4], v[5]), isa.v_add_f32_e32(v[6], v[4], v[4]), "v4"),
        (isa.v_mov_b32_e32(v[4], s[21]), isa.v_add_f32_e32(v[6], v[4], v[4]), "v4"),
        (isa.v_readfirstlane_b32_e32(s[20], v[5]), isa.s_add_u32(s[22], s[20], 1), "s20"),
        (
            isa.v_writelane_b32(v[0], s[21], 3),
            isa.s_add_u32(s[22], s[21], 1),
            "s21",
        ),
    ],
    ids=["s_mov_b32", "s_mov_b64", "v_mov", "v_mov_from_scalar", "readfirstlane", "writelane"],
)
def test_a_copy_is_silent_and_its_use_is_found(copy, use, name):
    clean([copy], buffers())
    finding = finding_of(emulator.UninitializedReadError, [copy, use], buffers(), 1)
    assert finding.kind == "uninitialized"
    assert name in finding.message


def test_a_copy_of_a_value_is_a_value():
    body = [
        isa.s_mov_b32(s[21], 4),
        isa.s_mov_b32(s[20], s[21]),
        isa.v_mov_b32_e32(v[4], s[20]),
        isa.v_mov_b32_e32(v[5], v[4]),
        isa.v_add_f32_e32(v[6], v[5], v[5]),
    ]
    clean(body, buffers())
