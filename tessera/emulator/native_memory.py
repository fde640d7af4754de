"""Address forms of loads and stores to one native pass over all lanes, where that is possible.

A `LaneAddress` says how an instruction makes addresses. `native_transfer` moves whole registers to
or from the LDS, or the buffer that the instruction hit last, while the sanitizers are off; whatever
it cannot do (another buffer, a lane out of bounds) it leaves to the general path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tessera.emulator.access import AccessKind
from tessera.emulator.native import memory_function
from tessera.emulator.space import GlobalPort, LdsPort, MemoryPort
from tessera.emulator.state import WaveGroup

NATIVE_BYTES = (4, 8, 12, 16)
# As an unsigned number the highest place of all: none lies beyond it.
NOWHERE = -1


@dataclass(frozen=True)
class LaneAddress:
    """Address = v[low] (+ v[high] << 32) + offset (+ `wave_offset`, int64 [waves] or [1])."""

    low: int
    offset: int = 0
    high: int | None = None
    wave_offset: Callable[[WaveGroup], np.ndarray] | None = None

    def __call__(self, g: WaveGroup) -> np.ndarray:
        """The addresses, int64 [waves, 32]."""
        if self.high is not None:
            pair = np.empty((g.count, 32, 2), np.uint32)
            pair[..., 0] = g.u32[self.low]
            pair[..., 1] = g.u32[self.high]
            total = pair.view(np.int64)[..., 0]
        else:
            total = g.u32[self.low].astype(np.int64)
        if self.offset:
            total = total + np.int64(self.offset)
        if self.wave_offset is not None:
            total = total + self.wave_offset(g)[:, None]
        return total


Transfer = Callable[[WaveGroup], bool]


def native_transfer(
    addresses: object, port: MemoryPort, kind: AccessKind, register: int, is_store: bool
) -> Transfer | None:
    """A function that does the whole access and returns True, or does nothing and returns False."""
    if kind.half is not None or kind.signed or kind.size not in NATIVE_BYTES:
        return None
    if not isinstance(addresses, LaneAddress):
        return None
    if type(port) is LdsPort:
        return _lds_transfer(addresses, kind.size, register, is_store)
    if type(port) is GlobalPort:
        return _global_transfer(addresses, port, kind.size, register, is_store)
    return None


def _lds_transfer(address: LaneAddress, size: int, register: int, is_store: bool) -> Transfer:
    low, offset = address.low, address.offset

    def move(g: WaveGroup) -> bool:
        batch = g.batch
        limit = batch.lds_bytes - size
        function = memory_function(size // 4, is_store)
        if batch.checks is not None or limit < 0 or function is None:
            return False
        mask = g.mask
        start, stride = g.address, g.stride
        refused = function(
            start + low * stride,
            0,
            0,
            offset,
            limit,
            NOWHERE,
            g.lds_address,
            batch.lds.address,
            0 if mask is None else mask.ctypes.data,
            start + register * stride,
            stride,
            g.count,
        )
        return refused == 0

    return move


def _global_transfer(
    address: LaneAddress, port: GlobalPort, size: int, register: int, is_store: bool
) -> Transfer:
    low, high, wave_offset = address.low, address.high, address.wave_offset

    def move(g: WaveGroup) -> bool:
        batch = g.batch
        buffer = port.last_hit(batch.memory)
        function = memory_function(size // 4, is_store)
        if batch.checks is not None or buffer is None or function is None:
            return False
        if buffer.size < size or (is_store and not buffer.writable):
            return False
        offset, wave_address = address.offset - buffer.base, 0
        if wave_offset is not None:
            values = np.ascontiguousarray(wave_offset(g))
            if len(values) == 1:
                offset += int(values[0])
            else:
                wave_address = values.ctypes.data
        mask = g.mask
        start, stride = g.address, g.stride
        refused = function(
            start + low * stride,
            0 if high is None else start + high * stride,
            wave_address,
            offset,
            buffer.size - size,
            NOWHERE,
            0,
            buffer.storage.address,
            0 if mask is None else mask.ctypes.data,
            start + register * stride,
            stride,
            g.count,
        )
        if refused:
            return False
        buffer.written |= is_store
        return True

    return move
