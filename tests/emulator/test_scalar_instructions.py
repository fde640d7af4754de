"""Every scalar ALU instruction, on random and edge operands, against AMD's pseudo-code."""

from __future__ import annotations

import random
import zlib

import pytest

pytest.importorskip("tinygrad")

from emulator_witness.harness import Case, run_each
from emulator_witness.scalar_cases import (
    TESTED_APART,
    evaluate,
    every_operation,
    mismatches,
    operations,
    plan_scalar,
    random_inputs,
)

FAMILIES = ("SOP1", "SOP2", "SOPC", "SOPK")
WAVES = 24
CASES_PER_LAUNCH = 120


def plans_of(family, constant):
    plans = []
    for operation in operations(family):
        rng = random.Random(zlib.crc32(operation.name.encode()))
        plans.append(plan_scalar(operation, family, rng, constant))
    return [plan for plan in plans if plan.constants or not constant]


def check(plans):
    found = []
    for first in range(0, len(plans), CASES_PER_LAUNCH):
        chunk = plans[first : first + CASES_PER_LAUNCH]
        inputs = [random_inputs(p, WAVES, zlib.crc32(p.name.encode())) for p in chunk]
        cases = [Case(p.name, [p.instruction], *i) for p, i in zip(chunk, inputs)]
        outcomes = run_each(cases, registers=16)
        for plan, (_, scalars), outcome in zip(chunk, inputs, outcomes):
            if isinstance(outcome, Exception):
                found.append(f"{plan.name}: {type(outcome).__name__}: {outcome}")
                continue
            found += mismatches(plan, scalars, evaluate(plan, scalars), outcome.scalars)
    return found


@pytest.mark.parametrize("constant", [False, True], ids=["registers", "constant"])
@pytest.mark.parametrize("family", FAMILIES)
def test_family_agrees_with_the_pseudocode(family, constant):
    plans = plans_of(family, constant)
    if not plans:
        pytest.skip(f"{family} has no operand that can be a constant")
    found = check(plans)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)


def test_every_scalar_instruction_is_covered():
    covered = {plan.name for family in FAMILIES for plan in plans_of(family, False)}
    every = {operation.name for family in FAMILIES for operation in every_operation(family)}
    assert every - covered == set(TESTED_APART) & every
    assert len(covered) > 150
