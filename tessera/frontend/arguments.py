"""Arguments of a call to tensor specs, compile-time options and a key that tells calls apart."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tessera.contracts import DTYPE_BYTES, TensorSpec
from tessera.errors import LaunchError

WIDEST_ALIGNMENT = 16
"""Bytes of the widest memory access: the alignment class that a tensor is in, or not."""

_DTYPE_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "float16": "f16",
        "half": "f16",
        "bfloat16": "bf16",
        "float32": "f32",
        "float": "f32",
        "float64": "f64",
        "double": "f64",
        **{f"{sign}int{bits}": f"{sign[:1] or 'i'}{bits}" for sign in ("", "u")
           for bits in (8, 16, 32, 64)},
    }
)  # fmt: skip
"""Names of element types in NumPy and PyTorch -> names here; others keep their name."""

_numpy_names: dict[np.dtype[Any], str] = {}


def dtype_name(dtype: Any) -> str:
    """The short name (f16, bf16, f32, ...) of a dtype of NumPy or PyTorch, or of a name of one.

    A name that is not known comes back as it is: who meets it says what is supported.
    """
    if isinstance(dtype, str):
        return _DTYPE_NAMES.get(dtype, dtype)
    if isinstance(dtype, np.dtype):
        name = _numpy_names.get(dtype)
        if name is None:
            name = _numpy_names[dtype] = _DTYPE_NAMES.get(dtype.name, dtype.name)
        return name
    if isinstance(dtype, type) and issubclass(dtype, np.generic):
        return dtype_name(np.dtype(dtype))
    name = getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")
    return _DTYPE_NAMES.get(name, name)


def is_torch_tensor(value: Any) -> bool:
    """Whether `value` is a PyTorch tensor, found out without importing PyTorch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "data_ptr")


def is_tensor(value: Any) -> bool:
    """Whether `value` is an array, or a TensorSpec that stands for one."""
    return isinstance(value, np.ndarray | TensorSpec) or is_torch_tensor(value)


def spec_of_argument(value: Any) -> TensorSpec:
    """Shape and dtype name of an array, of a PyTorch tensor, or of a TensorSpec itself."""
    if isinstance(value, TensorSpec):
        return value
    return TensorSpec(tuple(map(int, value.shape)), dtype_name(value.dtype))


def alignment_of_argument(value: Any) -> int:
    """16 when every row of the array starts at a multiple of 16 bytes, else its element size.

    Rows run along the last axis; strides of axes with one element do not count.
    """
    if isinstance(value, np.ndarray):
        element = value.itemsize
        if value.__array_interface__["data"][0] % WIDEST_ALIGNMENT == 0 and all(
            stride % WIDEST_ALIGNMENT == 0
            for stride, size in zip(value.strides[:-1], value.shape)
            if size > 1
        ):
            return WIDEST_ALIGNMENT
        return element
    if isinstance(value, TensorSpec):
        return DTYPE_BYTES.get(value.dtype, 1)
    element = value.element_size()
    try:
        address = value.data_ptr()
    except RuntimeError as error:
        raise LaunchError(f"a tensor of layout {value.layout} has no strides; copy it") from error
    if address % WIDEST_ALIGNMENT == 0 and all(
        stride * element % WIDEST_ALIGNMENT == 0
        for stride, size in zip(value.stride()[:-1], value.shape)
        if size > 1
    ):
        return WIDEST_ALIGNMENT
    return element


def argument_key(value: Any) -> object:
    """What the specialization for an argument depends on, cheap to make and to hash."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype, alignment_of_argument(value))
    if is_torch_tensor(value):
        return (tuple(value.shape), value.dtype, alignment_of_argument(value))
    if isinstance(value, tuple | list):
        return (type(value), *map(argument_key, value))
    if isinstance(value, dict):
        return tuple((key, argument_key(one)) for key, one in value.items())
    # 1, 1.0 and True are equal and hash alike, but mean different things to a traced function.
    return (type(value), value)


@dataclass(frozen=True)
class Call:
    """The arguments of one call: tensors by name and in order; everything else is an option.

    Tuples, lists and dictionaries are looked into.
    """

    arguments: inspect.BoundArguments

    @property
    def tensors(self) -> list[tuple[str, Any]]:
        """(name, tensor) in the order of the parameters."""
        found: list[tuple[str, Any]] = []
        for name, value in self.arguments.arguments.items():
            _collect(name, value, found)
        return found

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for two calls exactly if one specialization serves both."""
        return tuple(
            (name, argument_key(value)) for name, value in self.arguments.arguments.items()
        )

    def run(self, function: Callable[..., Any], tensors: Sequence[Any]) -> Any:
        """`function` of the arguments, with `tensors` in place of the tensors, in order."""
        rest = iter(tensors)
        replaced = {
            name: _replaced(value, rest) for name, value in self.arguments.arguments.items()
        }
        bound = inspect.BoundArguments(self.arguments.signature, OrderedDict(replaced))
        return function(*bound.args, **bound.kwargs)


def _collect(name: str, value: Any, found: list[tuple[str, Any]]) -> None:
    if is_tensor(value):
        found.append((name, value))
    elif isinstance(value, tuple | list | dict):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            _collect(f"{name}_{key}", item, found)


def _replaced(value: Any, rest: Iterator[Any]) -> Any:
    if is_tensor(value):
        return next(rest)
    if isinstance(value, dict):
        return {key: _replaced(item, rest) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_replaced(item, rest) for item in value)
    return value
