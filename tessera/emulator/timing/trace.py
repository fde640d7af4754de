"""A launch to the instruction streams of a few workgroups' waves, with what each access touches.

Runs the emulator itself on the chosen workgroups only; all of memory is there, the other workgroups
are not executed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from tessera.emulator.launch import Launch
from tessera.emulator.machine import Machine
from tessera.emulator.state import Batch, WaveGroup
from tessera.emulator.step import Step
from tessera.emulator.timing.accesses import Access, Datum, access_of
from tessera.emulator.timing.operations import Operation, operation_of
from tessera.emulator.timing.parameters import Parameters


@dataclass
class WaveTrace:
    """What one wave executed: operations in order, and the costs of its memory accesses.

    `data` maps positions in `operations` to LDS phases or to the lines touched.
    """

    workgroup: int
    number: int
    operations: list[Operation] = field(default_factory=list)
    data: dict[int, Datum] = field(default_factory=dict)


class _Stop(Exception):
    """A trace that has reached its length."""


class Recorder(Machine):
    """A machine that writes down every step before it runs."""

    parameters: Parameters
    traces: list[WaveTrace | None]
    longest: int

    def prepare(
        self, parameters: Parameters, traces: list[WaveTrace | None], longest: int | None
    ) -> None:
        """`traces` has an entry per wave of the batch: None for a wave not to record."""
        self.parameters, self.traces = parameters, traces
        self.longest = 1 << 62 if longest is None else longest
        self.known: dict[int, tuple[Operation, Access | None]] = {}

    def _trace(self, g: WaveGroup, step: Step) -> None:
        known = self.known.get(id(step))
        if known is None:
            operation = operation_of(step, self.program.entry, self.parameters)
            known = self.known[id(step)] = operation, access_of(step)
        operation, access = known
        traces = self.traces
        indices = range(g.count) if g.index is None else g.index.tolist()
        data = access(g) if access is not None else None
        for place, wave in enumerate(indices):
            trace = traces[wave]
            if trace is None:
                continue
            if data is not None:
                trace.data[len(trace.operations)] = data[place]
            trace.operations.append(operation)
        self.stop_when_long(g)

    def stop_when_long(self, g: WaveGroup) -> None:
        """End the run when a wave has executed its share."""
        if g.steps > self.longest:
            raise _Stop

    def run_to_end(self) -> None:
        """Run until the waves end, or one has executed its share."""
        with np.errstate(all="ignore"):
            try:
                self.run()
            except _Stop:
                pass


SomeRecorder = TypeVar("SomeRecorder", bound=Recorder)


def start(launch: Launch, workgroups: Sequence[int], kind: type[SomeRecorder]) -> SomeRecorder:
    """A machine of `kind` with `workgroups` (numbers in the grid, x fastest) at their beginning."""
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    batch: Batch = launch._batch(np.asarray(workgroups), -(-threads // 32), False)
    mode = launch.kernel.resource1 >> 12 & 0xFF | (launch.kernel.resource1 >> 21 & 1) << 8
    return kind(batch, launch.program, mode, None, lambda line: None)


def trace(
    launch: Launch,
    workgroups: Sequence[int],
    parameters: Parameters,
    recorded: Sequence[int] | None = None,
    longest: int | None = None,
) -> list[list[WaveTrace]]:
    """Streams of each of `workgroups` (numbers in the grid, x fastest), waves in order.

    `recorded` limits what is written down to those workgroups. `longest` ends the run when a wave
    has executed that many instructions (to the end of its block).
    """
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    waves_each = -(-threads // 32)
    chosen = set(workgroups if recorded is None else recorded)
    traces: list[WaveTrace | None] = [
        WaveTrace(workgroup, number) if workgroup in chosen else None
        for workgroup in workgroups
        for number in range(waves_each)
    ]
    machine = start(launch, workgroups, Recorder)
    machine.prepare(parameters, traces, longest)
    machine.run_to_end()
    kept = [one for one in traces if one is not None]
    return [kept[i : i + waves_each] for i in range(0, len(kept), waves_each)]
