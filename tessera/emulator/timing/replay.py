"""Streams of resident waves to cycles: issue slots, dependencies, counters, barriers, servers.

Each SIMD has one issue slot for matrix, vector, LDS and memory instructions. Of the waves that are
ready when it is free the oldest one gets it; scalar instructions issue beside it. Waves run in
order.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tessera.emulator.timing import operations as kinds
from tessera.emulator.timing.loops import MARK, Stream
from tessera.emulator.timing.memory import Memory, Sharing
from tessera.emulator.timing.operations import KIND_NAMES, REGISTERS, Operation
from tessera.emulator.timing.parameters import Parameters

SLOT, DEPENDENCY, VM, VS, LGKM, AT_BARRIER, QUEUE = range(7)
STALL_NAMES = ("issue slot", "dependency", "vmcnt", "vscnt", "lgkmcnt", "barrier", "queue")
SIMD_EVENT = 1 << 20
"""Numbers from here on in the queue of events are SIMDs, below are waves, which come first."""


@dataclass
class Event:
    """One interval of a timeline: wave, start and length in cycles, what it was."""

    wave: int
    start: float
    cycles: float
    name: str
    category: str


class _Workgroup:
    def __init__(self, live: int) -> None:
        self.live = live
        self.waiting: list[_Wave] = []


class _Wave:
    __slots__ = (
        "arrival", "counters", "data", "end", "group", "number", "operations", "position",
        "ready", "simd", "stalls", "time",
    )  # fmt: skip

    def __init__(
        self, number: int, stream: Stream, simd: int, group: _Workgroup, start: float
    ) -> None:
        self.number, self.simd, self.group, self.time = number, simd, group, start
        self.operations, self.data = stream.operations, stream.data
        self.position = 0
        self.ready = [0.0] * REGISTERS
        self.counters: tuple[list[float], list[float], list[float]] = ([], [], [])
        self.stalls = [0.0] * len(STALL_NAMES)
        self.end, self.arrival = 0.0, 0.0


@dataclass
class Snapshot:
    """Totals at one time: busy cycles of slots by kind, LDS, address units, L2, MALL, DRAM.

    `progress` counts positions in the streams that all waves together have passed, `entered` the
    waves that have reached their main loop.
    """

    time: float
    progress: int
    entered: int
    slots: list[float]
    lds: float
    address: float
    levels: list[float]
    stalls: list[float]


@dataclass
class Outcome:
    """What a replay gives: per wave the end; snapshots at the first wave's marks; events."""

    ends: list[float]
    snapshots: list[Snapshot]
    issued: int
    events: list[Event] = field(default_factory=list)


class Replay:
    """One simulation of the waves that are resident on `units` compute units together."""

    def __init__(
        self,
        p: Parameters,
        sharing: Sharing,
        units: int,
        workgroups: Sequence[Sequence[Stream]],
        timeline: bool = False,
    ) -> None:
        self.p, self.units = p, units
        self.simds_per_unit = int(p.simds_per_unit)
        simds = units * self.simds_per_unit
        self.slot_free, self.trans_free = [0.0] * simds, [0.0] * simds
        self.last_kind = [-1] * simds
        self.slots = [0.0] * len(KIND_NAMES)
        self.lds_free, self.lds_busy = 0.0, 0.0
        self.lds_cycles = 1 / (p.lds_phases_per_cycle * units)
        self.memory = Memory(p, sharing, units)
        self.waves: list[_Wave] = []
        for streams in workgroups:
            group = _Workgroup(len(streams))
            for stream in streams:
                number = len(self.waves)
                start = number * p.wave_launch / simds
                self.waves.append(_Wave(number, stream, number % simds, group, start))
        self.pending: list[list[int]] = [[] for _ in range(simds)]
        self.heap: list[tuple[float, int]] = [(w.time, w.number) for w in self.waves]
        self.issued = 0
        self.snapshots: list[Snapshot] = []
        self.entered: set[int] = set()
        self.events: list[Event] | None = [] if timeline else None
        self.handlers: dict[int, Callable[[_Wave, Operation, float], bool]] = {
            kinds.WMMA: self._vector,
            kinds.VALU: self._vector,
            kinds.TRANS: self._trans,
            kinds.LDS: self._lds,
            kinds.VMEM: self._vmem,
            kinds.SMEM: self._smem,
            kinds.SCALAR: self._scalar,
            kinds.WAIT: self._wait,
            kinds.BARRIER: self._barrier,
            kinds.BRANCH: self._branch,
            kinds.END: self._end,
        }

    def run(self) -> Outcome:
        """Replay every wave to its end."""
        heapq.heapify(self.heap)
        heap, waves = self.heap, self.waves
        while heap:
            time, number = heapq.heappop(heap)
            if number >= SIMD_EVENT:
                self._grant(number - SIMD_EVENT, time)
            else:
                self._advance(waves[number], time)
        return Outcome(
            [wave.end for wave in waves],
            self.snapshots,
            self.issued,
            self.events or [],
        )

    def _grant(self, simd: int, time: float) -> None:
        """A free issue slot goes to the oldest wave that waits for it."""
        pending = self.pending[simd]
        wave = self.waves[heapq.heappop(pending)]
        wave.stalls[SLOT] += time - wave.arrival
        self._issue(wave, wave.operations[wave.position], time)
        if pending:
            heapq.heappush(self.heap, (self.slot_free[simd], simd + SIMD_EVENT))
        self._advance(wave, time)

    def _advance(self, wave: _Wave, time: float) -> None:
        """Go on with one wave until another event comes first or it has to wait for its slot."""
        heap, ready, operations = self.heap, wave.ready, wave.operations
        pending = self.pending[wave.simd]
        while True:
            operation = operations[wave.position]
            kind = operation.kind
            if kind == kinds.FREE or kind == -1:
                if operation is MARK:
                    self._mark(wave)
                wave.position += 1
                continue
            start = wave.time
            if operation.reads:
                known = max([ready[r] for r in operation.reads]) + operation.read_delay
                if known > start:
                    start = known
            if kinds.TRANS <= kind <= kinds.VMEM:
                start = self._admitted(wave, kind, start)
            if heap and start > heap[0][0] and start > time:
                heapq.heappush(heap, (start, wave.number))
                return
            time = start
            if kind <= kinds.VMEM:
                wave.stalls[DEPENDENCY] += start - wave.time
                free = self.slot_free[wave.simd]
                if pending or free > start:
                    if not pending:
                        heapq.heappush(heap, (free, wave.simd + SIMD_EVENT))
                    wave.time = wave.arrival = start
                    heapq.heappush(pending, wave.number)
                    return
                self._issue(wave, operation, start)
                continue
            self.issued += 1
            if not self.handlers[kind](wave, operation, start):
                return
            wave.position += 1

    def _admitted(self, wave: _Wave, kind: int, start: float) -> float:
        """When the unit behind the issue slot can take one more; it holds a short queue."""
        if kind == kinds.TRANS:
            return max(start, self.trans_free[wave.simd])
        if kind == kinds.LDS:
            limit = self.lds_free - self.p.lds_queue
        else:
            unit = wave.simd // self.simds_per_unit
            limit = self.memory.address_free[unit] - self.p.vmem_queue
        if limit <= start:
            return start
        wave.stalls[QUEUE] += limit - start
        wave.time = limit
        return limit

    def _issue(self, wave: _Wave, operation: Operation, start: float) -> None:
        """Take the SIMD's slot at `start`."""
        self.issued += 1
        simd, kind, cycles = wave.simd, operation.kind, operation.slot
        if self.last_kind[simd] == kinds.WMMA and kind != kinds.WMMA:
            cycles += self.p.matrix_switch
        self.last_kind[simd] = kind
        self.slot_free[simd] = start + cycles
        self.slots[kind] += cycles
        wave.time = start + 1.0
        if self.events is not None:
            name = KIND_NAMES[operation.kind]
            self.events.append(Event(wave.number, start, operation.slot, operation.name, name))
        self.handlers[operation.kind](wave, operation, start)
        wave.position += 1

    def _vector(self, wave: _Wave, operation: Operation, start: float) -> bool:
        done = start + operation.latency
        ready = wave.ready
        for register in operation.writes:
            ready[register] = done
        return True

    def _trans(self, wave: _Wave, operation: Operation, start: float) -> bool:
        first = max(start, self.trans_free[wave.simd])
        self.trans_free[wave.simd] = first + self.p.trans_unit
        for register in operation.writes:
            wave.ready[register] = first + operation.latency
        return True

    def _lds(self, wave: _Wave, operation: Operation, start: float) -> bool:
        start += operation.slot
        phases = wave.data[wave.position]
        cycles = (phases if isinstance(phases, int) else 1) * self.lds_cycles
        first = max(start, self.lds_free)
        self.lds_free = first + cycles
        self.lds_busy += cycles
        self._count(wave, 2, first + cycles + self.p.lds_latency)
        return True

    def _vmem(self, wave: _Wave, operation: Operation, start: float) -> bool:
        unit = wave.simd // self.simds_per_unit
        start += operation.slot
        lines = wave.data[wave.position]
        touched = lines if isinstance(lines, tuple) else ()
        if operation.counter == "vs":
            self._count(wave, 1, self.memory.store(unit, start, touched, operation.bytes))
        else:
            self._count(wave, 0, self.memory.access(unit, start, touched, operation.bytes))
        return True

    def _smem(self, wave: _Wave, operation: Operation, start: float) -> bool:
        wave.time = start + 1.0
        self._count(wave, 2, start + operation.latency)
        return True

    def _count(self, wave: _Wave, counter: int, done: float) -> None:
        """One more outstanding access; they complete in order."""
        queue = wave.counters[counter]
        queue.append(max(done, queue[-1]) if queue else done)

    def _scalar(self, wave: _Wave, operation: Operation, start: float) -> bool:
        wave.stalls[DEPENDENCY] += start - wave.time
        wave.time = start + 1.0
        for register in operation.writes:
            wave.ready[register] = start + operation.latency
        return True

    def _wait(self, wave: _Wave, operation: Operation, start: float) -> bool:
        assert operation.wait is not None
        now = start
        for counter, limit in enumerate(operation.wait):
            queue = wave.counters[counter]
            if len(queue) <= limit:
                continue
            until = queue[-limit - 1]
            del queue[: len(queue) - limit]
            if until > now:
                wave.stalls[VM + counter] += until - now
                if self.events is not None:
                    name = STALL_NAMES[VM + counter]
                    self.events.append(Event(wave.number, now, until - now, name, "wait"))
                now = until
        wave.time = now + 1.0
        return True

    def _branch(self, wave: _Wave, operation: Operation, start: float) -> bool:
        taken = wave.data[wave.position]
        wave.time = start + (self.p.branch_taken if taken else self.p.branch_not_taken)
        return True

    def _barrier(self, wave: _Wave, operation: Operation, start: float) -> bool:
        wave.time = start
        wave.position += 1
        wave.group.waiting.append(wave)
        self._release(wave.group)
        return False

    def _end(self, wave: _Wave, operation: Operation, start: float) -> bool:
        wave.end = start
        wave.group.live -= 1
        self._release(wave.group)
        return False

    def _release(self, group: _Workgroup) -> None:
        """Let a workgroup go on when all of its live waves have arrived."""
        if not group.waiting or len(group.waiting) < group.live:
            return
        until = max(wave.time for wave in group.waiting) + self.p.barrier_release
        for wave in group.waiting:
            wave.stalls[AT_BARRIER] += until - wave.time
            if self.events is not None:
                length = until - wave.time
                self.events.append(Event(wave.number, wave.time, length, "s_barrier", "barrier"))
            wave.time = until
            heapq.heappush(self.heap, (until, wave.number))
        group.waiting = []

    def _mark(self, wave: _Wave) -> None:
        self.entered.add(wave.number)
        if wave.number == 0:
            stalls = [sum(w.stalls[i] for w in self.waves) for i in range(len(STALL_NAMES))]
            memory = self.memory
            self.snapshots.append(
                Snapshot(
                    wave.time,
                    sum(w.position for w in self.waves),
                    len(self.entered),
                    list(self.slots),
                    self.lds_busy,
                    memory.address_busy,
                    list(memory.busy),
                    stalls,
                )
            )
