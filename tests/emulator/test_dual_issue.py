"""Every pair of dual-issue operations, against the pseudo-code of both plain operations."""

from __future__ import annotations

import random
import zlib

import pytest

pytest.importorskip("tinygrad")

from emulator_witness.dual_cases import (
    FIRST_HALF_CODES,
    inputs_of,
    operations,
    pair_mismatches,
    plan_pair,
)
from emulator_witness.harness import Case, run_each

WAVES = 2
FIRST_OPERATIONS = [x for x in operations() if x.value < FIRST_HALF_CODES]


def compatible(one, other):
    """At most one of the halves uses the literal in a way of its own: both share its value."""
    literal = [x for x in (one, other) if "FMAAK" in x.name or "FMAMK" in x.name]
    return len(literal) < 2


def test_all_pairs():
    pairs = [(x, y) for x in FIRST_OPERATIONS for y in operations() if compatible(x, y)]
    assert len(pairs) > 200
    plans = [
        plan_pair(x, y, random.Random(zlib.crc32(f"{x.name} {y.name}".encode()))) for x, y in pairs
    ]
    inputs = [inputs_of(p, WAVES, zlib.crc32(p.name.encode())) for p in plans]
    cases = [Case(p.name, [p.instruction], *i) for p, i in zip(plans, inputs)]
    found = []
    for plan, operands, outcome in zip(plans, inputs, run_each(cases)):
        if isinstance(outcome, Exception):
            found.append(f"{plan.name}: {type(outcome).__name__}: {outcome}")
            continue
        found += pair_mismatches(plan, operands, outcome)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)
