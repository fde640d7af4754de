"""Every vector instruction, on random and edge operands, against AMD's pseudo-code."""

from __future__ import annotations

import random
import zlib

import pytest

pytest.importorskip("tinygrad")

from emulator_witness import families
from emulator_witness.harness import Case, run_each
from emulator_witness.pseudocode_remedies import REMEDIES
from emulator_witness.vector_cases import base_name, plan_vector, random_inputs
from emulator_witness.vector_comparison import APPROXIMATE, DOT_PRODUCTS, mismatches
from emulator_witness.vector_expected import evaluate

FAMILIES = ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P")
VARIANTS = ("plain", "high", "scalar", "last_scalar", "constant", "literal", "modifiers", "clamp")
WAVES = 2
CASES_PER_LAUNCH = 150


def plans_of(family, variant):
    plans = []
    for operation in families.operations(family):
        rng = random.Random(zlib.crc32(f"{operation.name} {variant}".encode()))
        encoding = families.encoding_of(operation, family)
        plan = plan_vector(operation, encoding, families.text_of(operation), rng, variant)
        if plan is not None:
            plans.append(plan)
    return plans


def check(plans):
    """Descriptions of all differences between the emulator and the pseudo-code."""
    found = []
    for first in range(0, len(plans), CASES_PER_LAUNCH):
        chunk = plans[first : first + CASES_PER_LAUNCH]
        inputs = [
            random_inputs(plan, WAVES, zlib.crc32(f"{plan.name} {plan.variant}".encode()))
            for plan in chunk
        ]
        cases = [Case(p.name, [p.instruction], *i) for p, i in zip(chunk, inputs)]
        for plan, operands, outcome in zip(chunk, inputs, run_each(cases)):
            if isinstance(outcome, Exception):
                found.append(f"{plan.name} ({plan.variant}): {type(outcome).__name__}: {outcome}")
                continue
            found += mismatches(plan, operands, evaluate(plan, *operands), outcome)
    return found


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_family_agrees_with_the_pseudocode(family, variant):
    plans = plans_of(family, variant)
    if not plans:
        pytest.skip(f"no instruction of {family} has the variant {variant!r}")
    found = check(plans)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)


def test_every_vector_instruction_is_covered():
    """No operation of the tables is dropped without a reason."""
    covered = {plan.name for family in FAMILIES for plan in plans_of(family, "plain")}
    every = {
        base_name(operation)
        for family in FAMILIES
        for operation in families.every_operation(family)
    }
    assert every - covered == set(families.TESTED_APART)
    assert len(covered) > 400


def test_tables_of_exceptions_name_existing_instructions():
    names = {plan.name for family in FAMILIES for plan in plans_of(family, "plain")}
    stray = {*APPROXIMATE, *DOT_PRODUCTS, *REMEDIES} - names
    assert all(name.startswith("S_") for name in stray - {"V_DOT2ACC_F32_BF16"}), stray


def test_a_wrong_result_is_noticed():
    """The comparison itself: a flipped bit, a stale lane and a lost carry are reported."""
    (plan,) = [p for p in plans_of("VOP2", "plain") if p.name == "V_ADD_CO_CI_U32"]
    operands = random_inputs(plan, WAVES, 1)
    expected = evaluate(plan, *operands)

    def outcome():
        from emulator_witness.harness import Outcome

        return Outcome(expected.vectors.copy(), expected.scalars.copy())

    assert not mismatches(plan, operands, expected, outcome())
    for change in (
        lambda o: o.vectors.__setitem__((0, 5, 12), o.vectors[0, 5, 12] ^ 1),
        lambda o: o.vectors.__setitem__((1, 7, 3), o.vectors[1, 7, 3] ^ 1),
        lambda o: o.scalars.__setitem__((0, 12), o.scalars[0, 12] ^ 4),
    ):
        wrong = outcome()
        change(wrong)
        assert mismatches(plan, operands, expected, wrong)
