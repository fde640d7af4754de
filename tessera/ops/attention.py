"""Attention of traced tensors, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from tessera.contracts import CAUSAL_MODES
from tessera.errors import OptionError, supported
from tessera.frontend.tracer import Tracer
from tessera.ops.checks import flag, given_only, number, schedule_of, tensors

CAUSAL_VALUES = {False: "none", True: "bottom_right", **{mode: mode for mode in CAUSAL_MODES}}
ATTENTION_SCHEDULE = ("waves", "queries_per_wave", "keys_per_step")
BACKWARD_SCHEDULE = ("waves", "rows_per_step")


def flash_attn(
    q: Tracer,
    k: Tracer,
    v: Tracer,
    causal: bool | str = False,
    scale: float | None = None,
    return_lse: bool = False,
    schedule: Mapping[str, int] | None = None,
    *,
    window: Sequence[int | None] | None = None,
    softcap: float | None = None,
    bias: Tracer | None = None,
    alibi_slopes: Tracer | None = None,
    cu_seqlens_q: Tracer | None = None,
    cu_seqlens_k: Tracer | None = None,
) -> Any:
    """o = softmax(s) v with s = scale q k^T, without a score matrix in memory.

    q is [batch, heads, seq_q, head_dim], k and v [batch, heads_k, seq_k, head_dim(_v)], all f16 or
    all bf16; heads must be a multiple of heads_k (grouped heads), head_dim 1 to 256. `causal` is
    False, "top_left" or "bottom_right"; True means "bottom_right". `scale` is head_dim^-1/2 when
    None. Rows that see no key give 0. With `return_lse` the result is (o, lse), lse being
    [batch, heads, seq_q] f32, the natural log of each row's sum, -inf for rows that see no key.

    With position = query, plus seq_k - seq_q except under "top_left", further options are
    `window` (left, right): keys from position - left to position + right, None or -1 for no limit;
    `softcap`: s becomes softcap tanh(s / softcap); `bias` (f16, bf16 or f32, broadcast to [batch,
    heads, seq_q, seq_k]): added to s; `alibi_slopes` (f32 [heads] or [batch, heads]): slope
    |position - key| is subtracted from s. With `cu_seqlens_q` and `cu_seqlens_k` (i32 [sequences +
    1], ascending from 0 to the number of rows) batch is 1, and sequence i has the rows from entry
    i to entry i + 1 of q, and of k and v.
    Raises ShapeError, DtypeError or OptionError that name the operand and what it is.
    """
    extra = {"bias": bias, "alibi_slopes": alibi_slopes}
    extra |= {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    options = _attention("flash_attn", causal, scale, window, softcap, extra)
    options["schedule"] = schedule_of("flash_attn", schedule, ATTENTION_SCHEDULE)
    operands = tensors("flash_attn", q=q, k=k, v=v, **given_only(extra))
    o, lse = operands[0].trace.tensor_op("flash_attn", operands, options)
    return (o, lse) if flag("flash_attn", "return_lse", return_lse) else o


def flash_attn_bwd(
    q: Tracer,
    k: Tracer,
    v: Tracer,
    o: Tracer,
    lse: Tracer | None,
    do: Tracer,
    causal: bool | str = False,
    scale: float | None = None,
    schedule: Mapping[str, int] | None = None,
    *,
    window: Sequence[int | None] | None = None,
    softcap: float | None = None,
    bias: Tracer | None = None,
    alibi_slopes: Tracer | None = None,
    cu_seqlens_q: Tracer | None = None,
    cu_seqlens_k: Tracer | None = None,
    bias_gradient: bool = False,
) -> tuple[Tracer, ...]:
    """(dq, dk, dv): the gradients of q, k and v where that of o is do; the same bits on every run.

    o and lse are what `flash_attn` gave under the same options; with None for lse it is computed
    again. dk and dv are summed over the query heads that share a key head. Rows that see no key
    give no gradient. With `bias_gradient` the result is (dq, dk, dv, dbias), dbias having the shape
    and dtype of bias.
    Raises ShapeError, DtypeError or OptionError that name the operand and what it is.
    """
    op = "flash_attn_bwd"
    extra = {"bias": bias, "alibi_slopes": alibi_slopes}
    extra |= {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    options = _attention(op, causal, scale, window, softcap, extra)
    options["bias_gradient"] = flag(op, "bias_gradient", bias_gradient) or None
    options["schedule"] = schedule_of(op, schedule, BACKWARD_SCHEDULE)
    options["compute_lse"] = lse is None or None
    statistics = {} if lse is None else {"lse": lse}
    operands = tensors(op, q=q, k=k, v=v, o=o, **statistics, do=do, **given_only(extra))
    return tuple(operands[0].trace.tensor_op(op, operands, options))


def _attention(
    op: str,
    causal: bool | str,
    scale: float | None,
    window: Sequence[int | None] | None,
    softcap: float | None,
    extra: Mapping[str, Tracer | None],
) -> dict[str, object]:
    """The attributes that attention's options become; None for what was not asked for."""
    is_known = isinstance(causal, bool | str) and causal in CAUSAL_VALUES
    if not is_known:
        raise OptionError(f"{op}: causal = {causal!r} is not allowed; " + supported(CAUSAL_VALUES))
    mode = CAUSAL_VALUES[causal]
    left, right = _window(op, window)
    cap = None if softcap is None else number(op, "softcap", softcap)
    if cap is not None and cap <= 0:
        raise OptionError(f"{op}: softcap = {softcap!r} must be positive, or None for no cap")
    starts = [extra[name] is not None for name in ("cu_seqlens_q", "cu_seqlens_k")]
    if starts[0] != starts[1]:
        raise OptionError(f"{op}: cu_seqlens_q and cu_seqlens_k are given together or not at all")
    bias = extra["bias"]
    return {
        "causal": mode if mode != "none" else None,
        "scale": None if scale is None else number(op, "scale", scale),
        "window_left": left,
        "window_right": right,
        "softcap": cap,
        "bias_dtype": bias.spec.dtype if isinstance(bias, Tracer) else None,
        "alibi": extra["alibi_slopes"] is not None or None,
        "variable_lengths": starts[0] or None,
    }


def _window(op: str, window: Sequence[int | None] | None) -> tuple[int | None, int | None]:
    """Keys to the left and to the right of a query's position; None for no limit."""
    if window is None:
        return None, None
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise OptionError(f"{op}: window = {window!r} must be a pair (left, right)")
    sides: list[int | None] = []
    for side in window:
        if side is None or (isinstance(side, Integral) and not isinstance(side, bool)):
            sides.append(None if side is None or side == -1 else int(side))
        else:
            raise OptionError(f"{op}: window = {window!r} must hold integers or None")
        if sides[-1] is not None and sides[-1] < 0:
            raise OptionError(
                f"{op}: window = {window!r}: sides are at least 0, or -1 for no limit"
            )
    return sides[0], sides[1]
