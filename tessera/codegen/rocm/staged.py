"""Staged tiles in registers to other staged tiles: zeros outside a range of one axis."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from tessera.codegen.llvm_text import FunctionEmitter
from tessera.codegen.llvm_types import STAGED_PIECE, staged_layout
from tessera.codegen.rocm.memory import lds_address
from tessera.codegen.rocm.staging import units_of_thread
from tessera.dialects.wave_staged import LdsPartOp, MaskStagedOp
from tessera.dialects.wave_types import ELEMENT_BITS, LdsType, StagedType, element_name

WordMask = Callable[[FunctionEmitter, str, int], str]
WORDS = 4
HIGH_NUMBER = 0xF0
"""The bits of a byte that hold the second of its two packed numbers."""


def emit_mask_staged(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.mask_staged to selects of whole pieces where the range allows, else to word masks."""
    assert isinstance(operation, MaskStagedOp)
    staged = operation.staged.type
    assert isinstance(staged, StagedType)
    layout = staged_layout(staged, emitter.threads)
    bits = ELEMENT_BITS[element_name(staged.element)]
    first = emitter.value(operation.first)
    pieces = emitter.values(operation.staged)
    names: list[str] = []
    for index, unit in enumerate(units_of_thread(emitter, layout, None)):
        for step in range(layout.rows):
            piece = pieces[index * layout.rows + step]
            if operation.axis.data == "row":
                row = emitter.assign(f"add i32 {unit.row}, {step}") if step else unit.row
                piece = _zero_where(emitter, piece, f"slt i32 {row}, {first}")
            elif operation.whole_chunks is not None:
                piece = _zero_where(emitter, piece, f"slt i32 {unit.column}, {first}")
            else:
                before = emitter.assign(f"sub i32 {first}, {unit.column}")
                piece = _masked_words(emitter, piece, before, bits, _keep_from)
            if operation.last is not None:
                last = emitter.value(operation.last)
                distance = emitter.assign(f"sub i32 {last}, {unit.column}")
                piece = _masked_words(emitter, piece, distance, bits, _drop_high_number)
            names.append(piece)
    emitter.bind(operation.result, *names)


def emit_lds_part(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.lds_part to an address that all lanes share."""
    assert isinstance(operation, LdsPartOp)
    lds = operation.lds.type
    assert isinstance(lds, LdsType)
    first_row = emitter.value(operation.first_row)
    elements = emitter.assign(f"mul i32 {first_row}, {lds.pitch.data}")
    bits = ELEMENT_BITS[element_name(lds.element)]
    part = lds_address(emitter, emitter.value(operation.lds), elements, bits)
    emitter.bind(operation.result, part)


def _zero_where(emitter: FunctionEmitter, piece: str, condition: str) -> str:
    outside = emitter.assign(f"icmp {condition}")
    text = f"select i1 {outside}, {STAGED_PIECE} zeroinitializer, {STAGED_PIECE} {piece}"
    return emitter.assign(text)


def _masked_words(
    emitter: FunctionEmitter, piece: str, distance: str, bits: int, mask: WordMask
) -> str:
    """And every word with mask(elements from the word's first to the place in question)."""
    for word in range(WORDS):
        elements = word * 32 // bits
        place = emitter.assign(f"sub i32 {distance}, {elements}") if elements else distance
        value = emitter.assign(f"extractelement {STAGED_PIECE} {piece}, i32 {word}")
        kept = emitter.assign(f"and i32 {value}, {mask(emitter, place, bits)}")
        piece = emitter.assign(f"insertelement {STAGED_PIECE} {piece}, i32 {kept}, i32 {word}")
    return piece


def _keep_from(emitter: FunctionEmitter, place: str, bits: int) -> str:
    """Ones from element `place` of the word on; none at or past its end, all below its start."""
    inside = emitter.call("i32", "llvm.smax.i32", [("i32", place), ("i32", "0")])
    inside = emitter.call("i32", "llvm.smin.i32", [("i32", inside), ("i32", str(32 // bits))])
    shift = emitter.assign(f"mul i32 {inside}, {bits}")
    wide = emitter.assign(f"zext i32 {shift} to i64")
    ones = emitter.assign(f"shl i64 {0xFFFFFFFF}, {wide}")
    return emitter.assign(f"trunc i64 {ones} to i32")


def _drop_high_number(emitter: FunctionEmitter, place: str, bits: int) -> str:
    """Ones but for the high half of byte `place`, if the word has it."""
    is_here = emitter.assign(f"icmp ult i32 {place}, {32 // bits}")
    shift = emitter.assign(f"mul i32 {place}, {bits}")
    valid = emitter.assign(f"select i1 {is_here}, i32 {shift}, i32 0")
    hole = emitter.assign(f"shl i32 {HIGH_NUMBER}, {valid}")
    dropped = emitter.assign(f"select i1 {is_here}, i32 {hole}, i32 0")
    return emitter.assign(f"xor i32 {dropped}, -1")
