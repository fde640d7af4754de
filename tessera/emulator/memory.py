"""Flat 64-bit addresses to bytes of buffers: the callers' arrays with guard gaps between them.

Every buffer starts at a multiple of 4 GiB, so an access that runs off one of them lands in no
other. Contents are staged in aligned, padded copies; what was written goes back to the caller's
memory at the end of the launch. Callers' arrays that overlap share one buffer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tessera.emulator.access import Storage

FIRST_BASE = 0x7F00_0000_0000
BASE_STEP = 1 << 32
SHARED_APERTURE = 0x0001_0000_0000_0000
PRIVATE_APERTURE = 0x0002_0000_0000_0000
APERTURE_BYTES = 1 << 32


@dataclass
class Buffer:
    """One mapped range: `size` bytes from address `base`, kept in `storage`.

    A buffer that is not `writable` may have ranges (first byte, past the last) that are. `defined`,
    bool per byte or None for "all of it", says what was written.
    """

    name: str
    base: int
    size: int
    storage: Storage
    writable: bool = True
    writable_ranges: tuple[tuple[int, int], ...] = ()
    defined: np.ndarray | None = None
    written: bool = False


class AddressSpace:
    """The mapped buffers, and the one that an address lies in or near."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        # The buffer that each instruction (its port) hit last.
        self.last_hits: dict[object, Buffer] = {}
        self._sources: list[tuple[Buffer, int]] = []
        self._bases = np.zeros(0, np.uint64)

    def map(self, name: str, content: bytes | np.ndarray, writable: bool = True) -> Buffer:
        """Map a copy of `content` (bytes, or uint8 [size])."""
        data = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content
        storage = Storage(len(data))
        storage.bytes[: len(data)] = data
        base = FIRST_BASE + BASE_STEP * len(self.buffers)
        buffer = Buffer(name, base, len(data), storage, writable)
        self.buffers.append(buffer)
        self._bases = np.array([b.base for b in self.buffers], np.uint64)
        return buffer

    def map_arrays(self, arrays: Sequence[tuple[str, np.ndarray, bool]]) -> list[int]:
        """Map (name, array, contents are defined) and return the address of each element 0.

        The range of a strided array spans all its elements, gaps included.
        """
        spans = [_span(array) for _, array, _ in arrays]
        order = sorted(range(len(arrays)), key=lambda i: spans[i])
        addresses = [0] * len(arrays)
        position = 0
        while position < len(order):
            group = [order[position]]
            low, high = spans[group[0]]
            position += 1
            while position < len(order) and spans[order[position]][0] < high:
                group.append(order[position])
                high = max(high, spans[order[position]][1])
                position += 1
            buffer = self._map_range(
                [arrays[i] for i in group], [spans[i] for i in group], low, high
            )
            for i in group:
                addresses[i] = buffer.base + arrays[i][1].ctypes.data - low
        return addresses

    def _map_range(
        self,
        arrays: list[tuple[str, np.ndarray, bool]],
        spans: list[tuple[int, int]],
        low: int,
        high: int,
    ) -> Buffer:
        name = "/".join(name for name, _, _ in arrays)
        writable = all(array.flags.writeable for _, array, _ in arrays)
        buffer = self.map(name, _raw_bytes(low, high - low), writable)
        if not all(defined for _, _, defined in arrays):
            buffer.defined = np.ones(len(buffer.storage.bytes), bool)
            for (_, _, defined), (start, end) in zip(arrays, spans):
                if not defined:
                    buffer.defined[start - low : end - low] = False
        self._sources.append((buffer, low))
        return buffer

    def write_back(self) -> None:
        """Copy every written buffer to the caller's memory."""
        for buffer, low in self._sources:
            if buffer.written:
                _raw_bytes(low, buffer.size)[:] = buffer.storage.bytes[: buffer.size]

    def relocate(self, buffer: Buffer, places: Iterable[tuple[int, int]]) -> None:
        """Write base + value to the 64-bit words at (place, value)."""
        for place, value in places:
            word = (buffer.base + value) & (1 << 64) - 1
            buffer.storage.bytes[place : place + 8] = np.frombuffer(
                word.to_bytes(8, "little"), np.uint8
            )

    def find(self, address: int) -> Buffer | None:
        """The buffer that holds `address`."""
        for buffer in self.buffers:
            if buffer.base <= address < buffer.base + buffer.size:
                return buffer
        return None

    def nearest(self, address: int) -> Buffer | None:
        """The buffer whose range lies closest to `address`."""
        return min(self.buffers, key=lambda b: _distance(b, address), default=None)

    def index_of(self, addresses: np.ndarray) -> np.ndarray:
        """Number of the buffer at or below each address (uint64, any shape); -1 below all."""
        return np.searchsorted(self._bases, addresses, side="right") - 1


def describe(buffer: Buffer | None, address: int) -> str:
    """Where `address` lies relative to `buffer`, in words."""
    if buffer is None:
        return "no buffer is mapped"
    offset = address - buffer.base
    where = f"{buffer.name!r} of {buffer.size} bytes"
    if offset < 0:
        return f"{-offset} bytes before {where}"
    if offset >= buffer.size:
        return f"{offset - buffer.size} bytes after the end of {where}"
    return f"byte {offset} of {where}"


def _distance(buffer: Buffer, address: int) -> int:
    return max(buffer.base - address, address - (buffer.base + buffer.size) + 1, 0)


def _span(array: np.ndarray) -> tuple[int, int]:
    """First and past-the-end memory address of an array's elements."""
    low = high = array.ctypes.data
    if array.size == 0:
        return low, low
    for length, stride in zip(array.shape, array.strides):
        low += min(0, (length - 1) * stride)
        high += max(0, (length - 1) * stride)
    return low, high + array.itemsize


def _raw_bytes(address: int, size: int) -> np.ndarray:
    """The process's memory as a writable uint8 view; the caller keeps its owner alive."""
    if size == 0:
        return np.zeros(0, np.uint8)
    pointer = (ctypes.c_uint8 * size).from_address(address)
    return np.ctypeslib.as_array(pointer)
