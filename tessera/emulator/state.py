"""The registers of many waves as arrays: one resident batch, and the groups that share a pc.

A vector register is [waves, 32] uint32; all of them are rows of one array [registers, waves, 32]. A
scalar register is uint32 [waves], or [1] where all waves hold the same value; it is never written
in place but replaced, so a lane mask derived from it stays valid as long as the array is the same.

A group of all waves works on the batch's own arrays, with no copy. When waves diverge, each part
becomes a group with copies of just those registers that it touches, written back when parts meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tessera.emulator.access import Storage
from tessera.emulator.registers import (
    ALL_LANES,
    EXEC_LO,
    FIRST_VGPR,
    LANES,
    SCALAR_REGISTERS,
    SCC_BIT,
    ZERO,
    bits_to_mask,
    mask_to_bits,
    members,
)


class Batch:
    """The state of all resident waves; `waves` counts them, `vgprs` the allocated registers.

    `executed` counts wave-instructions of the whole launch so far.
    """

    def __init__(self, waves: int, vgprs: int) -> None:
        self.waves = waves
        self.vgprs = vgprs
        self.file = np.zeros((vgprs, waves, LANES), np.uint32)
        self.sgpr: list[np.ndarray] = [ZERO] * SCALAR_REGISTERS
        self.scc: np.ndarray = np.zeros(1, bool)
        # Static facts per wave: workgroup's index in the batch, wave's number in its workgroup,
        # first LDS byte of the workgroup.
        self.workgroup = np.zeros(waves, np.int64)
        self.number = np.zeros(waves, np.int64)
        self.lds_base = np.zeros(waves, np.int64)
        # What the launch attaches: memory spaces, fault reporter, sanitizers (None: off).
        self.memory: Any = None
        self.faults: Any = None
        self.checks: Any = None
        self.lds = Storage(0)
        self.lds_bytes = 0
        self.scratch = Storage(0)
        self.scratch_bytes = 0
        self.scratch_stride = 0
        self.code_base = 0
        # The registers that the launch itself has written, as a set.
        self.defined = 0
        self.executed = 0


class WaveGroup:
    """Waves that share a program counter, with their registers as arrays.

    `mask` is None when every lane of every wave is active, else bool [waves, 32]. `index` are the
    waves' numbers in the batch, or None for all of them; `steps` counts the instructions of the
    wave that has executed most.
    """

    __slots__ = (
        "address",
        "batch",
        "count",
        "dirty",
        "f32",
        "file",
        "i32",
        "index",
        "lds_address",
        "lds_base",
        "loaded",
        "mask",
        "masks",
        "matrix_result",
        "mode",
        "number",
        "outstanding",
        "pc",
        "pending",
        "scc",
        "sgpr",
        "steps",
        "stride",
        "u32",
        "whole",
        "workgroup",
        "written",
    )

    # Arrays that are absent until they are loaded: only loaded registers are ever touched.
    sgpr: list[Any]
    u32: list[Any]
    f32: list[Any]
    i32: list[Any]

    def __init__(self, batch: Batch, index: np.ndarray | None, pc: int, mode: int) -> None:
        self.batch, self.index, self.pc, self.mode = batch, index, pc, mode
        self.masks: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.mask: np.ndarray | None = None
        self.dirty = 0
        self.written = 0
        self.steps = 0
        # What the last vector instruction has written, if that was a matrix instruction.
        self.matrix_result = 0
        # Accesses that are under way, by counter, oldest first; the union of what they return.
        self.pending: dict[str, list[int]] = {}
        self.outstanding = 0
        if index is None:
            self.count = batch.waves
            self.file = batch.file
            self.sgpr = batch.sgpr
            self.scc = batch.scc
            self.loaded = -1
            self.workgroup, self.number = batch.workgroup, batch.number
            self.lds_base = batch.lds_base[:, None]
            self._make_views(range(batch.vgprs))
        else:
            self.count = len(index)
            self.file = np.empty((batch.vgprs, self.count, LANES), np.uint32)
            self.sgpr = [None] * SCALAR_REGISTERS
            self.scc = _take(batch.scc, index)
            self.loaded = SCC_BIT
            self.workgroup, self.number = batch.workgroup[index], batch.number[index]
            self.lds_base = batch.lds_base[index][:, None]
            empty = [None] * batch.vgprs
            self.u32, self.f32, self.i32 = list(empty), list(empty), list(empty)
            self.load(0b11 << EXEC_LO)
        # Where the register file lies in memory, and how many bytes apart its rows are.
        self.address, self.stride = self.file.ctypes.data, self.count * 4 * LANES
        self.lds_address = self.lds_base.ctypes.data
        self.whole = index is None
        self._set_mask(self.sgpr[EXEC_LO])

    def _make_views(self, registers: range) -> None:
        self.u32 = [self.file[r] for r in registers]
        self.f32 = [row.view(np.float32) for row in self.u32]
        self.i32 = [row.view(np.int32) for row in self.u32]

    def restart(self, pc: int, mode: int) -> None:
        """Reuse this group of all waves after its parts have joined at `pc`."""
        self.pc, self.mode = pc, mode
        self.scc = self.batch.scc
        self.dirty, self.written, self.steps = 0, 0, 0
        self.pending, self.outstanding = {}, 0
        self._set_mask(self.sgpr[EXEC_LO])

    def inherit(self, other: WaveGroup) -> None:
        """Take over what the sanitizers know of `other`, whose waves are now in this group.

        Outstanding accesses are aligned from the youngest on: a register counts as pending when it
        is so in any wave.
        """
        self.written |= other.written
        self.steps = max(self.steps, other.steps)
        self.outstanding |= other.outstanding
        for counter, theirs in other.pending.items():
            mine = self.pending.setdefault(counter, [])
            longer, shorter = (mine, theirs) if len(mine) >= len(theirs) else (theirs, mine)
            merged = list(longer)
            for i, registers in enumerate(reversed(shorter)):
                merged[-1 - i] |= registers
            self.pending[counter] = merged

    def load(self, registers: int) -> None:
        """Copy those of `registers` from the batch that this group does not hold yet."""
        missing = registers & ~self.loaded
        self.loaded |= missing
        index, batch = self.index, self.batch
        if index is None:
            return
        for register in members(missing):
            if register < SCALAR_REGISTERS:
                self.sgpr[register] = _take(batch.sgpr[register], index)
            elif register >= FIRST_VGPR and register - FIRST_VGPR < batch.vgprs:
                number = register - FIRST_VGPR
                row = self.file[number]
                np.take(batch.file[number], index, axis=0, out=row)
                self.u32[number] = row
                self.f32[number] = row.view(np.float32)
                self.i32[number] = row.view(np.int32)

    def flush(self) -> None:
        """Write every changed register back to the batch."""
        batch, index = self.batch, self.index
        if index is None:
            batch.scc = self.scc
            return
        for register in members(self.dirty & self.loaded):
            if register < SCALAR_REGISTERS:
                batch.sgpr[register] = _put(batch, batch.sgpr[register], index, self.sgpr[register])
            elif register >= FIRST_VGPR:
                batch.file[register - FIRST_VGPR][index] = self.u32[register - FIRST_VGPR]
        batch.scc = _put(batch, batch.scc, index, self.scc)
        self.dirty = 0

    def set_exec(self, bits: np.ndarray) -> None:
        """Replace EXEC_LO, uint32 [waves] or [1]."""
        self.sgpr[EXEC_LO] = bits
        self._set_mask(bits)

    def _set_mask(self, bits: np.ndarray) -> None:
        if np.count_nonzero(bits == ALL_LANES) == len(bits):
            self.mask = None
        elif len(bits) == self.count:
            self.mask = bits_to_mask(bits)
        else:
            self.mask = np.repeat(bits_to_mask(bits), self.count, axis=0)

    def mask_of(self, register: int) -> np.ndarray:
        """The scalar register as lane masks, bool [waves, 32] or [1, 32]."""
        bits = self.sgpr[register]
        known = self.masks.get(register)
        if known is not None and known[0] is bits:
            return known[1]
        mask = bits_to_mask(bits)
        self.masks[register] = (bits, mask)
        return mask

    def set_lanes(self, register: int, mask: np.ndarray) -> None:
        """Write a lane mask, bool broadcastable to [waves, 32], to a scalar register.

        Bits of inactive lanes become 0.
        """
        if self.mask is not None:
            mask = mask & self.mask
        if mask.shape != (self.count, LANES):
            mask = np.broadcast_to(mask, (self.count, LANES))
        if not mask.flags.c_contiguous:
            mask = np.ascontiguousarray(mask)
        bits = mask_to_bits(mask)
        self.sgpr[register] = bits
        self.masks[register] = (bits, mask)

    def active(self) -> np.ndarray:
        """The active lanes, bool [waves, 32]."""
        return np.ones((self.count, LANES), bool) if self.mask is None else self.mask

    def wave_indices(self) -> np.ndarray:
        """The waves' numbers in the batch, int [waves]."""
        return np.arange(self.count) if self.index is None else self.index


def _take(values: np.ndarray, index: np.ndarray | None) -> np.ndarray:
    return values if index is None or len(values) == 1 else values[index]


def _put(batch: Batch, values: np.ndarray, index: np.ndarray, new: np.ndarray) -> np.ndarray:
    """`values` with those at `index` replaced, as a new array [waves]."""
    full = np.empty(batch.waves, values.dtype)
    full[:] = values
    full[index] = new
    return full
