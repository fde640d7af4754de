"""A problem to rows of Triton's kernels for it, checked on the emulator and timed by the model.

Triton compiles for gfx1151 without a GPU. Each of `TILES` is tried; which one is best depends on
the problem, and all are shown. Only contiguous tensors whose sizes are multiples of the tiles.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from tessera import emulator
from tessera.emulator.timing import PARAMETERS, Timing, time_launch
from tessera.errors import OptionError
from tessera.perf.ladder import MODEL, Row, Setting, describe, kernel_facts, speed
from tessera.perf.peers.triton_calls import PeerLaunch, Tile, peer_call
from tessera.perf.problems import GemmProblem, Problem

HEAD_DIMS = (16, 32, 64, 128, 256)


def _gemm(m: int, n: int, k: int, warps: int, stages: int) -> Tile:
    return Tile({"TILE_M": m, "TILE_N": n, "TILE_K": k}, warps, stages)


def _attention(queries: int, keys: int, warps: int, stages: int) -> Tile:
    return Tile({"TILE_Q": queries, "TILE_K": keys}, warps, stages)


def _backward(own: int, step: int, warps: int, stages: int) -> Tile:
    return Tile({"OWN": own, "STEP": step}, warps, stages)


TILES: Mapping[str, tuple[Tile, ...]] = MappingProxyType(
    {
        "gemm": (
            _gemm(64, 64, 32, 4, 2),
            _gemm(128, 64, 32, 4, 2),
            _gemm(128, 128, 32, 4, 2),
            _gemm(128, 128, 32, 8, 2),
            _gemm(128, 128, 64, 8, 2),
            _gemm(256, 128, 32, 8, 2),
        ),
        "flash_attn": (
            _attention(64, 32, 4, 2),
            _attention(64, 64, 4, 1),
            _attention(128, 32, 4, 2),
            _attention(128, 32, 8, 2),
            _attention(128, 64, 8, 1),
            _attention(256, 32, 8, 2),
        ),
        "flash_attn_bwd": (
            _backward(32, 32, 4, 1),
            _backward(64, 16, 4, 1),
            _backward(64, 16, 4, 2),
            _backward(64, 32, 4, 1),
            _backward(128, 16, 8, 1),
        ),
    }
)
"""What is tried: tiles around those that published tunings for this chip chose."""


@dataclass(frozen=True)
class Compiled:
    """Triton's code object for one kernel and tile; `extra_arguments` are pointers it may get."""

    code_object: bytes
    kernel: str
    threads: int
    dynamic_lds: int
    extra_arguments: int


def unavailable_reason(problem: Problem | None = None) -> str:
    """Why there are no peers here, or for this problem; empty when there are."""
    if find_spec("triton") is None:
        return "the package triton is not installed"
    if isinstance(problem, GemmProblem) and (problem.layout != "nn" or problem.matrix_bits != 16):
        return "the Triton matmul is for f16 and bf16 in layout nn"
    return ""


def peer_rows(
    problems: Sequence[Problem], setting: Setting, progress: Callable[[str], None]
) -> list[Row]:
    """A row for every problem and tile; refused ones say why. Timed by the model alone.

    Raises OptionError where there are no peers.
    """
    if setting.time_source != MODEL:
        raise OptionError("ladder: peers are timed by the model; use --device model")
    rows = []
    for problem in problems:
        if why := unavailable_reason(problem):
            raise OptionError(f"ladder: no peers: {why}")
        for tile in TILES[problem.kind]:
            progress(f"{describe(problem)} {tile.name}")
            rows.append(_row(problem, tile, setting))
    return rows


def _row(problem: Problem, tile: Tile, setting: Setting) -> Row:
    sizes = {**tile.sizes, "warps": tile.warps, "stages": tile.stages}
    row: Row = {
        "shape": problem.shape(),
        "dtype": problem.dtype,
        "schedule": {"name": tile.name, "reason": "Triton's own kernel", "sizes": sizes},
        "flops": problem.flops,
        "bytes": problem.bytes,
        "time_source": setting.time_source,
    }
    if not _fits(problem, tile):
        return row | {"status": "refused", "why": "sizes are no multiples of the tile"}
    try:
        error = _check(problem, tile, setting.chip)
        return row | {"error_multiple": error} | time_peer(problem, tile, setting)
    except AssertionError as wrong:
        first = (str(wrong).splitlines() or ["wrong"])[0]
        return row | {"status": "wrong", "why": first, "error_multiple": None}
    except emulator.EmulatorError as refused:
        return row | {"status": "refused", "why": str(refused)}


def _fits(problem: Problem, tile: Tile) -> bool:
    if isinstance(problem, GemmProblem):
        pairs = ((problem.m, "TILE_M"), (problem.n, "TILE_N"), (problem.k, "TILE_K"))
        return all(size % tile.sizes[name] == 0 for size, name in pairs)
    largest = max(tile.sizes.values())
    return problem.seq % largest == 0 and problem.head_dim in HEAD_DIMS


@cache
def _compile(
    function: str, kinds: tuple[str, ...], constants: tuple[tuple[str, Any], ...], warps: int,
    stages: int, chip: str,
) -> Compiled:  # fmt: skip
    from triton import compile as compile_triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from tessera.perf.peers import triton_kernels

    kernel: Any = getattr(triton_kernels, function)
    names = kernel.arg_names
    types = [*kinds, *["constexpr"] * (len(names) - len(kinds))]
    multiples = {(i,): [["tt.divisibility", 16]] for i, one in enumerate(types) if one[0] in "*i"}
    source = ASTSource(kernel, dict(zip(names, types)), constexprs=dict(constants), attrs=multiples)
    options = {"num_warps": warps, "num_stages": stages}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = compile_triton(source, target=GPUTarget("hip", chip, 32), options=options)
    code, metadata = made.asm["hsaco"], made.metadata
    description = emulator.load(code).kernel(metadata.name)
    return Compiled(
        code, metadata.name, 32 * warps, metadata.shared - description.lds_bytes,
        len(description.explicit_arguments) - len(kinds),
    )  # fmt: skip


def _compiled(launch: PeerLaunch, tile: Tile, chip: str) -> Compiled:
    kinds, constants = launch.kinds, launch.constants
    return _compile(launch.function, kinds, constants, tile.warps, tile.stages, chip)


def _check(problem: Problem, tile: Tile, chip: str) -> float:
    """The error as a multiple of its bound on a small problem of whole tiles."""
    small: Problem
    if isinstance(problem, GemmProblem):
        sizes = tile.sizes
        small = replace(problem, m=2 * sizes["TILE_M"], n=sizes["TILE_N"], k=2 * sizes["TILE_K"])
    else:
        seq = max(2 * max(tile.sizes.values()), 64)
        small = replace(problem, batch=1, heads=1, seq=seq)
    inputs = small.inputs(seed=1)
    call = peer_call(small, tile, inputs)
    for launch in call.launches:
        compiled = _compiled(launch, tile, chip)
        # What another compiler reads and discards is no fault of the result: no sanitizers.
        emulator.run(
            compiled.code_object, compiled.kernel, launch.grid, compiled.threads,
            [*launch.arguments, *[None] * compiled.extra_arguments],
            dynamic_lds=compiled.dynamic_lds, sanitize=False,
        )  # fmt: skip
    return small.check(call.results, inputs)


def time_peer(problem: Problem, tile: Tile, setting: Setting) -> Row:
    """The part of a row that holds modelled time and resources."""
    p = PARAMETERS.with_values(clock_ghz=setting.clock_ghz)
    timings: list[Timing] = []
    for launch in peer_call(problem, tile, problem.inputs()).launches:
        compiled = _compiled(launch, tile, setting.chip)
        timings.append(
            time_launch(
                compiled.code_object, compiled.kernel, launch.grid, [compiled.threads],
                [*launch.arguments, *[None] * compiled.extra_arguments],
                dynamic_lds=compiled.dynamic_lds, parameters=p,
            )
        )  # fmt: skip
    longest = max(timings, key=lambda timing: timing.seconds)
    scratch = max(timing.scratch_bytes for timing in timings)
    return speed(problem, [sum(timing.seconds for timing in timings)], setting) | {
        "status": "ok",
        "registers": max(timing.vgprs for timing in timings),
        "spills": scratch // 4,
        "scratch_bytes": scratch,
        "lds_bytes": max(timing.lds_bytes for timing in timings),
        "occupancy": longest.occupancy.waves_per_simd,
        "instructions_per_wmma": longest.loop.instructions_per_wmma,
        "issue_law": longest.law,
        "bound": longest.bound,
        "kernels": [kernel_facts(timing) for timing in timings],
    }
