"""PyTorch's scaled_dot_product_attention, by its argument names, to a call of flash_attn."""

from __future__ import annotations

import torch

from tessera.errors import OptionError, ShapeError
from tessera.pytorch.attention import flash_attn

RANK = 4


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    executor: str | None = None,
) -> torch.Tensor:
    """What torch.nn.functional.scaled_dot_product_attention computes; [..., seq, head_dim] tensors.

    `is_causal` is top-left: query i sees keys 0 to i. `attn_mask` is boolean, True where a key is
    seen, or added to the scores, and broadcasts to [..., seq_q, seq_k]. With `enable_gqa` query
    heads may be a multiple of the key heads. A row that sees no key gives 0. `executor` is that of
    `tessera.pytorch.flash_attn`.
    Raises OptionError for dropout_p other than 0, which is not built, and for an attn_mask beside
    is_causal; ShapeError for heads that differ without enable_gqa.
    """
    if dropout_p != 0.0:
        raise OptionError(
            f"scaled_dot_product_attention: dropout_p = {dropout_p} is not built; supported: 0.0"
        )
    if is_causal and attn_mask is not None:
        raise OptionError(
            "scaled_dot_product_attention: attn_mask together with is_causal is not defined"
        )
    for name, operand in (("query", query), ("key", key), ("value", value)):
        if operand.dim() < 2:
            raise ShapeError(
                f"scaled_dot_product_attention: {name} has rank {operand.dim()}; expected "
                "[..., seq, head_dim]"
            )
    heads, heads_k = (one.shape[-3] if one.dim() > 2 else 1 for one in (query, key))
    if heads != heads_k and not enable_gqa:
        raise ShapeError(
            f"scaled_dot_product_attention: query has {heads} heads and key has {heads_k}; "
            "enable_gqa=True lets them differ"
        )
    bias = None
    if attn_mask is not None:
        bias = _as_bias(attn_mask, query)
        if query.dim() > RANK and bias.dim() >= RANK:
            bias = bias.expand(*query.shape[:-1], key.shape[-2]).flatten(0, query.dim() - RANK)
    o = flash_attn(
        _rank_four(query), _rank_four(key), _rank_four(value), "top_left" if is_causal else False,
        scale, bias=bias, executor=executor,
    )  # fmt: skip
    assert isinstance(o, torch.Tensor)
    return o.reshape(*query.shape[:-1], value.shape[-1])


def _as_bias(mask: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """A boolean mask as what is added to the scores: 0 where True, -inf where False."""
    if mask.dtype != torch.bool:
        return mask
    zero = torch.zeros((), dtype=query.dtype, device=query.device)
    return torch.where(mask, zero, float("-inf"))


def _rank_four(tensor: torch.Tensor) -> torch.Tensor:
    """[batch, heads, seq, head_dim]: leading axes of size 1 added, or more than two flattened."""
    if tensor.dim() > RANK:
        return tensor.flatten(0, tensor.dim() - RANK)
    return tensor[(None,) * (RANK - tensor.dim())]
