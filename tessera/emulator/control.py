"""SOPP, and what else moves the program counter or waits: branches, barriers, waits, messages.

A step that ends a block has `control` set: "jump" (its run returns the next pc), "barrier", "end".
The next pc is an int, or int64 [waves] when waves part.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessera.emulator import operands as op
from tessera.emulator.decode import Instruction
from tessera.emulator.errors import TrapError
from tessera.emulator.registers import EXEC_LO, SCC_BIT, VCC_LO, register_set
from tessera.emulator.scalar_alu import translate_sop1
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Mode, Step, unsupported

NO_EFFECT = (
    "S_NOP",
    "S_SLEEP",
    "S_CLAUSE",
    "S_DELAY_ALU",
    "S_SET_INST_PREFETCH_DISTANCE",
    "S_SETPRIO",
    "S_INCPERFLEVEL",
    "S_DECPERFLEVEL",
    "S_TTRACEDATA",
    "S_TTRACEDATA_IMM",
    "S_ICACHE_INV",
    "S_WAIT_IDLE",
    "S_WAKEUP",
    "S_WAIT_EVENT",
    "S_WAITCNT_DEPCTR",
    "S_CODE_END",
    "S_VERSION",
    "S_SETKILL",
)
MESSAGE_DEALLOCATE_VGPRS, MESSAGE_INTERRUPT = 3, 1
MESSAGE_REALTIME = 131
REGISTER_MODE, REGISTER_STATUS, REGISTER_HW_ID1, REGISTER_HW_ID2 = 1, 2, 23, 24
REGISTER_SHADER_CYCLES = 29
BRANCH_CONDITIONS: dict[str, tuple[int, Callable[[WaveGroup], np.ndarray]]] = {
    "S_CBRANCH_SCC0": (SCC_BIT, lambda g: ~g.scc),
    "S_CBRANCH_SCC1": (SCC_BIT, lambda g: g.scc),
    "S_CBRANCH_VCCZ": (1 << VCC_LO, lambda g: g.sgpr[VCC_LO] == 0),
    "S_CBRANCH_VCCNZ": (1 << VCC_LO, lambda g: g.sgpr[VCC_LO] != 0),
    "S_CBRANCH_EXECZ": (1 << EXEC_LO, lambda g: g.sgpr[EXEC_LO] == 0),
    "S_CBRANCH_EXECNZ": (1 << EXEC_LO, lambda g: g.sgpr[EXEC_LO] != 0),
}
# Branches on a debugger's conditions, which are never set here.
NEVER_TAKEN = (
    "S_CBRANCH_CDBGSYS",
    "S_CBRANCH_CDBGUSER",
    "S_CBRANCH_CDBGSYS_OR_USER",
    "S_CBRANCH_CDBGSYS_AND_USER",
)
ENDS = ("S_ENDPGM", "S_ENDPGM_SAVED", "S_ENDPGM_ORDERED_PS_DONE")
INDIRECT = ("S_SETPC_B64", "S_SWAPPC_B64", "S_CALL_B64")
MODE_CHANGES = ("S_ROUND_MODE", "S_DENORM_MODE", "S_SETREG_B32", "S_SETREG_IMM32_B32")


def ends_block(instruction: Instruction) -> bool:
    """Whether no straight-line code continues behind an instruction."""
    name = instruction.name
    return (
        name in (*ENDS, *INDIRECT, *MODE_CHANGES, "S_BRANCH", "S_BARRIER", "S_TRAP", "S_SETHALT")
        or name in BRANCH_CONDITIONS
        or name.startswith("S_CBRANCH")
    )


def branch_target(instruction: Instruction) -> int | None:
    """The pc that a relative branch or call goes to; None for other instructions."""
    name = instruction.name
    if name == "S_BRANCH" or name == "S_CALL_B64" or name.startswith("S_CBRANCH"):
        offset = instruction.field(15, 0)
        offset -= (offset >> 15) << 16
        return instruction.pc + 4 + 4 * offset
    return None


def translate_sopp(instruction: Instruction, mode: Mode) -> Step:
    """SOPP: SIMM16 in bits 15..0."""
    name, constant = instruction.name, instruction.field(15, 0)
    after = instruction.pc + instruction.size
    if name in NO_EFFECT:
        return Step(instruction, lambda g: None)
    if name == "S_WAITCNT":
        limits = {"vm": constant >> 10 & 63, "lgkm": constant >> 4 & 63, "exp": constant & 7}
        return Step(instruction, lambda g: None, wait=_waiter(limits))
    if name in BRANCH_CONDITIONS or name in ("S_BRANCH", *NEVER_TAKEN):
        return _branch(instruction)
    if name == "S_BARRIER":
        return Step(instruction, lambda g: after, control="barrier")
    if name in ENDS:
        return Step(instruction, lambda g: None, control="end")
    if name in ("S_ROUND_MODE", "S_DENORM_MODE"):
        shift = 0 if name == "S_ROUND_MODE" else 4
        return Step(
            instruction, _mode_setter(15 << shift, constant << shift, after), control="jump"
        )
    if name in ("S_TRAP", "S_SETHALT"):
        return Step(instruction, _trap(instruction), control="jump")
    if name == "S_SENDMSG" and constant & 0xFF in (MESSAGE_DEALLOCATE_VGPRS, MESSAGE_INTERRUPT):
        return Step(instruction, lambda g: None)
    raise unsupported(instruction)


def _waiter(limits: dict[str, int]) -> Callable[[WaveGroup], None]:
    def wait(g: WaveGroup) -> None:
        for counter, limit in limits.items():
            if counter in g.pending:
                g.batch.checks.wait(g, counter, limit)

    return wait


def _branch(instruction: Instruction) -> Step:
    after = instruction.pc + instruction.size
    target = branch_target(instruction)
    assert target is not None
    if instruction.name == "S_BRANCH":
        return Step(instruction, lambda g: target, control="jump", target=target)
    if instruction.name in NEVER_TAKEN:
        return Step(instruction, lambda g: after, control="jump", target=target)
    reads, condition = BRANCH_CONDITIONS[instruction.name]

    def run(g: WaveGroup) -> int | np.ndarray:
        taken = condition(g)
        count = np.count_nonzero(taken)
        if count == 0:
            return after
        if count == len(taken):
            return target
        return np.where(taken, target, after)

    return Step(instruction, run, reads, control="jump", target=target)


def _trap(instruction: Instruction) -> Callable[[WaveGroup], None]:
    def run(g: WaveGroup) -> None:
        raise TrapError(
            f"{g.batch.faults.kernel}: trap: {instruction.text} at pc "
            f"{instruction.pc - g.batch.faults.entry:#x}"
        )

    return run


def _mode_setter(mask: int, bits: int, after: int) -> Callable[[WaveGroup], int]:
    def run(g: WaveGroup) -> int:
        g.mode = g.mode & ~mask | bits & mask
        return after

    return run


def translate_sopk(instruction: Instruction, mode: Mode) -> Step:
    """SOPK: waits, hardware registers and calls here; the arithmetic in `scalar_alu`."""
    name, constant = instruction.name, instruction.field(15, 0)
    if name == "S_VERSION":
        return Step(instruction, lambda g: None)
    if name.startswith("S_WAITCNT_"):
        counter = {"VMCNT": "vm", "VSCNT": "vs", "LGKMCNT": "lgkm", "EXPCNT": "exp"}[
            name.removeprefix("S_WAITCNT_")
        ]
        if instruction.field(22, 16) != 124:
            raise unsupported(instruction, "a wait count from a register")
        return Step(instruction, lambda g: None, wait=_waiter({counter: constant & 63}))
    if name == "S_GETREG_B32":
        return _get_register(instruction, constant)
    if name in ("S_SETREG_B32", "S_SETREG_IMM32_B32"):
        return _set_register(instruction, constant)
    if name == "S_CALL_B64":
        return _jump(instruction)
    from tessera.emulator.scalar_alu import translate_sopk as translate_arithmetic

    return translate_arithmetic(instruction, mode)


def _register_field(constant: int) -> tuple[int, int, int]:
    """(register, first bit, number of bits) of a hwreg operand."""
    return constant & 63, constant >> 6 & 31, (constant >> 11) + 1


def _get_register(instruction: Instruction, constant: int) -> Step:
    number, first, count = _register_field(constant)
    destination = instruction.field(22, 16)

    def value_of(g: WaveGroup) -> np.ndarray:
        if number == REGISTER_MODE:
            return np.full(1, g.mode, np.uint32)
        if number == REGISTER_SHADER_CYCLES:
            return np.full(1, g.batch.executed & 0xFFFFF, np.uint32)
        if number == REGISTER_HW_ID1:
            return (g.wave_indices() & 31).astype(np.uint32)
        if number == REGISTER_STATUS:
            execz = (g.sgpr[EXEC_LO] == 0).astype(np.uint32)
            vccz = (g.sgpr[VCC_LO] == 0).astype(np.uint32)
            return g.scc.astype(np.uint32) | execz << np.uint32(9) | vccz << np.uint32(10)
        raise unsupported(instruction, f"hardware register {number}")

    mask = np.uint32((1 << count) - 1)

    def run(g: WaveGroup) -> None:
        op.store_scalar(g, destination, value_of(g) >> np.uint32(first) & mask)

    reads = SCC_BIT | 1 << VCC_LO | 1 << EXEC_LO if number == REGISTER_STATUS else 0
    return Step(instruction, run, reads, op.source_registers(destination, "u32"))


def _set_register(instruction: Instruction, constant: int) -> Step:
    """S_SETREG: only the MODE register can be written, with the same value in all waves."""
    number, first, count = _register_field(constant)
    after = instruction.pc + instruction.size
    if number != REGISTER_MODE:
        raise unsupported(instruction, f"write to hardware register {number}")
    mask = ((1 << count) - 1) << first
    if instruction.name == "S_SETREG_IMM32_B32":
        run = _mode_setter(mask, instruction.literal << first, after)
        return Step(instruction, run, control="jump")
    source = instruction.field(22, 16)

    def run_register(g: WaveGroup) -> int:
        values = np.unique(g.sgpr[source])
        if len(values) > 1:
            raise unsupported(instruction, "different MODE values in waves that run together")
        g.mode = g.mode & ~mask | int(values[0]) << first & mask
        return after

    reads = op.source_registers(source, "u32")
    return Step(instruction, run_register, reads, control="jump")


def translate_scalar_one(instruction: Instruction, mode: Mode) -> Step:
    """SOP1: jumps, pc and messages here; everything else in `scalar_alu`."""
    name, destination = instruction.name, instruction.field(22, 16)
    if name in INDIRECT:
        return _jump(instruction)
    if name == "S_GETPC_B64":
        after = instruction.pc + instruction.size

        def run(g: WaveGroup) -> None:
            value = np.array([g.batch.code_base + after], np.uint64)
            op.store_scalar_pair(g, destination, value)

        return Step(instruction, run, 0, register_set(destination, 2))
    if name in ("S_SENDMSG_RTN_B32", "S_SENDMSG_RTN_B64"):
        return _message(instruction, destination)
    if name == "S_RFE_B64":
        raise unsupported(instruction, "return from a trap handler")
    return translate_sop1(instruction, mode)


def _message(instruction: Instruction, destination: int) -> Step:
    if instruction.field(7, 0) != MESSAGE_REALTIME:
        raise unsupported(instruction, f"message {instruction.field(7, 0)}")
    wide = instruction.name.endswith("B64")

    def run(g: WaveGroup) -> None:
        value = np.array([g.batch.executed], np.uint64)
        if wide:
            op.store_scalar_pair(g, destination, value)
        else:
            op.store_scalar(g, destination, value.astype(np.uint32))

    written = register_set(destination, 2 if wide else 1)
    return Step(instruction, run, 0, written, counter="lgkm", returns=written, in_order=False)


def _jump(instruction: Instruction) -> Step:
    """S_SETPC, S_SWAPPC and S_CALL: the pc as a 64-bit address of the loaded code."""
    name, destination = instruction.name, instruction.field(22, 16)
    after, target = instruction.pc + instruction.size, branch_target(instruction)
    source = instruction.field(7, 0)
    fetch = None if name == "S_CALL_B64" else op.scalar_fetch(source, "u64", instruction.literal)

    def run(g: WaveGroup) -> int | np.ndarray:
        goal: int | np.ndarray
        if fetch is None:
            assert target is not None
            goal = target
        else:
            places = fetch(g).astype(np.int64) - g.batch.code_base
            same = np.count_nonzero(places == places[0]) == len(places)
            goal = int(places[0]) if same else places
        if name != "S_SETPC_B64":
            back = np.array([g.batch.code_base + after], np.uint64)
            op.store_scalar_pair(g, destination, back)
        return goal

    reads = 0 if fetch is None else op.source_registers(source, "u64")
    writes = 0 if name == "S_SETPC_B64" else register_set(destination, 2)
    return Step(instruction, run, reads, writes, control="jump", target=target)
