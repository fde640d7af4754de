"""Random straight-line programs of vector, scalar and LDS instructions against the pseudo-code."""

from __future__ import annotations

import pytest

pytest.importorskip("tinygrad")

from emulator_witness.harness import run_batch, run_each
from emulator_witness.programs import write_program

WAVES = 2
LENGTH = 60
PROGRAMS = 12


def first_difference(program):
    """The first step after which the emulator and the pseudo-code differ, by halving."""
    low, high = 0, len(program.steps)
    while high - low > 1:
        middle = (low + high) // 2
        (outcome,) = run_batch([program.case(middle)])
        if program.mismatch(outcome, middle):
            high = middle
        else:
            low = middle
    (outcome,) = run_batch([program.case(high)])
    instruction = program.steps[high - 1][0]
    return (
        f"program {program.seed}, step {high}: {program.names[high - 1]} "
        f"{instruction.to_bytes().hex()}: {program.mismatch(outcome, high)}"
    )


def check(seeds):
    programs = [write_program(seed, LENGTH, WAVES) for seed in seeds]
    found = []
    for program, outcome in zip(programs, run_each([program.case() for program in programs])):
        if isinstance(outcome, Exception):
            found.append(f"program {program.seed}: {type(outcome).__name__}: {outcome}")
        elif program.mismatch(outcome):
            found.append(first_difference(program))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("group", range(4))
def test_programs_agree_with_the_pseudocode(group):
    check(range(group * PROGRAMS, (group + 1) * PROGRAMS))


@pytest.mark.slow
@pytest.mark.parametrize("group", range(100))
def test_many_programs(group):
    check(range(1000 + group * PROGRAMS, 1000 + (group + 1) * PROGRAMS))


def test_programs_are_varied_and_mostly_sure():
    """What the comparison leaves out is little, and each kind of step occurs."""
    programs = [write_program(seed, LENGTH, WAVES) for seed in range(6)]
    names = {name.split(" ")[0] for program in programs for name in program.names}
    assert len(names) > 120
    assert any(name.startswith("DS_") for name in names)
    assert any(name.startswith("S_") for name in names)
    unsure = sum(program.states[-1].unsure.mean() for program in programs) / len(programs)
    assert unsure < 0.3


def test_a_wrong_step_is_found():
    """The comparison itself: one changed register at the end is reported."""
    program = write_program(3, 10, WAVES)
    (outcome,) = run_batch([program.case()])
    assert not program.mismatch(outcome)
    sure = ~program.states[-1].unsure[1, 9]
    outcome.vectors[1, 9, sure.argmax()] ^= 1 << 13
    assert "wave 1 lane 9" in program.mismatch(outcome)
