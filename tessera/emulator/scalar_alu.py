"""SOP1, SOP2, SOPC and SOPK instructions to steps on scalar registers, SCC and EXEC.

What an operation computes stands in `semantics.SCALAR_OPS`; here are the moves that involve EXEC,
M0-relative registers, the constants in SOPK, and the wiring of SCC.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from tessera.emulator import modifiers
from tessera.emulator import operands as op
from tessera.emulator.decode import Instruction
from tessera.emulator.errors import UnsupportedInstructionError
from tessera.emulator.registers import EXEC_LO, M0, NULL, SCC_BIT, members, register_union
from tessera.emulator.semantics import SCALAR_OPS, ScalarOp
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Mode, Run, Step, unsupported

Logic = Callable[[np.ndarray, np.ndarray], np.ndarray]
# (source, EXEC) -> new EXEC, by the name in front of _SAVEEXEC or _WREXEC.
EXEC_LOGIC: dict[str, Logic] = {
    "S_AND": lambda s, e: s & e,
    "S_OR": lambda s, e: s | e,
    "S_XOR": lambda s, e: s ^ e,
    "S_NAND": lambda s, e: ~(s & e),
    "S_NOR": lambda s, e: ~(s | e),
    "S_XNOR": lambda s, e: ~(s ^ e),
    "S_AND_NOT0": lambda s, e: ~s & e,
    "S_AND_NOT1": lambda s, e: s & ~e,
    "S_OR_NOT0": lambda s, e: ~s | e,
    "S_OR_NOT1": lambda s, e: s | ~e,
}


MASK_LOGIC = ("S_AND_B32", "S_OR_B32", "S_XOR_B32", "S_AND_NOT1_B32", "S_OR_NOT1_B32")
# 64-bit operations whose low result does not depend on the operands' high halves.
HALVES_APART = (
    "S_LSHL_B64",
    "S_NOT_B64",
    "S_AND_B64",
    "S_OR_B64",
    "S_XOR_B64",
    "S_NAND_B64",
    "S_NOR_B64",
    "S_XNOR_B64",
    "S_AND_NOT1_B64",
    "S_OR_NOT1_B64",
)


def translate_sop1(instruction: Instruction, mode: Mode) -> Step:
    """SOP1: SSRC0 bits 7..0, SDST bits 22..16."""
    name = instruction.name
    source, destination = instruction.field(7, 0), instruction.field(22, 16)
    if "SAVEEXEC" in name or "WREXEC" in name:
        return _exec_step(instruction, source, destination)
    if "MOVREL" in name:
        return _relative_step(instruction, source, destination)
    return build(instruction, [source], destination, mode)


def translate_sop2(instruction: Instruction, mode: Mode) -> Step:
    """SOP2: SSRC0 bits 7..0, SSRC1 bits 15..8, SDST bits 22..16."""
    first, second = instruction.field(7, 0), instruction.field(15, 8)
    sources = [first, second]
    if "FMAMK" in instruction.name:
        sources = [first, op.LITERAL, second]
    elif "FMAAK" in instruction.name:
        sources = [first, second, op.LITERAL]
    return build(instruction, sources, instruction.field(22, 16), mode)


def translate_sopc(instruction: Instruction, mode: Mode) -> Step:
    """SOPC: SSRC0 and SSRC1; only SCC is written."""
    return build(instruction, [instruction.field(7, 0), instruction.field(15, 8)], NULL, mode)


def build(instruction: Instruction, sources: list[int], destination: int, mode: Mode) -> Step:
    """The step for an operation of SCALAR_OPS."""
    operation = SCALAR_OPS.get(instruction.name)
    if operation is None:
        raise unsupported(instruction)
    pairs = list(zip(sources, operation.sources))
    result = operation.result or ""
    modifiers.check_rounding(instruction, (*operation.sources, result), mode)
    fetches = [
        modifiers.with_input_flush(op.scalar_fetch(s, kind, instruction.literal), kind, mode)
        for s, kind in pairs
    ]
    modify = modifiers.result_modifier(result, False, 0, mode)
    if modify is not None and not operation.writes_scc:
        plain = operation.function
        operation = dataclasses.replace(operation, function=lambda *v: modify(plain(*v)))
    reads = 0
    for source, kind in pairs:
        reads |= op.source_registers(source, kind)
    return assemble(instruction, operation, fetches, reads, destination)


def assemble(
    instruction: Instruction,
    operation: ScalarOp,
    fetches: list[op.Fetch],
    reads: int,
    destination: int,
) -> Step:
    """Wire fetched sources, old destination and SCC to the operation, its results to registers."""
    result = operation.result
    if operation.accumulates and result is not None:
        fetches = [*fetches, op.scalar_bits(destination, result)]
        reads |= op.source_registers(destination, result)
    if operation.reads_scc:
        fetches = [*fetches, lambda g: g.scc]
        reads |= SCC_BIT
    call = _apply(operation.function, fetches)
    writes = op.source_registers(destination, result) if result is not None else 0
    if operation.writes_scc or result is None:
        writes |= SCC_BIT
    run = _store(operation, call, destination)
    keeps = writes if result is not None and op.width_of(result) == 16 else 0
    copies: tuple[tuple[int, int], ...] = ()
    if instruction.name in ("S_MOV_B32", "S_MOV_B64"):
        sources = [register for register in members(reads) if register < NULL]
        copies = tuple((destination + i, register) for i, register in enumerate(sources))
    elif instruction.name in HALVES_APART:
        # The low result needs the low half alone: compilers leave the high one undefined.
        pairs = [instruction.field(7, 0), instruction.field(15, 8)]
        pairs = pairs[: 1 if instruction.name in ("S_LSHL_B64", "S_NOT_B64") else 2]
        copies = tuple((destination + 1, first + 1) for first in pairs if first < NULL)
    elif instruction.name in ("S_ADDC_U32", "S_SUBB_U32"):
        # The high half of a 64-bit sum, undefined likewise where only the low one counts.
        pairs = [instruction.field(7, 0), instruction.field(15, 8)]
        copies = tuple((destination, source) for source in pairs if source < NULL)
    # Compilers build lane masks bit by bit, from registers that hold nothing at first.
    builds_mask = instruction.name in MASK_LOGIC and reads >> EXEC_LO & 1
    return Step(
        instruction,
        run,
        reads,
        writes,
        keeps,
        unchecked=register_union(source for _, source in copies),
        tolerated=reads if builds_mask else 0,
        copies=copies,
    )


def _apply(function: Callable[..., np.ndarray], fetches: list[op.Fetch]) -> op.Fetch:
    if len(fetches) == 1:
        (first,) = fetches
        return lambda g: function(first(g))
    if len(fetches) == 2:
        first, second = fetches
        return lambda g: function(first(g), second(g))
    return lambda g: function(*[fetch(g) for fetch in fetches])


def _store(operation: ScalarOp, call: op.Fetch, destination: int) -> Run:
    result = operation.result
    if result is None:

        def run_compare(g: WaveGroup) -> None:
            g.scc = call(g)

        return run_compare
    write = scalar_writer(destination, op.width_of(result))
    if not operation.writes_scc:
        return lambda g: write(g, call(g))

    def run_both(g: WaveGroup) -> None:
        value, g.scc = call(g)
        write(g, value)

    return run_both


Writer = Callable[[WaveGroup, np.ndarray], None]


def scalar_writer(register: int, width: int) -> Writer:
    """A function that writes [waves] or [1] values of 16, 32 or 64 bits to a scalar register.

    A 16-bit result fills the low half and leaves the high one.
    """
    if width == 64:
        if not op.is_scalar_register(register + 1):
            raise UnsupportedInstructionError(f"a register pair from operand {register}")
        return lambda g, value: op.store_scalar_pair(g, register, value)
    if width == 16:
        high = np.uint32(0xFFFF0000)

        def write_half(g: WaveGroup, value: np.ndarray) -> None:
            low = value.view(np.uint16).astype(np.uint32)
            op.store_scalar(g, register, g.sgpr[register] & high | low)

        return write_half
    if register in (EXEC_LO, NULL):
        return lambda g, value: op.store_scalar(g, register, value)

    def write(g: WaveGroup, value: np.ndarray) -> None:
        g.sgpr[register] = value.view(np.uint32)

    return write


def _exec_step(instruction: Instruction, source: int, destination: int) -> Step:
    """S_*_SAVEEXEC writes the old EXEC to SDST, S_*_WREXEC the new one; SCC says whether any."""
    name, kind, bits = instruction.name.rsplit("_", 2)
    logic = EXEC_LOGIC.get(name)
    if logic is None:
        raise unsupported(instruction)
    wide = bits == "B64"
    saves = kind == "SAVEEXEC"
    kind_name = "u64" if wide else "u32"
    fetch = op.scalar_fetch(source, kind_name, instruction.literal)

    def run(g: WaveGroup) -> None:
        old = g.sgpr[EXEC_LO]
        new = logic(fetch(g), old)
        g.set_exec(new)
        g.scc = new != 0
        op.store_scalar(g, destination, old if saves else new)

    def run_wide(g: WaveGroup) -> None:
        # The upper half of EXEC does not exist in wave32: it reads as 0 and keeps nothing.
        old = g.sgpr[EXEC_LO].astype(np.uint64)
        new = logic(fetch(g), old)
        g.scc = new != 0
        g.set_exec(new.astype(np.uint32))
        op.store_scalar_pair(g, destination, old if saves else new)

    reads = op.source_registers(source, kind_name) | 1 << EXEC_LO
    writes = op.source_registers(destination, kind_name) | 1 << EXEC_LO | SCC_BIT
    return Step(instruction, run_wide if wide else run, reads, writes)


ALL_SGPRS = (1 << 106) - 1


def _relative_step(instruction: Instruction, source: int, destination: int) -> Step:
    """S_MOVREL*: register numbers plus M0, the same in every wave that executes together."""
    name = instruction.name
    fetch = op.scalar_fetch(source, "u32", instruction.literal)
    pair = name.endswith("B64")
    both = name == "S_MOVRELSD_2_B32"
    is_source = "MOVRELS" in name
    every = np.uint32(1023)

    def run(g: WaveGroup) -> None:
        m0 = np.broadcast_to(g.sgpr[M0], (g.count,))
        offsets = (m0 & every if both else m0).astype(np.int64)
        for word in range(2 if pair else 1):
            value = fetch(g) if word == 0 else op.scalar_fetch(source + 1, "u32", 0)(g)
            if is_source:
                value = _relative_read(g, source + word + offsets)
            if is_source and not both:
                op.store_scalar(g, destination + word, value)
                continue
            moves = (m0 >> np.uint32(16) & every).astype(np.int64) if both else offsets
            _relative_write(g, destination + word, moves, value)

    if both:
        return Step(instruction, run, 1 << M0, ALL_SGPRS, ALL_SGPRS)
    writes = op.source_registers(destination, "u64" if pair else "u32")
    if is_source:
        return Step(instruction, run, 1 << M0, writes, ALL_SGPRS)
    reads = op.source_registers(source, "u64" if pair else "u32") | 1 << M0
    return Step(instruction, run, reads, ALL_SGPRS, ALL_SGPRS)


def _relative_read(g: WaveGroup, registers: np.ndarray) -> np.ndarray:
    """The scalar register that each wave's number in int64 [waves] names."""
    table = np.stack([np.broadcast_to(r, (g.count,)) for r in g.sgpr[:106]])
    return table[np.minimum(registers, 105), np.arange(g.count)]


def _relative_write(g: WaveGroup, first: int, offsets: np.ndarray, value: np.ndarray) -> None:
    for offset in np.unique(offsets):
        register = first + int(offset)
        if register < 106:
            old = np.broadcast_to(g.sgpr[register], (g.count,))
            g.sgpr[register] = np.where(offsets == offset, value, old)


def translate_sopk(instruction: Instruction, mode: Mode) -> Step:
    """SOPK with arithmetic: SIMM16 is the second operand of the SOP2 or SOPC operation."""
    name, destination = instruction.name, instruction.field(22, 16)
    raw = instruction.field(15, 0)
    signed = raw - (1 << 16) if raw >> 15 else raw
    constant = op.constant_array(signed & 0xFFFFFFFF, "u32")[0]
    if name.endswith("_U32"):
        constant = op.constant_array(raw, "u32")[0]
    if name == "S_MOVK_I32":
        return Step(
            instruction,
            lambda g: op.store_scalar(g, destination, constant),
            0,
            op.source_registers(destination, "u32"),
        )
    target = {
        "S_ADDK_I32": "S_ADD_I32",
        "S_MULK_I32": "S_MUL_I32",
        "S_CMOVK_I32": "S_CMOV_B32",
    }.get(name, name.replace("S_CMPK_", "S_CMP_"))
    operation = SCALAR_OPS.get(target)
    if operation is None:
        raise unsupported(instruction)
    fetch = op.scalar_bits(destination, operation.sources[0])
    value = constant.view(op.dtype_of(operation.sources[-1]))
    fetches: list[op.Fetch] = [lambda g: value]
    reads = op.source_registers(destination, "u32")
    if len(operation.sources) == 2:
        fetches = [fetch, *fetches]
    written = NULL if operation.result is None else destination
    return assemble(instruction, operation, fetches, reads, written)
