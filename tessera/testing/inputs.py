"""Sizes and input tensors on which faulty kernels are known to differ from right ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

LENGTHS = (0, 1, 2, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 127, 129)
"""Sequence lengths around every tile edge."""
HEAD_DIMS = (16, 40, 64, 72, 80, 96, 128, 256)
MATMUL_SIZES = (0, 1, 15, 16, 17, 33, 64, 129)


class AttentionInputs(NamedTuple):
    """q [batch, heads, seq_q, head_dim], k and v [batch, heads, seq_k, head_dim]."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray


def random_tensor(
    shape: tuple[int, ...], dtype: Any, seed: int, deviation: float = 1.0
) -> np.ndarray:
    """Normal numbers, drawn in float64 and rounded once to `dtype`."""
    values = np.random.default_rng(seed).standard_normal(shape) * deviation
    return values.astype(dtype)


def random_attention(
    seq_q: int, seq_k: int, head_dim: int, dtype: Any,
    batch: int = 1, heads: int = 1, seed: int = 0,
) -> AttentionInputs:  # fmt: skip
    """Standard normal q, k, v."""
    return AttentionInputs(
        random_tensor((batch, heads, seq_q, head_dim), dtype, seed),
        random_tensor((batch, heads, seq_k, head_dim), dtype, seed + 1),
        random_tensor((batch, heads, seq_k, head_dim), dtype, seed + 2),
    )


def uniform_weights(
    seq_q: int, seq_k: int, head_dim: int, dtype: Any, values: Any = None
) -> AttentionInputs:
    """q = k = 0: every visible key weighs the same, so o is a plain mean and lse the log of n.

    Row j of v holds values[j] in every column, by default j. A key too many or too few, a shifted
    mask and a permuted row all change the mean.
    """
    column = np.arange(seq_k) if values is None else np.asarray(values)
    return AttentionInputs(
        np.zeros((1, 1, seq_q, head_dim), dtype),
        np.zeros((1, 1, seq_k, head_dim), dtype),
        _repeated(column, head_dim, dtype),
    )


def one_hot_values(seq_q: int, seq_k: int, head_dim: int, dtype: Any) -> AttentionInputs:
    """q = k = 0 and v[j, d] = d: o[i, d] = d shows each channel's place, on its own."""
    q, k, _ = uniform_weights(seq_q, seq_k, head_dim, dtype)
    v = np.broadcast_to(np.arange(head_dim), (1, 1, seq_k, head_dim)).astype(dtype)
    return AttentionInputs(q, k, v)


def growing_maximum(
    seq_q: int, seq_k: int, head_dim: int, dtype: Any, step: float = 0.25
) -> AttentionInputs:
    """Logits that rise with the key, by `step` per group of 16: every tile rescales the last."""
    groups = np.arange(seq_k) // 16
    scale_back = step / np.sqrt(head_dim)
    q = np.ones((1, 1, seq_q, head_dim), dtype)
    k = _repeated(groups * scale_back, head_dim, dtype)
    return AttentionInputs(q, k, _repeated(groups + 1, head_dim, dtype))


def large_logits(
    seq_q: int, seq_k: int, head_dim: int, dtype: Any, deviation: float = 16.0, seed: int = 0
) -> AttentionInputs:
    """Normal q and k of the given deviation: logits of deviation**2 that overflow f16 and exp."""
    return AttentionInputs(
        random_tensor((1, 1, seq_q, head_dim), dtype, seed, deviation),
        random_tensor((1, 1, seq_k, head_dim), dtype, seed + 1, deviation),
        random_tensor((1, 1, seq_k, head_dim), dtype, seed + 2),
    )


def _repeated(column: Any, head_dim: int, dtype: Any) -> np.ndarray:
    values = np.asarray(column, dtype=np.float64)[None, None, :, None]
    return np.repeat(values, head_dim, axis=3).astype(dtype)
