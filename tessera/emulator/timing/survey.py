"""Addresses of many workgroups to how much of their traffic leaves the caches that they share."""

from __future__ import annotations

from tessera.emulator.launch import Launch
from tessera.emulator.timing.loops import loop_starts
from tessera.emulator.timing.memory import LINE_BYTES, Sharing
from tessera.emulator.timing.occupancy import Occupancy
from tessera.emulator.timing.operations import VMEM
from tessera.emulator.timing.parameters import Parameters
from tessera.emulator.timing.trace import WaveTrace, trace

MOST_WAVES = 512
ITERATIONS = 3
LONGEST_PROLOGUE = 4000


def survey(
    launch: Launch, sample: WaveTrace, total: int, where: Occupancy, p: Parameters
) -> Sharing:
    """Run the first workgroups of the grid for a few iterations and compare what they touch.

    `sample` is one recorded wave, which says where the iterations are. Workgroups are taken to run
    in step, as those of one launch do. Launches are taken to be repeated: what fits in the MALL is
    there already.
    """
    starts = loop_starts(sample)
    window = (0, min(len(sample.operations), LONGEST_PROLOGUE))
    if starts and starts[min(ITERATIONS, len(starts) - 1)] <= 4 * LONGEST_PROLOGUE:
        window = (starts[0], starts[min(ITERATIONS, len(starts) - 1)])
    count = min(total, where.groups * where.resident, max(1, MOST_WAVES // where.waves_each))
    traces = trace(launch, range(count), p, longest=window[1])
    by_unit: dict[int, set[int]] = {}
    for waves in traces:
        touched = by_unit.setdefault(waves[0].workgroup % where.groups, set())
        for wave in waves:
            for position, lines in wave.data.items():
                operation = wave.operations[position]
                inside = window[0] <= position < window[1]
                if inside and operation.kind == VMEM and operation.counter == "vm":
                    touched.update(lines)  # type: ignore[arg-type]
    leaving = sum(len(lines) for lines in by_unit.values())
    distinct = len(set().union(*by_unit.values())) if by_unit else 0
    if not leaving:
        return Sharing()
    scale = len(sample.operations) / (window[1] - window[0]) * total / count
    return Sharing(distinct / leaving, _mall_misses(launch, distinct * scale, p))


def _mall_misses(launch: Launch, fetched: float, p: Parameters) -> float:
    """The share of `fetched` lines, over the whole launch, that the MALL has not got."""
    footprint = sum(buffer.size for buffer in launch.memory.buffers)
    if footprint <= p.mall_bytes:
        return 0.0
    compulsory = footprint / LINE_BYTES / max(fetched, 1.0)
    return min(1.0, max(compulsory, 0.0))
