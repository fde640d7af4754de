"""torch tensors, on the host and on devices of ROCm builds, to descriptions of launches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from tessera.errors import DtypeError, LaunchError, supported
from tessera.runtime.tensors import HOST, NUMPY_DTYPES, ArrayKind, TensorArgument

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i32": torch.int32,
}
"""The torch element type of every dtype name."""

_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_devices: dict[torch.device, str] = {torch.device("cpu"): HOST}


def _describe(value: torch.Tensor, name: str) -> TensorArgument:
    dtype = _NAMES.get(value.dtype)
    if dtype is None:
        raise DtypeError(f"argument {name!r} has element type {value.dtype}; " + supported(DTYPES))
    if value.is_neg():
        raise LaunchError(f"argument {name!r} is a negated view; call resolve_neg() on it")
    where = _devices.get(value.device) or _device(value.device, name)
    return TensorArgument(tuple(value.shape), value.stride(), dtype, value.data_ptr(), where, value)


def _device(device: torch.device, name: str) -> str:
    """What a device is called here; CUDA devices are AMD's in ROCm builds only."""
    if device.type != "cuda" or torch.version.hip is None:
        raise LaunchError(
            f"argument {name!r} lies on torch device {device}; "
            + supported(["cpu", "cuda of a ROCm build of torch"])
        )
    where = _devices[device] = f"hip:{device.index or 0}"
    return where


def _empty(shape: Sequence[int], dtype: str, device: str) -> torch.Tensor:
    where = device.replace("hip:", "cuda:")
    return torch.empty(tuple(shape), dtype=DTYPES[dtype], device=where)


def _host_array(value: torch.Tensor) -> np.ndarray:
    value = value.detach()
    if value.dtype == torch.bfloat16:
        return value.view(torch.uint16).numpy().view(NUMPY_DTYPES["bf16"])
    return value.numpy()


def _view(value: torch.Tensor, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    return value.as_strided(tuple(shape), tuple(strides))


def _stream(device: str) -> int:
    index = int(device.partition(":")[2])
    return torch.cuda.current_stream(index).cuda_stream


TORCH = ArrayKind(
    "torch",
    _describe,
    _empty,
    _host_array,
    _view,
    stream=_stream,
    address=torch.Tensor.data_ptr,
    # The allocator gives memory out again only after the work that its streams hold.
    orders_frees=True,
)
