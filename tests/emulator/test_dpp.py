"""DPP16 and DPP8 forms of the vector instructions, against lane moves and the pseudo-code."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.assembler import isa, v
from emulator_witness.dpp_cases import CONTROLS, Control, eligible, evaluate_dpp, plan_dpp
from emulator_witness.harness import EXEC, LANES, SCALARS, Case, run_batch, run_each
from emulator_witness.vector_cases import random_inputs
from emulator_witness.vector_comparison import mismatches

FAMILIES = ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P")
WAVES = 2
CASES_PER_LAUNCH = 150


@pytest.mark.parametrize("family", FAMILIES)
def test_family_with_moved_lanes(family):
    found = []
    operations = eligible(family)
    assert len(operations) > (0 if family == "VOP3SD" else 25)
    for first in range(0, len(operations), CASES_PER_LAUNCH):
        plans = [
            plan_dpp(x, family, random.Random(zlib.crc32(x.name.encode())))
            for x in operations[first : first + CASES_PER_LAUNCH]
        ]
        inputs = [random_inputs(p, WAVES, zlib.crc32(p.name.encode())) for p, _ in plans]
        cases = [Case(p.name, [p.instruction], *i) for (p, _), i in zip(plans, inputs)]
        for (plan, control), operands, outcome in zip(plans, inputs, run_each(cases)):
            if isinstance(outcome, Exception):
                found.append(f"{plan.name} ({plan.variant}): {type(outcome).__name__}: {outcome}")
                continue
            expected, moved = evaluate_dpp(plan, control, *operands)
            found += mismatches(plan, (moved, operands[1]), expected, outcome)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)


def test_every_control_moves_lanes_as_documented():
    """v_mov_b32 of the lane number under each control, with half of the lanes off."""
    execute = 0b1100_0111_1010_1111_1111_0000_1001_1110
    controls = [
        Control(code, bound_control=bound, fetch_inactive=fetch)
        for code in (*CONTROLS, 0b11_10_01_00, 0b00_01_10_11, 0b10_10_01_11)
        for bound in (False, True)
        for fetch in (False, True)
    ]
    vectors = np.zeros((1, LANES, 16), np.uint32)
    vectors[0, :, 0] = np.arange(LANES) + 100
    vectors[0, :, 12] = 7
    scalars = np.zeros((1, SCALARS), np.uint32)
    scalars[0, EXEC] = execute
    cases = []
    for control in controls:
        move = isa.VOP1_DPP16(
            isa.VOP1Op.V_MOV_B32_E32,
            vdst=v[12],
            src0=isa.DPP,
            vsrc0=v[0],
            dpp=control.code,
            fi=int(control.fetch_inactive),
            bc=int(control.bound_control),
            row_mask=15,
            bank_mask=15,
        )
        cases.append(Case(hex(control.code), [move], vectors, scalars))
    for control, outcome in zip(controls, run_batch(cases)):
        for lane in range(LANES):
            source = control.source(lane)
            valid = source is not None and (control.fetch_inactive or execute >> source & 1)
            expected = 100 + source if source is not None and valid else 0
            if not execute >> lane & 1 or not (valid or control.bound_control):
                expected = 7
            assert outcome.vectors[0, lane, 12] == expected, (control, lane)
