"""Float64 attention backward: gradients of q, k, v (and bias) for every forward option."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tessera.errors import ShapeError
from tessera.reference.attention import attention_logits, flash_attn, sequences
from tessera.reference.visibility import attention_options, check_shapes
from tessera.reference.widen import as_float64, visible_product


def flash_attn_bwd(
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    lse: Any,
    do: Any,
    causal: bool | str = False,
    scale: float | None = None,
    *,
    window: Sequence[int | None] | None = None,
    softcap: float | None = None,
    bias: Any = None,
    alibi_slopes: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
) -> tuple[np.ndarray, ...]:
    """Gradients (dq, dk, dv), with the shapes of q, k, v, and dbias behind them if bias is given.

    Shapes and options as in `flash_attn`; do has the shape of o. `o` and `lse` may be None, then
    they are computed here in float64. With P = exp(logits - lse), dP = dO V^T and
    delta = rowsum(O * dO), each of them summed over visible keys only:

        dV = P^T dO    dS = P * (dP - delta)    dQ = scale * dS' K    dK = scale * dS'^T Q

    where dS' = dS * (1 - tanh^2) under a softcap, dbias = dS summed over the axes that bias
    broadcasts, and dK, dV are summed over the query heads of a key head (Dao, "FlashAttention-2",
    2023, algorithm 2). Rows without a visible key give no gradient.
    """
    q, k, v, do = (as_float64(x, n) for x, n in ((q, "q"), (k, "k"), (v, "v"), (do, "do")))
    group = check_shapes(q, k, v)
    options = attention_options(q.shape[3], causal, scale, window, softcap, bias, alibi_slopes)
    if do.shape != (*q.shape[:3], v.shape[3]):
        raise ShapeError(
            f"flash_attn_bwd: do has shape {do.shape}, expected {(*q.shape[:3], v.shape[3])}"
        )
    if o is None or lse is None:
        o, lse = flash_attn(
            q, k, v, causal, scale, window=window, softcap=softcap, bias=bias,
            alibi_slopes=alibi_slopes, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k,
        )  # fmt: skip
    o, lse = as_float64(o, "o"), as_float64(lse, "lse")

    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    dbias = None if options.bias is None else np.zeros_like(options.bias)
    for rows, keys in sequences(q.shape, k.shape, options, cu_seqlens_q, cu_seqlens_k):
        q_part, do_part, o_part = q[:, :, rows], do[:, :, rows], o[:, :, rows]
        k_part = np.repeat(k[:, :, keys], group, axis=1)
        v_part = np.repeat(v[:, :, keys], group, axis=1)
        logits, slope = attention_logits(q_part, k_part, options)
        probabilities = _probabilities(logits, lse[:, :, rows])
        d_logits = _logit_gradient(probabilities, o_part, v_part, do_part)
        if dbias is not None:
            dbias += _sum_to_shape(d_logits, dbias.shape)
        d_product = options.scale * d_logits * slope
        dq[:, :, rows] = visible_product(d_product, k_part)
        transposed = np.swapaxes(d_product, -1, -2)
        dk[:, :, keys] = _sum_groups(visible_product(transposed, q_part), group)
        transposed = np.swapaxes(probabilities, -1, -2)
        dv[:, :, keys] = _sum_groups(visible_product(transposed, do_part), group)
    return (dq, dk, dv) if dbias is None else (dq, dk, dv, dbias)


def _probabilities(logits: np.ndarray, lse: np.ndarray) -> np.ndarray:
    """exp(logits - lse), and 0 where hidden or in a row whose lse is -inf."""
    hidden = np.isneginf(logits) | np.isneginf(lse)[..., None]
    with np.errstate(invalid="ignore"):
        return np.where(hidden, 0.0, np.exp(np.where(hidden, 0.0, logits - lse[..., None])))


def _logit_gradient(
    probabilities: np.ndarray, o: np.ndarray, v: np.ndarray, do: np.ndarray
) -> np.ndarray:
    """dS = P * (dO V^T - rowsum(O * dO)), exactly 0 where P is."""
    with np.errstate(invalid="ignore"):
        d_probabilities = do @ np.swapaxes(v, -1, -2)
        delta = (o * do).sum(axis=-1, keepdims=True)
        return np.where(probabilities == 0.0, 0.0, probabilities * (d_probabilities - delta))


def _sum_groups(gradient: np.ndarray, group: int) -> np.ndarray:
    """Sum the query heads of each key head: [batch, heads, ...] -> [batch, heads_k, ...]."""
    batch, heads, *rest = gradient.shape
    return gradient.reshape(batch, heads // group, group, *rest).sum(axis=2)


def _sum_to_shape(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum the axes along which an array of `shape` was broadcast to the gradient's shape."""
    extra = gradient.ndim - len(shape)
    gradient = gradient.sum(axis=tuple(range(extra)))
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1 != gradient.shape[axis])
    return gradient.sum(axis=axes, keepdims=True)
