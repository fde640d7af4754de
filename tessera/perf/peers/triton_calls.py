"""A problem and a tile to launches of Triton's kernels: types, grids and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tessera.perf.problems import AttentionProblem, GemmProblem, Problem

POINTERS = MappingProxyType({"f16": "*fp16", "bf16": "*bf16"})
_F32 = "*fp32"
BAND = 2
"""Height of the bands in which the matmul's workgroups walk the result, in tiles."""
DELTA_ROWS = 64


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


@dataclass(frozen=True)
class PeerLaunch:
    """One launch: a function of `triton_kernels`, its types and constants, grid and arguments."""

    function: str
    kinds: tuple[str, ...]
    constants: tuple[tuple[str, Any], ...]
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class PeerCall:
    """The launches of one problem in order, and the arrays that hold its results."""

    launches: tuple[PeerLaunch, ...]
    results: Any


def peer_call(problem: Problem, tile: Tile, inputs: Sequence[np.ndarray]) -> PeerCall:
    """The call for `inputs` as `problem.inputs` gives them; results are fresh zeros."""
    if isinstance(problem, GemmProblem):
        return _matmul(problem, tile, inputs)
    return (_gradients if problem.backward else _attention)(problem, tile, inputs)


def _matmul(problem: GemmProblem, tile: Tile, inputs: Sequence[np.ndarray]) -> PeerCall:
    m, n, k = problem.m, problem.n, problem.k
    c = np.zeros((m, n), np.float32)
    pointer = POINTERS[problem.dtype]
    tiles = (m // tile.sizes["TILE_M"]) * (n // tile.sizes["TILE_N"])
    launch = PeerLaunch(
        "matmul_kernel",
        (pointer, pointer, _F32, *["i32"] * 6),
        (*tile.sizes.items(), ("BAND", BAND)),
        (tiles, 1, 1),
        (*inputs, c, m, n, k, k, n, n),
    )
    return PeerCall((launch,), c)


def _attention(problem: AttentionProblem, tile: Tile, inputs: Sequence[np.ndarray]) -> PeerCall:
    o = np.zeros_like(inputs[0])
    lse = np.zeros(inputs[0].shape[:3], np.float32)
    launch = PeerLaunch(
        "attention_kernel",
        (*[POINTERS[problem.dtype]] * 4, _F32, "i32", "fp32"),
        (*tile.sizes.items(), *_constants(problem)),
        (problem.seq // tile.sizes["TILE_Q"], problem.batch * problem.heads, 1),
        (*inputs, o, lse, problem.seq, _scale(problem)),
    )
    return PeerCall((launch,), (o, lse))


def _gradients(problem: AttentionProblem, tile: Tile, inputs: Sequence[np.ndarray]) -> PeerCall:
    q, k, v, o, lse, do = inputs
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    delta = np.zeros(lse.shape, np.float32)
    heads, seq = problem.batch * problem.heads, problem.seq
    pointer = POINTERS[problem.dtype]
    grid = (seq // tile.sizes["OWN"], heads, 1)
    constants = (*tile.sizes.items(), *_constants(problem))
    last = (seq, _scale(problem))
    head_dim = ("HEAD_DIM", problem.head_dim)
    launches = (
        PeerLaunch(
            "delta_kernel", (pointer, pointer, _F32), (head_dim, ("ROWS", DELTA_ROWS)),
            (heads * seq // DELTA_ROWS, 1, 1), (o, do, delta),
        ),
        PeerLaunch(
            "key_gradient_kernel", (*[pointer] * 4, _F32, _F32, pointer, pointer, "i32", "fp32"),
            constants, grid, (q, k, v, do, lse, delta, dk, dv, *last),
        ),
        PeerLaunch(
            "query_gradient_kernel", (*[pointer] * 4, _F32, _F32, pointer, "i32", "fp32"),
            constants, grid, (q, k, v, do, lse, delta, dq, *last),
        ),
    )  # fmt: skip
    return PeerCall(launches, (dq, dk, dv))


def _constants(problem: AttentionProblem) -> tuple[tuple[str, Any], ...]:
    return ("HEAD_DIM", problem.head_dim), ("CAUSAL", problem.causal != "none")


def _scale(problem: AttentionProblem) -> float:
    return float(problem.head_dim) ** -0.5
