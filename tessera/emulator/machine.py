"""Wave groups and blocks to execution: the group with the lowest pc runs until it meets another.

Waves that part at a branch become groups of their own; groups that reach the same pc are joined, so
that reconverged waves run as one array again. At a barrier a group waits until all live waves of
its workgroups have come; a group that holds whole workgroups goes straight on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessera.emulator.errors import EmulatorError, InternalError
from tessera.emulator.program import Block, Program
from tessera.emulator.state import Batch, WaveGroup
from tessera.emulator.step import Step

# A group that only jumps backwards (a wave that spins on memory) gives way to the others after this
# many blocks.
BLOCKS_PER_TURN = 2000
NO_STOP = 1 << 62
LONGEST_WAVE = 5_000_000


class Machine:
    """Executes one batch of resident waves to its end."""

    def __init__(
        self,
        batch: Batch,
        program: Program,
        mode: int,
        limit: int | None,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.batch, self.program, self.trace = batch, program, trace
        # Without a limit of the caller's, one wave may execute as much as takes about a minute.
        self.limit = NO_STOP if limit is None else limit
        self.wave_limit = LONGEST_WAVE if limit is None else NO_STOP
        self.ready: list[WaveGroup] = []
        self.waiting: list[tuple[WaveGroup, Step]] = []
        workgroups = int(batch.workgroup.max()) + 1
        self.live = np.bincount(batch.workgroup, minlength=workgroups)
        self.arrived = np.zeros(workgroups, np.int64)
        self.ended = np.zeros(workgroups, bool)
        self._whole = WaveGroup(batch, None, program.entry, mode)
        self._whole.written = batch.defined
        self.ready.append(self._whole)
        self._turn = 0

    def run(self) -> None:
        """Run until every wave has ended."""
        while self.ready:
            group = self._next()
            others = min((g.pc for g in self.ready), default=NO_STOP)
            self._run_group(group, others)

    def _next(self) -> WaveGroup:
        """Take the ready group with the lowest pc; now and then the one that waited longest."""
        self._turn += 1
        if len(self.ready) > 1 and self._turn % 64 == 0:
            return self.ready.pop(0)
        lowest = min(range(len(self.ready)), key=lambda i: self.ready[i].pc)
        return self.ready.pop(lowest)

    def _run_group(self, g: WaveGroup, stop: int) -> None:
        """Run blocks while the pc lies below `stop`, the lowest pc of the other groups."""
        program, batch = self.program, self.batch
        checks = batch.checks
        slow = checks is not None or self.trace is not None
        blocks = program.blocks
        for _ in range(BLOCKS_PER_TURN if stop != NO_STOP else NO_STOP):
            block = blocks.get((g.pc, g.mode)) or program.block(g.pc, g.mode)
            block.count += g.count
            batch.executed += block.length * g.count
            g.steps += block.length
            if not g.whole:
                g.load(block.registers)
                g.dirty |= block.writes
            if slow:
                self._run_checked(g, block)
            else:
                _run_fast(g, block)
            if block.error is not None:
                raise block.error
            if batch.executed > self.limit or g.steps > self.wave_limit:
                self._too_long(g, block)
            if not self._finish(g, block):
                return
            if g.pc >= stop:
                break
        self._enqueue(g)

    def _finish(self, g: WaveGroup, block: Block) -> bool:
        """Do what ends the block; False when the group is no longer to be run as it is."""
        last = block.last
        if last is None:
            g.pc = block.next_pc
            return True
        if self.batch.checks is not None:
            self.batch.checks.before(last, g)
        if self.trace is not None:
            self._trace(g, last)
        if last.control == "end":
            self._end(g, last)
            return False
        after = last.run(g)
        if last.control == "barrier":
            return self._barrier(g, last, after)
        if isinstance(after, int):
            g.pc = after
            return True
        self._split(g, after)
        return False

    def _run_checked(self, g: WaveGroup, block: Block) -> None:
        checks = self.batch.checks
        for step in block.steps:
            if checks is not None:
                checks.before(step, g)
            if self.trace is not None:
                self._trace(g, step)
            try:
                step.run(g)
            except EmulatorError:
                raise
            except Exception as error:
                raise _internal(step, error) from error
            if checks is not None:
                checks.after(step, g)

    def _trace(self, g: WaveGroup, step: Step) -> None:
        if self.trace is not None and (g.index is None or g.index[0] == 0):
            pc = step.instruction.pc - self.program.entry
            self.trace(f"{pc:#06x}  {step.instruction.text}")

    def _split(self, g: WaveGroup, goals: np.ndarray) -> None:
        """Part the waves of a group by their next pc, int64 [waves]."""
        g.flush()
        indices = g.wave_indices()
        for goal in np.unique(goals):
            part = WaveGroup(self.batch, indices[goals == goal], int(goal), g.mode)
            part.inherit(g)
            self._enqueue(part)

    def _enqueue(self, g: WaveGroup) -> None:
        """Make a group ready, joined with those that wait at the same pc."""
        same = [h for h in self.ready if h.pc == g.pc and h.mode == g.mode]
        if same:
            self.ready = [h for h in self.ready if h not in same]
            g = self._join([g, *same])
        self.ready.append(g)

    def _join(self, groups: list[WaveGroup]) -> WaveGroup:
        for g in groups:
            g.flush()
        index = np.sort(np.concatenate([g.wave_indices() for g in groups]))
        if len(index) == self.batch.waves:
            joined = self._whole
            joined.restart(groups[0].pc, groups[0].mode)
        else:
            joined = WaveGroup(self.batch, index, groups[0].pc, groups[0].mode)
        for g in groups:
            joined.inherit(g)
        return joined

    def _barrier(self, g: WaveGroup, step: Step, after: int) -> bool:
        g.pc = after
        counts = np.bincount(g.workgroup, minlength=len(self.live))
        checks = self.batch.checks
        if not self.waiting and np.array_equal(counts[counts > 0], self.live[counts > 0]):
            if checks is not None:
                checks.barrier_passed(step, g, np.flatnonzero(counts), self.ended)
            return True
        g.flush()
        self.arrived += counts
        self.waiting.append((g, step))
        self._release()
        return False

    def _release(self) -> None:
        """Let those workgroups go on whose live waves have all arrived at a barrier."""
        full = (self.arrived > 0) & (self.arrived == self.live)
        if not full.any():
            return
        checks = self.batch.checks
        if checks is not None:
            checks.barrier_met(self.waiting, full, self.ended)
        still: list[tuple[WaveGroup, Step]] = []
        released: list[WaveGroup] = []
        for g, step in self.waiting:
            go = full[g.workgroup]
            if not go.any():
                still.append((g, step))
                continue
            indices = g.wave_indices()
            for chosen, into in ((go, released), (~go, None)):
                if not chosen.any():
                    continue
                part = g
                if not chosen.all():
                    part = WaveGroup(self.batch, indices[chosen], g.pc, g.mode)
                    part.inherit(g)
                if into is None:
                    still.append((part, step))
                else:
                    into.append(part)
        self.waiting = still
        self.arrived[full] = 0
        for g in released:
            self._enqueue(g)

    def _end(self, g: WaveGroup, step: Step) -> None:
        """Waves of a group end; workgroups that waited only for them go on."""
        checks = self.batch.checks
        counts = np.bincount(g.workgroup, minlength=len(self.live))
        self.live -= counts
        self.ended |= (counts > 0) & (self.live > 0)
        if checks is not None and self.waiting:
            checks.ended_at_barrier(step, g, self.waiting)
        if self.waiting:
            self._release()

    def _too_long(self, g: WaveGroup, block: Block) -> None:
        instruction = (block.last or block.steps[-1]).instruction
        self.batch.faults.raises = True
        count = (
            f"{self.limit} wave-instructions"
            if self.limit != NO_STOP
            else f"{self.wave_limit} instructions of one wave"
        )
        self.batch.faults.report(
            "instruction_limit",
            instruction,
            f"more than {count} executed: an infinite loop, or raise max_instructions",
            g,
            0,
        )


def _run_fast(g: WaveGroup, block: Block) -> None:
    run = None
    try:
        for run in block.runs:
            run(g)
    except EmulatorError:
        raise
    except Exception as error:
        step = next(step for step in block.steps if step.run is run)
        raise _internal(step, error) from error


def _internal(step: Step, error: Exception) -> InternalError:
    instruction = step.instruction
    return InternalError(
        f"{instruction.name} at pc {instruction.pc:#x} `{instruction.text}`: "
        f"{type(error).__name__}: {error}"
    )
