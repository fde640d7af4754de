"""Long instruction streams to short ones: the middle iterations of the main loop are left out.

The replay then measures a steady iteration and the result counts it as often as it was executed.
Also the issue law of that loop, from the executed instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tessera.emulator.timing.accesses import Datum
from tessera.emulator.timing.operations import BRANCH, Operation
from tessera.emulator.timing.parameters import LAW
from tessera.emulator.timing.trace import WaveTrace

FEWEST_ITERATIONS = 6
MARK = Operation(-1, -1, "mark", 0.0, 0.0, (), ())
"""Stands before each iteration that is kept; the replay notes when a wave passes it."""
LAST_ITERATIONS = 2


@dataclass(frozen=True)
class Stream:
    """What one wave does in the replay: operations, the cost of accesses, whether branches jump.

    `iterations` of the main loop were executed, `dropped` of them are left out here. `executed`
    counts all instructions.
    """

    operations: list[Operation]
    data: list[Datum | None]
    iterations: int
    dropped: int
    executed: int


@dataclass(frozen=True)
class LoopCounts:
    """Wave-instructions per iteration of the main loop by class, from what was executed."""

    counts: Mapping[str, float] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The issue law 32 WMMA / (34 WMMA + VALU + 3 LDS + 2 VMEM), a share of peak; 0 without."""
        cycles = sum(LAW[name] * self.counts.get(name, 0.0) for name in LAW)
        cycles += LAW["vmem"] * self.counts.get("scratch", 0.0)
        return 32 * self.counts.get("wmma", 0.0) / cycles if cycles else 0.0

    @property
    def instructions_per_wmma(self) -> float:
        """Instructions of all kinds for each matrix instruction; 0 without any."""
        wmma = self.counts.get("wmma", 0.0)
        return sum(self.counts.values()) / wmma if wmma else 0.0


def loop_starts(trace: WaveTrace) -> list[int]:
    """Positions at which iterations of the main loop begin, and where the last one ends.

    The main loop is the outermost one with enough iterations; empty when there is none.
    """
    jumps: dict[int, list[int]] = {}
    operations = trace.operations
    for position, operation in enumerate(operations[:-1]):
        if operation.kind == BRANCH:
            after = operations[position + 1].pc
            if after <= operation.pc:
                jumps.setdefault(after, []).append(position + 1)
    loops = [starts for starts in jumps.values() if len(starts) >= FEWEST_ITERATIONS]
    if not loops:
        return []
    spans = [starts[-1] - starts[0] for starts in loops]
    longest = max(spans)
    # Of loops that cover about as much, the one with fewer iterations contains the others.
    outer = [starts for starts, span in zip(loops, spans) if span >= 0.8 * longest]
    return min(outer, key=len)


def shorten(traces: list[WaveTrace], kept: int) -> list[Stream]:
    """One workgroup's streams with at most `kept` leading iterations and a few last ones.

    All waves lose the same iterations, so that barriers still meet.
    """
    starts = [loop_starts(trace) for trace in traces]
    spare = min((len(s) - 1 for s in starts), default=0) - kept - LAST_ITERATIONS
    dropped = max(0, spare)
    return [_stream(trace, s, kept, dropped) for trace, s in zip(traces, starts)]


def _stream(trace: WaveTrace, starts: list[int], kept: int, dropped: int) -> Stream:
    total = len(trace.operations)
    pieces = [(0, total)]
    if dropped:
        pieces = [(0, starts[kept]), (starts[kept + dropped], total)]
    marks = set(starts)
    operations: list[Operation] = []
    data: list[Datum | None] = []
    for first, end in pieces:
        for position in range(first, end):
            operation = trace.operations[position]
            if position in marks:
                operations.append(MARK)
                data.append(None)
            operations.append(operation)
            if operation.kind == BRANCH and position + 1 < total:
                data.append(int(trace.operations[position + 1].pc == operation.target))
            else:
                data.append(trace.data.get(position))
    return Stream(operations, data, max(0, len(starts) - 1), dropped, total)


def loop_counts(trace: WaveTrace) -> LoopCounts:
    """Instructions per iteration of one wave's main loop by class; empty without a loop."""
    starts = loop_starts(trace)
    if not starts:
        return LoopCounts()
    counted = Counter(operation.law_class for operation in trace.operations[starts[0] : starts[-1]])
    return LoopCounts({name: n / (len(starts) - 1) for name, n in sorted(counted.items())})
