"""Inputs of a kernel to the largest error that its number formats excuse, element by element.

Notation: u = 2^-24 is float32's unit roundoff, u_out and u_in those of the result's and the
operands' storage types, |A||B| the product of absolute values, `tiny` half the smallest subnormal.

Matmul. Products of two f16 or bf16 numbers are exact in float32. A sum of K of them in any order
makes at most K - 1 additions, each with a relative error of at most 2u: u when rounded to nearest,
2u when the matrix core truncates. Hence |sum - exact| <= 2 K u (|A||B|) to first order (Higham,
"Accuracy and Stability of Numerical Algorithms", 2nd edition, 4.2), and one rounding of the result
gives u_out |exact| on top.

Attention. A float32 program with the same roundings (`same_dtype`) is the yardstick: a kernel may
be off by twice its largest error, plus one rounding of the result. On a small tensor that error
can be small by luck, so that it is taken over several tile widths, and never below what any
correct program may do: round the heaviest weight the other way (u_in max_j w_j |v_j|), and carry
the float32 errors of the logits and of the sums, which are derived as for the matmul.

Gradients: three times the same-dtype error, otherwise alike.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tessera.errors import DtypeError, supported
from tessera.reference import flash_attn, flash_attn_bwd
from tessera.reference.attention import attention_logits, softmax_rows
from tessera.reference.visibility import attention_options, check_shapes
from tessera.reference.widen import as_float64
from tessera.testing.same_dtype import same_dtype_attention, same_dtype_attention_bwd

FLOAT32_ROUNDOFF = 2.0**-24
FORWARD_GATE = 2e-2
"""Absolute error of attention forward that is never exceeded on standard normal inputs."""
GRADIENT_GATE = 5e-4
"""Relative error of attention gradients, f16 storage, in the Frobenius norm."""

_FORMATS = {
    np.dtype(np.float32): (2.0**-24, 2.0**-126),
    np.dtype(np.float16): (2.0**-11, 2.0**-25),
    # Float32 subnormals may be flushed on the way to bf16: tiny is the smallest normal number.
    np.dtype(ml_dtypes.bfloat16): (2.0**-8, 2.0**-126),
}


def unit_roundoff(dtype: Any) -> float:
    """Largest relative error of one rounding to nearest in `dtype`."""
    return _format(dtype)[0]


def rounding_bound(expected: Any, dtype: Any) -> np.ndarray:
    """Largest error of rounding `expected` once to `dtype`: u_out |expected| + tiny."""
    roundoff, tiny = _format(dtype)
    return roundoff * np.abs(as_float64(expected, "expected")) + tiny


def _format(dtype: Any) -> tuple[float, float]:
    try:
        return _FORMATS[np.dtype(dtype)]
    except KeyError:
        raise DtypeError(f"no rounding bound for {dtype}; {supported(_FORMATS)}") from None


def matmul_bound(
    a: Any, b: Any, out_dtype: Any, transpose_a: bool = False, transpose_b: bool = False
) -> np.ndarray:
    """Bound [m, n] on |c - A @ B| for float32 accumulation in any order and one final rounding."""
    left, right = as_float64(a, "a"), as_float64(b, "b")
    left = left.T if transpose_a else left
    right = right.T if transpose_b else right
    terms = left.shape[1]
    accumulated = 2.0 * terms * FLOAT32_ROUNDOFF * (np.abs(left) @ np.abs(right))
    # The rounding happens on the computed value, which is off by the accumulated error already.
    return rounding_bound(np.abs(left @ right) + accumulated, out_dtype) + accumulated


def attention_bound(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    causal: bool | str = False,
    scale: float | None = None,
    **options: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on |o - exact| and |lse - exact| for operands in their storage type.

    Arguments and shapes as in `tessera.reference.flash_attn` (without packed sequences); the dtype
    of q is that of the result. Where lse is -inf the bounds are 0: empty rows are exact.
    """
    exact_o, exact_lse = flash_attn(q, k, v, causal, scale, **options)
    yardstick = 0.0
    for keys_per_step in (16, 64, max(1, k.shape[2])):
        o, _ = same_dtype_attention(q, k, v, causal, scale, keys_per_step, **options)
        yardstick = max(yardstick, _largest(as_float64(o, "o") - exact_o))

    weights, logit_error = _weights_and_logit_error(q, k, v, causal, scale, options)
    values = np.abs(np.repeat(as_float64(v, "v"), check_shapes(q, k, v), axis=1))
    num_keys = k.shape[2]
    mean_error = (weights * logit_error).sum(axis=-1, keepdims=True)
    sums = 2.0 * (num_keys + 8) * FLOAT32_ROUNDOFF
    in_float32 = (weights * (logit_error + mean_error + sums)) @ values
    luck = unit_roundoff(q.dtype) * _largest_term(weights, values) + in_float32
    o_bound = np.maximum(2.0 * yardstick, luck) + rounding_bound(exact_o, q.dtype)

    empty = np.isneginf(exact_lse)
    magnitude = np.where(empty, 0.0, np.abs(exact_lse))
    lse_bound = mean_error[..., 0] + sums + 4.0 * FLOAT32_ROUNDOFF * magnitude
    return np.where(empty[..., None], 0.0, o_bound), np.where(empty, 0.0, lse_bound)


def _weights_and_logit_error(
    q: np.ndarray, k: np.ndarray, v: np.ndarray,
    causal: bool | str, scale: float | None, options: dict[str, Any],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Exact softmax weights, and a bound on the float32 error of each exponent's argument.

    The dot product is a matmul of K = head_dim; six further roundings cover the scale, its product
    with log2(e), and the subtraction of the row's maximum.
    """
    checked = attention_options(
        q.shape[3], causal, scale, options.get("window"), options.get("softcap"),
        options.get("bias"), options.get("alibi_slopes"),
    )  # fmt: skip
    wide_q = as_float64(q, "q")
    wide_k = np.repeat(as_float64(k, "k"), check_shapes(q, k, v), axis=1)
    logits, _ = attention_logits(wide_q, wide_k, checked)
    weights, _ = softmax_rows(logits)
    magnitude = np.where(np.isfinite(logits), np.abs(logits), 0.0)
    magnitude += magnitude.max(axis=-1, keepdims=True, initial=0.0)
    dot = abs(checked.scale) * (np.abs(wide_q) @ np.swapaxes(np.abs(wide_k), -1, -2))
    dot_error = 2.0 * q.shape[3] * FLOAT32_ROUNDOFF * dot
    error = dot_error + 6.0 * FLOAT32_ROUNDOFF * magnitude
    return weights, np.where(np.isneginf(logits), 0.0, error)


def _largest_term(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """max_j weights[..., i, j] * values[..., j, d], row by row to keep the memory small."""
    largest = np.zeros((*weights.shape[:-1], values.shape[-1]))
    for row in range(weights.shape[-2]):
        terms = weights[..., row, :, None] * values
        largest[..., row, :] = terms.max(axis=-2, initial=0.0)
    return largest


def _largest(error: np.ndarray) -> float:
    return float(np.abs(error).max(initial=0.0))


def attention_gradient_bound(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    do: np.ndarray,
    causal: bool | str = False,
    scale: float | None = None,
    **options: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bounds on the errors of dq, dk and dv: three times the same-dtype error and one rounding.

    The floor against luck is one rounding of the result's largest element, and what float32 sums
    in another order may give where dP and rowsum(O * dO) cancel.
    """
    exact = flash_attn_bwd(q, k, v, None, None, do, causal, scale, **options)
    computed = same_dtype_attention_bwd(q, k, v, do, causal, scale, **options)
    floors = _gradient_errors_in_float32(q, k, v, do, causal, scale, options)
    bounds = []
    for gradient, same_dtype, floor in zip(exact, computed, floors):
        yardstick = 3.0 * _largest(as_float64(same_dtype, "gradient") - gradient)
        luck = unit_roundoff(q.dtype) * _largest(gradient)
        bounds.append(np.maximum(max(yardstick, luck), floor) + rounding_bound(gradient, q.dtype))
    dq_bound, dk_bound, dv_bound = bounds
    return dq_bound, dk_bound, dv_bound


def _gradient_errors_in_float32(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, do: np.ndarray,
    causal: bool | str, scale: float | None, options: dict[str, Any],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """What float32 sums in any order, and subnormals of the storage type, add to dq, dk and dv.

    dP and rowsum(O * dO) are sums of head_dim_v products each; both are weighed by P, whose error
    is that of the logit and of lse.
    """
    weights, logit_error = _weights_and_logit_error(q, k, v, causal, scale, options)
    group = check_shapes(q, k, v)
    k_heads, v_heads = (np.repeat(np.abs(as_float64(x, "x")), group, axis=1) for x in (k, v))
    q_abs, do_abs = np.abs(as_float64(q, "q")), np.abs(as_float64(do, "do"))
    sums = 2.0 * (v.shape[3] + 8) * FLOAT32_ROUNDOFF
    lse_error = (weights * logit_error).sum(axis=-1, keepdims=True)
    lse_error = lse_error + 2.0 * (k.shape[2] + 8) * FLOAT32_ROUNDOFF
    magnitude = do_abs @ np.swapaxes(v_heads, -1, -2)
    magnitude += (do_abs * (weights @ v_heads)).sum(axis=-1, keepdims=True)
    tiny = _format(q.dtype)[1]
    weight_error = weights * (logit_error + lse_error) + np.where(weights > 0.0, tiny, 0.0)
    d_logit_error = (weights * sums + weight_error) * magnitude + np.where(weights > 0.0, tiny, 0.0)
    factor = 1.0 / np.sqrt(q.shape[3]) if scale is None else abs(scale)
    dk, dv = (
        (np.swapaxes(error, -1, -2) @ rows).reshape(*k.shape[:2], group, k.shape[2], rows.shape[3])
        for error, rows in ((factor * d_logit_error, q_abs), (weight_error, do_abs))
    )
    return factor * d_logit_error @ k_heads, dk.sum(axis=2), dv.sum(axis=2)
