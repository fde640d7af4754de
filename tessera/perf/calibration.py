"""Published measurements of gfx1151 to the timing model's error, on half of them and on the rest.

A point is a mixture of instructions that its author measured in cycles per matrix instruction, by
the chip's own counter (SQ_BUSY_CYCLES), so that no clock enters. The model replays such a mixture:
16 waves on the four SIMDs of a workgroup processor, in loops of eight matrix instructions with the
others spread between them. The price list of LDS accesses was taken with two SIMDs at work, which
follows from its own figures: all four together are limited by the LDS (64.65 cycles), two are not.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tessera.emulator.timing import PARAMETERS, Parameters
from tessera.emulator.timing import operations as kinds
from tessera.emulator.timing.loops import MARK, Stream
from tessera.emulator.timing.memory import Sharing
from tessera.emulator.timing.operations import NO_LIMIT, Operation
from tessera.emulator.timing.replay import Replay

FIT, HELD = "fit", "held out"
WAVES, MATRIX_OPERATIONS, ITERATIONS = 16, 8, 24
FITTED: Mapping[str, tuple[float, ...]] = {
    "lds_load_issue": (1.0, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0),
    "vmem_issue": (1.0, 1.5, 1.75, 2.0, 2.5),
    "lds_store_issue": (1.0, 1.25, 1.5, 2.0),
}
"""The parameters that are fitted, each with the values that are tried."""
KERNEL_WEIGHT = 4.0
"""Of a whole kernel in the fit: it is what the model is for, and its mixture is a real one."""


@dataclass(frozen=True)
class Point:
    """Instructions per WMMA, and the measured cycles per WMMA of a SIMD."""

    name: str
    counts: Mapping[str, float]
    cycles: float
    part: str
    source: str = "yet-another-halo-engine, docs/hardware.md"
    phases: int = 4
    simds: int = 4
    weight: float = 1.0


@dataclass(frozen=True)
class Result:
    """A point and what the model gives for it, in cycles per WMMA."""

    point: Point
    modelled: float

    @property
    def error(self) -> float:
        """Relative: 0.1 is 10 % too slow."""
        return self.modelled / self.point.cycles - 1.0

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        point = self.point
        return {
            "name": point.name, "part": point.part, "counts": dict(point.counts),
            "measured": point.cycles, "modelled": round(self.modelled, 2),
            "error": round(self.error, 4), "source": point.source,
        }  # fmt: skip


def _price(
    name: str, kind: str, count: float, cycles: float, part: str, phases: int = 4, simds: int = 4
) -> Point:
    return Point(name, {kind: count}, cycles, part, phases=phases, simds=simds)


def _kernel(name: str, valu: float, lds: float, cycles: float, part: str) -> Point:
    return Point(f"kernel {name}", {"valu": valu, "lds": lds}, cycles, part, weight=KERNEL_WEIGHT)


POINTS: tuple[Point, ...] = (
    _price("WMMA alone", "valu", 0, 34.01, HELD),
    _price("1 VALU", "valu", 1, 36.02, FIT),
    _price("2 VALU", "valu", 2, 36.84, HELD),
    _price("4 VALU", "valu", 4, 38.60, FIT),
    _price("8 VALU", "valu", 8, 42.57, HELD),
    _price("16 VALU", "valu", 16, 50.72, FIT),
    _price("32 VALU", "valu", 32, 66.92, HELD),
    _price("1 VOPD", "vopd", 1, 36.99, HELD),
    _price("4 VOPD", "vopd", 4, 41.77, FIT),
    _price("8 VOPD", "vopd", 8, 49.38, HELD),
    _price("1 ds_load_b32", "lds", 1, 36.21, FIT, 1, 2),
    _price("4 ds_load_b32", "lds", 4, 40.11, HELD, 1, 2),
    _price("4 ds_load_b64", "lds", 4, 40.11, FIT, 2, 2),
    _price("1 ds_load_b128", "lds", 1, 36.61, HELD, 4, 2),
    _price("4 ds_load_b128", "lds", 4, 41.71, FIT, 4, 2),
    _price("4 ds_load_b128, all SIMDs", "lds", 4, 64.65, HELD),
    _price("1 ds_load_b128, conflicts", "lds", 1, 55.9, HELD, 16),
    _price("2 ds_load_b128, conflicts", "lds", 2, 112.0, FIT, 16),
    _price("1 ds_store_b128", "lds_store", 1, 34.51, FIT, 4, 2),
    _price("4 ds_store_b128", "lds_store", 4, 39.31, HELD, 4, 2),
    _price("1 global_load_b128", "vmem", 1, 36.51, FIT),
    _price("4 global_load_b128", "vmem", 4, 40.41, HELD),
    _kernel("IQ4_XS", 5.52, 1.72, 43.9, FIT),
    _kernel("IQ3_S", 7.64, 1.84, 48.1, HELD),
    _kernel("IQ3_XXS", 6.34, 1.91, 46.7, FIT),
    _kernel("Q4_K", 6.51, 1.72, 46.3, HELD),
    _kernel("attention", 16.61, 4.01, 63.9, HELD),
)
"""The price list of instructions beside WMMA, then five production kernels; half of them to fit."""


def model_point(point: Point, p: Parameters = PARAMETERS) -> Result:
    """Replay one mixture."""
    end = Operation(kinds.END, 0, "s_endpgm", 0, 0, (), ())
    busy, idle = _stream(point, p), Stream([end], [None], 0, 0, 1)
    simds = 2 * int(p.simds_per_unit)
    waves = [
        busy if simd % (simds // point.simds) == 0 else idle
        for _ in range(WAVES // point.simds)
        for simd in range(simds)
    ]
    outcome = Replay(p, Sharing(), 2, [waves]).run()
    matrix = ITERATIONS * MATRIX_OPERATIONS * WAVES / point.simds
    return Result(point, max(outcome.ends) / matrix)


def _stream(point: Point, p: Parameters) -> Stream:
    """One wave's instructions: each kind spread evenly over the matrix instructions."""
    wmma_cycles = p.wmma_issue + p.wmma_same_bank
    matrix = Operation(kinds.WMMA, 0, "v_wmma", wmma_cycles, wmma_cycles, (), ())
    others = {
        "valu": Operation(kinds.VALU, 0, "v_mov", p.valu_issue, p.valu_latency, (), ()),
        "vopd": Operation(
            kinds.VALU, 0, "v_dual", p.dual_issue_beside_wmma, p.valu_latency, (), ()
        ),
        "lds": Operation(kinds.LDS, 0, "ds_load", p.lds_load_issue, 0, (), ()),
        "lds_store": Operation(kinds.LDS, 0, "ds_store", p.lds_store_issue, 0, (), ()),
        "vmem": Operation(kinds.VMEM, 0, "global_load", p.vmem_issue, 0, (), (), counter="vm"),
    }
    wait = Operation(kinds.WAIT, 0, "s_waitcnt", 0, 0, (), (), wait=(16, NO_LIMIT, 16))
    operations: list[Operation] = []
    data: list[Any] = []
    issued = dict.fromkeys(point.counts, 0)
    for iteration in range(ITERATIONS):
        operations.append(MARK)
        data.append(None)
        for number in range(MATRIX_OPERATIONS):
            operations.append(matrix)
            data.append(None)
            position = iteration * MATRIX_OPERATIONS + number + 1
            for kind, count in point.counts.items():
                while issued[kind] < round(count * position):
                    issued[kind] += 1
                    operations.append(others[kind])
                    data.append((0,) if kind == "vmem" else point.phases)
        operations.append(wait)
        data.append(None)
    operations.append(Operation(kinds.END, 0, "s_endpgm", 0, 0, (), ()))
    data.append(None)
    return Stream(operations, data, ITERATIONS, 0, len(operations))


@dataclass(frozen=True)
class Calibration:
    """Results under some parameters, and the values of the fitted ones."""

    results: tuple[Result, ...]
    fitted: Mapping[str, float] = field(default_factory=dict)

    def errors(self, part: str) -> tuple[float, float]:
        """(median, largest) relative error without sign of one part of the points."""
        sizes = [abs(one.error) for one in self.results if one.point.part == part]
        return statistics.median(sizes), max(sizes)

    def concordance(self, part: str) -> float:
        """The share of pairs of points that the model ranks as measured; ties count as right."""
        chosen = [one for one in self.results if one.point.part == part]
        pairs = right = 0
        for i, one in enumerate(chosen):
            for other in chosen[:i]:
                pairs += 1
                measured = one.point.cycles - other.point.cycles
                right += measured * (one.modelled - other.modelled) >= 0
        return right / pairs if pairs else 1.0

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        document: dict[str, Any] = {
            "schema": "tessera.calibration", "time_source": "model", "unit": "cycles per WMMA",
            "fitted": dict(self.fitted), "points": [one.to_dict() for one in self.results],
        }  # fmt: skip
        for part in (FIT, HELD):
            median, worst = self.errors(part)
            document[part] = {
                "median_error": median, "worst_error": worst, "ranking": self.concordance(part),
            }  # fmt: skip
        return document


def calibrate(p: Parameters = PARAMETERS) -> Calibration:
    """The model as it ships against every point."""
    fitted = {name: getattr(p, name) for name in FITTED}
    return Calibration(tuple(model_point(point, p) for point in POINTS), fitted)


def fit(p: Parameters = PARAMETERS) -> Parameters:
    """Parameters with the fitted ones chosen anew, one after another, on the part to fit."""
    points = [point for point in POINTS if point.part == FIT]

    def loss(candidate: Parameters) -> float:
        return sum(point.weight * model_point(point, candidate).error ** 2 for point in points)

    for _ in range(2):
        for name, values in FITTED.items():
            p = min((p.with_values(**{name: value}) for value in values), key=loss)
    return p
