"""Staged tiles in registers to other staged tiles: zeros outside a range of one axis."""

from __future__ import annotations

from xdsl.ir import Operation

from tessera.codegen.llvm_text import FunctionEmitter
from tessera.codegen.llvm_types import StagedLayout, staged_layout
from tessera.codegen.rocm.staging import Unit, units_of_thread
from tessera.dialects.wave_staged import MaskStagedOp
from tessera.dialects.wave_types import ELEMENT_BITS, StagedType, element_name

LOW_NUMBER = 15
"""The bits of a byte that hold the first of its two packed numbers."""


def emit_mask_staged(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.mask_staged to selects, of whole pieces where the range allows."""
    assert isinstance(operation, MaskStagedOp)
    staged = operation.staged.type
    assert isinstance(staged, StagedType)
    layout = staged_layout(staged, emitter.threads)
    bits = ELEMENT_BITS[element_name(staged.element)]
    type_ = f"<{layout.chunk} x i{bits}>"
    first = emitter.value(operation.first)
    pieces = emitter.values(operation.staged)
    names: list[str] = []
    for index, unit in enumerate(units_of_thread(emitter, layout, None)):
        for step in range(layout.rows):
            piece = pieces[index * layout.rows + step]
            if operation.axis.data == "row":
                row = emitter.assign(f"add i32 {unit.row}, {step}") if step else unit.row
                piece = _zero_where(emitter, type_, piece, f"slt i32 {row}, {first}")
            elif operation.whole_chunks is not None:
                piece = _zero_where(emitter, type_, piece, f"slt i32 {unit.column}, {first}")
            else:
                piece = _zero_elements(emitter, layout, unit, type_, piece, first)
            if operation.last is not None:
                last = emitter.value(operation.last)
                piece = _drop_high_number(emitter, layout, unit, piece, last)
            names.append(piece)
    emitter.bind(operation.result, *names)


def _zero_where(emitter: FunctionEmitter, type_: str, piece: str, condition: str) -> str:
    outside = emitter.assign(f"icmp {condition}")
    return emitter.assign(f"select i1 {outside}, {type_} zeroinitializer, {type_} {piece}")


def _columns(emitter: FunctionEmitter, layout: StagedLayout, unit: Unit) -> tuple[str, str]:
    """The LLVM type and value of the tile columns of one piece's elements."""
    type_ = f"<{layout.chunk} x i32>"
    steps = ", ".join(f"i32 {step}" for step in range(layout.chunk))
    columns = emitter.assign(f"add {type_} {_splat(emitter, type_, unit.column)}, <{steps}>")
    return type_, columns


def _splat(emitter: FunctionEmitter, type_: str, value: str) -> str:
    count = type_[1:].split(" ")[0]
    seed = emitter.assign(f"insertelement {type_} poison, i32 {value}, i32 0")
    return emitter.assign(
        f"shufflevector {type_} {seed}, {type_} poison, <{count} x i32> zeroinitializer"
    )


def _zero_elements(
    emitter: FunctionEmitter, layout: StagedLayout, unit: Unit, type_: str, piece: str, first: str
) -> str:
    wide, columns = _columns(emitter, layout, unit)
    outside = emitter.assign(f"icmp slt {wide} {columns}, {_splat(emitter, wide, first)}")
    mask = f"<{layout.chunk} x i1>"
    return emitter.assign(f"select {mask} {outside}, {type_} zeroinitializer, {type_} {piece}")


def _drop_high_number(
    emitter: FunctionEmitter, layout: StagedLayout, unit: Unit, piece: str, last: str
) -> str:
    wide, columns = _columns(emitter, layout, unit)
    at_end = emitter.assign(f"icmp eq {wide} {columns}, {_splat(emitter, wide, last)}")
    type_ = f"<{layout.chunk} x i8>"
    low = emitter.assign(f"and {type_} {piece}, <{', '.join([f'i8 {LOW_NUMBER}'] * layout.chunk)}>")
    return emitter.assign(f"select <{layout.chunk} x i1> {at_end}, {type_} {low}, {type_} {piece}")
