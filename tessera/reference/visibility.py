"""The options of attention, checked, and which key each query sees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessera.errors import OptionError, ShapeError, supported
from tessera.reference.widen import as_float64

NONE = "none"
TOP_LEFT = "top_left"
BOTTOM_RIGHT = "bottom_right"
CAUSAL_MODES = (False, True, NONE, TOP_LEFT, BOTTOM_RIGHT)


@dataclass(frozen=True)
class AttentionOptions:
    """Options of one attention call in checked form.

    `window` is (left, right) counted in keys on either side of the query's own position, both
    inclusive, None or -1 for no limit. `bias` broadcasts to [batch, heads, seq_q, seq_k], and
    `alibi_slopes` is [heads] or [batch, heads].
    """

    causal: str
    scale: float
    window: tuple[int | None, int | None]
    softcap: float | None
    bias: np.ndarray | None
    alibi_slopes: np.ndarray | None


def attention_options(
    head_dim: int,
    causal: bool | str,
    scale: float | None,
    window: Sequence[int | None] | None,
    softcap: float | None,
    bias: Any,
    alibi_slopes: Any,
) -> AttentionOptions:
    """Check the options; `causal=True` is bottom-right, `scale=None` is 1 / sqrt(head_dim)."""
    if softcap is not None and not softcap > 0:
        raise OptionError(f"softcap={softcap} is not positive; None for no cap")
    default_scale = 1.0 / math.sqrt(head_dim) if head_dim else 1.0
    return AttentionOptions(
        causal=causal_mode(causal),
        scale=default_scale if scale is None else float(scale),
        window=_window(window),
        softcap=softcap,
        bias=None if bias is None else as_float64(bias, "bias"),
        alibi_slopes=None if alibi_slopes is None else as_float64(alibi_slopes, "alibi_slopes"),
    )


def causal_mode(causal: bool | str) -> str:
    """One of "none", "top_left", "bottom_right"; raises OptionError for anything else."""
    if causal is False or causal == NONE:
        return NONE
    if causal is True or causal == BOTTOM_RIGHT:
        return BOTTOM_RIGHT
    if causal == TOP_LEFT:
        return TOP_LEFT
    raise OptionError(f"causal={causal!r} is unknown; {supported(CAUSAL_MODES)}")


def _window(window: Sequence[int | None] | None) -> tuple[int | None, int | None]:
    if window is None:
        return None, None
    if len(window) != 2:
        raise OptionError(f"window={window!r} is not a pair (left, right)")
    left, right = (None if side is None or side < 0 else int(side) for side in window)
    return left, right


def alignment_offset(causal: str, seq_q: int, seq_k: int) -> int:
    """Position of query 0 on the key axis: 0 for top-left, seq_k - seq_q otherwise.

    Window and ALiBi use the same position as the causal mask does.
    """
    return 0 if causal == TOP_LEFT else seq_k - seq_q


def visible_keys(options: AttentionOptions, seq_q: int, seq_k: int) -> np.ndarray:
    """Boolean [seq_q, seq_k]: whether query i sees key j."""
    offset = alignment_offset(options.causal, seq_q, seq_k)
    position = np.arange(seq_q)[:, None] + offset
    key = np.arange(seq_k)[None, :]
    visible = np.ones((seq_q, seq_k), dtype=bool)
    if options.causal != NONE:
        visible &= key <= position
    left, right = options.window
    if left is not None:
        visible &= key >= position - left
    if right is not None:
        visible &= key <= position + right
    return visible


def alibi_bias(options: AttentionOptions, batch: int, heads: int, seq_q: int, seq_k: int) -> Any:
    """-slope * |position - key| as [batch or 1, heads, seq_q, seq_k], or 0.0 without slopes.

    Press, Smith, Lewis, "Train Short, Test Long", 2021, in the two-sided form.
    """
    slopes = options.alibi_slopes
    if slopes is None:
        return 0.0
    if slopes.shape not in ((heads,), (batch, heads)):
        raise ShapeError(
            f"alibi_slopes has shape {slopes.shape}, expected ({heads},) or ({batch}, {heads})"
        )
    offset = alignment_offset(options.causal, seq_q, seq_k)
    distance = np.abs(np.arange(seq_q)[:, None] + offset - np.arange(seq_k)[None, :])
    return -slopes.reshape(-1, heads, 1, 1) * distance


def check_shapes(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> int:
    """Check ranks and sizes of q, k, v; the number of query heads per key head."""
    for name, operand in (("q", q), ("k", k), ("v", v)):
        if operand.ndim != 4:
            raise ShapeError(
                f"flash_attn: operand {name} has rank {operand.ndim}, expected 4: "
                "[batch, heads, seq, head_dim]"
            )
    for axis, name in ((0, "batch"), (1, "heads_k"), (2, "seq_k")):
        if k.shape[axis] != v.shape[axis]:
            raise ShapeError(f"flash_attn: {name} is {k.shape[axis]} in k, {v.shape[axis]} in v")
    if q.shape[0] != k.shape[0]:
        raise ShapeError(f"flash_attn: batch is {q.shape[0]} in q, {k.shape[0]} in k")
    if q.shape[3] != k.shape[3]:
        raise ShapeError(f"flash_attn: head_dim is {q.shape[3]} in q, {k.shape[3]} in k")
    heads, heads_k = q.shape[1], k.shape[1]
    if heads == heads_k:
        return 1
    if heads_k == 0 or heads % heads_k:
        raise ShapeError(f"flash_attn: {heads} query heads are no multiple of {heads_k} key heads")
    return heads // heads_k
