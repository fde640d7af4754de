"""VOP1, VOP2, VOPC, VOP3 and VOP3SD instructions to steps: operands, modifiers, EXEC, write back.

What an operation computes stands in `semantics.VECTOR_OPS`; here its sources are found in the
encoding, modified, selected by DPP, and its results masked by EXEC and stored. A 16-bit operand is
the half of a register that OPSEL names (VOP3) or bit 7 of the register number (the other formats).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessera.emulator import dpp, modifiers
from tessera.emulator import operands as op
from tessera.emulator.decode import Instruction
from tessera.emulator.errors import UnsupportedInstructionError
from tessera.emulator.registers import (
    EXEC_LO,
    FIRST_VGPR,
    NULL,
    VCC_LO,
    register_union,
    vector_set,
)
from tessera.emulator.semantics import VECTOR_OPS, VectorOp
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Mode, Run, Step, unsupported
from tessera.emulator.vector_results import Store, mask_store, vector_store

# Operations that must not flush denormals though their operands are floats: they move or test bits.
NEVER_FLUSHED = ("V_CMP_CLASS", "V_MOV", "V_CNDMASK", "V_LDEXP", "V_FREXP", "V_CVT_PK_RTZ")

SIGNED_KINDS = (*op.FLOAT_KINDS, *modifiers.SIGN_KINDS, "bf16")


@dataclass
class Operands:
    """The operand fields of one encoding, before kinds are known.

    `sources` are 9-bit source numbers in the order of the operation's sources; `halves` says per
    source, and for the destination, which half a 16-bit operand is; masks are scalar registers.
    """

    sources: list[int]
    halves: list[bool]
    destination: int = 0
    destination_half: bool = False
    mask_source: int = VCC_LO
    mask_destination: int = VCC_LO
    absolute: int = 0
    negate: int = 0
    clamp: bool = False
    omod: int = 0
    select: dpp.LaneSelect | None = None


def operation_of(instruction: Instruction, name: str | None = None) -> VectorOp:
    """The semantics of an instruction; V_CMPX_* compares like V_CMP_*."""
    key = (name or instruction.name).replace("V_CMPX_", "V_CMP_")
    operation = VECTOR_OPS.get(key)
    if operation is None:
        raise unsupported(instruction)
    return operation


def translate_vop1(instruction: Instruction, mode: Mode) -> Step:
    """VOP1: one source, bits 8..0; destination bits 24..17."""
    fields = Operands([instruction.field(8, 0)], [False], instruction.field(24, 17))
    return _short(instruction, mode, fields)


def translate_vop2(instruction: Instruction, mode: Mode) -> Step:
    """VOP2: SRC0 bits 8..0, VSRC1 bits 16..9, destination bits 24..17; K follows as a literal."""
    first, second = instruction.field(8, 0), FIRST_VGPR + instruction.field(16, 9)
    sources = [first, second]
    if "FMAMK" in instruction.name:
        sources = [first, op.LITERAL, second]
    elif "FMAAK" in instruction.name:
        sources = [first, second, op.LITERAL]
    fields = Operands(sources, [False] * len(sources), instruction.field(24, 17))
    return _short(instruction, mode, fields)


def translate_vopc(instruction: Instruction, mode: Mode) -> Step:
    """VOPC: SRC0 and VSRC1; the mask goes to VCC, that of V_CMPX to EXEC."""
    sources = [instruction.field(8, 0), FIRST_VGPR + instruction.field(16, 9)]
    fields = Operands(sources, [False, False])
    return _short(instruction, mode, fields)


def _short(instruction: Instruction, mode: Mode, fields: Operands) -> Step:
    """The 32-bit formats: upper halves are register numbers from 128 on, DPP replaces SRC0."""
    if fields.sources[0] in dpp.DPP_SOURCES:
        fields.select = dpp.lane_select(instruction, fields.sources[0], 32)
        fields.sources[0] = FIRST_VGPR + fields.select.source
        fields.absolute = sum(flag << i for i, flag in enumerate(fields.select.absolute))
        fields.negate = sum(flag << i for i, flag in enumerate(fields.select.negate))
    operation = operation_of(instruction)
    kinds = value_kinds(operation)
    for i, source in enumerate(fields.sources):
        if op.is_vgpr(source) and i < len(kinds) and op.width_of(kinds[i]) == 16:
            fields.halves[i] = bool(source >> 7 & 1)
            fields.sources[i] = source & ~0x80
    if operation.results[0] != "mask" and op.width_of(operation.results[0]) == 16:
        fields.destination_half = bool(fields.destination >> 7)
        fields.destination &= 0x7F
    return build(instruction, operation, fields, mode)


def translate_vop3(instruction: Instruction, mode: Mode) -> Step:
    """VOP3 and VOP3SD: three sources, ABS or SDST, OPSEL, CLAMP, OMOD, NEG; DPP word at bit 64."""
    operation = operation_of(instruction)
    has_scalar_result = instruction.format == "VOP3SD"
    kinds = value_kinds(operation)
    opsel = 0 if has_scalar_result else instruction.field(14, 11)
    sources = [instruction.field(40 + 9 * i, 32 + 9 * i) for i in range(3)]
    fields = Operands(
        sources[: len(kinds)],
        [bool(opsel >> i & 1) for i in range(3)],
        instruction.field(7, 0),
        bool(opsel >> 3),
        mask_source=sources[2],
        mask_destination=instruction.field(14, 8) if has_scalar_result else instruction.field(7, 0),
        absolute=0 if has_scalar_result else instruction.field(10, 8),
        negate=instruction.field(63, 61),
        clamp=bool(instruction.field(15, 15)),
        omod=instruction.field(60, 59),
    )
    if sources[0] in dpp.DPP_SOURCES:
        fields.select = dpp.lane_select(instruction, sources[0], 64)
        fields.sources[0] = FIRST_VGPR + fields.select.source
    return build(instruction, operation, fields, mode)


def value_kinds(operation: VectorOp) -> tuple[str, ...]:
    """The kinds of the sources that are not lane masks."""
    return tuple(kind for kind in operation.sources if kind != "mask")


WIDE_MULTIPLY_ADD = ("V_MAD_U64_U32", "V_MAD_I64_I32")


def build(instruction: Instruction, operation: VectorOp, fields: Operands, mode: Mode) -> Step:
    """The step for an operation with all its operand fields known."""
    modifiers.check_rounding(instruction, (*operation.sources, *operation.results), mode)
    fetches, reads = source_fetches(instruction, operation, fields, mode)
    kind = operation.results[0]
    writes, keeps = 0, 0
    stores: list[Store] = []
    for result in operation.results:
        if result == "mask":
            register = EXEC_LO if "V_CMPX" in instruction.name else fields.mask_destination
            if instruction.format == "VOPC" and register != EXEC_LO:
                register = VCC_LO
            if not op.is_scalar_register(register):
                raise unsupported(instruction, f"mask destination {register} is no scalar register")
            stores.append(mask_store(register))
            writes |= 1 << register if register != NULL else 0
        else:
            count = max(1, op.width_of(result) // 32)
            stores.append(vector_store(fields.destination, result, fields.destination_half))
            writes |= vector_set(fields.destination, count)
            keeps |= vector_set(fields.destination, count)
    call = _call(operation, fetches, fields, kind, mode, instruction)
    if instruction.name.startswith(WIDE_MULTIPLY_ADD):
        keeps |= op.source_registers(fields.sources[2], "u64")
    modified = modifiers.result_modifier(kind, fields.clamp, fields.omod, mode) is not None
    run = _run(operation, call, stores, fields, fetches if not modified else [])
    unchecked, copies = _passed_on(instruction, fields, reads)
    return Step(
        instruction,
        run,
        reads,
        writes,
        keeps | 1 << EXEC_LO,
        unchecked=unchecked,
        copies=copies,
    )


def _passed_on(
    instruction: Instruction, fields: Operands, reads: int
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Registers whose lanes need no value (moves, selects, DPP), and the pairs of a move."""
    if fields.select is not None or "V_CNDMASK" in instruction.name:
        return reads, ()
    if instruction.name in ("V_MOV_B32", "V_MOV_B16"):
        source = fields.sources[0]
        is_register = op.is_vgpr(source) or op.is_scalar_register(source)
        return reads, ((FIRST_VGPR + fields.destination, source),) if is_register else ()
    if "_CO_CI_" in instruction.name:
        # The high half of a 64-bit sum, undefined likewise where only the low one counts.
        registers = [source for source in fields.sources if source < NULL or op.is_vgpr(source)]
        copies = tuple((FIRST_VGPR + fields.destination, source) for source in registers)
        return register_union(registers), copies
    if instruction.name == "V_LSHLREV_B64" and op.is_vgpr(fields.sources[1]):
        # The low result needs the low half alone: compilers leave the high one undefined.
        high = fields.sources[1] + 1
        return 1 << high, ((FIRST_VGPR + fields.destination + 1, high),)
    return 0, ()


def source_fetches(
    instruction: Instruction, operation: VectorOp, fields: Operands, mode: Mode
) -> tuple[list[op.Fetch], int]:
    """Fetch functions in the order of the operation's arguments, and the registers they read."""
    fetches: list[op.Fetch] = []
    reads, position = 0, 0
    flushes = not instruction.name.startswith(NEVER_FLUSHED)
    for kind in operation.sources:
        if kind == "mask":
            fetches.append(_mask_fetch(fields.mask_source))
            reads |= 1 << fields.mask_source
            continue
        source = fields.sources[position]
        fetch = op.source_fetch(source, kind, instruction.literal, fields.halves[position])
        # Compilers use the wide multiply-add for 32-bit results, with any high half of the addend.
        is_addend = instruction.name.startswith(WIDE_MULTIPLY_ADD) and position == 2
        reads |= op.source_registers(source, "u32" if is_addend else kind)
        if fields.select is not None and position == 0:
            fetch = fields.select.wrap(fetch)
        if kind in SIGNED_KINDS:
            absolute = bool(fields.absolute >> position & 1)
            fetch = modifiers.with_sign(fetch, kind, absolute, bool(fields.negate >> position & 1))
        if flushes:
            fetch = modifiers.with_input_flush(fetch, kind, mode)
        fetches.append(fetch)
        position += 1
    if operation.accumulates:
        kind = operation.results[0]
        fetches.append(op.vector_fetch(fields.destination, kind, fields.destination_half))
        reads |= vector_set(fields.destination, max(1, op.width_of(kind) // 32))
    if operation.reads_vcc:
        fetches.append(_mask_fetch(VCC_LO))
        reads |= 1 << VCC_LO
    return fetches, reads


def _mask_fetch(register: int) -> op.Fetch:
    if op.is_scalar_register(register) and register != NULL:
        return lambda g: g.mask_of(register)
    bits = 0 if register == NULL else op.constant_bits(register, "u32", 0)
    if bits is None:
        raise UnsupportedInstructionError(f"lane mask operand {register}: not a scalar register")
    mask = (np.uint32(bits) >> np.arange(32, dtype=np.uint32) & 1).astype(bool)[None, :]
    return lambda g: mask


Call = Callable[[WaveGroup], Any]


def _call(
    operation: VectorOp,
    fetches: list[op.Fetch],
    fields: Operands,
    kind: str,
    mode: Mode,
    instruction: Instruction,
) -> Call:
    """The operation applied to its fetched sources, result modifiers included."""
    function = operation.function
    is_float = kind in op.FLOAT_KINDS
    if fields.clamp and not is_float and kind != "mask":
        if operation.clamped is None:
            raise unsupported(instruction, "CLAMP")
        function = operation.clamped
    if operation.takes_neg:
        neg = tuple(bool(fields.negate >> i & 1) for i in range(3))
        plain = function
        return lambda g: plain(*[fetch(g) for fetch in fetches], neg=neg)
    modify = None
    if not instruction.name.startswith(NEVER_FLUSHED) or fields.clamp or fields.omod:
        modify = modifiers.result_modifier(kind, fields.clamp, fields.omod, mode)
    call = _apply(function, fetches)
    if modify is None:
        return call
    if len(operation.results) > 1:
        return lambda g: (lambda r: (modify(r[0]), *r[1:]))(call(g))
    return lambda g: modify(call(g))


def _apply(function: Callable[..., np.ndarray], fetches: list[op.Fetch]) -> Call:
    if len(fetches) == 1:
        (first,) = fetches
        return lambda g: function(first(g))
    if len(fetches) == 2:
        first, second = fetches
        return lambda g: function(first(g), second(g))
    if len(fetches) == 3:
        first, second, third = fetches
        return lambda g: function(first(g), second(g), third(g))
    return lambda g: function(*[fetch(g) for fetch in fetches])


def _run(
    operation: VectorOp, call: Call, stores: list[Store], fields: Operands, fetches: list[op.Fetch]
) -> Run:
    """Call, then store; `fetches` is empty when a result modifier forbids writing in place."""
    select = fields.select
    if select is not None:
        if len(stores) > 1:
            return lambda g: _store_all(g, stores, call(g), select.write_mask(g))
        (store,) = stores
        return lambda g: store(g, call(g), select.write_mask(g))
    if len(stores) > 1:
        return lambda g: _store_all(g, stores, call(g), g.mask)
    (store,) = stores
    kind = operation.results[0]
    plain = not fields.clamp and 0 < len(fetches) <= 2
    if operation.ufunc is not None and plain and kind in ("f32", "u32", "i32", "b32"):
        return _ufunc_run(operation.ufunc, fetches, kind, fields.destination, call, store)
    return lambda g: store(g, call(g), g.mask)


def _store_all(
    g: WaveGroup,
    stores: list[Store],
    values: np.ndarray | tuple[np.ndarray, ...],
    mask: np.ndarray | None,
) -> None:
    for store, value in zip(stores, values):
        store(g, value, mask)


def _ufunc_run(
    ufunc: np.ufunc, fetches: list[op.Fetch], kind: str, register: int, call: Call, store: Store
) -> Run:
    """A ufunc that writes straight into the register while all lanes are active."""
    name = {"f32": "f32", "i32": "i32"}.get(kind, "u32")
    if len(fetches) == 1:
        (first,) = fetches

        def run_one(g: WaveGroup) -> None:
            if g.mask is None:
                ufunc(first(g), out=getattr(g, name)[register])
            else:
                store(g, call(g), g.mask)

        return run_one
    first, second = fetches

    def run_two(g: WaveGroup) -> None:
        if g.mask is None:
            ufunc(first(g), second(g), out=getattr(g, name)[register])
        else:
            store(g, call(g), g.mask)

    return run_two
