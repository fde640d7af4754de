"""Every LDS, global, flat, scratch and buffer instruction against AMD's pseudo-code."""

from __future__ import annotations

import random
import zlib

import pytest

pytest.importorskip("tinygrad")

from emulator_witness.harness import Case, run_each
from emulator_witness.memory_cases import (
    CLASSES,
    TESTED_APART,
    every_operation,
    forms,
    operations,
    plan_memory,
    random_inputs,
)
from emulator_witness.memory_expected import mismatches

WAVES = 3
CASES_PER_LAUNCH = 80
FORMS = [(family, form) for family in CLASSES for form in forms(family, "")]


def plans_of(family, form):
    plans = []
    for operation in operations(family):
        if form in forms(family, operation.name):
            rng = random.Random(zlib.crc32(f"{operation.name} {form}".encode()))
            plans.append(plan_memory(operation, family, form, rng))
    return plans


@pytest.mark.parametrize("family, form", FORMS)
def test_family_agrees_with_the_pseudocode(family, form):
    plans = plans_of(family, form)
    found = []
    for first in range(0, len(plans), CASES_PER_LAUNCH):
        chunk = plans[first : first + CASES_PER_LAUNCH]
        inputs = [random_inputs(p, WAVES, zlib.crc32(p.name.encode())) for p in chunk]
        cases = [
            Case(
                p.name,
                p.instructions,
                *i,
                lds=family == "DS",
                memory=family in ("GLOBAL", "FLAT", "MUBUF"),
            )
            for p, i in zip(chunk, inputs)
        ]
        options = {"private_bytes": 256 if family == "SCRATCH" else 0, "registers": 32}
        for plan, operands, outcome in zip(chunk, inputs, run_each(cases, **options)):
            if isinstance(outcome, Exception):
                found.append(f"{plan.name} ({form}): {type(outcome).__name__}: {outcome}")
                continue
            found += mismatches(plan, *operands, outcome.vectors)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)


def test_every_memory_instruction_is_covered():
    covered = {p.name for family, form in FORMS for p in plans_of(family, form)}
    every = {x.name for family in CLASSES for x in every_operation(family)}
    assert {x for x in every - covered if x not in TESTED_APART and "FORMAT" not in x} == set()
    assert len(covered) > 250
