"""LDS accesses to findings: bytes never written, and races between waves.

Every byte has a tag of its last write and one of its last read. A tag is `epoch * modulus + who`:
the epoch counts the barriers that the byte's workgroup has passed (from 1 on), so a tag above
`epoch * modulus` belongs to the time since the last barrier. `who` is 0 for an atomic (the LDS
orders those itself), wave + 1 for one wave, modulus - 1 for several. Tag 0: never.
"""

from __future__ import annotations

import numpy as np

from tessera.emulator.access import is_aligned
from tessera.emulator.decode import Instruction
from tessera.emulator.faults import first_lane
from tessera.emulator.native import check_function
from tessera.emulator.state import Batch, WaveGroup

Mask = np.ndarray | None


class LdsChecks:
    """What is known of the LDS bytes of one batch of waves."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.modulus = batch.waves + 2
        workgroups = int(batch.workgroup.max(initial=0)) + 1
        self.epoch = np.ones(workgroups, np.int64)
        self.writes = np.zeros(len(batch.lds.bytes), np.int64)
        self.reads = np.zeros(len(batch.lds.bytes), np.int64)

    def barrier(self, workgroups: np.ndarray) -> None:
        """The waves of `workgroups` (numbers, or bool per workgroup) have met at a barrier."""
        self.epoch[workgroups] += 1

    def access(
        self,
        instruction: Instruction,
        g: WaveGroup,
        positions: np.ndarray,
        size: int,
        write: bool,
        atomic: bool,
        mask: Mask,
    ) -> None:
        """Check and note `size` bytes at `positions`, int64 [waves, 32], of the active lanes."""
        start = self.epoch[g.workgroup] * self.modulus
        own = start + 1 + g.wave_indices()
        if not atomic and self._native(positions, size, write, mask, start, own):
            return
        shape = positions.shape
        starts, tags = (np.broadcast_to(x[:, None], shape) for x in (start, own))
        if mask is not None:
            positions, starts, tags = positions[mask], starts[mask], tags[mask]
        else:
            positions, starts, tags = positions.reshape(-1), starts.reshape(-1), tags.reshape(-1)
        unit = size if size != 12 else 4
        if not is_aligned(positions, unit):
            unit = 1
        for offset in range(0, size, unit):
            where = (positions + offset) // unit
            lanes = _Lanes(where, starts, tags, unit)
            if not write or atomic:
                self._check_defined(instruction, g, lanes, mask)
            if atomic:
                self.writes.reshape(-1, unit)[where] = starts[:, None]
            elif write:
                self._write(instruction, g, lanes, mask)
            else:
                self._read(instruction, g, lanes, mask)

    def _native(
        self,
        positions: np.ndarray,
        size: int,
        write: bool,
        mask: Mask,
        start: np.ndarray,
        own: np.ndarray,
    ) -> bool:
        """Check and note in one native pass; False when there is something to report."""
        function = check_function(write)
        if function is None or not positions.flags.c_contiguous:
            return False
        if mask is not None and not mask.flags.c_contiguous:
            return False
        faults = function(
            positions.ctypes.data,
            0 if mask is None else mask.ctypes.data,
            start.ctypes.data,
            own.ctypes.data,
            self.modulus - 1,
            self.writes.ctypes.data,
            self.reads.ctypes.data,
            size,
            positions.size,
        )
        return faults == 0

    def _check_defined(
        self, instruction: Instruction, g: WaveGroup, lanes: _Lanes, mask: Mask
    ) -> None:
        missing = (self.writes.reshape(-1, lanes.unit)[lanes.where] == 0).any(1)
        if missing.any():
            wave, lane, byte = self._place(g, lanes, missing, mask)
            message = f"load of LDS byte {byte:#x}, never written"
            self.batch.faults.report(
                "uninitialized", instruction, message, g, wave, lane, byte, "LDS"
            )

    def _write(self, instruction: Instruction, g: WaveGroup, lanes: _Lanes, mask: Mask) -> None:
        writes = self.writes.reshape(-1, lanes.unit)
        reads = self.reads.reshape(-1, lanes.unit)
        start, tag = lanes.starts[:, None], lanes.tags[:, None]
        last = writes[lanes.where]
        bad = (last > start) & (last != tag)
        read = reads[lanes.where]
        bad |= (read > start) & (read != tag)
        if bad.any():
            self._report(instruction, g, lanes, bad.any(1), True, mask)
        writes[lanes.where] = tag
        # Two waves that write one byte in this very instruction: one of the tags was lost.
        lost = writes[lanes.where] != tag
        if lost.any():
            self._report(instruction, g, lanes, lost.any(1), True, mask)

    def _read(self, instruction: Instruction, g: WaveGroup, lanes: _Lanes, mask: Mask) -> None:
        writes = self.writes.reshape(-1, lanes.unit)
        reads = self.reads.reshape(-1, lanes.unit)
        start, tag = lanes.starts[:, None], lanes.tags[:, None]
        last = writes[lanes.where]
        bad = (last > start) & (last != tag)
        if bad.any():
            self._report(instruction, g, lanes, bad.any(1), False, mask)
        several = start + (self.modulus - 1)
        before = reads[lanes.where]
        reads[lanes.where] = np.where((before > start) & (before != tag), several, tag)
        after = reads[lanes.where]
        shared = (after != tag) & (after != several)
        if shared.any():
            reads[lanes.where] = np.where(shared, several, after)

    def _place(
        self, g: WaveGroup, lanes: _Lanes, bad: np.ndarray, mask: Mask
    ) -> tuple[int, int, int]:
        """Row and lane of the first bad lane, and its byte counted from the workgroup's LDS."""
        full = np.zeros((g.count, 32), bool)
        if mask is None:
            full[...] = bad.reshape(g.count, 32)
        else:
            full[mask] = bad
        wave, lane = first_lane(full)
        first = int(lanes.where[int(np.argmax(bad))]) * lanes.unit
        return wave, lane, first - int(g.lds_base[wave, 0])

    def _report(
        self,
        instruction: Instruction,
        g: WaveGroup,
        lanes: _Lanes,
        bad: np.ndarray,
        write: bool,
        mask: Mask,
    ) -> None:
        wave, lane, byte = self._place(g, lanes, bad, mask)
        chosen = int(np.argmax(bad))
        tag = int(self.writes.reshape(-1, lanes.unit)[lanes.where[chosen], 0])
        other = tag % self.modulus - 1
        written = tag > lanes.starts[chosen] and tag != lanes.tags[chosen] and other >= 0
        who = f"wave {self.batch.number[other]} wrote" if written else "another wave read"
        verb = "store to" if write else "load from"
        self.batch.faults.report(
            "lds_race",
            instruction,
            f"{verb} LDS byte {byte:#x}, which {who} with no barrier between",
            g,
            wave,
            lane,
            byte,
            "LDS",
        )


class _Lanes:
    """Flat active lanes: element index, tag at the epoch's start, own tag, bytes per element."""

    __slots__ = ("starts", "tags", "unit", "where")

    def __init__(self, where: np.ndarray, starts: np.ndarray, tags: np.ndarray, unit: int) -> None:
        self.where, self.starts, self.tags, self.unit = where, starts, tags, unit
