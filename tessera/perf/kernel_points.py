"""Published speeds of whole kernels to the error of our kernels of the same schedule in the model.

Kernels of Triton's are compiled by Triton where it is installed, from our source of the same tile.
Most authors recorded no clock and none published the code of every rung, so that only two kinds of
comparison are possible: the share of the peak at a recorded clock, and the ratio of two kernels of
one author. They are reported, and nothing is fitted to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tessera.emulator.timing import PARAMETERS
from tessera.perf.ladder import MODEL, Setting
from tessera.perf.launches import time_artifact
from tessera.perf.peers.triton_calls import Tile
from tessera.perf.peers.triton_peers import time_peer, unavailable_reason
from tessera.perf.problems import AttentionProblem, GemmProblem, Problem
from tessera.perf.rungs import RUNGS

CHIP = "gfx1151"


@dataclass(frozen=True)
class KernelPoint:
    """Measured TFLOP/s of one kernel; `base` names the point whose speed it is divided by.

    Without `base` the figure is a share of peak at `clock_ghz`, which the author recorded. With
    `tile` the kernel is Triton's, else ours of the schedule `rung`.
    """

    name: str
    problem: Problem
    rung: str
    tflops: float
    source: str
    clock_ghz: float | None = None
    base: str | None = None
    tile: Tile | None = None


_CUBE, _LARGE = GemmProblem(2048, 2048, 2048), GemmProblem(4096, 4096, 4096)
_LADDER = "an earlier matmul ladder on gfx1151 (gstoner/tessera, host and event clocks)"
_AOTRITON = "AOTriton by kroqueta (Windows, ROCm 10); its tile of 64 queries and 32 keys"
_AITER = "ROCm/aiter, issue 3778 and pull request 4242"


def _aotriton(seq: int, tflops: float) -> KernelPoint:
    tile = Tile({"TILE_Q": 64, "TILE_K": 32}, 4, 2)
    problem = AttentionProblem(1, 16, seq, 64)
    name = f"AOTriton, seq {seq}"
    return KernelPoint(name, problem, "", tflops, _AOTRITON, clock_ghz=2.129, tile=tile)


def _aiter(own: int, step: int, tflops: float, base: str | None = None) -> KernelPoint:
    tile = Tile({"OWN": own, "STEP": step}, 4, 1)
    problem = AttentionProblem(1, 16, 4096, 64, backward=True)
    name = f"Triton backward {own}x{step}"
    return KernelPoint(name, problem, "", tflops, _AITER, base=base, tile=tile)


KERNEL_POINTS: tuple[KernelPoint, ...] = (
    KernelPoint(
        "rocBLAS 128x128, 4 waves", _LARGE, "128x128", 30.8,
        "kroqueta (Windows, ROCm 7.2.1); tile from glovepost's disassembly", clock_ghz=1.914,
    ),
    KernelPoint("LDS 64x64", _CUBE, "64x64", 8.76, _LADDER, base="one wave 1x1"),
    KernelPoint("LDS 128x64", _CUBE, "128x64", 9.90, _LADDER, base="LDS 64x64"),
    KernelPoint("one wave 1x1", _CUBE, "1x1", 3.62, _LADDER),
    KernelPoint("one wave 2x2", _CUBE, "2x2", 2.96, _LADDER, base="one wave 1x1"),
    KernelPoint("one wave 2x4", _CUBE, "2x4", 8.02, _LADDER, base="one wave 1x1"),
    _aotriton(1024, 19.2),
    _aotriton(2048, 21.1),
    _aotriton(4096, 22.8),
    _aotriton(8192, 24.0),
    _aiter(32, 32, 9.67),
    _aiter(64, 16, 19.81, "Triton backward 32x32"),
)  # fmt: skip
"""A point with neither clock nor base is there for others to be divided by."""


def compare_kernels(points: Sequence[KernelPoint] = KERNEL_POINTS) -> list[dict[str, Any]]:
    """Measured and modelled value of every point that has a clock or a base, JSON-ready.

    Points of Triton's are left out where it is not installed.
    """
    if unavailable_reason():
        points = [point for point in points if point.tile is None]
    modelled = {point.name: _model(point) for point in points}
    measured = {point.name: point.tflops for point in points}
    rows = []
    for point in points:
        if point.base is not None:
            what = f"speed over that of {point.base}"
            ours = modelled[point.name] / modelled[point.base]
            theirs = measured[point.name] / measured[point.base]
        elif point.clock_ghz is not None:
            what = f"share of peak at {point.clock_ghz} GHz"
            peak = PARAMETERS.with_values(clock_ghz=point.clock_ghz).peak_flops() / 1e12
            ours, theirs = modelled[point.name] / peak, point.tflops / peak
        else:
            continue
        rows.append(
            {
                "name": point.name, "what": what, "measured": theirs, "modelled": ours,
                "error": ours / theirs - 1, "source": point.source,
            }
        )  # fmt: skip
    return rows


def _model(point: KernelPoint) -> float:
    """Modelled TFLOP/s of the kernel of that schedule or tile."""
    if point.tile is not None:
        setting = Setting(CHIP, MODEL, point.clock_ghz or PARAMETERS.clock_ghz)
        return time_peer(point.problem, point.tile, setting)["tflops"]
    rung = next(one for one in RUNGS[point.problem.kind] if one.name == point.rung)
    inputs = point.problem.inputs()
    artifact = point.problem.function(CHIP, rung.schedule).lower(*inputs)
    p = PARAMETERS
    if point.clock_ghz is not None:
        p = p.with_values(clock_ghz=point.clock_ghz)
    seconds = sum(timing.seconds for timing in time_artifact(artifact, inputs, p))
    return point.problem.flops / seconds / 1e12
