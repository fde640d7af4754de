"""Staged small integers to f16 in LDS: numbers are put into the mantissa of 1024, not converted."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from tessera.codegen.llvm_text import FunctionEmitter
from tessera.codegen.llvm_types import STAGED_PIECE, staged_layout
from tessera.codegen.rocm.lanes import HIGH_HALVES, LOW_HALVES, permute_bytes
from tessera.codegen.rocm.memory import GLOBAL, LDS, global_address, lds_address, multiply_add
from tessera.codegen.rocm.staging import Unit, units_of_thread
from tessera.dialects.wave_staged import CommitDequantizedOp, StagePerPieceOp
from tessera.dialects.wave_types import LdsType, PointerType, StagedType

PAIR = "<2 x half>"
BASE_PAIR = 0x64006400
"""1024 in both halves of a word: f16 numbers from 1024 to 2047 are 1024 plus their low bits."""
LOW_BITS = 0x000F000F
SIGN_FLIPS = {"i4": 0x88888888, "i8": 0x80808080, "u4": 0}
"""What turns two's complement into numbers from 0 on, in every place of a word."""
OFFSETS = {"i4": 1032, "i8": 1152, "u4": 1024}
"""What is then to be taken away: 1024, and half the range where there is a sign."""
BYTE_SELECTORS = (0x07010700, 0x07030702)
"""Selectors of `permute_bytes` that put bytes 0 and 1 (2 and 3) below the high byte of a base."""


def emit_stage_per_piece(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.stage_per_piece to one load per piece that the thread holds."""
    assert isinstance(operation, StagePerPieceOp)
    staged, pointer = operation.result.type, operation.pointer.type
    assert isinstance(staged, StagedType)
    assert isinstance(pointer, PointerType)
    layout = staged_layout(staged, emitter.threads)
    (type_, *_) = emitter.types(staged)
    last = emitter.assign(f"sub i32 {emitter.value(operation.row_limit)}, 1")
    names = []
    for unit in units_of_thread(emitter, layout, None):
        row = _shifted_row(emitter, unit)
        row = emitter.call("i32", "llvm.smin.i32", [("i32", row), ("i32", last)])
        place = emitter.assign(f"mul i32 {row}, {emitter.value(operation.stride)}")
        address = global_address(emitter, emitter.value(operation.pointer), place, 16)
        names.append(emitter.assign(f"load {type_}, {GLOBAL} {address}, align 2"))
    emitter.bind(operation.result, *names)


def _shifted_row(emitter: FunctionEmitter, unit: Unit) -> str:
    return emitter.assign(f"add i32 {unit.row}, {unit.row_shift}") if unit.row_shift else unit.row


def emit_commit_dequantized(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.commit_dequantized to packed f16 arithmetic and 128-bit LDS stores."""
    assert isinstance(operation, CommitDequantizedOp)
    staged, lds = operation.staged.type, operation.lds.type
    assert isinstance(staged, StagedType)
    assert isinstance(lds, LdsType)
    layout = staged_layout(staged, emitter.threads)
    dtype = operation.dtype.data
    numbers = lds.shape[1] // staged.shape[1]
    pieces, scales = emitter.values(operation.staged), emitter.values(operation.scales)
    zeros = None if operation.zeros is None else emitter.values(operation.zeros)
    for index, unit in enumerate(units_of_thread(emitter, layout, None)):

        def write(index: int = index, unit: Unit = unit) -> None:
            zero = None if zeros is None else zeros[index]
            words = dequantized_words(emitter, pieces[index], dtype, scales[index], zero)
            column = emitter.assign(f"mul i32 {unit.column}, {numbers}")
            row = _shifted_row(emitter, unit)
            place = multiply_add(emitter, row, lds.pitch.data, column)
            _store_words(emitter, emitter.value(operation.lds), place, words)

        if unit.checked:
            inside = emitter.assign(f"icmp ult i32 {unit.number}, {layout.units}")
            emitter.if_then(inside, write)
        else:
            write()


def _store_words(emitter: FunctionEmitter, lds: str, place: str, words: Sequence[str]) -> None:
    base = lds_address(emitter, lds, place, 16)
    for first in range(0, len(words), 4):
        vector = "poison"
        for index, word in enumerate(words[first : first + 4]):
            vector = emitter.assign(
                f"insertelement {STAGED_PIECE} {vector}, i32 {word}, i32 {index}"
            )
        address = lds_address(emitter, base, str(2 * first), 16) if first else base
        emitter.line(f"store {STAGED_PIECE} {vector}, {LDS} {address}, align 16")


def dequantized_words(
    emitter: FunctionEmitter, piece: str, dtype: str, scale: str, zero: str | None
) -> list[str]:
    """The f16 pairs, as words, of one 128-bit piece of `dtype` numbers, in their order."""
    factors = [_pair_of(emitter, value) for value in (scale, zero) if value is not None]
    words: list[str] = []
    for index in range(4):
        word = emitter.assign(f"extractelement {STAGED_PIECE} {piece}, i32 {index}")
        if SIGN_FLIPS[dtype]:
            word = emitter.assign(f"xor i32 {word}, {SIGN_FLIPS[dtype]}")
        raised = _raised_bytes(emitter, word) if dtype == "i8" else _raised_halves(emitter, word)
        words += [_scaled(emitter, pair, dtype, factors) for pair in raised]
    return words


def _pair_of(emitter: FunctionEmitter, value: str) -> str:
    seed = emitter.assign(f"insertelement {PAIR} poison, half {value}, i32 0")
    return emitter.assign(f"shufflevector {PAIR} {seed}, {PAIR} poison, <2 x i32> zeroinitializer")


def _raised_bytes(emitter: FunctionEmitter, word: str) -> list[str]:
    """1024 plus each byte of a word, two by two."""
    base = emitter.assign(f"or i32 0, {BASE_PAIR}")
    return [permute_bytes(emitter, word, base, selector) for selector in BYTE_SELECTORS]


def _raised_halves(emitter: FunctionEmitter, word: str) -> list[str]:
    """1024 plus each four bits of a word, two by two.

    One mask takes number j and number j + 4; permutes bring neighbours together.
    """
    apart: list[str] = []
    for place in range(4):
        moved = emitter.assign(f"lshr i32 {word}, {4 * place}") if place else word
        low = emitter.assign(f"and i32 {moved}, {LOW_BITS}")
        apart.append(emitter.assign(f"or i32 {low}, {BASE_PAIR}"))
    return [
        permute_bytes(emitter, apart[first], apart[first + 1], half)
        for half in (LOW_HALVES, HIGH_HALVES)
        for first in (0, 2)
    ]


def _scaled(emitter: FunctionEmitter, word: str, dtype: str, factors: Sequence[str]) -> str:
    """(number - zero) * scale of a pair of raised numbers; the first difference is exact."""
    offset = f"half {float(OFFSETS[dtype])!r}"
    pair = emitter.assign(f"bitcast i32 {word} to {PAIR}")
    value = emitter.assign(f"fsub {PAIR} {pair}, <{offset}, {offset}>")
    if len(factors) > 1:
        value = emitter.assign(f"fsub {PAIR} {value}, {factors[1]}")
    product = emitter.assign(f"fmul {PAIR} {value}, {factors[0]}")
    return emitter.assign(f"bitcast {PAIR} {product} to i32")
