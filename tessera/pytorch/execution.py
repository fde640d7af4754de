"""One call of an attention op to results: by compiled kernels, or by the float64 reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tessera import env, ops, reference
from tessera.errors import OptionError, supported
from tessera.frontend.jit import JittedFunction, jit

HOST_EXECUTORS = ("emulator", "reference")
TENSOR_OPTIONS = ("bias", "alibi_slopes", "cu_seqlens_q", "cu_seqlens_k")


@dataclass(frozen=True)
class AttentionCall:
    """The options of one call; -1 is no limit of the window, no executor the environment's."""

    bias: Tensor | None
    alibi_slopes: Tensor | None
    cu_seqlens_q: Tensor | None
    cu_seqlens_k: Tensor | None
    causal: str
    scale: float | None
    window_left: int
    window_right: int
    softcap: float | None
    executor: str

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The options that are tensors and are given, by name."""
        named = {name: getattr(self, name) for name in TENSOR_OPTIONS}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def compiled_in(self) -> tuple[tuple[str, Any], ...]:
        """The other options as (name, value), hashable."""
        window = (self.window_left, self.window_right)
        values = {"scale": self.scale, "window": window, "softcap": self.softcap}
        return (("causal", self.causal), *values.items())

    def executor_for(self, q: Tensor) -> str:
        """The executor of tensors like q; OptionError where the user has to name one."""
        name = self.executor or env.read("TESSERA_EXECUTOR")
        if q.device.type == "cpu":
            if name not in HOST_EXECUTORS:
                raise OptionError(
                    f"flash_attn: q lies in host memory and executor is {name!r}; name the "
                    "executor that shall compute it (executor=, or TESSERA_EXECUTOR); "
                    + supported(HOST_EXECUTORS)
                )
            return name
        if name not in ("auto", "hip"):
            raise OptionError(
                f"flash_attn: q lies on {q.device}, which executor {name!r} does not take; "
                + supported(("hip",))
            )
        return "hip"


def run_forward(call: AttentionCall, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """(o, lse): contiguous, o in the dtype of q."""
    executor = call.executor_for(q)
    if executor == "reference":
        o, lse = reference.flash_attn(
            *_arrays(q, k, v), **_named_arrays(call.tensors), **dict(call.compiled_in)
        )
        statistics = torch.float64 if q.dtype == torch.float64 else torch.float32
        return _tensor(o, q.dtype), _tensor(lse, statistics)
    function = _compiled("forward", tuple(call.tensors), call.compiled_in, False, executor)
    return function(*_rows_contiguous(q, k, v), *call.tensors.values())


def run_backward(
    call: AttentionCall, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor,
    bias_gradient: bool,
) -> list[Tensor]:  # fmt: skip
    """[dq, dk, dv], and dbias behind them where it is asked for: contiguous, dtypes of q, k, v."""
    executor = call.executor_for(q)
    if executor == "reference":
        gradients = reference.flash_attn_bwd(
            *_arrays(q, k, v, o, lse, do), **_named_arrays(call.tensors), **dict(call.compiled_in)
        )
        like = [q, k, v, *([call.bias] if bias_gradient and call.bias is not None else [])]
        return [_tensor(one, kind.dtype) for one, kind in zip(gradients, like)]
    function = _compiled("backward", tuple(call.tensors), call.compiled_in, bias_gradient, executor)
    operands = _rows_contiguous(q, k, v, o, lse.contiguous(), do)
    return list(function(*operands, *call.tensors.values()))


@lru_cache(maxsize=256)
def _compiled(
    direction: str,
    names: tuple[str, ...],
    options: tuple[tuple[str, Any], ...],
    bias_gradient: bool,
    executor: str,
) -> JittedFunction:
    """The jitted function for one set of options; `names` are tensors behind q, k, v (or do)."""

    def flash_attn(q: Any, k: Any, v: Any, *extra: Any) -> Any:
        given = dict(zip(names, extra, strict=True))
        return ops.flash_attn(q, k, v, return_lse=True, **given, **dict(options))

    def flash_attn_bwd(q: Any, k: Any, v: Any, o: Any, lse: Any, do: Any, *extra: Any) -> Any:
        given = dict(zip(names, extra, strict=True))
        return ops.flash_attn_bwd(
            q, k, v, o, lse, do, bias_gradient=bias_gradient, **given, **dict(options)
        )

    return jit(executor=executor)(flash_attn if direction == "forward" else flash_attn_bwd)


def _rows_contiguous(*tensors: Tensor) -> list[Tensor]:
    """The tensors, copied where a row is not contiguous, as in an expanded gradient."""
    return [one if one.stride(-1) == 1 or one.numel() == 0 else one.contiguous() for one in tensors]


def _arrays(*tensors: Tensor) -> list[Any]:
    return [one.detach().double().numpy() for one in tensors]


def _named_arrays(tensors: dict[str, Tensor]) -> dict[str, Any]:
    return dict(zip(tensors, _arrays(*tensors.values())))


def _tensor(values: Sequence[Any] | np.ndarray, dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(dtype)
