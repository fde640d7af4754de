"""Operands and options to a kernel's results, through guarded buffers on a named executor."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

import tessera
from tessera import ops, testing

CHIP = "gfx1151"
HALF = ("f16", "bf16")
DTYPES: dict[str, Any] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
}
CAUSAL = (False, "top_left", "bottom_right")


@cache
def matmul_function(
    out_dtype: str = "f32", transpose_a: bool = False, transpose_b: bool = False,
    schedule: frozenset[tuple[str, int]] = frozenset(),
) -> Any:  # fmt: skip
    """A jitted c = a @ b with these options; `schedule` fixes some of its tile sizes."""

    @tessera.jit(target=CHIP)
    def matmul(a, b):
        return ops.matmul(
            a, b, transpose_a=transpose_a, transpose_b=transpose_b, out_dtype=out_dtype,
            schedule=dict(schedule) or None,
        )  # fmt: skip

    return matmul


@cache
def attention_function(
    causal: bool | str = False, scale: float | None = None,
    schedule: frozenset[tuple[str, int]] = frozenset(),
) -> Any:  # fmt: skip
    """A jitted (o, lse) = attention of q, k, v; `schedule` fixes some of its tile sizes."""

    @tessera.jit(target=CHIP)
    def attention(q, k, v):
        return ops.flash_attn(
            q, k, v, causal=causal, scale=scale, return_lse=True, schedule=dict(schedule) or None
        )

    return attention


def frozen(schedule: dict[str, int] | None) -> frozenset[tuple[str, int]]:
    """A schedule as a value that a cache can use as its key."""
    return frozenset((schedule or {}).items())


def launch(
    artifact: Any, operands: tuple[Any, ...], results: tuple[Any, ...], executor: str
) -> None:
    """Run the artifact into guarded results; nothing outside any buffer may be written."""
    guards = [x for x in (*operands, *results) if isinstance(x, testing.GuardedBuffer)]
    arrays = [getattr(x, "array", x) for x in operands]
    kept = [np.array(array, copy=True) for array in arrays]
    out = [result.array for result in results]
    tessera.runtime.launch(
        artifact, *arrays, out=out if len(out) > 1 else out[0], executor=executor
    )
    assert tessera.runtime.last_launch().executor == executor
    for index, guard in enumerate(guards):
        guard.check(f"buffer {index}")
    for index, (array, before) in enumerate(zip(arrays, kept)):
        assert array.tobytes() == before.tobytes(), f"operand {index} was written"


def run_matmul(
    executor: str, a: Any, b: Any, *,
    out_dtype: str = "f32", transpose_a: bool = False, transpose_b: bool = False,
    schedule: dict[str, int] | None = None, out: testing.GuardedBuffer | None = None,
) -> np.ndarray:  # fmt: skip
    """c of a matmul of arrays or guarded buffers, written into `out` or a fresh guarded buffer."""
    left, right = as_guarded(a), as_guarded(b)
    m = left.array.shape[1 if transpose_a else 0]
    n = right.array.shape[0 if transpose_b else 1]
    c = out or testing.guarded_empty((m, n), DTYPES[out_dtype])
    function = matmul_function(out_dtype, transpose_a, transpose_b, frozen(schedule))
    artifact = function.lower(left.array, right.array)
    launch(artifact, (left, right), (c,), executor)
    return c.array


def run_attention(
    executor: str, q: Any, k: Any, v: Any, *,
    causal: bool | str = False, scale: float | None = None,
    schedule: dict[str, int] | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(o, lse) of attention of arrays or guarded buffers [batch, heads, seq, head_dim]."""
    operands = [as_guarded(x) for x in (q, k, v)]
    arrays = [operand.array for operand in operands]
    artifact = attention_function(causal, scale, frozen(schedule)).lower(*arrays)
    return launch_attention(artifact, executor, *operands)


def launch_attention(
    artifact: Any, executor: str, q: Any, k: Any, v: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(o, lse) of an attention artifact on arrays or guarded buffers."""
    operands = tuple(as_guarded(x) for x in (q, k, v))
    batch, heads, seq_q, _ = operands[0].array.shape
    head_dim_v = operands[2].array.shape[3]
    o = testing.guarded_empty((batch, heads, seq_q, head_dim_v), operands[0].array.dtype)
    lse = testing.guarded_empty((batch, heads, seq_q), np.float32)
    launch(artifact, operands, (o, lse), executor)
    return o.array, lse.array


def as_guarded(value: Any) -> testing.GuardedBuffer:
    """The value inside canaries, unless it is guarded already."""
    return value if isinstance(value, testing.GuardedBuffer) else testing.guarded(value)


def check_matmul(c: np.ndarray, a: Any, b: Any, **transposes: bool) -> float:
    """Hold c against the float64 product and its derived bound; the worst multiple of it."""
    expected = tessera.reference.matmul(a, b, **transposes)
    return testing.check(c, expected, testing.matmul_bound(a, b, c.dtype, **transposes), "c")


def check_attention(
    o: np.ndarray, lse: np.ndarray, q: Any, k: Any, v: Any,
    causal: bool | str = False, scale: float | None = None,
) -> float:  # fmt: skip
    """Hold (o, lse) against float64 and its bounds, and o against the fixed gate."""
    expected_o, expected_lse = tessera.reference.flash_attn(q, k, v, causal, scale)
    o_bound, lse_bound = testing.attention_bound(q, k, v, causal, scale)
    worst_o = testing.check(o, expected_o, o_bound, "o")
    worst_lse = testing.check(lse, expected_lse, lse_bound, "lse")
    return max(worst_o, worst_lse)


def assert_rounded(actual: Any, expected: Any, name: str = "result") -> None:
    """The exact answer, off by no more than one rounding to the result's type."""
    bound = testing.rounding_bound(expected, actual.dtype)
    testing.check(actual, expected, bound, name)


def assert_lse(actual: Any, expected: Any, tolerance: float = 2e-6) -> None:
    """Natural-log lse within a few float32 roundings of it; -inf must be -inf."""
    expected = np.broadcast_to(np.asarray(expected, np.float64), actual.shape)
    magnitude = np.where(np.isfinite(expected), np.maximum(np.abs(expected), 1.0), 0.0)
    testing.check(actual, expected, tolerance * magnitude, "lse")
