"""Registers, LDS and waves of a kernel to how many workgroups a compute unit holds, and the tail.

A kernel in workgroup-processor mode spreads its waves over the four SIMDs of two units; those are
then simulated together.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tessera.emulator.code_object import KernelDescription
from tessera.emulator.timing.parameters import Parameters

WORKGROUP_PROCESSOR_MODE = 29
MOST_WORKGROUPS_PER_PROCESSOR = 32

SPREAD = 0.01
"""How much later the next workgroup of a group of units ends than the one that came before it."""


@dataclass(frozen=True)
class Occupancy:
    """`resident` workgroups on each of `groups` groups of `units` compute units; what limits it."""

    units: int
    groups: int
    resident: int
    waves_each: int
    waves_per_simd: float
    limit: str


def occupancy(
    kernel: KernelDescription, waves_each: int, lds_bytes: int, total: int, p: Parameters
) -> Occupancy:
    """How many of `total` workgroups of `waves_each` waves run at once."""
    units = 2 if kernel.resource1 >> WORKGROUP_PROCESSOR_MODE & 1 else 1
    groups = int(p.compute_units) // units
    simds = units * int(p.simds_per_unit)
    limits = {
        "vector registers": simds * p.waves_per_simd(kernel.vgprs) // waves_each,
        "workgroups": -(-total // groups),
        "workgroup slots": MOST_WORKGROUPS_PER_PROCESSOR * units // 2 if waves_each > 1 else total,
    }
    if lds_bytes:
        granule = int(p.lds_granule)
        allocated = -(-lds_bytes // granule) * granule
        limits["LDS"] = units * int(p.lds_bytes_per_unit) // allocated
    name = min(limits, key=lambda key: limits[key])
    resident = max(1, limits[name])
    return Occupancy(units, groups, resident, waves_each, resident * waves_each / simds, name)


def makespan(work: Sequence[float], where: Occupancy, speed: Mapping[int, float]) -> float:
    """When the last workgroup ends: each goes, in order, to the group with the fewest workgroups.

    `work` is in any unit per workgroup; `speed[r]` is work per cycle of each of `r` workgroups that
    share a group of units. Workgroups of one group progress alike, but do not end all at once.
    """
    # Per group: work done by each resident so far, and the totals at which the residents end.
    done = [0.0] * where.groups
    ends: list[list[float]] = [[] for _ in range(where.groups)]
    since = [0.0] * where.groups
    version = [0] * where.groups
    events: list[tuple[float, int, int]] = []
    waiting = list(reversed(work))
    now = 0.0

    def settle(group: int) -> None:
        residents = len(ends[group])
        if residents:
            done[group] += (now - since[group]) * speed[residents]
        since[group] = now

    def plan(group: int) -> None:
        version[group] += 1
        if ends[group]:
            left = max(0.0, ends[group][0] - done[group])
            heapq.heappush(events, (now + left / speed[len(ends[group])], group, version[group]))

    for number in range(where.groups * where.resident):
        if waiting:
            first = waiting.pop() * (1 + SPREAD * (number // where.groups))
            heapq.heappush(ends[number % where.groups], first)
    for group in range(where.groups):
        plan(group)
    while events:
        time, group, number = heapq.heappop(events)
        if number != version[group]:
            continue
        now = time
        settle(group)
        heapq.heappop(ends[group])
        if waiting:
            heapq.heappush(ends[group], done[group] + waiting.pop())
        plan(group)
    return now
