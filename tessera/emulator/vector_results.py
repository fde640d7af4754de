"""Results of vector instructions to registers: full, half and double registers, under a lane mask.

A store function takes (group, value, mask): value broadcastable to [waves, 32], mask bool
[waves, 32] or None for all lanes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessera.emulator.errors import UnsupportedInstructionError
from tessera.emulator.operands import dtype_of, width_of
from tessera.emulator.registers import EXEC_LO, LANES, NULL, mask_to_bits
from tessera.emulator.state import WaveGroup

Store = Callable[[WaveGroup, np.ndarray, "np.ndarray | None"], None]


def vector_store(register: int, kind: str, high: bool = False) -> Store:
    """Store a value of `kind` to v[`register`] (and the next one for 64 bits)."""
    if kind == "b128":
        return _quad_store(register)
    width, dtype = width_of(kind), dtype_of(kind)
    if width == 16:
        return _half_store(register, int(high))
    if width == 64:
        return _double_store(register)
    if width != 32:
        raise UnsupportedInstructionError(f"vector result of {width} bits")
    if dtype == np.float32:

        def store_f32(g: WaveGroup, value: np.ndarray, mask: np.ndarray | None) -> None:
            if mask is None:
                g.f32[register][...] = value
            else:
                np.copyto(g.f32[register], value, where=mask)

        return store_f32
    if dtype == np.int32:

        def store_i32(g: WaveGroup, value: np.ndarray, mask: np.ndarray | None) -> None:
            if mask is None:
                g.i32[register][...] = value
            else:
                np.copyto(g.i32[register], value, where=mask)

        return store_i32

    def store_u32(g: WaveGroup, value: np.ndarray, mask: np.ndarray | None) -> None:
        if mask is None:
            g.u32[register][...] = value
        else:
            np.copyto(g.u32[register], value, where=mask)

    return store_u32


def _half_store(register: int, half: int) -> Store:
    def store_half(g: WaveGroup, value: np.ndarray, mask: np.ndarray | None) -> None:
        target = g.u32[register].view(np.uint16)[:, half::2]
        bits = value.view(np.uint16)
        if mask is None:
            target[...] = bits
        else:
            np.copyto(target, bits, where=mask)

    return store_half


def _double_store(register: int) -> Store:
    def store_double(g: WaveGroup, value: np.ndarray, mask: np.ndarray | None) -> None:
        words = np.ascontiguousarray(value).view(np.uint32)
        low, high = words[..., 0::2], words[..., 1::2]
        if mask is None:
            g.u32[register][...] = low
            g.u32[register + 1][...] = high
        else:
            np.copyto(g.u32[register], low, where=mask)
            np.copyto(g.u32[register + 1], high, where=mask)

    return store_double


def _quad_store(register: int) -> Store:
    def store_quad(g: WaveGroup, value: np.ndarray, mask: np.ndarray | None) -> None:
        for i, word in enumerate(value):
            np.copyto(g.u32[register + i], word, where=True if mask is None else mask)

    return store_quad


def mask_store(register: int) -> Store:
    """Store a lane mask to a scalar register; bits of inactive lanes become 0."""
    if register == NULL:
        return lambda g, value, mask: None
    if register == EXEC_LO:
        return exec_store

    def store_mask(g: WaveGroup, value: np.ndarray, mask: np.ndarray | None) -> None:
        if mask is not g.mask and mask is not None:
            value = value & mask
        g.set_lanes(register, value)

    return store_mask


def exec_store(g: WaveGroup, value: np.ndarray, mask: np.ndarray | None) -> None:
    """Store a comparison's lane mask to EXEC; inactive lanes stay inactive."""
    if mask is not None:
        value = value & mask
    if value.shape != (g.count, LANES):
        value = np.broadcast_to(value, (g.count, LANES))
    value = np.ascontiguousarray(value)
    g.sgpr[EXEC_LO] = mask_to_bits(value)
    g.mask = None if np.count_nonzero(value) == value.size else value
