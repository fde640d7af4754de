"""A few traced workgroups to the lengths of all: loop bounds are read where the main loop begins.

Workgroups of causal attention differ in length, and how a kernel orders them is its own business.
All of them run up to their main loop, which is short; of the scalar registers there, the one that
predicts the traced workgroups' lengths best by a straight line predicts those of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessera.emulator.launch import Launch
from tessera.emulator.registers import EXEC_LO
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Step
from tessera.emulator.timing.loops import loop_starts
from tessera.emulator.timing.parameters import Parameters
from tessera.emulator.timing.trace import Recorder, WaveTrace, start

MOST_WAVES = 16384
WAVES_AT_ONCE = 512
WORST_FIT = 0.05
"""The largest relative error of a length that still counts as predicted."""


class _BoundReader(Recorder):
    """A machine that notes the scalar registers of each wave when it first reaches a pc."""

    goal: int
    found: dict[int, list[int]]

    def _trace(self, g: WaveGroup, step: Step) -> None:
        if step.instruction.pc - self.program.entry == self.goal:
            indices = range(g.count) if g.index is None else g.index.tolist()
            for place, wave in enumerate(indices):
                if wave not in self.found:
                    self.found[wave] = [_scalar(g, r, place) for r in range(EXEC_LO)]
        self.stop_when_long(g)


def _scalar(g: WaveGroup, register: int, place: int) -> int:
    values = g.sgpr[register]
    if values is None:
        values = g.batch.sgpr[register]
        place = int(g.wave_indices()[place])
    return int(values[place if len(values) > 1 else 0])


def lengths(
    launch: Launch, traced: Sequence[Sequence[WaveTrace]], total: int, p: Parameters
) -> np.ndarray:
    """Instructions of the longest wave of each of `total` workgroups, float64 [total].

    Without a register that predicts them, lengths between traced workgroups are interpolated.
    """
    known = {w[0].workgroup: max(len(wave.operations) for wave in w) for w in traced}
    ids = np.array(sorted(known))
    values = np.array([known[i] for i in ids], np.float64)
    plain = np.interp(np.arange(total), ids, values)
    longest = max((wave for w in traced for wave in w), key=lambda wave: len(wave.operations))
    starts = loop_starts(longest)
    if not starts or total * len(traced[0]) > MOST_WAVES:
        return plain
    goal = longest.operations[starts[0]].pc
    bounds = _read_bounds(launch, total, len(traced[0]), goal, starts[0], p)
    reached = [i for i in ids.tolist() if i in bounds]
    if len(reached) < 3:
        return plain
    table = np.array([bounds[i] for i in reached], np.float64)
    wanted = np.array([known[i] for i in reached], np.float64)
    best = _best_register(table, wanted)
    if best is None:
        return plain
    register, slope, offset = best
    result = np.full(total, values.min())
    for workgroup, registers in bounds.items():
        result[workgroup] = max(offset + slope * registers[register], values.min() * 0.5)
    return result


def _best_register(table: np.ndarray, wanted: np.ndarray) -> tuple[int, float, float] | None:
    """(register, slope, offset) of the line that misses the lengths least, if by little."""
    best, smallest = None, WORST_FIT
    for register in range(table.shape[1]):
        column = table[:, register]
        if column.min() == column.max():
            continue
        slope, offset = np.polyfit(column, wanted, 1)
        worst = float(np.max(np.abs(offset + slope * column - wanted) / wanted))
        if worst < smallest:
            best, smallest = (register, float(slope), float(offset)), worst
    return best


def _read_bounds(
    launch: Launch, total: int, waves_each: int, goal: int, before: int, p: Parameters
) -> dict[int, list[int]]:
    """The scalar registers at `goal` of the first wave of every workgroup that gets there."""
    result: dict[int, list[int]] = {}
    step = max(1, WAVES_AT_ONCE // waves_each)
    for first in range(0, total, step):
        ids = range(first, min(first + step, total))
        machine = start(launch, ids, _BoundReader)
        machine.prepare(p, [None] * (len(ids) * waves_each), 2 * before + 200)
        machine.goal, machine.found = goal, {}
        machine.run_to_end()
        for place, workgroup in enumerate(ids):
            if place * waves_each in machine.found:
                result[workgroup] = machine.found[place * waves_each]
    return result
