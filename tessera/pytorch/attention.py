"""PyTorch tensors and attention options to o, with gradients, on the executor that users name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tessera.errors import OptionError, supported
from tessera.pytorch import operators

CAUSAL = {
    False: "none", True: "bottom_right", "none": "none",
    "top_left": "top_left", "bottom_right": "bottom_right",
}  # fmt: skip


def flash_attn(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool | str = False,
    scale: float | None = None,
    *,
    window: Sequence[int | None] | None = None,
    softcap: float | None = None,
    bias: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None,
    return_lse: bool = False,
    executor: str | None = None,
) -> Any:
    """o = softmax(scale q k^T) v of PyTorch tensors, with gradients for q, k, v (and bias).

    Shapes and options are those of `tessera.ops.flash_attn`: q [batch, heads, seq_q, head_dim] in
    float16 or bfloat16, `causal=True` is bottom-right. With `return_lse` the result is (o, lse);
    lse has no gradient.

    Tensors on a device run there, on its current stream. For tensors in host memory `executor`, or
    the environment's TESSERA_EXECUTOR, must name one: "emulator" runs the kernels' machine code,
    "reference" computes in float64 and takes float32 and float64 as well.
    Raises OptionError, ShapeError or DtypeError that name the option or the operand.
    """
    if not isinstance(causal, bool | str) or causal not in CAUSAL:
        raise OptionError(f"flash_attn: causal = {causal!r} is not allowed; {supported(CAUSAL)}")
    left, right = operators.window_sides(window)
    others = {
        "k": k, "v": v, "bias": bias, "alibi_slopes": alibi_slopes,
        "cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k,
    }  # fmt: skip
    for name, other in others.items():
        # PyTorch would hand a mixture with a meta tensor to the kernel that computes nothing.
        if other is not None and other.device != q.device:
            raise OptionError(
                f"flash_attn: operand {name!r} lies on {other.device}, q on {q.device}; "
                "all tensors must lie on one device"
            )
    o, lse = operators.FLASH_ATTN(
        q, k, v, bias, alibi_slopes, cu_seqlens_q, cu_seqlens_k,
        CAUSAL[causal], scale, left, right, softcap, executor or "",
    )  # fmt: skip
    return (o, lse) if return_lse else o
