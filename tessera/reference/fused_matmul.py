"""Matmul with everything that its kernels do: integers, packed numbers, batches and epilogues."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tessera.errors import OptionError, supported
from tessera.reference.linear import gelu, relu, silu
from tessera.reference.packed import dequantize, unpack_int4
from tessera.reference.widen import as_float64

ACTIVATIONS = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, approximate="tanh"),
    "silu": silu,
}


def integer_matmul(a: Any, b: Any) -> np.ndarray:
    """A [..., m, k] @ B [..., k, n] of integers, exact in int64 and wrapped around to int32."""
    total = np.asarray(a).astype(np.int64) @ np.asarray(b).astype(np.int64)
    return total.astype(np.uint64).astype(np.uint32).astype(np.int32)


def fused_matmul(
    a: Any,
    b: Any,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    packed_a: str | None = None,
    packed_b: str | None = None,
    inner_size: int | None = None,
    weight: str | None = None,
    group_size: int = 128,
    pair: Any = None,
    starts: Any = None,
    scale: Any = None,
    zero: Any = None,
    alpha: float = 1.0,
    addend: Any = None,
    beta: float = 1.0,
    bias: Any = None,
    bias_axis: str = "column",
    activation: str | None = None,
    gate: Any = None,
    residual: Any = None,
) -> np.ndarray:
    """activation(alpha A B + beta addend + bias) * gate + residual in float64, [..., m, n].

    A is [..., m, k], B [..., k, n], each with its last two axes swapped where transposed; batch
    axes broadcast. Packed operands are bytes of two 4-bit numbers along k; with `weight` (i4, u4,
    i8) B is what `dequantize` takes. Of integers without an epilogue the int32 result (wrapped
    around) is exact. With `starts` [g + 1] the rows from starts[i] to starts[i + 1] are multiplied
    by b[i] [g, k, n]; rows of no group are NaN. With `pair` the gate is A times that.
    """
    if starts is not None:
        return _grouped_matmul(
            np.asarray(a), np.asarray(b), np.asarray(starts), transpose_b=transpose_b, alpha=alpha,
            addend=addend, beta=beta, bias=bias, activation=activation, gate=gate,
            residual=residual,
        )  # fmt: skip
    left = unpack_int4(a, packed_a, inner_size) if packed_a else np.asarray(a)
    right = unpack_int4(b, packed_b, inner_size) if packed_b else np.asarray(b)
    if weight:
        right, transpose_b = dequantize(b, scale, zero, weight, group_size), True
    left = np.swapaxes(left, -1, -2) if transpose_a else left
    right = np.swapaxes(right, -1, -2) if transpose_b else right
    if left.dtype.kind in "iu":
        result: np.ndarray = integer_matmul(left, right).astype(np.float64)
    else:
        result = as_float64(left, "a") @ as_float64(right, "b")
    result = alpha * result
    if addend is not None:
        result = result + beta * as_float64(addend, "addend")
    if bias is not None:
        column = as_float64(bias, "bias")
        result = result + (column[:, None] if bias_axis == "row" else column)
    if activation:
        if activation not in ACTIVATIONS:
            raise OptionError(f"activation {activation!r}; {supported(ACTIVATIONS)}")
        result = ACTIVATIONS[activation](result)
    if pair is not None:
        gate = fused_matmul(
            a, pair, transpose_a=transpose_a, transpose_b=transpose_b, packed_a=packed_a,
            packed_b=packed_b, inner_size=inner_size,
        )  # fmt: skip
    if gate is not None:
        result = result * as_float64(gate, "gate")
    if residual is not None:
        result = result + as_float64(residual, "residual")
    return result


def _grouped_matmul(
    a: np.ndarray, b: np.ndarray, starts: np.ndarray, transpose_b: bool, **epilogue: Any
) -> np.ndarray:
    columns = b.shape[1 if transpose_b else 2]
    result = np.full((a.shape[0], columns), np.nan)
    for group, (begin, end) in enumerate(pairwise(starts)):
        options = dict(epilogue)
        for name in ("addend", "gate", "residual"):
            if options[name] is not None:
                options[name] = options[name][begin:end]
        rows = a[begin:end]
        result[begin:end] = fused_matmul(rows, b[group], transpose_b=transpose_b, **options)
    return result
