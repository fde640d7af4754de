"""Float64 matrix product and elementwise functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tessera.errors import OptionError, ShapeError, supported
from tessera.reference.widen import as_float64

GELU_FORMS = ("none", "tanh")


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> np.ndarray:
    """C [m, n] = A [m, k] @ B [k, n]; a transposed operand is stored as [k, m] or [n, k].

    Raises ShapeError for other ranks and for inner sizes that differ.
    """
    left, right = as_float64(a, "a"), as_float64(b, "b")
    for name, operand in (("a", left), ("b", right)):
        if operand.ndim != 2:
            raise ShapeError(f"matmul: operand {name} has rank {operand.ndim}, expected 2")
    left = left.T if transpose_a else left
    right = right.T if transpose_b else right
    if left.shape[1] != right.shape[0]:
        raise ShapeError(f"matmul: k is {left.shape[1]} in a and {right.shape[0]} in b")
    return left @ right


def add(a: Any, b: Any) -> np.ndarray:
    """a + b with numpy's broadcasting."""
    return as_float64(a, "a") + as_float64(b, "b")


def mul(a: Any, b: Any) -> np.ndarray:
    """a * b with numpy's broadcasting."""
    return as_float64(a, "a") * as_float64(b, "b")


def relu(x: Any) -> np.ndarray:
    """max(x, 0); NaN stays NaN."""
    return np.maximum(as_float64(x, "x"), 0.0)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x: Any, approximate: str = "none") -> np.ndarray:
    """Gaussian error linear unit; "none" is x * Phi(x), "tanh" its usual approximation.

    Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016. Raises OptionError for other forms.
    """
    value = as_float64(x, "x")
    if approximate == "none":
        return 0.5 * value * (1.0 + _erf(value / math.sqrt(2.0)))
    if approximate == "tanh":
        inner = math.sqrt(2.0 / math.pi) * (value + 0.044715 * value**3)
        return 0.5 * value * (1.0 + np.tanh(inner))
    raise OptionError(f"gelu: approximate={approximate!r} is unknown; {supported(GELU_FORMS)}")


def silu(x: Any) -> np.ndarray:
    """x / (1 + exp(-x)), without overflow for large negative x."""
    value = as_float64(x, "x")
    return value * 0.5 * (1.0 + np.tanh(0.5 * value))


def cast(x: Any, dtype: Any) -> np.ndarray:
    """x rounded to nearest even in `dtype` (a numpy or ml_dtypes type), widened to float64."""
    with np.errstate(over="ignore"):  # out of range becomes infinity, as in the hardware
        return as_float64(x, "x").astype(dtype).astype(np.float64)
