"""Per-lane addresses to places in storage: the global, LDS, scratch and flat address spaces.

A port checks bounds for all lanes at once and gives the places as parts, one per storage that is
hit (nearly always one). Lanes whose access is refused belong to no part: their loads give 0 and
their stores do nothing, which is what the hardware does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tessera.emulator.access import Storage, gather, scatter
from tessera.emulator.decode import Instruction
from tessera.emulator.faults import first_lane
from tessera.emulator.memory import (
    PRIVATE_APERTURE,
    SHARED_APERTURE,
    AddressSpace,
    Buffer,
    describe,
)
from tessera.emulator.state import WaveGroup

Mask = np.ndarray | None


@dataclass(frozen=True)
class Part:
    """Lanes of one storage: int64 `positions` [waves, 32] and the lanes meant (None: all).

    Positions of other lanes are valid but meaningless.
    """

    storage: Storage
    positions: np.ndarray
    mask: Mask


class MemoryPort(Protocol):
    """One instruction's way into an address space."""

    def locate(
        self, g: WaveGroup, addresses: np.ndarray, size: int, write: bool, mask: Mask
    ) -> list[Part]:
        """The places of `size` bytes at each active lane's address, with faults reported."""
        ...

    def load(
        self, g: WaveGroup, addresses: np.ndarray, size: int, mask: Mask
    ) -> list[np.ndarray] | None:
        """The words at each active lane's address (others: undefined); None: no lane is active."""
        ...

    def store(
        self, g: WaveGroup, addresses: np.ndarray, values: list[np.ndarray], size: int, mask: Mask
    ) -> None:
        """Write the words at each active lane's address."""
        ...


class Port:
    """What all ports share: loads and stores on located parts."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction

    def locate(
        self, g: WaveGroup, addresses: np.ndarray, size: int, write: bool, mask: Mask
    ) -> list[Part]:
        raise NotImplementedError

    def load(
        self, g: WaveGroup, addresses: np.ndarray, size: int, mask: Mask
    ) -> list[np.ndarray] | None:
        if mask is not None and not mask.any():
            return None
        parts = self.locate(g, addresses, size, False, mask)
        if len(parts) == 1 and (parts[0].mask is mask):
            return gather(parts[0].storage, parts[0].positions, size)
        values = [np.zeros((g.count, 32), np.uint32) for _ in range(max(1, size // 4))]
        for part in parts:
            for target, value in zip(values, gather(part.storage, part.positions, size)):
                np.copyto(target, value, where=True if part.mask is None else part.mask)
        return values

    def store(
        self, g: WaveGroup, addresses: np.ndarray, values: list[np.ndarray], size: int, mask: Mask
    ) -> None:
        if mask is not None and not mask.any():
            return
        for part in self.locate(g, addresses, size, True, mask):
            if part.mask is None:
                scatter(part.storage, part.positions, values, size)
            else:
                chosen = [value[part.mask] for value in values]
                scatter(part.storage, part.positions[part.mask], chosen, size)


class GlobalPort(Port):
    """The mapped buffers. The buffer that the instruction hit last is tried first.

    The address space remembers that buffer, so that no port keeps the memory of an old launch.
    """

    def last_hit(self, memory: AddressSpace) -> Buffer | None:
        """The buffer that this instruction hit last in an address space."""
        return memory.last_hits.get(self)

    def _guess(self, g: WaveGroup, addresses: np.ndarray, mask: Mask) -> Buffer | None:
        memory = g.batch.memory
        known = self.last_hit(memory)
        if known is not None:
            return known
        first = 0 if mask is None else int(np.argmax(mask))
        buffer = memory.find(int(addresses.reshape(-1)[first]))
        if buffer is not None:
            memory.last_hits[self] = buffer
        return buffer

    def locate(
        self, g: WaveGroup, addresses: np.ndarray, size: int, write: bool, mask: Mask
    ) -> list[Part]:
        buffer = self._guess(g, addresses, mask)
        if buffer is None:
            return self._search(g, addresses, size, write, mask)
        positions = addresses - buffer.base
        if mask is not None:
            positions = np.where(mask, positions, 0)
        highest = int(np.maximum.reduce(positions.view(np.uint64), axis=None))
        if highest > buffer.size - size:
            return self._search(g, addresses, size, write, mask)
        return self._accept(g, buffer, positions, size, write, mask)

    def _accept(
        self,
        g: WaveGroup,
        buffer: Buffer,
        positions: np.ndarray,
        size: int,
        write: bool,
        mask: Mask,
    ) -> list[Part]:
        if write:
            if not buffer.writable and not _in_ranges(buffer, positions, size, mask):
                self._refuse_write(g, buffer, positions, mask)
                return []
            buffer.written = True
        checks = g.batch.checks
        if checks is not None:
            checks.global_access(self.instruction, g, buffer, positions, size, write, mask)
        return [Part(buffer.storage, positions, mask)]

    def _refuse_write(
        self, g: WaveGroup, buffer: Buffer, positions: np.ndarray, mask: Mask
    ) -> None:
        wave, lane = first_lane(g.active() if mask is None else mask)
        g.batch.faults.report(
            "read_only",
            self.instruction,
            f"store to the read-only buffer {buffer.name!r}",
            g,
            wave,
            lane,
            buffer.base + int(positions[wave, lane]),
            buffer.name,
        )

    def _search(
        self, g: WaveGroup, addresses: np.ndarray, size: int, write: bool, mask: Mask
    ) -> list[Part]:
        """Lanes in several buffers, or out of bounds."""
        memory = g.batch.memory
        active = np.ones(addresses.shape, bool) if mask is None else mask
        numbers = memory.index_of(addresses.view(np.uint64))
        refused = active & (numbers < 0)
        parts = []
        for number in np.unique(numbers[active]):
            if number < 0:
                continue
            buffer = memory.buffers[number]
            positions = addresses - buffer.base
            here = active & (numbers == number)
            inside = here & (positions.view(np.uint64) <= np.uint64(max(0, buffer.size - size)))
            if buffer.size < size:
                inside[...] = False
            refused |= here & ~inside
            if inside.any():
                memory.last_hits[self] = buffer
                safe = np.where(inside, positions, 0)
                parts += self._accept(g, buffer, safe, size, write, inside)
        if refused.any():
            self._report_bounds(g, addresses, size, write, refused)
        return parts

    def _report_bounds(
        self, g: WaveGroup, addresses: np.ndarray, size: int, write: bool, refused: np.ndarray
    ) -> None:
        wave, lane = first_lane(refused)
        address = int(addresses[wave, lane]) & (1 << 64) - 1
        nearest = g.batch.memory.nearest(address)
        verb = "store" if write else "load"
        g.batch.faults.report(
            "out_of_bounds",
            self.instruction,
            f"{verb} of {size} bytes at address {address:#x}, {describe(nearest, address)}",
            g,
            wave,
            lane,
            address,
            None if nearest is None else nearest.name,
        )


def _in_ranges(buffer: Buffer, positions: np.ndarray, size: int, mask: Mask) -> bool:
    """Whether every access lies in one of the writable ranges of a read-only buffer."""
    allowed = np.zeros(positions.shape, bool) if mask is None else ~mask
    for first, end in buffer.writable_ranges:
        allowed |= (positions >= first) & (positions + size <= end)
    return bool(allowed.all())


class LdsPort(Port):
    """The workgroup's LDS; addresses are bytes from its start."""

    def locate(
        self, g: WaveGroup, addresses: np.ndarray, size: int, write: bool, mask: Mask
    ) -> list[Part]:
        batch = g.batch
        if mask is not None:
            addresses = np.where(mask, addresses, 0)
        highest = int(np.maximum.reduce(addresses.view(np.uint64), axis=None))
        if highest > batch.lds_bytes - size:
            active = np.ones(addresses.shape, bool) if mask is None else mask
            inside = active & (addresses >= 0) & (addresses <= batch.lds_bytes - size)
            wave, lane = first_lane(active & ~inside)
            address = int(addresses[wave, lane])
            batch.faults.report(
                "out_of_bounds",
                self.instruction,
                f"{'store' if write else 'load'} of {size} bytes at LDS byte {address:#x}; "
                f"the workgroup has {batch.lds_bytes} bytes of LDS",
                g,
                wave,
                lane,
                address,
                "LDS",
            )
            mask, addresses = inside, np.where(inside, addresses, 0)
            if not inside.any():
                return []
        positions = addresses + g.lds_base
        if batch.checks is not None:
            batch.checks.lds_access(self.instruction, g, positions, size, write, mask)
        return [Part(batch.lds, positions, mask)]


class ScratchPort(Port):
    """The lane's private memory; addresses are bytes from its start."""

    def locate(
        self, g: WaveGroup, addresses: np.ndarray, size: int, write: bool, mask: Mask
    ) -> list[Part]:
        batch = g.batch
        active = np.ones(addresses.shape, bool) if mask is None else mask
        inside = active & (addresses >= 0) & (addresses <= batch.scratch_bytes - size)
        refused = active & ~inside
        if refused.any():
            wave, lane = first_lane(refused)
            address = int(addresses[wave, lane])
            batch.faults.report(
                "out_of_bounds",
                self.instruction,
                f"{'store' if write else 'load'} of {size} bytes at scratch byte {address:#x}; "
                f"a lane has {batch.scratch_bytes} bytes of scratch",
                g,
                wave,
                lane,
                address,
                "scratch",
            )
            if not inside.any():
                return []
            mask = inside
        lanes = g.wave_indices()[:, None] * 32 + np.arange(32)
        positions = lanes * batch.scratch_stride + np.where(inside, addresses, 0)
        if batch.checks is not None:
            batch.checks.scratch_access(self.instruction, g, positions, size, write, mask)
        return [Part(batch.scratch, positions, mask)]


class FlatPort(Port):
    """Addresses in the LDS or scratch aperture go there, all others to the mapped buffers."""

    def __init__(self, instruction: Instruction) -> None:
        super().__init__(instruction)
        self._global = GlobalPort(instruction)
        self._lds = LdsPort(instruction)
        self._scratch = ScratchPort(instruction)

    def locate(
        self, g: WaveGroup, addresses: np.ndarray, size: int, write: bool, mask: Mask
    ) -> list[Part]:
        high = addresses >> 32
        in_lds, in_scratch = high == SHARED_APERTURE >> 32, high == PRIVATE_APERTURE >> 32
        active = np.ones(addresses.shape, bool) if mask is None else mask
        if not (in_lds | in_scratch).any():
            return self._global.locate(g, addresses, size, write, mask)
        parts = []
        low = addresses & 0xFFFFFFFF
        for port, lanes, where in (
            (self._lds, active & in_lds, low),
            (self._scratch, active & in_scratch, low),
            (self._global, active & ~in_lds & ~in_scratch, addresses),
        ):
            if lanes.any():
                parts += port.locate(g, where, size, write, lanes)
        return parts


def global_port(instruction: Instruction) -> MemoryPort:
    """A port to the mapped buffers."""
    return GlobalPort(instruction)


def lds_port(instruction: Instruction) -> MemoryPort:
    """A port to the workgroup's LDS."""
    return LdsPort(instruction)


def scratch_port(instruction: Instruction) -> MemoryPort:
    """A port to the lanes' private memory."""
    return ScratchPort(instruction)


def flat_port(instruction: Instruction) -> MemoryPort:
    """A port to the flat address space."""
    return FlatPort(instruction)
