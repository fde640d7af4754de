"""Arrays of any library to the description that launches work with; NumPy's among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

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
ALIGNMENT_CLASS = 16
"""Addresses are told apart modulo this many bytes: the widest access of a kernel."""

HOST = "cpu"


class TensorArgument(NamedTuple):
    """One tensor of a call: sizes and strides in elements, its first element's address in bytes.

    `device` is "cpu" or "hip:<index>"; `value` is an object that keeps the memory alive.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    address: int
    device: str
    value: Any


@dataclass(frozen=True)
class ArrayKind:
    """How one library's tensors are described, made and seen as NumPy arrays on the host.

    `stream` gives the handle of the stream that the library works on now, on a device.
    `orders_frees` says that it reuses memory only after the work that its streams hold.
    """

    name: str
    describe: Callable[[Any, str], TensorArgument]
    empty: Callable[[Sequence[int], str, str], Any]
    host_array: Callable[[Any], np.ndarray]
    view: Callable[[Any, Sequence[int], Sequence[int]], Any]
    stream: Callable[[str], int]
    address: Callable[[Any], int]
    orders_frees: bool = False


def kind_of(value: Any, name: str) -> ArrayKind:
    """The library that a value belongs to; LaunchError names the argument and its type."""
    kind = _kinds.get(type(value)) or _find_kind(value)
    if kind is None:
        raise LaunchError(
            f"argument {name!r} is a {type(value).__module__}.{type(value).__qualname__}; "
            + supported(
                [
                    "numpy.ndarray",
                    "torch.Tensor",
                    "objects with __dlpack__ or __cuda_array_interface__",
                ]
            )
        )
    return kind


def device_kind() -> ArrayKind:
    """The kind of `DeviceArray`, in which results of foreign libraries' tensors come."""
    from tessera.runtime.device_array import DEVICE

    return DEVICE


_kinds: dict[type, ArrayKind] = {}


def _find_kind(value: Any) -> ArrayKind | None:
    """Find, and remember by type; torch is not imported before a tensor of it came."""
    kind, type_ = None, type(value)
    if any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in type_.__mro__):
        from tessera.runtime.torch_tensors import TORCH

        kind = TORCH
    elif issubclass(type_, np.ndarray):
        kind = NUMPY
    elif type_.__module__ == "tessera.runtime.device_array":
        kind = device_kind()
    elif hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack__"):
        from tessera.runtime.foreign_arrays import FOREIGN

        kind = FOREIGN
    if kind is not None:
        _kinds[type_] = kind
    return kind


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


NUMPY = ArrayKind(
    "numpy",
    _describe_numpy,
    _empty_numpy,
    lambda value: value,
    _view_numpy,
    stream=lambda device: 0,
    address=lambda value: value.__array_interface__["data"][0],
)
