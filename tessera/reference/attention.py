"""Float64 attention forward: softmax over the visible keys only, and its log-sum-exp."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tessera.errors import OptionError
from tessera.reference.visibility import (
    AttentionOptions,
    alibi_bias,
    attention_options,
    check_shapes,
    visible_keys,
)
from tessera.reference.widen import as_float64, visible_product


def flash_attn(
    q: Any,
    k: Any,
    v: Any,
    causal: bool | str = False,
    scale: float | None = None,
    *,
    window: Sequence[int | None] | None = None,
    softcap: float | None = None,
    bias: Any = None,
    alibi_slopes: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Attention in float64: (o [batch, heads, seq_q, head_dim_v], lse [batch, heads, seq_q]).

    q [batch, heads, seq_q, head_dim], k [batch, heads_k, seq_k, head_dim] and
    v [batch, heads_k, seq_k, head_dim_v]; heads is a multiple of heads_k, and query head h reads
    key head h // (heads // heads_k). The logits are

        softcap * tanh(scale * q.k / softcap) + bias - slope * |position - key|

    with each part present only when its option is given. lse is their natural log-sum-exp over
    visible keys. A row without a visible key (or with logits of -inf only) has o = 0, lse = -inf.

    With cu_seqlens_q and cu_seqlens_k, batch is 1 and the sequence axes hold sequences one behind
    the other: sequence s takes rows cu_seqlens[s] to cu_seqlens[s + 1]. Rows beyond the last
    sequence are 0 with lse -inf.

    Raises ShapeError and OptionError, naming the operand or the option.
    """
    q, k, v = as_float64(q, "q"), as_float64(k, "k"), as_float64(v, "v")
    group = check_shapes(q, k, v)
    options = attention_options(q.shape[3], causal, scale, window, softcap, bias, alibi_slopes)
    o = np.zeros((*q.shape[:3], v.shape[3]))
    lse = np.full(q.shape[:3], -np.inf)
    for rows, keys in sequences(q.shape, k.shape, options, cu_seqlens_q, cu_seqlens_k):
        k_part = np.repeat(k[:, :, keys], group, axis=1)
        v_part = np.repeat(v[:, :, keys], group, axis=1)
        logits, _ = attention_logits(q[:, :, rows], k_part, options)
        probabilities, lse[:, :, rows] = softmax_rows(logits)
        o[:, :, rows] = visible_product(probabilities, v_part)
    return o, lse


def sequences(
    q_shape: tuple[int, ...],
    k_shape: tuple[int, ...],
    options: AttentionOptions,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
) -> Iterator[tuple[slice, slice]]:
    """The (query rows, key rows) of each independent problem along the sequence axes."""
    if cu_seqlens_q is None and cu_seqlens_k is None:
        yield slice(0, q_shape[2]), slice(0, k_shape[2])
        return
    if cu_seqlens_q is None or cu_seqlens_k is None:
        raise OptionError("cu_seqlens_q and cu_seqlens_k are given together or not at all")
    if q_shape[0] != 1:
        raise OptionError(f"cu_seqlens_q: batch is {q_shape[0]}, expected 1 (packed sequences)")
    if options.bias is not None:
        raise OptionError("bias is not defined together with cu_seqlens_q")
    starts_q = _checked_starts(cu_seqlens_q, q_shape[2], "cu_seqlens_q")
    starts_k = _checked_starts(cu_seqlens_k, k_shape[2], "cu_seqlens_k")
    if len(starts_q) != len(starts_k):
        raise OptionError(f"cu_seqlens_q has {len(starts_q)} entries, cu_seqlens_k {len(starts_k)}")
    for index in range(len(starts_q) - 1):
        yield (
            slice(starts_q[index], starts_q[index + 1]),
            slice(starts_k[index], starts_k[index + 1]),
        )


def _checked_starts(cu_seqlens: Any, total: int, name: str) -> list[int]:
    starts = [int(value) for value in cu_seqlens]
    if not starts or starts[0] != 0 or starts[-1] > total or sorted(starts) != starts:
        raise OptionError(f"{name}={starts} must ascend from 0 to at most {total}")
    return starts


def attention_logits(
    q: np.ndarray, k: np.ndarray, options: AttentionOptions
) -> tuple[np.ndarray, np.ndarray | float]:
    """Logits with -inf where hidden, and d(logit)/d(scale * q.k), for equal head counts."""
    batch, heads, seq_q, _ = q.shape
    seq_k = k.shape[2]
    with np.errstate(invalid="ignore"):  # NaN of a hidden key is replaced below
        logits = options.scale * (q @ np.swapaxes(k, -1, -2))
    slope: np.ndarray | float = 1.0
    if options.softcap is not None:
        capped = np.tanh(logits / options.softcap)
        logits, slope = options.softcap * capped, 1.0 - capped**2
    if options.bias is not None:
        logits = logits + np.broadcast_to(options.bias, logits.shape)
    logits = logits + alibi_bias(options, batch, heads, seq_q, seq_k)
    visible = visible_keys(options, seq_q, seq_k)
    return np.where(visible, logits, -np.inf), slope


def softmax_rows(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Softmax and log-sum-exp along the last axis; all of -inf gives weights 0 and lse -inf."""
    if logits.shape[-1] == 0:
        return logits, np.full(logits.shape[:-1], -np.inf)
    largest = logits.max(axis=-1, keepdims=True)
    shift = np.where(np.isneginf(largest), 0.0, largest)
    exponentials = np.exp(logits - shift)
    total = exponentials.sum(axis=-1, keepdims=True)
    empty = total == 0.0
    probabilities = exponentials / np.where(empty, 1.0, total)
    with np.errstate(divide="ignore"):
        lse = np.log(total) + shift
    return probabilities, lse[..., 0]
