"""A launch to modelled time: traces of sampled workgroups, their replay, and the whole grid's tail.

The result is a model's, not a measurement. `docs/timing_model.md` says what it is held against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tessera.emulator.code_object import load
from tessera.emulator.launch import Dimensions, Launch
from tessera.emulator.timing.lengths import lengths as all_lengths
from tessera.emulator.timing.loops import (
    LAST_ITERATIONS,
    MARK,
    LoopCounts,
    Stream,
    loop_counts,
    shorten,
)
from tessera.emulator.timing.memory import Sharing
from tessera.emulator.timing.occupancy import Occupancy, makespan, occupancy
from tessera.emulator.timing.operations import KIND_NAMES, LDS
from tessera.emulator.timing.parameters import PARAMETERS, Parameters
from tessera.emulator.timing.replay import STALL_NAMES, Event, Outcome, Replay
from tessera.emulator.timing.survey import survey
from tessera.emulator.timing.trace import WaveTrace, trace

BUDGET = 300_000
"""Instructions that one replay simulates, about; more iterations are not looked at."""
MOST_KEPT, FEWEST_KEPT, WARM_UP = 16, 5, 2
EXTRA_SAMPLES = 6
SAME_LENGTH = 1.02
PHASE_BYTES = 128
"""What 32 banks deliver in one phase."""


@dataclass(frozen=True)
class Timing:
    """Modelled time of one kernel launch on `chip`; everything here is labelled `model`.

    `cycles` are of the whole launch at `clock_ghz`. `share_of_peak` counts the matrix instructions
    that were executed. `lds_conflicts` is the bank phases of the LDS accesses over the fewest that
    their bytes need, 1 without conflicts. `busy` gives the share of the main loop's time in which
    each resource works, `stalls` the share of the waves' time spent waiting, by reason; `bound`
    names what limits.
    """

    kernel: str
    chip: str
    clock_ghz: float
    cycles: float
    seconds: float
    share_of_peak: float
    bound: str
    lds_conflicts: float
    busy: Mapping[str, float]
    stalls: Mapping[str, float]
    law: float
    loop: LoopCounts
    cycles_per_iteration: float
    occupancy: Occupancy
    sharing: Sharing
    workgroups: int
    instructions: float
    matrix_instructions: float
    vgprs: int
    lds_bytes: int
    scratch_bytes: int
    time_source: str = "model"
    events: Sequence[Event] = field(default_factory=tuple, repr=False)


def time_launch(
    code_object: bytes,
    kernel: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    dynamic_lds: int = 0,
    parameters: Parameters = PARAMETERS,
    budget: int = BUDGET,
    timeline: bool = False,
) -> Timing:
    """Model one launch; arguments as those of `tessera.emulator.run`, contents matter for branches.

    The arrays are not changed. `timeline` keeps the events of the first workgroup. Raises the
    emulator's errors.
    """
    loaded = load(code_object)
    description = loaded.kernel(kernel)
    launch = Launch(loaded, description, _three(grid), _three(block), dynamic_lds, raises=True)
    launch.map_arguments(args)
    return _Model(launch, parameters, budget).run(timeline)


def _three(sizes: Sequence[int]) -> Dimensions:
    padded = [*(int(size) for size in sizes), 1, 1, 1]
    return padded[0], padded[1], padded[2]


class _Model:
    """One launch on its way to a `Timing`."""

    def __init__(self, launch: Launch, p: Parameters, budget: int) -> None:
        self.launch, self.p, self.budget = launch, p, budget
        grid, block = launch.grid, launch.block
        self.total = grid[0] * grid[1] * grid[2]
        waves_each = -(-(block[0] * block[1] * block[2]) // 32)
        # Mean length of all workgroups over that of the traced ones.
        self.relative_length = 1.0
        self.where = occupancy(launch.kernel, waves_each, launch.lds_bytes, self.total, p)

    def run(self, timeline: bool) -> Timing:
        """Trace, look at sharing, replay, and put the grid together."""
        where = self.where
        # Groups of units take workgroups in turn; the middle one, if the last round reaches it.
        first = min(where.groups // 2, self.total - 1 - (where.resident - 1) * where.groups)
        resident = [first + i * where.groups for i in range(where.resident)]
        extra = [n for n in self._spread() if n not in resident]
        traced = trace(self.launch, resident + extra, self.p)
        if not _same_length(traced):
            # The pace is that of workgroups that stay in their main loop: the longest ones.
            traced.sort(key=lambda waves: -max(len(wave.operations) for wave in waves))
        together = traced[: len(resident)]
        longest = max(together[0], key=lambda wave: len(wave.operations))
        self.sharing = survey(self.launch, longest, self.total, where, self.p)
        kept = self._kept(together)
        streams = [shorten(waves, kept) for waves in together]
        outcome = self._replay(streams, timeline)
        pace = _pace(outcome, streams)
        cycles = self._grid(traced, streams, outcome, pace) + self.p.kernel_start
        return self._timing(traced, outcome, cycles, pace, longest)

    def _spread(self) -> list[int]:
        """Workgroups at even distances along x, whose lengths stand for the others'."""
        width, height = self.launch.grid[0], self.launch.grid[1]
        count = min(EXTRA_SAMPLES, width)
        chosen = []
        for i in range(count):
            x = round(i * (width - 1) / max(1, count - 1))
            y = i % height
            chosen.append(y * width + x)
        return sorted(set(chosen))

    def _kept(self, together: Sequence[Sequence[WaveTrace]]) -> int:
        waves = [wave for workgroup in together for wave in workgroup]
        per_iteration = sum(
            sum(loop_counts(wave).counts.values()) for wave in (waves[0], waves[-1])
        ) / 2 * len(waves)  # fmt: skip
        if not per_iteration:
            return MOST_KEPT
        return int(min(MOST_KEPT, max(FEWEST_KEPT, self.budget / per_iteration)))

    def _replay(self, streams: Sequence[Sequence[Stream]], timeline: bool = False) -> Outcome:
        return Replay(self.p, self.sharing, self.where.units, streams, timeline).run()

    def _grid(
        self,
        traced: list[list[WaveTrace]],
        streams: list[list[Stream]],
        outcome: Outcome,
        pace: float,
    ) -> float:
        """Cycles of all workgroups on all units.

        Work is counted in instructions of a workgroup's longest wave, at the pace of the main loop;
        what a workgroup needs beside it, at its start and end, is seen when one is replayed alone.
        """
        lengths = [max(len(wave.operations) for wave in waves) for waves in traced]
        alone, full = streams[:1], len(streams)
        single = self._replay(alone) if full > 1 else outcome
        single_pace = _pace(single, alone)
        duration = _duration(single, alone, single_pace)
        if pace and single_pace:
            per_iteration = _instructions_per_iteration(traced[0])
            speed = {1: per_iteration / single_pace, full: per_iteration / pace}
        else:
            together = _duration(outcome, streams, pace)
            speed = {1: lengths[0] / duration, full: sum(lengths[:full]) / full / together}
        for residents in range(2, full):
            # The rate of all together lies between that of one and that of the full house.
            share = (residents - 1) / (full - 1)
            speed[residents] = ((1 - share) * speed[1] + share * speed[full] * full) / residents
        first = duration * speed[1]
        if _same_length(traced):
            return makespan([first] * self.total, self.where, speed)
        every = all_lengths(self.launch, traced, self.total, self.p)
        self.relative_length = float(every.mean()) * len(lengths) / sum(lengths)
        return makespan((every - lengths[0] + first).tolist(), self.where, speed)

    def _timing(
        self, traced: list[list[WaveTrace]], outcome: Outcome, cycles: float, pace: float,
        longest: WaveTrace,
    ) -> Timing:  # fmt: skip
        p, launch, kernel = self.p, self.launch, self.launch.kernel
        waves = [wave for workgroup in traced for wave in workgroup]
        scale = self.relative_length * self.total * self.where.waves_each / len(waves)
        instructions = scale * sum(len(wave.operations) for wave in waves)
        matrix = [op for wave in waves for op in wave.operations if op.law_class == "wmma"]
        busy_cycles = scale * sum(p.wmma_issue / (2 if "iu4" in op.name else 1) for op in matrix)
        counts = loop_counts(longest)
        busy, stalls = _shares(outcome, self.where, len(outcome.ends))
        return Timing(
            kernel=kernel.name,
            chip=launch.code_object.chip,
            clock_ghz=p.clock_ghz,
            cycles=cycles,
            seconds=cycles / (p.clock_ghz * 1e9),
            share_of_peak=busy_cycles / (p.simds_per_unit * p.compute_units) / cycles,
            bound=_bound(busy, stalls),
            lds_conflicts=_conflicts(longest),
            busy=busy,
            stalls=stalls,
            law=counts.share,
            loop=counts,
            cycles_per_iteration=pace,
            occupancy=self.where,
            sharing=self.sharing,
            workgroups=self.total,
            instructions=instructions,
            matrix_instructions=scale * len(matrix),
            vgprs=kernel.vgprs,
            lds_bytes=launch.lds_bytes,
            scratch_bytes=kernel.scratch_bytes,
            events=tuple(outcome.events),
        )


def _conflicts(trace: WaveTrace) -> float:
    """Bank phases of a wave's LDS accesses over those of as many bytes without conflicts."""
    fewest = phases = 0
    for position, cost in trace.data.items():
        operation = trace.operations[position]
        if operation.kind == LDS and isinstance(cost, int):
            fewest += max(1, operation.bytes // PHASE_BYTES)
            phases += cost
    return phases / fewest if fewest else 1.0


def _same_length(traced: Sequence[Sequence[WaveTrace]]) -> bool:
    lengths = [max(len(wave.operations) for wave in waves) for waves in traced]
    return max(lengths) <= SAME_LENGTH * min(lengths)


def _pace(outcome: Outcome, streams: Sequence[Sequence[Stream]]) -> float:
    """Cycles per iteration of each wave, from the progress of all of them in a window.

    Older waves go first, so that one wave's own pace says little. The window lies between marks of
    the oldest one, from when all are in the loop to its last iteration before what is left out.
    """
    flat = [stream for workgroup in streams for stream in workgroup]
    last = len(outcome.snapshots) - 1 - (LAST_ITERATIONS + 1 if flat[0].dropped else 0)
    lengths = [_iteration_length(stream) for stream in flat]
    if last <= WARM_UP or not min(lengths):
        return 0.0
    inside = [
        snapshot for snapshot in outcome.snapshots[WARM_UP:last] if snapshot.entered == len(flat)
    ]
    begin, end = (inside or outcome.snapshots[WARM_UP:])[0], outcome.snapshots[last]
    return (end.time - begin.time) * sum(lengths) / max(1, end.progress - begin.progress)


def _iteration_length(stream: Stream) -> float:
    """Mean positions between two marks of a stream; 0 without any two."""
    marks = [i for i, operation in enumerate(stream.operations) if operation is MARK]
    return (marks[-1] - marks[0]) / (len(marks) - 1) if len(marks) > 1 else 0.0


def _instructions_per_iteration(waves: Sequence[WaveTrace]) -> float:
    return max(sum(loop_counts(wave).counts.values()) for wave in waves)


def _ends(outcome: Outcome, streams: Sequence[Sequence[Stream]], pace: float) -> list[float]:
    """When each wave would have ended with the iterations that were left out."""
    flat = [stream for workgroup in streams for stream in workgroup]
    return [end + stream.dropped * pace for stream, end in zip(flat, outcome.ends)]


def _duration(outcome: Outcome, streams: Sequence[Sequence[Stream]], pace: float) -> float:
    """Cycles until all workgroups that were replayed together have ended."""
    return max(_ends(outcome, streams, pace))


def _shares(
    outcome: Outcome, where: Occupancy, waves: int
) -> tuple[dict[str, float], dict[str, float]]:
    """(busy share by resource, waiting share by reason) between the marks of the first wave."""
    snapshots = outcome.snapshots
    if len(snapshots) < 2:
        return {}, {}
    first = snapshots[min(WARM_UP, len(snapshots) - 2)]
    last = snapshots[-1]
    time = max(last.time - first.time, 1.0)
    simds = 2 * where.units
    busy = {
        name: (b - a) / time / simds
        for name, a, b in zip(KIND_NAMES, first.slots, last.slots)
        if b > a
    }
    busy["LDS"] = (last.lds - first.lds) / time
    busy["L0"] = (last.address - first.address) / time / where.units
    for name, a, b in zip(("L2", "MALL", "DRAM"), first.levels, last.levels):
        busy[name] = (b - a) / time
    stalls = {
        name: (b - a) / time / waves
        for name, a, b in zip(STALL_NAMES, first.stalls, last.stalls)
        if b > a
    }
    return busy, stalls


def _bound(busy: Mapping[str, float], stalls: Mapping[str, float]) -> str:
    """What limits the main loop, in words."""
    if not busy:
        return "start and end of workgroups: no main loop"
    slots = {name: busy[name] for name in KIND_NAMES if name in busy}
    issue = sum(slots.values())
    servers = {name: busy[name] for name in ("LDS", "L0", "L2", "MALL", "DRAM")}
    worst = max(servers, key=lambda name: servers[name])
    if issue >= 0.9 and issue >= servers[worst]:
        parts = ", ".join(f"{name} {share:.0%}" for name, share in slots.items())
        return f"issue slots {issue:.0%} busy ({parts})"
    if servers[worst] >= 0.85:
        return f"{worst} bandwidth {servers[worst]:.0%} busy"
    waits = {name: share for name, share in stalls.items() if name != "issue slot"}
    reason = max(waits, key=lambda name: waits[name]) if waits else "nothing"
    return f"latency: waves wait for {reason} {waits.get(reason, 0):.0%}; issue slots {issue:.0%}"
