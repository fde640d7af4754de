"""Buffer resources in SGPRs, with an instruction's address fields, to addresses and range checks.

A resource (RDNA 3.5 ISA guide, section 9) is four SGPRs: BASE in 48 bits, STRIDE in 61..48,
NUM_RECORDS in word 2, OOB_SELECT in bits 29..28 of word 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tessera.emulator import operands as op
from tessera.emulator.decode import Instruction
from tessera.emulator.memory import Buffer
from tessera.emulator.native import memory_function
from tessera.emulator.native_memory import NOWHERE
from tessera.emulator.registers import LANES, register_set, vector_set
from tessera.emulator.space import GlobalPort
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import unsupported

OUT_OF_RANGE_STRUCTURED, OUT_OF_RANGE_INDEX, OUT_OF_RANGE_EMPTY, OUT_OF_RANGE_RAW = range(4)
SWIZZLE = np.uint32(0xC0000000)
ADD_THREAD_ID = np.uint32(1 << 23)


# Highest place in range of all waves, highest place that is partly in range, and the first byte of
# each wave in the buffer, int64 [waves].
NativeLimits = tuple[int, int, np.ndarray]


@dataclass
class Resource:
    """A decoded resource with the scalar offset: int64 [waves, 1] or [1, 1] each."""

    base: np.ndarray
    stride: np.ndarray
    records: np.ndarray
    scalar: np.ndarray
    select: int
    # For native transfers of one size from one buffer, which is named by base and size.
    native: tuple[tuple[int, int], int, NativeLimits] | None = None


@dataclass(frozen=True)
class Lanes:
    """Addresses, int64 [waves, 32] or broadcastable, and what the range check needs of them."""

    resource: Resource
    inner: np.ndarray
    index: np.ndarray
    total: np.ndarray
    shape: tuple[int, int]

    def addresses(self) -> np.ndarray:
        """int64 [waves, 32]."""
        resource = self.resource
        return np.broadcast_to(resource.base + resource.scalar + self.total, self.shape)

    def inside(self, size: int) -> np.ndarray:
        """Lanes whose access of `size` bytes is in range, bool [waves, 32]."""
        r = self.resource
        if r.select == OUT_OF_RANGE_RAW:
            inside = self.total + size <= r.records - r.scalar
        elif r.select == OUT_OF_RANGE_EMPTY:
            inside = (r.records != 0) & (self.total >= 0)
        elif r.select == OUT_OF_RANGE_INDEX:
            inside = (self.index < r.records) & (self.inner >= 0)
        else:
            fits = (r.stride == 0) | (self.inner + size <= r.stride)
            inside = (self.index < r.records) & fits
        return np.broadcast_to(inside, self.shape)


@dataclass
class BufferAddress:
    """The address fields of one instruction, and the resource that it decoded last."""

    instruction: Instruction
    resource: int
    offset: int
    scalar_offset: op.Fetch
    offset_register: int | None
    index_register: int | None
    reads: int
    _known: tuple[list[np.ndarray], Resource] | None = field(default=None, repr=False)

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

    def decoded(self, g: WaveGroup) -> Resource:
        """The resource; decoded anew only when a register holds another array than before."""
        arrays = [*g.sgpr[self.resource : self.resource + 4], self.scalar_offset(g)]
        if self._known is not None and all(a is b for a, b in zip(arrays, self._known[0])):
            return self._known[1]
        words = arrays[:4]
        if (words[1] & SWIZZLE).any() or (words[3] & ADD_THREAD_ID).any():
            raise unsupported(self.instruction, "a swizzled buffer resource")
        selects = np.unique(words[3] >> np.uint32(28) & np.uint32(3))
        if len(selects) > 1:
            raise unsupported(self.instruction, "different OOB_SELECT in waves that run together")
        resource = Resource(
            op.join_words(words[0], words[1] & np.uint32(0xFFFF)).view(np.int64)[:, None],
            (words[1] >> np.uint32(16) & np.uint32(0x3FFF)).astype(np.int64)[:, None],
            words[2].astype(np.int64)[:, None],
            arrays[4].astype(np.int64)[:, None],
            int(selects[0]),
        )
        self._known = arrays, resource
        return resource

    def lanes(self, g: WaveGroup) -> Lanes:
        """Where every lane's access starts."""
        resource = self.decoded(g)
        inner = np.full((1, 1), self.offset, np.int64)
        if self.offset_register is not None:
            inner = inner + g.u32[self.offset_register]
        index = np.zeros((1, 1), np.int64)
        total = inner
        if self.index_register is not None:
            index = g.u32[self.index_register].astype(np.int64)
            total = inner + index * resource.stride
        return Lanes(resource, inner, index, total, (g.count, LANES))

    def places(self, g: WaveGroup, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(address int64 [waves, 32], in range bool [waves, 32]) for `size` bytes."""
        lanes = self.lanes(g)
        return lanes.addresses(), lanes.inside(size)

    def transfer(
        self, g: WaveGroup, port: GlobalPort, size: int, register: int, is_store: bool
    ) -> bool:
        """Do the whole access natively; False (and nothing done) where that is not possible.

        Possible are whole registers, a raw resource, an offset register, all lanes in range and in
        the buffer that the instruction hit last, and no sanitizers.
        """
        batch, low = g.batch, self.offset_register
        buffer = port.last_hit(batch.memory)
        if batch.checks is not None or buffer is None or low is None or size % 4:
            return False
        resource = self.decoded(g)
        function = memory_function(size // 4, is_store)
        if (
            function is None
            or resource.select != OUT_OF_RANGE_RAW
            or self.index_register is not None
            or (is_store and not buffer.writable)
        ):
            return False
        limit, outer, starts = _native_limits(resource, buffer, size, g.count)
        if limit < 0:
            return False
        mask, stride = g.mask, g.stride
        refused = function(
            g.address + low * stride,
            0,
            0,
            self.offset,
            limit,
            outer,
            starts.ctypes.data,
            buffer.storage.address,
            0 if mask is None else mask.ctypes.data,
            g.address + register * stride,
            stride,
            g.count,
        )
        if refused:
            return False
        buffer.written |= is_store
        return True


def _native_limits(resource: Resource, buffer: Buffer, size: int, waves: int) -> NativeLimits:
    """Limits of accesses of `size` bytes.

    Where the resource has the same range in all waves and lies wholly in the buffer, places beyond
    it read as 0; otherwise the general path decides about them.
    """
    known = resource.native
    place = (buffer.base, buffer.size)
    if known is not None and known[:2] == (place, size) and len(known[2][2]) == waves:
        return known[2]
    start = resource.base + resource.scalar - buffer.base
    room, records = buffer.size - start, resource.records - resource.scalar
    limit, outer = int(np.minimum(records, room).min()) - size, NOWHERE
    if int(records.min()) == int(records.max()) <= int(room.min()):
        outer = limit + size - 1
    if int(start.min()) < 0:
        limit = -1
    starts = np.ascontiguousarray(np.broadcast_to(start[:, 0], (waves,)))
    resource.native = place, size, (limit, outer, starts)
    return resource.native[2]
