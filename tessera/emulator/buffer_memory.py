"""MUBUF instructions to steps: buffer resources, their range check, and cache controls.

A resource (RDNA 3.5 ISA guide, section 9) is four SGPRs: BASE in 48 bits, STRIDE in 61..48,
NUM_RECORDS in word 2, OOB_SELECT in bits 29..28 of word 3. What lies outside its range reads as 0
and is not written, with no fault; what lies inside must be in a mapped buffer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tessera.emulator import operands as op
from tessera.emulator.access import AccessKind
from tessera.emulator.atomics import atomic_step, is_atomic
from tessera.emulator.decode import Instruction
from tessera.emulator.global_memory import access_kind, operation_name, stored_values, write_loaded
from tessera.emulator.registers import EXEC_LO, LANES, register_set, vector_set
from tessera.emulator.space import GlobalPort, Mask, Part
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Mode, Step, unsupported

CACHE_CONTROLS = ("GL0_INV", "GL1_INV")
OUT_OF_RANGE_STRUCTURED, OUT_OF_RANGE_INDEX, OUT_OF_RANGE_EMPTY, OUT_OF_RANGE_RAW = range(4)
INDEX_STRIDE_SWIZZLE = 0xC0000000
ADD_THREAD_ID = 1 << 23


def translate_mubuf(instruction: Instruction, mode: Mode) -> Step:
    """MUBUF: VDATA 47..40, GLC 14, TFE 53; the address fields are those of `BufferAddress`."""
    name = operation_name(instruction)
    if name in CACHE_CONTROLS:
        return Step(instruction, lambda g: None)
    if instruction.field(53, 53):
        raise unsupported(instruction, "TFE")
    address = BufferAddress.of(instruction)
    data = instruction.field(47, 40)
    access = access_kind(name)
    if access is None:
        if not is_atomic(name) or "FORMAT" in name:
            raise unsupported(instruction)
        returns = bool(instruction.field(14, 14))
        return atomic_step(
            instruction,
            name,
            lambda g: np.zeros((g.count, LANES), np.int64),
            address.reads,
            lambda i: BufferPort(i, address),
            "vm",
            (data, data),
            returns,
        )
    verb, kind = access
    if verb == "load":
        return _load(instruction, address, kind, data)
    return _store(instruction, address, kind, data)


@dataclass(frozen=True)
class BufferAddress:
    """The address fields of one instruction; `places` computes them per lane."""

    instruction: Instruction
    resource: int
    offset: int
    scalar_offset: op.Fetch
    offset_register: int | None
    index_register: int | None
    reads: int

    @staticmethod
    def of(instruction: Instruction) -> BufferAddress:
        """OFFSET 11..0, VADDR 39..32, SRSRC 52..48, OFFEN 54, IDXEN 55, SOFFSET 63..56."""
        resource = instruction.field(52, 48) * 4
        vector = instruction.field(39, 32)
        has_offset, has_index = instruction.field(54, 54), instruction.field(55, 55)
        source = instruction.field(63, 56)
        scalar = op.scalar_fetch(source, "u32", 0)
        reads = register_set(resource, 4) | op.source_registers(source, "u32")
        reads |= vector_set(vector, has_offset + has_index) if has_offset or has_index else 0
        return BufferAddress(
            instruction,
            resource,
            instruction.field(11, 0),
            scalar,
            vector + has_index if has_offset else None,
            vector if has_index else None,
            reads,
        )

    def places(self, g: WaveGroup, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(address int64 [waves, 32], in range bool [waves, 32]) for `size` bytes."""
        words = [g.sgpr[self.resource + i] for i in range(4)]
        if (words[1] & np.uint32(INDEX_STRIDE_SWIZZLE)).any() or (
            words[3] & np.uint32(ADD_THREAD_ID)
        ).any():
            raise unsupported(self.instruction, "a swizzled buffer resource")
        base = op.join_words(words[0], words[1] & np.uint32(0xFFFF)).view(np.int64)[:, None]
        stride = (words[1] >> np.uint32(16) & np.uint32(0x3FFF)).astype(np.int64)[:, None]
        records = words[2].astype(np.int64)[:, None]
        scalar = self.scalar_offset(g).astype(np.int64)[:, None]
        inner = np.full((1, 1), self.offset, np.int64)
        if self.offset_register is not None:
            inner = inner + g.u32[self.offset_register]
        index = np.zeros((1, 1), np.int64)
        if self.index_register is not None:
            index = g.u32[self.index_register].astype(np.int64)
        total = inner + index * stride
        inside = self._in_range(words[3], stride, records, scalar, inner, index, total, size)
        shape = (g.count, LANES)
        return np.broadcast_to(base + scalar + total, shape), np.broadcast_to(inside, shape)

    def _in_range(
        self,
        word: np.ndarray,
        stride: np.ndarray,
        records: np.ndarray,
        scalar: np.ndarray,
        inner: np.ndarray,
        index: np.ndarray,
        total: np.ndarray,
        size: int,
    ) -> np.ndarray:
        selects = np.unique(word >> np.uint32(28) & np.uint32(3))
        if len(selects) > 1:
            raise unsupported(self.instruction, "different OOB_SELECT in waves that run together")
        select = int(selects[0])
        if select == OUT_OF_RANGE_RAW:
            return total + size <= records - scalar
        if select == OUT_OF_RANGE_EMPTY:
            return (records != 0) & (total >= 0)
        inside = index < records
        if select == OUT_OF_RANGE_INDEX:
            return inside & (inner >= 0)
        return inside & ((stride == 0) | (inner + size <= stride))


class BufferPort(GlobalPort):
    """Atomics through a resource: the addresses come from the resource, not from the caller."""

    def __init__(self, instruction: Instruction, address: BufferAddress) -> None:
        super().__init__(instruction)
        self._address = address

    def locate(
        self, g: WaveGroup, addresses: np.ndarray, size: int, write: bool, mask: Mask
    ) -> list[Part]:
        places, inside = self._address.places(g, size)
        chosen = inside if mask is None else inside & mask
        if not chosen.any():
            return []
        return super().locate(g, places, size, write, None if chosen.all() else chosen)


def _load(instruction: Instruction, address: BufferAddress, kind: AccessKind, data: int) -> Step:
    port = GlobalPort(instruction)
    piece = min(kind.size, 4)

    def run(g: WaveGroup) -> None:
        if g.mask is not None and not g.mask.any():
            return
        places, inside = address.places(g, kind.size)
        chosen = inside if g.mask is None else inside & g.mask
        every = np.count_nonzero(chosen) == (
            chosen.size if g.mask is None else np.count_nonzero(g.mask)
        )
        if every:
            values = port.load(g, places, kind.size, g.mask)
            assert values is not None
        else:
            values = [_piece(g, k, piece) for k in range(kind.registers)]
        write_loaded(g, data, values, kind)

    def _piece(g: WaveGroup, k: int, size: int) -> np.ndarray:
        """One word of a load that is partly out of range: the check is per word."""
        places, inside = address.places(g, 4 * k + size)
        chosen = inside if g.mask is None else inside & g.mask
        loaded = port.load(g, places + 4 * k, size, chosen)
        if loaded is None:
            return np.zeros((g.count, LANES), np.uint32)
        return np.where(chosen, loaded[0], np.uint32(0))

    written = vector_set(data, kind.registers)
    return Step(
        instruction,
        run,
        address.reads,
        written,
        written | 1 << EXEC_LO,
        counter="vm",
        returns=written,
    )


def _store(instruction: Instruction, address: BufferAddress, kind: AccessKind, data: int) -> Step:
    port = GlobalPort(instruction)
    fetch = stored_values(data, kind)
    piece = min(kind.size, 4)

    def run(g: WaveGroup) -> None:
        if g.mask is not None and not g.mask.any():
            return
        values = fetch(g)
        places, inside = address.places(g, kind.size)
        chosen = inside if g.mask is None else inside & g.mask
        if chosen.all():
            port.store(g, places, values, kind.size, None)
            return
        for k, value in enumerate(values):
            _, inside = address.places(g, 4 * k + piece)
            chosen = inside if g.mask is None else inside & g.mask
            port.store(g, places + 4 * k, [value], piece, chosen)

    reads = address.reads | vector_set(data, kind.registers)
    return Step(instruction, run, reads, 0, 1 << EXEC_LO, counter="vs")
