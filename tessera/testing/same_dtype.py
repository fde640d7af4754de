"""Plain float32 programs that round where a kernel must: the yardstick for a kernel's error.

The oracle is float64; these are not oracles. They keep operands in the storage type, accumulate in
float32, and round the probabilities to the storage type before the second product, as any kernel
on matrix cores has to. How far they are from the oracle is the error that the number formats cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tessera.reference.attention import attention_logits
from tessera.reference.visibility import attention_options, check_shapes


def same_dtype_matmul(
    a: np.ndarray, b: np.ndarray, out_dtype: Any = np.float32,
    transpose_a: bool = False, transpose_b: bool = False,
) -> np.ndarray:  # fmt: skip
    """C [m, n] in `out_dtype`: operands widened to float32, float32 sum, one rounding."""
    left = a.T if transpose_a else a
    right = b.T if transpose_b else b
    product = left.astype(np.float32) @ right.astype(np.float32)
    with np.errstate(over="ignore"):
        return product.astype(out_dtype)


def same_dtype_attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    causal: bool | str = False,
    scale: float | None = None,
    keys_per_step: int = 64,
    **options: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """(o in q's dtype, lse float32) by the online softmax over steps of `keys_per_step` keys.

    Shapes as in `tessera.reference.flash_attn`; `options` are its window, softcap, bias and
    alibi_slopes. Rabe and Staats, "Self-attention does not need O(n^2) memory", 2021.
    """
    logits, v_heads = _float32_logits(q, k, v, causal, scale, options)
    storage = q.dtype
    maximum = np.full(logits.shape[:-1], -np.inf, dtype=np.float32)
    total = np.zeros_like(maximum)
    accumulator = np.zeros((*logits.shape[:-1], v.shape[-1]), dtype=np.float32)
    for start in range(0, logits.shape[-1], keys_per_step):
        step = logits[..., start : start + keys_per_step]
        grown = np.maximum(maximum, step.max(axis=-1))
        shift = np.where(np.isneginf(grown), np.float32(0.0), grown)
        rescale = np.exp(maximum - shift)
        weights = np.exp(step - shift[..., None])
        total = total * rescale + weights.sum(axis=-1, dtype=np.float32)
        rounded = weights.astype(storage).astype(np.float32)
        values = v_heads[..., start : start + keys_per_step, :]
        accumulator = accumulator * rescale[..., None] + rounded @ values
        maximum = grown
    empty = total == 0.0
    o = accumulator / np.where(empty, np.float32(1.0), total)[..., None]
    with np.errstate(divide="ignore"):
        lse = np.where(empty, -np.inf, maximum + np.log(total))
    return o.astype(storage), lse.astype(np.float32)


def same_dtype_attention_bwd(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    do: np.ndarray,
    causal: bool | str = False,
    scale: float | None = None,
    **options: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(dq, dk, dv) in q's dtype; P and dS are rounded to it before they enter a product."""
    o, lse = same_dtype_attention(q, k, v, causal, scale, **options)
    group = check_shapes(q, k, v)
    logits, v_heads = _float32_logits(q, k, v, causal, scale, options)
    checked = _checked(q.shape[3], causal, scale, options)
    k_heads = np.repeat(k, group, axis=1).astype(np.float32)
    q_wide, do_wide = q.astype(np.float32), do.astype(np.float32)
    slope = np.float32(1.0)
    if checked.softcap is not None:
        slope = attention_logits(q_wide, k_heads, checked)[1]
    hidden = np.isneginf(logits) | np.isneginf(lse)[..., None]
    weights = np.exp(np.where(hidden, -np.inf, logits - np.where(hidden, 0.0, lse[..., None])))
    delta = (o.astype(np.float32) * do_wide).sum(axis=-1, keepdims=True, dtype=np.float32)
    d_weights = do_wide @ np.swapaxes(v_heads, -1, -2)
    storage = q.dtype
    d_logits = (weights * (d_weights - delta) * slope).astype(storage).astype(np.float32)
    rounded = weights.astype(storage).astype(np.float32)
    dq = np.float32(checked.scale) * (d_logits @ k_heads)
    dk = np.float32(checked.scale) * (np.swapaxes(d_logits, -1, -2) @ q_wide)
    dv = np.swapaxes(rounded, -1, -2) @ do_wide
    return dq.astype(storage), _sum_groups(dk, group, storage), _sum_groups(dv, group, storage)


def _checked(
    head_dim: int, causal: bool | str, scale: float | None, options: dict[str, Any]
) -> Any:
    known = ("window", "softcap", "bias", "alibi_slopes")
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise TypeError(f"unknown attention options {unknown}; known: {known}")
    return attention_options(head_dim, causal, scale, *(options.get(name) for name in known))


def _float32_logits(
    q: np.ndarray, k: np.ndarray, v: np.ndarray,
    causal: bool | str, scale: float | None, options: dict[str, Any],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Float32 logits (-inf where hidden) and the values widened and repeated per query head."""
    group = check_shapes(q, k, v)
    checked = _checked(q.shape[3], causal, scale, options)
    k_heads = np.repeat(k, group, axis=1).astype(np.float32)
    logits, _ = attention_logits(q.astype(np.float32), k_heads, checked)
    return logits.astype(np.float32), np.repeat(v, group, axis=1).astype(np.float32)


def _sum_groups(gradient: np.ndarray, group: int, storage: np.dtype) -> np.ndarray:
    batch, heads, *rest = gradient.shape
    grouped = gradient.reshape(batch, heads // group, group, *rest)
    return grouped.sum(axis=2, dtype=np.float32).astype(storage)
