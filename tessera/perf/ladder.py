"""Problems and schedules to rows: correctness on the emulator first, then time and what limits it.

Time is the model's, or on request that of an attached chip by events. A schedule that cannot be
compiled for a problem, or whose result is wrong, becomes a row that says so and has no time.
"""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessera import runtime
from tessera.artifact import Artifact
from tessera.emulator.timing import PARAMETERS, Timing
from tessera.errors import OptionError, TesseraError, supported
from tessera.perf.launches import time_artifact
from tessera.perf.problems import Problem
from tessera.perf.published import PUBLISHED
from tessera.perf.rungs import SHIPPED, Rung, schedule_of

SCHEMA, SCHEMA_VERSION = "tessera.ladder", 1
MODEL, HIP_EVENT = "model", "hip_event"
DEVICES = ("auto", "model", "hip")
WARM_UPS, REPETITIONS = 3, 20
SEARCH = "search "
"""How names of a search's candidates begin; those that spill are not timed."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """Where and how a ladder is timed: chip, time source, clock in GHz that shares refer to."""

    chip: str
    time_source: str
    clock_ghz: float

    @staticmethod
    def of(chip: str, device: str, clock_ghz: float | None) -> Setting:
        """`device` "auto" is the attached chip if there is one, else the model."""
        from tessera.runtime import hip

        if device not in DEVICES:
            raise OptionError(f"ladder: device = {device!r}; {supported(DEVICES)}")
        if chip != "gfx1151":
            raise OptionError(f"ladder: chip = {chip!r}; {supported(['gfx1151'])}")
        is_attached = chip in hip.attached_chips()
        if device == "hip" and not is_attached:
            raise OptionError(f"ladder: no {chip} is attached: {hip.unavailable_reason()}")
        source = HIP_EVENT if is_attached and device != "model" else MODEL
        return Setting(chip, source, clock_ghz or PARAMETERS.clock_ghz)


Gate = dict[tuple[Any, ...], tuple[float | None, str]]


def run_ladder(
    name: str,
    work: Sequence[tuple[Problem, Rung]],
    setting: Setting,
    progress: Callable[[str], None] = lambda text: None,
    finished: Callable[[Row], None] = lambda row: None,
) -> dict[str, Any]:
    """All rows of one ladder, as a document of `ladder.schema.json`."""
    rows: list[Row] = []
    gates: Gate = {}
    for problem, rung in work:
        progress(f"{describe(problem)} {rung.name}")
        row = _row(problem, rung, setting, gates)
        rows.append(row)
        finished(row)
    return document(name, setting, rows)


def document(name: str, setting: Setting, rows: Iterable[Row]) -> dict[str, Any]:
    """The JSON document around rows."""
    import llvmlite

    import tessera

    p = PARAMETERS.with_values(clock_ghz=setting.clock_ghz)
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "ladder": name,
        "chip": setting.chip,
        "time_source": setting.time_source,
        "clock_ghz": setting.clock_ghz,
        "peak_tflops": p.peak_flops() / 1e12,
        "published": [
            {
                "label": one.label, "sizes": one.sizes, "tflops": one.tflops,
                "clock_ghz": one.clock_ghz, "share_of_peak": one.share_of_peak,
                "source": one.source,
            }
            for one in PUBLISHED
            if one.ladder == name
        ],
        "versions": {
            "tessera": tessera.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "llvmlite": llvmlite.__version__,
        },
        "rows": list(rows),
    }  # fmt: skip


def describe(problem: Problem) -> str:
    """The sizes of a problem in a few words."""
    return " ".join(f"{name}={value}" for name, value in problem.shape().items())


def _row(problem: Problem, rung: Rung, setting: Setting, gates: Gate) -> Row:
    row: Row = {
        "shape": problem.shape(),
        "dtype": problem.dtype,
        "schedule": {"name": rung.name, "reason": rung.reason, "sizes": dict(rung.schedule or {})},
        "flops": problem.flops,
        "bytes": problem.bytes,
        "time_source": setting.time_source,
    }
    try:
        inputs = problem.inputs()
        artifact = problem.function(setting.chip, rung.schedule).lower(*inputs)
        sizes = schedule_of(artifact, problem.kind)
        row["schedule"]["sizes"] = sizes
        row |= _resources(artifact)
        if rung.name.startswith(SEARCH) and row["spills"]:
            return row | {"status": "refused", "why": f"spills {row['spills']} registers"}
        error, why = _gate(problem, sizes, setting.chip, gates)
        row["error_multiple"] = error
        if why:
            return row | {"status": "wrong", "why": why}
        timed = _modelled if setting.time_source == MODEL else _measured
        return row | timed(problem, artifact, inputs, setting) | {"status": "ok"}
    except TesseraError as refused:
        return row | {"status": "refused", "why": " ".join(str(refused).split())}


def _gate(
    problem: Problem, sizes: dict[str, int], chip: str, gates: Gate
) -> tuple[float | None, str]:
    """(error as a multiple of its bound, reason of a failure) on a small problem, emulated."""
    small = problem.small()
    key = (small, tuple(sorted(sizes.items())))
    if key not in gates:
        inputs = small.inputs(seed=1)
        artifact = small.function(chip, sizes).lower(*inputs)
        results = runtime.launch(artifact, *inputs, executor="emulator")
        try:
            gates[key] = small.check(results, inputs), ""
        except AssertionError as error:
            gates[key] = None, str(error).splitlines()[0]
    return gates[key]


def _resources(artifact: Artifact) -> Row:
    kernels = artifact.kernels
    return {
        "registers": max(kernel.vgprs for kernel in kernels),
        "spills": sum(kernel.vgpr_spills for kernel in kernels),
        "scratch_bytes": max(kernel.scratch_bytes for kernel in kernels),
        "lds_bytes": max(kernel.lds_bytes for kernel in kernels),
    }


def _modelled(
    problem: Problem, artifact: Artifact, inputs: list[np.ndarray], setting: Setting
) -> Row:
    p = PARAMETERS.with_values(clock_ghz=setting.clock_ghz)
    timings = time_artifact(artifact, inputs, p)
    longest = max(timings, key=lambda timing: timing.seconds)
    return speed(problem, [sum(timing.seconds for timing in timings)], setting) | {
        "occupancy": longest.occupancy.waves_per_simd,
        "instructions_per_wmma": longest.loop.instructions_per_wmma,
        "issue_law": longest.law,
        "bound": longest.bound,
        "kernels": [kernel_facts(timing) for timing in timings],
    }


def kernel_facts(timing: Timing) -> Row:
    """One kernel's part of a row, JSON-ready."""
    rounded = {name: round(share, 4) for name, share in timing.busy.items()}
    return {
        "name": timing.kernel,
        "seconds": timing.seconds,
        "cycles": timing.cycles,
        "matrix_share_of_peak": timing.share_of_peak,
        "issue_law": timing.law,
        "loop": dict(timing.loop.counts),
        "bound": timing.bound,
        "lds_conflicts": timing.lds_conflicts,
        "busy": rounded,
        "stalls": {name: round(share, 4) for name, share in timing.stalls.items()},
        "occupancy": timing.occupancy.waves_per_simd,
        "occupancy_limit": timing.occupancy.limit,
        "registers": timing.vgprs,
        "lds_bytes": timing.lds_bytes,
        "scratch_bytes": timing.scratch_bytes,
    }


def _measured(
    problem: Problem, artifact: Artifact, inputs: list[np.ndarray], setting: Setting
) -> Row:
    seconds = []
    for number in range(WARM_UPS + REPETITIONS):
        runtime.launch(artifact, *inputs, executor="hip", is_timed=True)
        measured = runtime.last_launch().seconds
        if number >= WARM_UPS and measured is not None:
            seconds.append(measured)
    return speed(problem, seconds, setting)


def speed(problem: Problem, seconds: Sequence[float], setting: Setting) -> Row:
    """Median, spread, TFLOP/s and share of peak of some times in seconds."""
    median = statistics.median(seconds)
    p = PARAMETERS.with_values(clock_ghz=setting.clock_ghz)
    rate = problem.flops / median
    return {
        "seconds": median,
        "spread_seconds": max(seconds) - min(seconds),
        "samples": len(seconds),
        "tflops": rate / 1e12,
        "share_of_peak": rate / p.peak_flops(problem.matrix_bits),
    }


def default_work(problems: Sequence[Problem], rungs: Sequence[Rung]) -> list[tuple[Problem, Rung]]:
    """The shipped schedule for every problem, and every rung for the first one of each head_dim.

    Problems of a matmul count as one kind for each dtype and layout.
    """
    work: list[tuple[Problem, Rung]] = []
    seen: set[tuple[Any, ...]] = set()
    for problem in problems:
        shape = problem.shape()
        key = (problem.dtype, shape.get("head_dim"), shape.get("layout"))
        chosen = rungs if key not in seen else [r for r in rungs if r.name == SHIPPED]
        seen.add(key)
        work += [(problem, rung) for rung in chosen]
    return work
