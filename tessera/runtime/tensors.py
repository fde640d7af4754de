"""NumPy arrays, torch tensors and DLPack objects to the description that launches work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from tessera.errors import DtypeError, LaunchError, supported

NUMPY_DTYPES: Mapping[str, np.dtype] = MappingProxyType(
    {
        "f16": np.dtype(np.float16),
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "f32": np.dtype(np.float32),
        "i8": np.dtype(np.int8),
        "u8": np.dtype(np.uint8),
        "i32": np.dtype(np.int32),
    }
)
"""The NumPy element type of every dtype name."""

_NAMES: Mapping[np.dtype, str] = MappingProxyType({d: name for name, d in NUMPY_DTYPES.items()})
_TORCH_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "torch.float16": "f16",
        "torch.bfloat16": "bf16",
        "torch.float32": "f32",
        "torch.int8": "i8",
        "torch.uint8": "u8",
        "torch.int32": "i32",
    }
)

TORCH_NAMES = {name: torch_name for torch_name, name in _TORCH_NAMES.items()}

ALIGNMENT_CLASS = 16
"""Addresses are told apart modulo this many bytes: the widest access of a kernel."""

HOST = "cpu"


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """One tensor of a call: sizes and strides in elements, its first element's address in bytes.

    `device` is "cpu" or "hip:<index>"; `value` is the caller's object, which keeps memory alive.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    address: int
    device: str
    value: Any

    @property
    def key(self) -> tuple[object, ...]:
        """What a launch is specialized on: all but the address above its alignment class."""
        return (self.shape, self.strides, self.dtype, self.address % ALIGNMENT_CLASS, self.device)


@dataclass(frozen=True)
class ArrayKind:
    """How one library's tensors are described, made and seen as NumPy arrays on the host."""

    name: str
    describe: Callable[[Any, str], TensorArgument]
    empty: Callable[[Sequence[int], str, str], Any]
    host_array: Callable[[Any], np.ndarray]
    view: Callable[[Any, Sequence[int], Sequence[int]], Any]


def kind_of(value: Any, name: str) -> ArrayKind:
    """The library that a value belongs to; LaunchError names the argument and its type."""
    kind = _kind_of_type(type(value))
    if kind is None:
        raise LaunchError(
            f"argument {name!r} is a {type(value).__module__}.{type(value).__qualname__}; "
            + supported(["numpy.ndarray", "torch.Tensor", "objects with __dlpack__"])
        )
    return kind


@lru_cache(maxsize=256)
def _kind_of_type(type_: type) -> ArrayKind | None:
    for base in type_.__mro__:
        if base is np.ndarray:
            return NUMPY
        if base.__module__ == "torch" and base.__name__ == "Tensor":
            return TORCH
    return DLPACK if hasattr(type_, "__dlpack__") else None


# NumPy.


def _describe_numpy(value: np.ndarray, name: str) -> TensorArgument:
    dtype = _NAMES.get(value.dtype)
    if dtype is None:
        raise DtypeError(
            f"argument {name!r} has element type {value.dtype}; " + supported(NUMPY_DTYPES)
        )
    size = value.dtype.itemsize
    strides = tuple([stride // size for stride in value.strides])
    if any(stride % size for stride in value.strides):
        raise LaunchError(
            f"argument {name!r} has strides {value.strides} bytes, not multiples of its "
            f"{size}-byte elements"
        )
    return TensorArgument(
        value.shape, strides, dtype, value.__array_interface__["data"][0], HOST, value
    )


def _empty_numpy(shape: Sequence[int], dtype: str, device: str) -> np.ndarray:
    if device != HOST:
        raise LaunchError(f"a numpy array cannot lie on device {device}")
    return np.empty(shape, NUMPY_DTYPES[dtype])


def _view_numpy(value: np.ndarray, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    size = value.dtype.itemsize
    return np.lib.stride_tricks.as_strided(value, shape, [stride * size for stride in strides])


NUMPY = ArrayKind("numpy", _describe_numpy, _empty_numpy, lambda value: value, _view_numpy)


# torch; the module is looked up only once the caller has passed one of its tensors.


def _describe_torch(value: Any, name: str) -> TensorArgument:
    dtype = _TORCH_NAMES.get(str(value.dtype))
    if dtype is None:
        raise DtypeError(
            f"argument {name!r} has element type {value.dtype}; " + supported(_TORCH_NAMES)
        )
    device = value.device
    if device.type == "cpu":
        where = HOST
    elif device.type == "cuda" and _torch_is_rocm():
        where = f"hip:{device.index or 0}"
    else:
        raise LaunchError(
            f"argument {name!r} lies on torch device {device}; "
            + supported(["cpu", "cuda of a ROCm build of torch"])
        )
    return TensorArgument(tuple(value.shape), value.stride(), dtype, value.data_ptr(), where, value)


@lru_cache(maxsize=1)
def _torch_is_rocm() -> bool:
    import torch

    return torch.version.hip is not None


def _empty_torch(shape: Sequence[int], dtype: str, device: str) -> Any:
    import torch

    torch_dtype = getattr(torch, TORCH_NAMES[dtype].removeprefix("torch."))
    where = device.replace("hip:", "cuda:")
    return torch.empty(tuple(shape), dtype=torch_dtype, device=where)


def _host_array_torch(value: Any) -> np.ndarray:
    import torch

    value = value.detach()
    if value.dtype == torch.bfloat16:
        return value.view(torch.uint16).numpy().view(NUMPY_DTYPES["bf16"])
    return value.numpy()


def _view_torch(value: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
    return value.as_strided(tuple(shape), tuple(strides))


TORCH = ArrayKind("torch", _describe_torch, _empty_torch, _host_array_torch, _view_torch)


# Other libraries' tensors in host memory come in through DLPack; their results are NumPy arrays.


def _describe_dlpack(value: Any, name: str) -> TensorArgument:
    return _describe_numpy(_host_array_dlpack(value, name), name)


def _host_array_dlpack(value: Any, name: str = "") -> np.ndarray:
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise LaunchError(
            f"argument {name!r} ({type(value).__qualname__}) cannot be taken over by DLPack into "
            f"host memory: {error}"
        ) from error


DLPACK = ArrayKind("dlpack", _describe_dlpack, _empty_numpy, _host_array_dlpack, _view_numpy)
