"""A kernel's machine code to basic blocks of steps, decoded and translated once.

Leaders (entry, branch targets, what follows a block's end) are found by following the code from the
entry. An unknown word on a path is reported only when the path is executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tessera.emulator.control import ENDS, branch_target, ends_block
from tessera.emulator.decode import Instruction, decode
from tessera.emulator.errors import UnsupportedInstructionError
from tessera.emulator.registers import FIRST_VGPR
from tessera.emulator.step import Mode, Run, Step, unsupported
from tessera.emulator.translate import translate


@dataclass
class Block:
    """Straight-line steps from `pc`, with what ends them; `count` is of executed waves."""

    pc: int
    steps: tuple[Step, ...]
    last: Step | None
    next_pc: int
    error: UnsupportedInstructionError | None
    runs: tuple[Run, ...]
    registers: int
    writes: int
    length: int
    count: int = 0


class Program:
    """One kernel's code; shared by all launches of the code object."""

    def __init__(
        self, code: bytes, ranges: tuple[tuple[int, int], ...], entry: int, vgprs: int
    ) -> None:
        self.code, self.ranges, self.entry, self.vgprs = code, ranges, entry, vgprs
        self.instructions: dict[int, Instruction] = {}
        self.leaders: set[int] = {entry}
        self.broken: dict[int, UnsupportedInstructionError] = {}
        self.blocks: dict[tuple[int, int], Block] = {}
        self._follow(entry)

    def _follow(self, start: int) -> None:
        """Decode everything reachable from `start` by static control flow."""
        waiting = [start]
        while waiting:
            pc = waiting.pop()
            while pc not in self.instructions and pc not in self.broken:
                instruction = self._decode(pc)
                if instruction is None:
                    break
                after = pc + instruction.size
                target = branch_target(instruction)
                if target is not None:
                    self.leaders.add(target)
                    waiting.append(target)
                if ends_block(instruction):
                    self.leaders.add(after)
                    if instruction.name in ("S_BRANCH", "S_SETPC_B64", *ENDS):
                        break
                pc = after

    def _decode(self, pc: int) -> Instruction | None:
        try:
            if not any(low <= pc < high for low, high in self.ranges):
                raise UnsupportedInstructionError(
                    f"the program runs outside its code at pc {pc:#x}"
                )
            instruction = decode(self.code, pc)
        except UnsupportedInstructionError as error:
            self.broken[pc] = error
            return None
        self.instructions[pc] = instruction
        return instruction

    def block(self, pc: int, mode_bits: int) -> Block:
        """The block at `pc` under a MODE; a new leader (an indirect jump) cuts the old blocks."""
        block = self.blocks.get((pc, mode_bits))
        if block is None:
            if pc not in self.leaders:
                self.leaders.add(pc)
                self._follow(pc)
            block = self._make(pc, Mode.from_bits(mode_bits))
            self.blocks[pc, mode_bits] = block
        return block

    def _check_registers(self, step: Step) -> None:
        """Refuse a register that the kernel's descriptor does not allocate."""
        used = (step.reads | step.writes | step.keeps) >> FIRST_VGPR
        if used >> self.vgprs and "REL" not in step.instruction.name:
            why = f"v{used.bit_length() - 1} is used, {self.vgprs} vector registers are allocated"
            raise unsupported(step.instruction, why)

    def _make(self, start: int, mode: Mode) -> Block:
        steps: list[Step] = []
        last, error, pc = None, None, start
        while True:
            instruction = self.instructions.get(pc) or self._decode(pc)
            if instruction is None:
                error = self.broken[pc]
                break
            try:
                step = translate(instruction, mode)
                self._check_registers(step)
            except UnsupportedInstructionError as problem:
                error = problem
                break
            pc += instruction.size
            if step.control:
                last = step
                break
            steps.append(step)
            if pc in self.leaders:
                break
        every = [*steps, last] if last is not None else steps
        registers, writes = 0, 0
        for step in every:
            registers |= step.reads | step.writes | step.keeps
            writes |= step.writes
        return Block(
            start,
            tuple(steps),
            last,
            pc,
            error,
            tuple(step.run for step in steps if step.instruction.format != "SOPP"),
            registers,
            writes,
            len(every),
        )


@lru_cache(maxsize=64)
def program_of(
    image: bytes, ranges: tuple[tuple[int, int], ...], entry: int, vgprs: int
) -> Program:
    """The program whose code starts at `entry` of a loaded image, cached."""
    return Program(image, ranges, entry, vgprs)
