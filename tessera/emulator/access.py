"""Byte positions of many lanes to values in one storage, and back: gather and scatter.

Positions are int64 [waves, 32] (or any shape), checked by the caller. A value of more than 32 bits
is a list of uint32 arrays, lowest word first. Aligned accesses move whole elements; misaligned ones
go byte by byte.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ALIGNMENT = 64


class Storage:
    """Bytes with their views as 2-, 4-, 8- and 16-byte elements; the size is a multiple of 64."""

    def __init__(self, size: int) -> None:
        total = -(-size // ALIGNMENT) * ALIGNMENT + ALIGNMENT
        raw = np.zeros(total + ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        self.bytes = raw[start : start + total]
        self.address = raw.ctypes.data + start
        self.halves = self.bytes.view(np.uint16)
        self.words = self.bytes.view(np.uint32)
        self.pairs = self.bytes.view(np.uint64)
        # A 16-byte element type that numpy moves without looking at it.
        self.quads = self.bytes.view(np.complex128)

    def elements(self, size: int) -> np.ndarray:
        """The view whose elements have `size` bytes (1, 2, 4, 8 or 16)."""
        views = {1: self.bytes, 2: self.halves, 4: self.words, 8: self.pairs, 16: self.quads}
        return views[size]


@dataclass(frozen=True)
class AccessKind:
    """What a load or store moves per lane.

    `size` bytes; `signed` extends a loaded 8- or 16-bit value; `half` is None for whole registers,
    else which half of the register a D16 form reads or writes.
    """

    size: int
    signed: bool = False
    half: int | None = None

    @property
    def registers(self) -> int:
        return max(1, self.size // 4)


ACCESS_KINDS: dict[str, AccessKind] = {
    "U8": AccessKind(1),
    "I8": AccessKind(1, True),
    "U16": AccessKind(2),
    "I16": AccessKind(2, True),
    "B8": AccessKind(1),
    "B16": AccessKind(2),
    "B32": AccessKind(4),
    "B64": AccessKind(8),
    "B96": AccessKind(12),
    "B128": AccessKind(16),
    "D16_U8": AccessKind(1, False, 0),
    "D16_I8": AccessKind(1, True, 0),
    "D16_B16": AccessKind(2, False, 0),
    "D16_HI_U8": AccessKind(1, False, 1),
    "D16_HI_I8": AccessKind(1, True, 1),
    "D16_HI_B16": AccessKind(2, False, 1),
    "D16_HI_B8": AccessKind(1, False, 1),
    # The DS names put D16 last.
    "U8_D16": AccessKind(1, False, 0),
    "I8_D16": AccessKind(1, True, 0),
    "U16_D16": AccessKind(2, False, 0),
    "U8_D16_HI": AccessKind(1, False, 1),
    "I8_D16_HI": AccessKind(1, True, 1),
    "U16_D16_HI": AccessKind(2, False, 1),
    "B8_D16_HI": AccessKind(1, False, 1),
    "B16_D16_HI": AccessKind(2, False, 1),
}


def is_aligned(positions: np.ndarray, size: int) -> bool:
    """Whether every position is a multiple of `size` (a power of two)."""
    return not int(np.bitwise_or.reduce(positions, axis=None)) & (size - 1)


def gather(storage: Storage, positions: np.ndarray, size: int) -> list[np.ndarray]:
    """Read `size` bytes at each position: uint32 arrays of the positions' shape."""
    if size in (4, 8, 16) and is_aligned(positions, size):
        if size == 4:
            return [storage.words.take(positions >> 2)]
        shift, view = (3, storage.pairs) if size == 8 else (4, storage.quads)
        words = view.take(positions >> shift).view(np.uint32)
        words = words.reshape(*positions.shape, size // 4)
        return [words[..., k] for k in range(size // 4)]
    if size >= 4 and is_aligned(positions, 4):
        first = positions >> 2
        return [storage.words.take(first + k) for k in range(size // 4)]
    if size == 1:
        return [storage.bytes.take(positions).astype(np.uint32)]
    if size == 2 and is_aligned(positions, 2):
        return [storage.halves.take(positions >> 1).astype(np.uint32)]
    words = []
    for start in range(0, size, 4):
        word = np.zeros(positions.shape, np.uint32)
        for byte in range(min(4, size - start)):
            value = storage.bytes.take(positions + (start + byte))
            word |= value.astype(np.uint32) << np.uint32(8 * byte)
        words.append(word)
    return words


def scatter(storage: Storage, positions: np.ndarray, values: list[np.ndarray], size: int) -> None:
    """Write `size` bytes at each position from uint32 arrays; a later lane wins."""
    if size in (8, 16) and is_aligned(positions, size):
        packed = np.empty((*positions.shape, size // 4), np.uint32)
        for k, value in enumerate(values):
            packed[..., k] = value
        shift, view = (3, storage.pairs) if size == 8 else (4, storage.quads)
        view[positions >> shift] = packed.view(view.dtype)[..., 0]
        return
    if size >= 4 and is_aligned(positions, 4):
        first = positions >> 2
        for k, value in enumerate(values):
            storage.words[first + k if k else first] = value
        return
    if size == 1:
        storage.bytes[positions] = values[0].astype(np.uint8)
        return
    if size == 2 and is_aligned(positions, 2):
        storage.halves[positions >> 1] = values[0].astype(np.uint16)
        return
    for byte in range(size):
        value = values[byte // 4] >> np.uint32(8 * (byte % 4))
        storage.bytes[positions + byte] = value.astype(np.uint8)


def extend(value: np.ndarray, kind: AccessKind) -> np.ndarray:
    """A loaded 8- or 16-bit value, uint32, sign-extended where the kind says so."""
    if not kind.signed:
        return value
    small = value.astype(np.uint8 if kind.size == 1 else np.uint16)
    signed = small.view(np.int8 if kind.size == 1 else np.int16)
    if kind.half is not None:
        return signed.astype(np.int16).view(np.uint16).astype(np.uint32)
    return signed.astype(np.int32).view(np.uint32)
