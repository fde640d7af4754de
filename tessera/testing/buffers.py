"""Values to buffers surrounded by poison, which show reads and writes beyond the tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_ALIGNMENT = 256
_INTEGER_POISON = 0x5A
_NAN_POISON = {2: 0x7FDA, 4: 0x7FDA5A5A, 8: 0x7FF85A5A5A5A5A5A}
"""Bits of a quiet NaN by element size; the 2-byte pattern is NaN as f16 and as bf16."""


@dataclass(frozen=True)
class GuardedBuffer:
    """A tensor inside a larger allocation whose every other element holds poison.

    `array` is the view to hand to a kernel. Poison is NaN for floating types, so that a value read
    from outside spreads into the result, and 0x5A bytes for integers.
    """

    array: np.ndarray
    _storage: np.ndarray
    _outside: np.ndarray
    _poison: int

    def check(self, name: str = "buffer") -> None:
        """Raise AssertionError if any element outside the tensor was written."""
        changed = np.flatnonzero(self._outside & (self._storage != self._poison))
        if changed.size:
            first = int(np.flatnonzero(~self._outside)[0]) if (~self._outside).any() else 0
            raise AssertionError(
                f"{name}: {changed.size} elements outside the tensor were written, the first at "
                f"element {int(changed[0]) - first} from its start"
            )


def guarded_empty(
    shape: Sequence[int],
    dtype: Any,
    *,
    capacity: Sequence[int] | None = None,
    offset: int = 0,
    canary: int = 64,
) -> GuardedBuffer:
    """A tensor of `shape` that itself holds poison: what a kernel does not write stays visible.

    `capacity` is the shape of the block that it is cut from, at least `shape` along each axis: it
    sets the strides, and its remaining elements hold poison (leading dimensions, cache slots).
    `offset` moves the tensor that many elements from a 256-byte boundary; `canary` elements of
    poison lie before and behind the block.
    """
    shape = tuple(shape)
    capacity = shape if capacity is None else tuple(capacity)
    if len(capacity) != len(shape) or any(c < s for c, s in zip(capacity, shape)):
        raise ValueError(f"capacity {capacity} does not hold shape {shape}")
    dtype = np.dtype(dtype)
    lead = -(-canary * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT // dtype.itemsize + offset
    block = int(np.prod(capacity, dtype=np.int64))
    bits = np.dtype(f"u{dtype.itemsize}")
    storage = _aligned(lead + block + canary, bits)
    poison = _poison_bits(dtype)
    storage[:] = poison

    inside = tuple(slice(0, size) for size in shape)
    outside = np.ones(storage.size, dtype=bool)
    outside[lead : lead + block].reshape(capacity)[inside] = False
    # The ellipsis keeps an array of rank 0 an array.
    array = storage[lead : lead + block].view(dtype).reshape(capacity)[..., *inside]
    return GuardedBuffer(array, storage, outside, poison)


def guarded(
    values: np.ndarray,
    *,
    capacity: Sequence[int] | None = None,
    offset: int = 0,
    canary: int = 64,
) -> GuardedBuffer:
    """Like `guarded_empty`, with a copy of `values` in the tensor."""
    buffer = guarded_empty(
        values.shape, values.dtype, capacity=capacity, offset=offset, canary=canary
    )
    buffer.array[...] = values
    return buffer


def _poison_bits(dtype: np.dtype) -> int:
    # ml_dtypes' types are of kind "V": everything that is not an integer is floating here.
    if dtype.kind in "iub":
        return int.from_bytes(bytes([_INTEGER_POISON] * dtype.itemsize), "little")
    return _NAN_POISON[dtype.itemsize]


def _aligned(count: int, dtype: np.dtype) -> np.ndarray:
    """`count` elements whose first lies on a 256-byte boundary."""
    raw = np.empty(count * dtype.itemsize + _ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + count * dtype.itemsize].view(dtype)
