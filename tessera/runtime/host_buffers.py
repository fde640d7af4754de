"""Buffers of one call on the host: flat arrays over arguments and results, and kept temporaries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessera.runtime.executors import Call
from tessera.runtime.prepared import INPUT, OUTPUT, PreparedLaunch, Slot, Value
from tessera.runtime.tensors import NUMPY_DTYPES

_OTHER_DTYPES = {"f64": np.dtype(np.float64), "i32": np.dtype(np.int32), "u8": np.dtype(np.uint8)}


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy element type of a buffer's dtype name, workspaces' types included."""
    return NUMPY_DTYPES.get(name) or _OTHER_DTYPES[name]


class TemporaryPool:
    """Sets of temporaries of one prepared launch: made once, handed out to one call at a time."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._temporaries = {
            index: slot for index, slot in enumerate(slots) if slot.role not in (INPUT, OUTPUT)
        }
        # list.pop and list.append are atomic, so that threads never share a set.
        self._free: list[dict[int, np.ndarray]] = []

    def take(self) -> dict[int, np.ndarray]:
        """A set of flat arrays by slot number, filled with NaN (integers: 0x5A bytes)."""
        try:
            arrays = self._free.pop()
        except IndexError:
            arrays = {
                index: np.empty(slot.elements, numpy_dtype(slot.dtype))
                for index, slot in self._temporaries.items()
            }
        for array in arrays.values():
            poison(array)
        return arrays

    def give_back(self, arrays: dict[int, np.ndarray]) -> None:
        """Return a set for later calls."""
        self._free.append(arrays)


def poison(array: np.ndarray) -> None:
    """Fill with NaN, or with 0x5A bytes where the type has none, so that stale data is seen."""
    if array.dtype.kind in "iub":
        array.view(np.uint8)[...] = 0x5A
    else:
        array[...] = np.nan


def flat(array: np.ndarray, slot: Slot) -> np.ndarray:
    """The memory from an array's first element to its last as one dimension."""
    return np.lib.stride_tricks.as_strided(array, (slot.elements,), (array.dtype.itemsize,))


def flat_buffers(
    prepared: PreparedLaunch, call: Call, temporaries: dict[int, np.ndarray]
) -> list[np.ndarray]:
    """A flat array per slot, over the caller's memory and over the temporaries."""
    buffers = []
    for index, slot in enumerate(prepared.slots):
        if slot.role == INPUT:
            kind = call.argument_kinds[slot.index]
            buffers.append(flat(kind.host_array(call.arguments[slot.index].value), slot))
        elif slot.role == OUTPUT:
            result = call.results[slot.index]
            buffers.append(flat(call.result_kinds[slot.index].host_array(result.value), slot))
        else:
            buffers.append(temporaries[index])
    return buffers


def tensor_view(buffers: Sequence[np.ndarray], value: Value) -> np.ndarray:
    """A tensor of the plan over its slot's flat array."""
    array = buffers[value.slot]
    size = array.dtype.itemsize
    strides = [stride * size for stride in value.strides]
    return np.lib.stride_tricks.as_strided(array, value.shape, strides)
