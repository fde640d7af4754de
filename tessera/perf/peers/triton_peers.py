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

import numpy as np

from tessera import emulator
from tessera.emulator.timing import PARAMETERS, time_launch
from tessera.errors import OptionError
from tessera.perf.ladder import MODEL, Row, Setting, describe, kernel_facts, speed
from tessera.perf.problems import AttentionProblem, GemmProblem, Problem

POINTERS = MappingProxyType({"f16": "*fp16", "bf16": "*bf16", "f32": "*fp32"})


@dataclass(frozen=True)
class Tile:
    """A tile of Triton's: sizes by name, warps of a workgroup, stages of its software pipeline."""

    sizes: Mapping[str, int]
    warps: int
    stages: int

    @property
    def name(self) -> str:
        """The tile in a few characters."""
        sizes = "x".join(str(size) for size in self.sizes.values())
        return f"triton {sizes} {self.warps}w {self.stages}s"


def _gemm(m: int, n: int, k: int, warps: int, stages: int) -> Tile:
    return Tile({"TILE_M": m, "TILE_N": n, "TILE_K": k}, warps, stages)


def _attention(queries: int, keys: int, warps: int, stages: int) -> Tile:
    return Tile({"TILE_Q": queries, "TILE_K": keys}, warps, stages)


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
    }
)
"""What is tried: tiles around those that published tunings for this chip chose."""


@dataclass(frozen=True)
class Compiled:
    """Triton's code object for one problem and tile."""

    code_object: bytes
    kernel: str
    threads: int
    dynamic_lds: int
    extra_arguments: int


@dataclass
class _Call:
    """Grid, arguments and the arrays that hold the results."""

    grid: tuple[int, int, int]
    arguments: list[Any]
    results: Any


def unavailable_reason(problem: Problem | None = None) -> str:
    """Why there are no peers here, or for this problem; empty when there are."""
    if find_spec("triton") is None:
        return "the package triton is not installed"
    if isinstance(problem, GemmProblem) and (problem.layout != "nn" or problem.matrix_bits != 16):
        return "the Triton matmul is for f16 and bf16 in layout nn"
    if isinstance(problem, AttentionProblem) and problem.backward:
        return "there is no Triton kernel for the gradients"
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
        compiled = compile_peer(_kind(problem), tile, setting.chip)
        error = _check(problem, tile, compiled)
        return row | {"error_multiple": error} | _timed(problem, tile, compiled, setting)
    except AssertionError as wrong:
        first = (str(wrong).splitlines() or ["wrong"])[0]
        return row | {"status": "wrong", "why": first, "error_multiple": None}
    except emulator.EmulatorError as refused:
        return row | {"status": "refused", "why": str(refused)}


def _fits(problem: Problem, tile: Tile) -> bool:
    sizes = tile.sizes
    if isinstance(problem, GemmProblem):
        pairs = ((problem.m, "TILE_M"), (problem.n, "TILE_N"), (problem.k, "TILE_K"))
        return all(size % sizes[name] == 0 for size, name in pairs)
    return problem.seq % sizes["TILE_Q"] == 0 and problem.head_dim in (16, 32, 64, 128, 256)


def _kind(problem: Problem) -> tuple[str, str, int, bool]:
    """What the code depends on beside the tile: ladder, dtype, head_dim, causal."""
    if isinstance(problem, GemmProblem):
        return "gemm", problem.dtype, 0, False
    return "flash_attn", problem.dtype, problem.head_dim, problem.causal != "none"


@cache
def _compile(kind: tuple[str, str, int, bool], sizes: tuple[tuple[str, int], ...], warps: int,
             stages: int, chip: str) -> Compiled:  # fmt: skip
    from triton import compile as compile_triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from tessera.perf.peers import triton_kernels

    ladder, dtype, head_dim, causal = kind
    pointer, constants = POINTERS[dtype], dict(sizes)
    kernel: Any
    if ladder == "gemm":
        kernel, constants["BAND"] = triton_kernels.matmul_kernel, 2
        kinds = [pointer, pointer, "*fp32", *["i32"] * 6]
    else:
        kernel = triton_kernels.attention_kernel
        constants |= {"HEAD_DIM": head_dim, "CAUSAL": causal}
        kinds = [*[pointer] * 4, "*fp32", "i32", "fp32"]
    names = kernel.arg_names
    kinds += ["constexpr"] * (len(names) - len(kinds))
    multiples = {(i,): [["tt.divisibility", 16]] for i, one in enumerate(kinds) if one[0] in "*i"}
    source = ASTSource(kernel, dict(zip(names, kinds)), constexprs=constants, attrs=multiples)
    options = {"num_warps": warps, "num_stages": stages}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = compile_triton(source, target=GPUTarget("hip", chip, 32), options=options)
    code, metadata = made.asm["hsaco"], made.metadata
    description = emulator.load(code).kernel(metadata.name)
    own = len(kinds) - kinds.count("constexpr")
    return Compiled(
        code, metadata.name, 32 * warps, metadata.shared - description.lds_bytes,
        len(description.explicit_arguments) - own,
    )  # fmt: skip


def compile_peer(kind: tuple[str, str, int, bool], tile: Tile, chip: str) -> Compiled:
    """Triton's code object for (ladder, dtype, head_dim, causal) and a tile, cached."""
    return _compile(kind, tuple(tile.sizes.items()), tile.warps, tile.stages, chip)


def _call(problem: Problem, tile: Tile, compiled: Compiled, inputs: Sequence[np.ndarray]) -> _Call:
    nothing = [None] * compiled.extra_arguments
    if isinstance(problem, GemmProblem):
        m, n, k = problem.m, problem.n, problem.k
        c = np.zeros((m, n), np.float32)
        tiles = (m // tile.sizes["TILE_M"]) * (n // tile.sizes["TILE_N"])
        return _Call((tiles, 1, 1), [*inputs, c, m, n, k, k, n, n, *nothing], c)
    heads, seq, head_dim = problem.batch * problem.heads, problem.seq, problem.head_dim
    o = np.zeros_like(inputs[0])
    lse = np.zeros(inputs[0].shape[:3], np.float32)
    scale = float(head_dim) ** -0.5
    grid = (seq // tile.sizes["TILE_Q"], heads, 1)
    return _Call(grid, [*inputs, o, lse, seq, scale, *nothing], (o, lse))


def _check(problem: Problem, tile: Tile, compiled: Compiled) -> float:
    """The error as a multiple of its bound on a small problem of whole tiles."""
    small: Problem
    if isinstance(problem, GemmProblem):
        sizes = tile.sizes
        small = replace(problem, m=2 * sizes["TILE_M"], n=sizes["TILE_N"], k=2 * sizes["TILE_K"])
    else:
        small = replace(problem, batch=1, heads=1, seq=2 * tile.sizes["TILE_Q"])
    inputs = small.inputs(seed=1)
    call = _call(small, tile, compiled, inputs)
    # What another compiler reads and discards is no fault of the result: no sanitizers.
    emulator.run(
        compiled.code_object, compiled.kernel, call.grid, compiled.threads, call.arguments,
        dynamic_lds=compiled.dynamic_lds, sanitize=False,
    )  # fmt: skip
    return small.check(call.results, inputs)


def _timed(problem: Problem, tile: Tile, compiled: Compiled, setting: Setting) -> Row:
    call = _call(problem, tile, compiled, problem.inputs())
    timing = time_launch(
        compiled.code_object, compiled.kernel, call.grid, [compiled.threads], call.arguments,
        dynamic_lds=compiled.dynamic_lds,
        parameters=PARAMETERS.with_values(clock_ghz=setting.clock_ghz),
    )  # fmt: skip
    return speed(problem, [timing.seconds], setting) | {
        "status": "ok",
        "registers": timing.vgprs,
        "spills": timing.scratch_bytes // 4,
        "scratch_bytes": timing.scratch_bytes,
        "lds_bytes": timing.lds_bytes,
        "occupancy": timing.occupancy.waves_per_simd,
        "instructions_per_wmma": timing.loop.instructions_per_wmma,
        "issue_law": timing.law,
        "bound": timing.bound,
        "kernels": [kernel_facts(timing)],
    }
