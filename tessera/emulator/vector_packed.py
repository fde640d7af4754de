"""VOP3P instructions to steps: packed math, dot products, mixed FMA and WMMA.

OP_SEL (bits 13..11) picks the half of each source for the low result, OP_SEL_HI (60..59 and 14) for
the high one; NEG (63..61) negates the operands of the low result, NEG_HI (10..8) of the high one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from tessera.emulator import dpp, matrix, modifiers
from tessera.emulator import operands as op
from tessera.emulator.decode import Instruction
from tessera.emulator.native import matrix_function
from tessera.emulator.registers import EXEC_LO, FIRST_VGPR, LANES, vector_set
from tessera.emulator.semantics import VectorOp
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Mode, Step, unsupported
from tessera.emulator.vector_alu import operation_of
from tessera.emulator.vector_results import vector_store

HALVES_KINDS = ("pk_f16", "pk_bf16", "pk_i16", "pk_u16")
NEGATED_KINDS = ("pk_f16", "pk_bf16", "f32", "f16")
# Registers of A and B by the element type in the mnemonic.
WMMA_OPERAND_REGISTERS = {"IU8": 4, "IU4": 2}


@dataclasses.dataclass(frozen=True)
class PackedFields:
    """The modifier fields of one VOP3P instruction, a bit per source."""

    select: int
    select_high: int
    negate: int
    negate_high: int
    clamp: bool

    @staticmethod
    def of(instruction: Instruction) -> PackedFields:
        """Read the fields of the encoding."""
        high = instruction.field(60, 59) | instruction.field(14, 14) << 2
        return PackedFields(
            instruction.field(13, 11),
            high,
            instruction.field(63, 61),
            instruction.field(10, 8),
            bool(instruction.field(15, 15)),
        )


def translate_vop3p(instruction: Instruction, mode: Mode) -> Step:
    """VOP3P: VDST 7..0, sources 40..32, 49..41, 58..50."""
    if "WMMA" in instruction.name:
        return _wmma(instruction)
    if "FMA_MIX" in instruction.name:
        return _mixed(instruction, mode)
    return _packed(instruction, mode)


def _sources(instruction: Instruction) -> list[int]:
    return [instruction.field(40 + 9 * i, 32 + 9 * i) for i in range(3)]


def _lane_select(instruction: Instruction, sources: list[int]) -> dpp.LaneSelect | None:
    """The DPP word, if there is one; SRC0 of `sources` becomes the register that it names."""
    if sources[0] not in dpp.DPP_SOURCES:
        return None
    select = dpp.lane_select(instruction, sources[0], 64)
    sources[0] = FIRST_VGPR + select.source
    return select


def _check_mode(instruction: Instruction, operation: VectorOp, mode: Mode) -> None:
    """Packed math is built for rounding to nearest even and kept denormals."""
    kinds = (*operation.sources, *operation.results)
    modifiers.check_rounding(instruction, kinds, mode)
    if "pk_f16" in kinds and mode.denorm64 != 3:
        raise unsupported(instruction, "flushed f16 denormals (MODE)")


def _packed(instruction: Instruction, mode: Mode) -> Step:
    operation, fields = operation_of(instruction), PackedFields.of(instruction)
    sources = _sources(instruction)
    _check_mode(instruction, operation, mode)
    select = _lane_select(instruction, sources)
    function = operation.function
    if fields.clamp and operation.results[0] not in op.FLOAT_KINDS:
        if operation.clamped is None and operation.results[0] != "pk_f16":
            raise unsupported(instruction, "CLAMP")
        function = operation.clamped or function
    neg = tuple(bool(fields.negate >> i & 1) for i in range(3))
    fetches, reads = [], 0
    for i, kind in enumerate(operation.sources):
        fetch = op.source_fetch(sources[i], kind, instruction.literal)
        reads |= op.source_registers(sources[i], kind)
        if select is not None and i == 0:
            fetch = select.wrap(fetch)
        if kind in HALVES_KINDS:
            fetch = _arranged(
                fetch, bool(fields.select >> i & 1), bool(fields.select_high >> i & 1)
            )
        if kind in NEGATED_KINDS and not operation.takes_neg:
            fetch = _negated(fetch, kind, neg[i], bool(fields.negate_high >> i & 1))
        fetches.append(fetch)
    kind, destination = operation.results[0], instruction.field(7, 0)
    store = vector_store(destination, kind)
    clamps_halves = fields.clamp and kind == "pk_f16"
    modify = modifiers.result_modifier(kind, fields.clamp, 0, mode)
    keywords = {"neg": neg} if operation.takes_neg else {}

    def run(g: WaveGroup) -> None:
        value = function(*[fetch(g) for fetch in fetches], **keywords)
        if clamps_halves:
            value = _clamped_halves(value)
        if modify is not None:
            value = modify(value)
        store(g, value, g.mask if select is None else select.write_mask(g))

    written = vector_set(destination)
    return Step(instruction, run, reads, written, written | 1 << EXEC_LO)


def _arranged(fetch: op.Fetch, low_from_high: bool, high_from_high: bool) -> op.Fetch:
    """The halves that OP_SEL and OP_SEL_HI choose, as low and high half."""
    sixteen = np.uint32(16)
    if not low_from_high and high_from_high:
        return fetch
    if not low_from_high:

        def low_twice(g: WaveGroup) -> np.ndarray:
            value = fetch(g)
            return value << sixteen | value & np.uint32(0xFFFF)

        return low_twice
    if high_from_high:

        def high_twice(g: WaveGroup) -> np.ndarray:
            value = fetch(g)
            return value >> sixteen | value & np.uint32(0xFFFF0000)

        return high_twice

    def exchanged(g: WaveGroup) -> np.ndarray:
        value = fetch(g)
        return value >> sixteen | value << sixteen

    return exchanged


def _negated(fetch: op.Fetch, kind: str, low: bool, high: bool) -> op.Fetch:
    if kind in ("f32", "f16"):
        return modifiers.with_sign(fetch, kind, False, low)
    flips = np.uint32(low << 15 | high << 31)
    return fetch if not flips else (lambda g: fetch(g) ^ flips)


def _clamped_halves(value: np.ndarray) -> np.ndarray:
    """Both f16 halves limited to [0, 1], NaN to 0."""
    halves = np.ascontiguousarray(value).view(np.float16)
    limited = np.minimum(np.fmax(halves, np.float16(0)), np.float16(1))
    return limited.view(np.uint32)


def _mixed(instruction: Instruction, mode: Mode) -> Step:
    """V_FMA_MIX*: each source is f32, or the f16 half that OP_SEL names when OP_SEL_HI is set.

    NEG_HI is ABS here.
    """
    fields, sources = PackedFields.of(instruction), _sources(instruction)
    operation = operation_of(instruction)
    _check_mode(instruction, operation, mode)
    select = _lane_select(instruction, sources)
    fetches, reads = [], 0
    for i, source in enumerate(sources):
        kind = "f16" if fields.select_high >> i & 1 else "f32"
        fetch = op.source_fetch(source, kind, instruction.literal, bool(fields.select >> i & 1))
        if select is not None and i == 0:
            fetch = select.wrap(fetch)
        reads |= op.source_registers(source, kind)
        absolute, negate = bool(fields.negate_high >> i & 1), bool(fields.negate >> i & 1)
        fetch = modifiers.with_sign(fetch, kind, absolute, negate)
        fetches.append(_widened(fetch) if kind == "f16" else fetch)
    first, second, third = fetches
    kind, destination = operation.results[0], instruction.field(7, 0)
    store = vector_store(destination, kind, instruction.name == "V_FMA_MIXHI_F16")
    modify = modifiers.result_modifier(kind, fields.clamp, 0, mode)

    def run(g: WaveGroup) -> None:
        value = operation.function(first(g), second(g), third(g))
        mask = g.mask if select is None else select.write_mask(g)
        store(g, value if modify is None else modify(value), mask)

    written = vector_set(destination)
    return Step(instruction, run, reads, written, written | 1 << EXEC_LO)


def _widened(fetch: op.Fetch) -> op.Fetch:
    return lambda g: fetch(g).astype(np.float32)


NATIVE_ELEMENTS = {
    "V_WMMA_F32_16X16X16_F16": "f16",
    "V_WMMA_F32_16X16X16_BF16": "bf16",
    "V_WMMA_I32_16X16X16_IU8": "iu8",
    "V_WMMA_I32_16X16X16_IU4": "iu4",
}
NativeWmma = Callable[[WaveGroup, "np.ndarray | None"], bool]


def _native_wmma(
    name: str, fields: PackedFields, operands: tuple[int, int, int | None], destination: int
) -> NativeWmma | None:
    """The product in native code: forms without modifiers and with 32-bit results."""
    element = NATIVE_ELEMENTS.get(name)
    signs = fields.negate & 3 if element in ("iu8", "iu4") else 0
    if element is None or fields.negate != signs or fields.negate_high or fields.clamp:
        return None
    a, b, c = operands

    def run(g: WaveGroup, constant: np.ndarray | None) -> bool:
        function = matrix_function(element, bool(signs & 1), bool(signs & 2))
        if function is None:
            return False
        start, stride = g.address, g.stride
        places = start + a * stride, start + b * stride
        if constant is not None:
            origin = (constant.ctypes.data, start + destination * stride)
            function(*places, *origin, g.count, stride, 0, 0)
        else:
            assert c is not None
            origin = (start + c * stride, start + destination * stride)
            function(*places, *origin, g.count, stride, stride, 4 * LANES)
        return True

    return run


def _wmma(instruction: Instruction) -> Step:
    """V_WMMA_*: whole matrices in registers; EXEC is ignored (ISA guide, section 7.9)."""
    name, fields = instruction.name, PackedFields.of(instruction)
    first, second, third = _sources(instruction)
    count = WMMA_OPERAND_REGISTERS.get(name.rsplit("_", 1)[1], 8)
    destination = instruction.field(7, 0)
    if not (op.is_vgpr(first) and op.is_vgpr(second)):
        raise unsupported(instruction, "A and B must be vector registers")
    a, b = first - FIRST_VGPR, second - FIRST_VGPR
    reads = vector_set(a, count) | vector_set(b, count)
    constant, c = None, third - FIRST_VGPR
    if op.is_vgpr(third):
        reads |= vector_set(c, 8)
    else:
        kind = {"F32": "f32", "I32": "i32", "F16": "f16", "BF16": "bf16"}[name.split("_")[2]]
        bits = op.constant_bits(third, kind, instruction.literal)
        if bits is None:
            raise unsupported(instruction, "C must be vector registers or a constant")
        if kind in ("f16", "bf16"):
            bits |= bits << 16
        constant = np.full((8, 1, 1), bits, np.uint32)
    is_half = name.split("_")[2] in ("F16", "BF16")
    transfer = _native_wmma(name, fields, (a, b, None if constant is not None else c), destination)
    constant_row = None if constant is None else np.full(32, constant[0, 0, 0], np.uint32)

    def run(g: WaveGroup) -> None:
        if transfer is not None and transfer(g, constant_row):
            return
        file = g.file
        result = matrix.wmma(
            name,
            file[a : a + count],
            file[b : b + count],
            file[c : c + 8] if constant is None else constant,
            file[destination : destination + 8],
            fields.negate,
            fields.negate_high,
            fields.select,
            fields.clamp,
        )
        file[destination : destination + 8] = result

    written = vector_set(destination, 8)
    keeps = written if is_half else 0
    operands = ((a, count), (b, count))
    return Step(instruction, run, reads, written, keeps, ignores_exec=True, matrix=operands)
