"""Executed accesses to findings: uninitialised reads, missing waits, misalignment, races, barriers.

One `Checks` belongs to one batch of waves. Registers are the business of `register_checks`, what is
kept per byte of LDS of `lds_checks`.
"""

from __future__ import annotations

import numpy as np

from tessera.emulator.decode import Instruction
from tessera.emulator.faults import first_lane
from tessera.emulator.lds_checks import LdsChecks
from tessera.emulator.memory import Buffer
from tessera.emulator.register_checks import RegisterChecks
from tessera.emulator.registers import (
    LANES,
)
from tessera.emulator.state import Batch, WaveGroup
from tessera.emulator.step import Step

# Addresses in global memory and scratch must be multiples of the access's size up to a dword; the
# LDS wants the whole size up to 8 bytes, and 16 for 16 bytes (12 bytes: a dword).
LDS_ALIGNMENT = {1: 1, 2: 2, 4: 4, 8: 8, 12: 4, 16: 16}


class Checks:
    """The sanitizers of one batch."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.lds = LdsChecks(batch)
        self.registers = RegisterChecks(batch)
        self.scratch_defined = self.registers.scratch_defined

    def before(self, step: Step, g: WaveGroup) -> None:
        """Check a step's registers, then note what it writes and what it has outstanding."""
        self.registers.before(step, g)

    def after(self, step: Step, g: WaveGroup) -> None:
        """Note the lanes that a step has written."""
        self.registers.after(step, g)

    def wait(self, g: WaveGroup, counter: str, limit: int) -> None:
        """All but the youngest `limit` accesses of a counter are complete."""
        self.registers.wait(g, counter, limit)

    # Memory ----------------------------------------------------------------------------------

    def _align(
        self,
        instruction: Instruction,
        g: WaveGroup,
        places: np.ndarray,
        alignment: int,
        what: str,
        mask: np.ndarray | None,
        buffer: str,
    ) -> None:
        wrong = places & (alignment - 1) != 0
        if mask is not None:
            wrong &= mask
        if not wrong.any():
            return
        wave, lane = first_lane(wrong)
        address = int(places[wave, lane])
        self.batch.faults.report(
            "misaligned",
            instruction,
            f"access at {what} {address:#x}, which is not a multiple of {alignment}",
            g,
            wave,
            lane,
            address,
            buffer,
        )

    def _undefined(
        self, defined: np.ndarray, positions: np.ndarray, size: int, mask: np.ndarray | None
    ) -> tuple[int, int] | None:
        """Row and lane of the first read of a byte that was never written."""
        bad = ~defined[positions]
        for byte in range(1, size):
            bad |= ~defined[positions + byte]
        if mask is not None:
            bad &= mask
        return first_lane(bad) if bad.any() else None

    def global_access(
        self,
        instruction: Instruction,
        g: WaveGroup,
        buffer: Buffer,
        positions: np.ndarray,
        size: int,
        write: bool,
        mask: np.ndarray | None,
    ) -> None:
        """Check `size` bytes at `positions` of a mapped buffer."""
        if size > 1:
            start = positions + buffer.base
            self._align(instruction, g, start, min(size, 4), "address", mask, buffer.name)
        if buffer.defined is None:
            return
        if write:
            _mark(buffer.defined, positions, size, mask)
            return
        found = self._undefined(buffer.defined, positions, size, mask)
        if found is not None:
            wave, lane = found
            offset = int(positions[wave, lane])
            self.batch.faults.report(
                "uninitialized",
                instruction,
                f"load of {size} bytes at byte {offset} of {buffer.name!r}, never written",
                g,
                wave,
                lane if positions.shape[1] == LANES else None,
                buffer.base + offset,
                buffer.name,
            )

    def scratch_access(
        self,
        instruction: Instruction,
        g: WaveGroup,
        positions: np.ndarray,
        size: int,
        write: bool,
        mask: np.ndarray | None,
    ) -> None:
        """Check `size` bytes at `positions` of the batch's scratch storage."""
        if size > 1:
            self._align(instruction, g, positions, min(size, 4), "scratch", mask, "scratch")
        # What is defined in scratch follows the registers: compilers spill undefined values.
        self.registers.scratch = (positions, size, mask)

    def lds_access(
        self,
        instruction: Instruction,
        g: WaveGroup,
        positions: np.ndarray,
        size: int,
        write: bool,
        mask: np.ndarray | None,
    ) -> None:
        """Check alignment, definedness and races of `size` bytes at `positions` of the LDS."""
        self._align(instruction, g, positions, LDS_ALIGNMENT[size], "LDS byte", mask, "LDS")
        atomic = write and not instruction.name.startswith(("DS_STORE_", "FLAT_STORE_"))
        self.lds.access(instruction, g, positions, size, write, atomic, mask)

    # Barriers --------------------------------------------------------------------------------

    def barrier_passed(
        self, step: Step, g: WaveGroup, workgroups: np.ndarray, ended: np.ndarray
    ) -> None:
        """All live waves of these workgroups are at one barrier together."""
        self.lds.barrier(workgroups)
        gone = ended[g.workgroup]
        if gone.any():
            self._report_ended(step, g, int(np.argmax(gone)))

    def barrier_met(
        self, waiting: list[tuple[WaveGroup, Step]], full: np.ndarray, ended: np.ndarray
    ) -> None:
        """Waves of the workgroups `full` (bool per workgroup) have met; perhaps at two barriers."""
        self.lds.barrier(full)
        place = np.full(len(full), -1, np.int64)
        for g, step in waiting:
            pc = step.instruction.pc
            for workgroup in np.unique(g.workgroup):
                if not full[workgroup]:
                    continue
                wave = int(np.argmax(g.workgroup == workgroup))
                if place[workgroup] >= 0 and place[workgroup] != pc:
                    other = int(place[workgroup]) - self.batch.faults.entry
                    self.batch.faults.report(
                        "barrier",
                        step.instruction,
                        f"waves of one workgroup wait at different barriers, others at {other:#x}",
                        g,
                        wave,
                    )
                place[workgroup] = pc
                if ended[workgroup]:
                    self._report_ended(step, g, wave)

    def ended_at_barrier(
        self, step: Step, ending: WaveGroup, waiting: list[tuple[WaveGroup, Step]]
    ) -> None:
        """Waves end while others of their workgroup wait at a barrier."""
        for g, barrier in waiting:
            left = np.isin(g.workgroup, ending.workgroup)
            if left.any():
                self._report_ended(barrier, g, int(np.argmax(left)))

    def _report_ended(self, step: Step, g: WaveGroup, wave: int) -> None:
        self.batch.faults.report(
            "barrier",
            step.instruction,
            "a barrier that other waves of the workgroup never reach: they have ended",
            g,
            wave,
        )


def _mark(defined: np.ndarray, positions: np.ndarray, size: int, mask: np.ndarray | None) -> None:
    if mask is not None:
        positions = positions[mask]
    for byte in range(size):
        defined[positions + byte] = True
