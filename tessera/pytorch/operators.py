"""The custom ops of attention: schema, implementation, fake kernel and autograd, each written out.

An absent limit of the window is -1, and an empty executor the environment's: schemas of ops have
neither pairs of optional numbers nor enumerations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from tessera.errors import OptionError
from tessera.pytorch.execution import AttentionCall, run_backward, run_forward

NO_LIMIT = -1
TENSORS = 7
"""How many of the ops' arguments are tensors: q, k, v, bias, slopes, and both starts."""


def window_sides(window: Sequence[int | None] | None) -> tuple[int, int]:
    """(left, right) with -1 for no limit; OptionError for what is no pair of them."""
    if window is None:
        return NO_LIMIT, NO_LIMIT
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise OptionError(f"flash_attn: window = {window!r} must be a pair (left, right)")
    left, right = (NO_LIMIT if side is None else side for side in window)
    if not isinstance(left, int) or not isinstance(right, int) or min(left, right) < NO_LIMIT:
        raise OptionError(
            f"flash_attn: window = {window!r} must hold numbers of keys, or -1 or None for no limit"
        )
    return left, right


def _flash_attn(
    q: Tensor, k: Tensor, v: Tensor,
    bias: Tensor | None, alibi_slopes: Tensor | None,
    cu_seqlens_q: Tensor | None, cu_seqlens_k: Tensor | None,
    causal: str, scale: float | None, window_left: int, window_right: int, softcap: float | None,
    executor: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    call = AttentionCall(
        bias, alibi_slopes, cu_seqlens_q, cu_seqlens_k,
        causal, scale, window_left, window_right, softcap, executor,
    )  # fmt: skip
    return run_forward(call, q, k, v)


def _flash_attn_bwd(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor,
    bias: Tensor | None, alibi_slopes: Tensor | None,
    cu_seqlens_q: Tensor | None, cu_seqlens_k: Tensor | None,
    causal: str, scale: float | None, window_left: int, window_right: int, softcap: float | None,
    bias_gradient: bool, executor: str,
) -> list[Tensor]:  # fmt: skip
    call = AttentionCall(
        bias, alibi_slopes, cu_seqlens_q, cu_seqlens_k,
        causal, scale, window_left, window_right, softcap, executor,
    )  # fmt: skip
    return run_backward(call, q, k, v, o, lse, do, bias_gradient)


FLASH_ATTN: Any = custom_op("tessera::flash_attn", _flash_attn, mutates_args=())
FLASH_ATTN_BWD: Any = custom_op("tessera::flash_attn_bwd", _flash_attn_bwd, mutates_args=())


def _fake_forward(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """Results as they will be: contiguous, o like q, lse in float32 (in float64 of float64)."""
    o = q.new_empty((*q.shape[:-1], v.shape[-1]))
    return o, q.new_empty(q.shape[:-1], dtype=lse_dtype(q))


def _fake_backward(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor,
    bias: Tensor | None, *rest: Any,
) -> list[Tensor]:  # fmt: skip
    bias_gradient = rest[-2]
    like = [q, k, v, *([bias] if bias_gradient and bias is not None else [])]
    return [one.new_empty(one.shape) for one in like]


def lse_dtype(q: Tensor) -> torch.dtype:
    """float32, or float64 of float64 operands, which only the reference takes."""
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    o, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(*inputs[:TENSORS], o, lse)
    ctx.options = inputs[TENSORS:]


def _backward(ctx: Any, do: Tensor, dlse: Tensor | None) -> tuple[Tensor | None, ...]:
    """Gradients of q, k, v and bias; alibi_slopes has none, and says so."""
    q, k, v, bias, alibi_slopes, cu_seqlens_q, cu_seqlens_k, o, lse = ctx.saved_tensors
    needs = ctx.needs_input_grad
    if needs[4]:
        raise OptionError("flash_attn: a gradient of alibi_slopes is not built")
    bias_gradient = bias is not None and needs[3]
    *options, executor = ctx.options
    gradients = FLASH_ATTN_BWD(
        q, k, v, o, lse, do, bias, alibi_slopes, cu_seqlens_q, cu_seqlens_k,
        *options, bias_gradient, executor,
    )  # fmt: skip
    dq, dk, dv = gradients[:3]
    dbias = gradients[3] if bias_gradient else None
    return (dq, dk, dv, dbias, *[None] * (len(needs) - 4))


FLASH_ATTN.register_fake(_fake_forward)
FLASH_ATTN_BWD.register_fake(_fake_backward)
FLASH_ATTN.register_autograd(_backward, setup_context=_setup_context)
