"""What a prepared call consists of: buffers, kernel launches and their arguments as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tessera.contracts import DTYPE_BYTES

ELEMENT_BYTES: Mapping[str, int] = {**DTYPE_BYTES, "f64": 8}
"""Bytes of one element of a buffer, by dtype name."""

INPUT, OUTPUT, TEMPORARY = "input", "output", "temporary"


@dataclass(frozen=True)
class Slot:
    """One buffer of a call: `index` counts the arguments, the output buffers or the temporaries.

    `elements` spans from the first element to the last one, gaps of the strides included.
    """

    role: str
    index: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Elements from the first to the last one."""
        return extent(self.shape, self.strides)

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.elements * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class Value:
    """A tensor of the plan: a slot, seen under a shape and strides in elements."""

    slot: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    alignment_class: int = 0


@dataclass(frozen=True)
class ScalarArgument:
    """A kernel argument passed by value."""

    dtype: str
    value: int | float


@dataclass(frozen=True)
class KernelLaunch:
    """One kernel launch: workgroups, threads per workgroup, arguments (a slot, or a scalar)."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[int | ScalarArgument, ...]


@dataclass(frozen=True)
class PreparedStep:
    """One operation of the plan with its tensors bound, and the kernels that compute it."""

    contract: str
    options: Mapping[str, Any]
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    kernels: tuple[KernelLaunch, ...]


@dataclass(frozen=True)
class PreparedLaunch:
    """Everything about a call that does not change while shapes, strides and dtypes stay.

    `given` says for each output buffer which result's own tensor it is, or None for a fresh one.
    """

    slots: tuple[Slot, ...]
    steps: tuple[PreparedStep, ...]
    results: tuple[Value, ...]
    given: tuple[int | None, ...]

    @property
    def outputs(self) -> tuple[Slot, ...]:
        """The output buffers in order."""
        return tuple(slot for slot in self.slots if slot.role == OUTPUT)

    @property
    def kernels(self) -> tuple[KernelLaunch, ...]:
        """All kernel launches in order."""
        return tuple(kernel for step in self.steps for kernel in step.kernels)


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last element of a strided tensor; 0 when it is empty."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def normal_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The same strides, with those that no index ever uses as a contiguous tensor has them."""
    if 0 in shape:
        return contiguous_strides(shape)
    result = list(strides)
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] == 1:
            inner = axis + 1
            result[axis] = shape[inner] * result[inner] if inner < len(shape) else 1
    return tuple(result)
