"""Executed steps to findings about registers: never written, or used while a load is outstanding.

Scalar registers are tracked per wave group, vector registers per lane. A lane that was off when a
register was first written has no value. Copies (moves, selects, spills to scratch) pass that on
without a finding, as compilers copy values that are defined only where they matter; arithmetic and
addresses made of them are reported.
"""

from __future__ import annotations

import numpy as np

from tessera.emulator.faults import first_lane
from tessera.emulator.matrix import replicas_differ
from tessera.emulator.registers import FIRST_VGPR, LANES, members, name_of, vector_set
from tessera.emulator.state import Batch, WaveGroup
from tessera.emulator.step import Step

COUNTER_NAMES = {"vm": "vmcnt", "vs": "vscnt", "lgkm": "lgkmcnt"}
# Marks of an outstanding access beside the registers that it returns.
FLAG_OUT_OF_ORDER = 1 << 1024
FLAG_LDS_STORE = 1 << 1025
MOST_OUTSTANDING = 64
FLAGS = FLAG_OUT_OF_ORDER | FLAG_LDS_STORE
SCALARS = (1 << FIRST_VGPR) - 1


class RegisterChecks:
    """What is known of the registers of one batch of waves."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        # Lanes with a value, bool [registers, waves, 32]; registers in `complete` have all of them.
        self.defined = np.zeros((batch.vgprs, batch.waves, LANES), bool)
        self.complete = 0
        self.scratch_defined = np.zeros(len(batch.scratch.bytes), bool)
        # The scratch bytes of the access that is being executed: (positions, size, mask).
        self.scratch: tuple[np.ndarray, int, np.ndarray | None] | None = None
        self.defined[0] = True
        # Registers that the step before has copied from one without a value.
        self.lost = 0

    def before(self, step: Step, g: WaveGroup) -> None:
        """Check a step's registers, then note what it writes and what it has outstanding."""
        if step.wait is not None:
            step.wait(g)
            return
        if g.pending:
            self._check_pending(step, g)
            if step.control == "barrier":
                self._check_barrier(step, g)
        if step.instruction.format.startswith("VOP"):
            self._check_matrix(step, g)
        missing = step.reads & ~g.written
        self.lost = 0
        if missing:
            loud = missing & ~step.tolerated
            for target, source in step.copies:
                if missing >> source & 1 and step.unchecked >> source & 1:
                    loud &= ~(1 << source)
                    self.lost |= 1 << target
            if loud:
                self._report_unwritten(step, g, loud)
        partial = step.reads & ~step.unchecked & ~self.complete & ~SCALARS & ~missing
        if partial:
            self._check_lanes(step, g, partial)
        g.written |= step.writes
        g.written &= ~(self.lost & SCALARS)
        if step.counter:
            self._note_outstanding(step, g)

    def _note_outstanding(self, step: Step, g: WaveGroup) -> None:
        """Add an access to its counters. Stores to memory return nothing that could be missed.

        The counters hold 63 accesses at most: before the next one is issued, the oldest is done.
        """
        entry = step.returns | (0 if step.in_order else FLAG_OUT_OF_ORDER)
        if step.data and step.instruction.format == "DS":
            entry |= FLAG_LDS_STORE
        for counter in step.counter.split("+"):
            if counter != "vs" or entry:
                entries = g.pending.setdefault(counter, [])
                entries.append(entry)
                if len(entries) > MOST_OUTSTANDING:
                    del entries[0]
        g.outstanding |= entry

    def _check_matrix(self, step: Step, g: WaveGroup) -> None:
        """A and B must be the same in both lane halves, and not the result just computed."""
        before, g.matrix_result = g.matrix_result, 0
        if step.matrix is None:
            return
        g.matrix_result = step.writes
        (a, count), (b, _) = step.matrix
        if before & (vector_set(a, count) | vector_set(b, count)):
            message = (
                "A or B is the result of the matrix instruction before; a v_nop or another vector "
                "instruction must stand between"
            )
            self.batch.faults.report("hazard", step.instruction, message, g, 0)
        differs = replicas_differ(g.file[a : a + count], g.file[b : b + count])
        if differs.any():
            wave = int(np.argmax(differs))
            message = "A or B differs between lanes 0-15 and 16-31, which must hold the same"
            self.batch.faults.report("matrix_operands", step.instruction, message, g, wave)

    def _report_unwritten(self, step: Step, g: WaveGroup, missing: int) -> None:
        names = ", ".join(name_of(r) for r in members(missing)[:4])
        g.written |= missing
        message = f"read of {names}, which no instruction has written"
        self.batch.faults.report("uninitialized", step.instruction, message, g, 0)

    def _check_lanes(self, step: Step, g: WaveGroup, registers: int) -> None:
        for register in members(registers):
            lanes = self._lanes(g, register - FIRST_VGPR)
            if lanes is None:
                continue
            if lanes.all():
                if g.index is None:
                    self.complete |= 1 << register
                continue
            bad = ~lanes if g.mask is None else g.mask & ~lanes
            if bad.any():
                wave, lane = first_lane(bad)
                message = f"read of {name_of(register)} in a lane that never wrote it"
                self._mark(g, register - FIRST_VGPR, None, True)
                self.batch.faults.report("uninitialized", step.instruction, message, g, wave, lane)

    def _lanes(self, g: WaveGroup, number: int) -> np.ndarray | None:
        if number >= len(self.defined):
            return None
        rows = self.defined[number]
        return rows if g.index is None else rows[g.index]

    def _mark(
        self, g: WaveGroup, number: int, mask: np.ndarray | None, value: np.ndarray | bool
    ) -> None:
        """Set which lanes of a register have a value, under a lane mask (None: all lanes)."""
        if number >= len(self.defined):
            return
        rows = self.defined[number]
        if g.index is None:
            np.copyto(rows, value, where=True if mask is None else mask)
            return
        new = rows[g.index]
        np.copyto(new, value, where=True if mask is None else mask)
        rows[g.index] = new

    def after(self, step: Step, g: WaveGroup) -> None:
        """Note the lanes that a step has written, and what a copy or spill has passed on."""
        if self.scratch is not None:
            self._pass_scratch(step, g)
            return
        copies = dict(step.copies)
        for register in members(step.writes & ~SCALARS):
            number = register - FIRST_VGPR
            source = copies.get(register, 0)
            mask = None if step.ignores_exec else g.mask
            if self.lost >> register & 1 and source < FIRST_VGPR and not step.ignores_exec:
                self.complete &= ~(1 << register)
                self._mark(g, number, mask, False)
                continue
            if source >= FIRST_VGPR and not self.complete >> source & 1:
                lanes = self._lanes(g, source - FIRST_VGPR)
                if lanes is not None and not lanes.all():
                    self.complete &= ~(1 << register)
                    self._mark(g, number, mask, lanes)
                    continue
            if self.complete >> register & 1:
                continue
            self._mark(g, number, mask, True)
            if g.index is None and mask is None:
                self.complete |= 1 << register

    def _pass_scratch(self, step: Step, g: WaveGroup) -> None:
        """Spilled lanes keep what is known of them: per register word of the access."""
        assert self.scratch is not None
        positions, size, mask = self.scratch
        self.scratch = None
        loaded = members(step.returns)
        stored = [r for r in members(step.data) if r >= FIRST_VGPR]
        for word, register in enumerate(loaded or stored):
            first, count = 4 * word, min(4, size - 4 * word)
            number = register - FIRST_VGPR
            if loaded:
                lanes = np.ones(positions.shape, bool)
                for byte in range(first, first + count):
                    lanes &= self.scratch_defined[positions + byte]
                if not lanes.all():
                    self.complete &= ~(1 << register)
                self._mark(g, number, mask, lanes)
                continue
            lanes = self._lanes(g, number)
            if lanes is None:
                continue
            where = positions if mask is None else positions[mask]
            known = lanes if mask is None else lanes[mask]
            for byte in range(first, first + count):
                self.scratch_defined[where + byte] = known

    def _check_pending(self, step: Step, g: WaveGroup) -> None:
        if not g.outstanding & (step.reads | step.writes):
            return
        for counter, entries in g.pending.items():
            touched = step.reads | step.writes
            if counter in step.counter.split("+") and step.in_order:
                # Loads of one kind return in order, so the later one may target the same register.
                touched = step.reads
            for entry in entries:
                hit = entry & touched & ~FLAGS
                if not hit:
                    continue
                name = name_of(members(hit)[0])
                use = "read" if hit & step.reads else "overwritten"
                g.pending, g.outstanding = {}, 0
                self.batch.faults.report(
                    "missing_wait",
                    step.instruction,
                    f"{name} is {use} while its load is outstanding; an s_waitcnt "
                    f"{COUNTER_NAMES[counter]} is missing",
                    g,
                    0,
                )
                return

    def _check_barrier(self, step: Step, g: WaveGroup) -> None:
        """What other waves read after a barrier must have reached the LDS before it."""
        entries = g.pending.get("lgkm", [])
        if any(entry & FLAG_LDS_STORE for entry in entries):
            g.pending["lgkm"] = [entry & ~FLAG_LDS_STORE for entry in entries]
            message = "an LDS store is outstanding at the barrier; an s_waitcnt lgkmcnt is missing"
            self.batch.faults.report("missing_wait", step.instruction, message, g, 0)

    def wait(self, g: WaveGroup, counter: str, limit: int) -> None:
        """All but the youngest `limit` accesses of a counter are complete.

        Scalar loads return in any order, so only a wait for 0 completes them.
        """
        entries = g.pending[counter]
        if limit == 0:
            del g.pending[counter]
        else:
            done = max(0, len(entries) - limit)
            kept = [entry for entry in entries[:done] if entry & FLAG_OUT_OF_ORDER]
            g.pending[counter] = kept + entries[done:]
        g.outstanding = 0
        for left in g.pending.values():
            for entry in left:
                g.outstanding |= entry
