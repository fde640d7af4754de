"""VOPD instructions to steps: two vector operations that read their sources before either writes.

Fields: SRCX0 8..0, VSRCX1 16..9, OPY 21..17, OPX 25..22, SRCY0 40..32, VSRCY1 48..41, VDSTY 55..49
(its lowest bit is the inverse of VDSTX's), VDSTX 63..56; a literal follows both.
"""

from __future__ import annotations

import dataclasses

from tessera.emulator import operands as op
from tessera.emulator.decode import Instruction
from tessera.emulator.registers import FIRST_VGPR, SCALAR_REGISTERS, members
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Mode, Run, Step
from tessera.emulator.vector_alu import Operands, build, operation_of, value_kinds


def translate_vopd(instruction: Instruction, mode: Mode) -> Step:
    """Two halves as steps of their own, run in an order that keeps them independent."""
    first_name, second_name = instruction.name.split("::")
    destination = instruction.field(63, 56)
    other = instruction.field(55, 49) << 1 | (destination & 1 ^ 1)
    x = _half(
        instruction,
        first_name,
        (instruction.field(8, 0), instruction.field(16, 9)),
        destination,
        mode,
    )
    y = _half(
        instruction,
        second_name,
        (instruction.field(40, 32), instruction.field(48, 41)),
        other,
        mode,
    )
    if not x.writes & y.reads:
        order = (x.run, y.run)
    elif not y.writes & x.reads:
        order = (y.run, x.run)
    else:
        return _exchanged(instruction, x, y)
    first, second = order

    def run(g: WaveGroup) -> None:
        first(g)
        second(g)

    return _joined(instruction, run, x, y)


def _joined(instruction: Instruction, run: Run, x: Step, y: Step) -> Step:
    return Step(
        instruction,
        run,
        x.reads | y.reads,
        x.writes | y.writes,
        x.keeps | y.keeps,
        unchecked=(x.unchecked & ~y.reads) | (y.unchecked & ~x.reads) | (x.unchecked & y.unchecked),
        copies=x.copies + y.copies,
    )


def _half(
    instruction: Instruction, name: str, sources: tuple[int, int], destination: int, mode: Mode
) -> Step:
    plain = dataclasses.replace(instruction, name=name.replace("V_DUAL_", "V_"))
    operation = operation_of(plain)
    first, second = sources[0], FIRST_VGPR + sources[1]
    order = [first, second]
    if "FMAMK" in name:
        order = [first, op.LITERAL, second]
    elif "FMAAK" in name:
        order = [first, second, op.LITERAL]
    order = order[: len(value_kinds(operation))]
    return build(plain, operation, Operands(order, [False] * len(order), destination), mode)


def _exchanged(instruction: Instruction, x: Step, y: Step) -> Step:
    """Each half reads what the other writes: X's result is put aside while Y runs."""
    register = next(r for r in members(x.writes) if r >= SCALAR_REGISTERS) - FIRST_VGPR

    def run(g: WaveGroup) -> None:
        row = g.u32[register]
        before = row.copy()
        x.run(g)
        result = row.copy()
        row[...] = before
        y.run(g)
        row[...] = result

    return _joined(instruction, run, x, y)
