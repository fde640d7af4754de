"""Operands and options to a fused matmul's result, through guarded buffers on an executor."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from kernel_runs import CHIP, DTYPES, as_guarded, launch

import tessera
from tessera import ops, testing

EXTRA = ("pair", "addend", "bias", "gate", "residual")
RESULT_DTYPES = {**DTYPES, "i32": np.dtype(np.int32)}


@cache
def fused_function(names: tuple[str, ...], options: tuple[tuple[str, Any], ...]) -> Any:
    """A jitted matmul of a, b and the epilogue operands `names`, with these options."""
    settings = dict(options)
    schedule = settings.pop("schedule", None)

    @tessera.jit(target=CHIP)
    def matmul(a, b, extra):
        return ops.matmul(
            a, b, schedule=dict(schedule) if schedule else None, **settings,
            **dict(zip(names, extra)),
        )  # fmt: skip

    return matmul


def lowered(a: Any, b: Any, **options: Any) -> tuple[Any, list[np.ndarray]]:
    """The artifact for these operands, and the arrays it takes in order."""
    extra = {name: options.pop(name) for name in EXTRA if options.get(name) is not None}
    if options.get("schedule"):
        options["schedule"] = tuple(sorted(options["schedule"].items()))
    function = fused_function(tuple(extra), tuple(sorted(options.items())))
    arrays = [a, b, *extra.values()]
    return function.lower(a, b, tuple(extra.values())), arrays


def run_fused(
    executor: str, a: np.ndarray, b: np.ndarray, *, out: testing.GuardedBuffer | None = None,
    **options: Any,
) -> np.ndarray:  # fmt: skip
    """c of `tessera.ops.matmul` with these options; epilogue operands are arrays among them."""
    options = {name: value for name, value in options.items() if value is not None}
    guards = {"a": as_guarded(a), "b": as_guarded(b)}
    guards |= {name: as_guarded(options[name]) for name in EXTRA if name in options}
    arrays = {name: guard.array for name, guard in guards.items()}
    artifact, order = lowered(**{**options, **arrays})
    matrix_a = a.shape[::-1] if options.get("transpose_a") else a.shape
    m = matrix_a[0] if options.get("transpose_a") else a.shape[-2]
    m = a.shape[-1] if options.get("transpose_a") else m
    n = b.shape[-2] if options.get("transpose_b") else b.shape[-1]
    batches = [max(x.shape[0] for x in (a, b) if x.ndim == 3)] if 3 in (a.ndim, b.ndim) else []
    if any(x.ndim == 3 and x.shape[0] == 0 for x in (a, b)):
        batches = [0]
    is_integer = a.dtype.kind in "iu"
    dtype = RESULT_DTYPES[options.get("out_dtype", "i32" if is_integer else "f32")]
    c = out or testing.guarded_empty((*batches, m, n), dtype)
    by_array = {id(guard.array): guard for guard in guards.values()}
    launch(artifact, tuple(by_array[id(array)] for array in order), (c,), executor)
    return c.array


def expected_fused(a: Any, b: Any, **options: Any) -> np.ndarray:
    """The float64 result of the same call."""
    for name in ("out_dtype", "schedule"):
        options.pop(name, None)
    packed = options.pop("packed", None)
    if packed is not None:
        both = packed if isinstance(packed, tuple) else (packed, packed)
        options |= dict(zip(("packed_a", "packed_b"), both))
    return tessera.reference.fused_matmul(a, b, **options)
