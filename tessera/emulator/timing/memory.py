"""Lines and times to when accesses complete: L0 of each compute unit, then shares of L2 and beyond.

One workgroup processor or compute unit is simulated; it has its share of the chip's bandwidths,
since all others do the same work at the same time. How many of the lines that leave the L0 another
unit has brought into the L2 already is measured on the addresses of many workgroups (`Sharing`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tessera.emulator.timing.parameters import Parameters

LINE_BYTES = 128
_STORE_LATENCY = 300.0


@dataclass(frozen=True)
class Sharing:
    """Of the lines that leave an L0: the share that L2 misses, and of those the MALL."""

    l2_misses: float = 1.0
    mall_misses: float = 1.0


class Memory:
    """The vector memory of `units` compute units that are simulated together."""

    def __init__(self, p: Parameters, sharing: Sharing, units: int) -> None:
        self.sharing = sharing
        per_unit = 1 / p.compute_units
        clock = p.clock_ghz
        self.address_cycles = p.vmem_address_cycles
        self.l0_rate = p.l0_bytes_per_cycle
        self.l0_lines = int(p.l0_bytes) // LINE_BYTES
        self.l0_latency = p.l0_latency
        # Latencies beyond the L0 count from the issue; cycles per line are those of one unit.
        self.latency = (p.l2_latency, p.mall_nanoseconds * clock, p.dram_nanoseconds * clock)
        rates = (
            p.l2_bytes_per_cycle * per_unit * units,
            p.mall_gigabytes_per_second / clock * per_unit * units,
            p.dram_gigabytes_per_second / clock * per_unit * units,
        )
        self.line_cycles = tuple(LINE_BYTES / rate for rate in rates)
        self.free = [0.0, 0.0, 0.0]
        self.busy = [0.0, 0.0, 0.0]
        self.address_free = [0.0] * units
        self.address_busy = 0.0
        self.caches: list[dict[int, float]] = [{} for _ in range(units)]
        self._l2, self._mall = 0.0, 0.0

    def access(self, unit: int, start: float, lines: tuple[int, ...], size: int) -> float:
        """When a load of `lines`, `size` bytes in all, issued at `start` has all its data."""
        first = max(start, self.address_free[unit])
        cost = max(self.address_cycles, len(lines), size / self.l0_rate)
        self.address_free[unit] = first + cost
        self.address_busy += cost
        cache = self.caches[unit]
        done = first + cost + self.l0_latency
        for line in lines:
            arrival = cache.pop(line, None)
            if arrival is None:
                arrival = self._fetch(first)
                if len(cache) >= self.l0_lines:
                    del cache[next(iter(cache))]
            # Reinserting makes it the youngest; an arrival in the future is a line on its way.
            cache[line] = arrival
            done = max(done, arrival)
        return done

    def store(self, unit: int, start: float, lines: tuple[int, ...], size: int) -> float:
        """When a store is complete; it goes through to the L2 and on to the MALL."""
        first = max(start, self.address_free[unit])
        cost = max(self.address_cycles, len(lines), size / self.l0_rate)
        self.address_free[unit] = first + cost
        self.address_busy += cost
        done = first + cost
        for _ in lines:
            for level in range(2):
                done = self._serve(level, first)
        return done + _STORE_LATENCY

    def _fetch(self, start: float) -> float:
        """When a line that the L0 lacks arrives; shares become whole lines by counting."""
        done = self._serve(0, start) + self.latency[0]
        self._l2 += self.sharing.l2_misses
        if self._l2 < 1.0:
            return done
        self._l2 -= 1.0
        done = self._serve(1, start) + self.latency[1]
        self._mall += self.sharing.mall_misses
        if self._mall < 1.0:
            return done
        self._mall -= 1.0
        return self._serve(2, start) + self.latency[2]

    def _serve(self, level: int, start: float) -> float:
        first = max(start, self.free[level])
        cycles = self.line_cycles[level]
        self.free[level] = first + cycles
        self.busy[level] += cycles
        return first + cycles
