"""Staged tiles (wave.stage, wave.commit) to global loads and LDS stores of every thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation, SSAValue

from tessera.codegen.llvm_text import FunctionEmitter
from tessera.codegen.llvm_types import CHUNK_BYTES, STAGED_PIECE, StagedLayout, staged_layout
from tessera.codegen.rocm.buffer import BufferTile
from tessera.codegen.rocm.lanes import (
    HIGH_BYTES,
    HIGH_HALVES,
    LOW_BYTES,
    LOW_HALVES,
    permute_bytes,
    thread_id,
)
from tessera.codegen.rocm.memory import (
    LDS,
    RowPiece,
    lds_address,
    load_row_words,
    multiply_add,
)
from tessera.dialects.wave import CommitOp, StageOp
from tessera.dialects.wave_types import ELEMENT_BITS, LdsType, PointerType, StagedType, element_name
from tessera.errors import CompileError


@dataclass(frozen=True)
class Unit:
    """One thread's block of the tile: its number, and the row and column where it starts.

    It starts at (row + row_shift, column + column_shift). `checked` says that only some threads
    have this block: those whose number is below the count.
    """

    number: str
    row: str
    column: str
    checked: bool
    row_shift: int = 0
    column_shift: int = 0


def units_of_thread(
    emitter: FunctionEmitter, layout: StagedLayout, order: Sequence[int] | None
) -> list[Unit]:
    """Where this thread's blocks lie in the tile; a block past the end repeats the last one.

    Pieces of rows run along rows, so that neighbouring threads read neighbouring memory; blocks
    run along the groups of rows first, so that neighbouring threads write neighbouring LDS when
    the tile is transposed.
    """
    units: list[Unit] = []
    thread = thread_id(emitter)
    for index in range(layout.units_per_thread):
        first = index * layout.threads
        number = emitter.assign(f"add i32 {thread}, {first}") if first else thread
        checked = first + layout.threads > layout.units
        place = number
        if checked:
            bound = str(layout.units - 1)
            place = emitter.call("i32", "llvm.umin.i32", [("i32", number), ("i32", bound)])
        if layout.rows == 1:
            row, chunk = _divide(emitter, place, layout.chunks_per_row)
        else:
            chunk, group = _divide(emitter, place, layout.tile_rows // layout.rows)
            row = _first_row(emitter, group, layout.rows, order)
        column = emitter.assign(f"mul i32 {chunk}, {layout.chunk}")
        units.append(Unit(number, row, column, checked))
    return units


def shifted_units(
    emitter: FunctionEmitter, layout: StagedLayout, order: Sequence[int] | None
) -> list[Unit]:
    """The same blocks as constant distances from the first one, so that they share an address.

    A block past the end lies past the end here. Where the number of threads is no multiple of the
    blocks along the inner direction there are no constant distances: then as `units_of_thread`.
    """
    along = layout.chunks_per_row if layout.rows == 1 else layout.tile_rows // layout.rows
    if layout.threads % along:
        return units_of_thread(emitter, layout, order)
    thread = thread_id(emitter)
    outer, inner = _divide(emitter, thread, along)
    if layout.rows == 1:
        row, chunk = outer, inner
    else:
        row, chunk = _first_row(emitter, inner, layout.rows, order), outer
    column = emitter.assign(f"mul i32 {chunk}, {layout.chunk}")
    units: list[Unit] = []
    for index in range(layout.units_per_thread):
        first = index * layout.threads
        number = emitter.assign(f"add i32 {thread}, {first}") if first else thread
        distance = first // along
        shifts = (distance, 0) if layout.rows == 1 else (0, distance * layout.chunk)
        units.append(Unit(number, row, column, first + layout.threads > layout.units, *shifts))
    return units


def _divide(emitter: FunctionEmitter, value: str, divisor: int) -> tuple[str, str]:
    """Quotient and remainder of an unsigned i32 by a constant."""
    if divisor == 1:
        return value, "0"
    quotient = emitter.assign(f"udiv i32 {value}, {divisor}")
    return quotient, emitter.assign(f"urem i32 {value}, {divisor}")


def _first_row(emitter: FunctionEmitter, group: str, rows: int, order: Sequence[int] | None) -> str:
    """The tile row that comes first in a group of `rows` consecutive places."""
    if order is None:
        return emitter.assign(f"mul i32 {group}, {rows}")
    check_linear(order)
    groups = len(order) // rows
    base = emitter.assign(f"udiv i32 {group}, {groups}")
    total = emitter.assign(f"mul i32 {base}, {len(order)}")
    for bit in range(groups.bit_length() - 1):
        shifted = emitter.assign(f"lshr i32 {group}, {bit}") if bit else group
        chosen = emitter.assign(f"and i32 {shifted}, 1")
        term = emitter.assign(f"mul i32 {chosen}, {order[rows << bit]}")
        total = emitter.assign(f"add i32 {total}, {term}")
    return total


def check_linear(order: Sequence[int]) -> None:
    """Raise CompileError unless each place's row is the sum of the rows of its set bits."""
    bits = range(len(order).bit_length() - 1)
    for place, row in enumerate(order):
        if row != sum(order[1 << bit] for bit in bits if place >> bit & 1):
            raise CompileError(f"wave.stage: row order {tuple(order)} is not linear over bits")


def emit_stage(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.stage to loads as wide as the alignment allows, through a buffer resource.

    Bytes and packed numbers on other boundaries than 16 bytes are loaded one by one instead.
    """
    assert isinstance(operation, StageOp)
    staged, pointer_type = operation.result.type, operation.pointer.type
    assert isinstance(staged, StagedType)
    assert isinstance(pointer_type, PointerType)
    layout = staged_layout(staged, operation.threads.value.data)
    order = _order(operation.order)
    row_limit = _optional(emitter, operation.row_limit)
    column_limit = _optional(emitter, operation.column_limit)
    pointer = emitter.value(operation.pointer)
    bits = ELEMENT_BITS[element_name(staged.element)]
    alignment = operation.alignment.value.data
    buffer = None
    if alignment >= CHUNK_BYTES or bits == 16:
        buffer = BufferTile(
            emitter,
            pointer,
            emitter.value(operation.stride),
            bits,
            staged.shape,
            row_limit,
            column_limit,
            operation.any_columns is None,
            alignment,
        )
    names: list[str] = []
    units = units_of_thread if buffer is None else shifted_units
    for unit in units(emitter, layout, order):
        for index in range(layout.rows):
            step = index if order is None else int(order[index])
            if buffer is not None:
                shifts = (unit.row_shift + step, unit.column_shift)
                names.append(buffer.load(unit.row, unit.column, *shifts))
                continue
            row = emitter.assign(f"add i32 {unit.row}, {step}") if step else unit.row
            valid = None
            if row_limit is not None and operation.zero_rows is not None:
                valid = emitter.assign(f"icmp slt i32 {row}, {row_limit}")
            elif row_limit is not None:
                last = emitter.assign(f"sub i32 {row_limit}, 1")
                row = emitter.call("i32", "llvm.smin.i32", [("i32", row), ("i32", last)])
            piece = RowPiece(
                pointer=pointer,
                offset=emitter.assign(f"mul i32 {row}, {emitter.value(operation.stride)}"),
                column=unit.column,
                count=layout.chunk,
                alignment=alignment,
                bits=bits,
                row_valid=valid,
                column_limit=column_limit,
                zero_columns=operation.any_columns is None,
            )
            names.append(load_row_words(emitter, piece))
    emitter.bind(operation.result, *names)


def _order(attribute: DenseArrayBase | None) -> tuple[int, ...] | None:
    return None if attribute is None else tuple(one.value.data for one in attribute.iter_attrs())  # type: ignore[union-attr]


def _optional(emitter: FunctionEmitter, value: SSAValue | None) -> str | None:
    return None if value is None else emitter.value(value)


def emit_commit(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.commit to LDS stores: 128 bits of a row, or 64 bits of a column."""
    assert isinstance(operation, CommitOp)
    staged, lds = operation.staged.type, operation.lds.type
    assert isinstance(staged, StagedType)
    assert isinstance(lds, LdsType)
    layout = staged_layout(staged, operation.threads.value.data)
    pieces = emitter.values(operation.staged)
    order = _order(operation.order)
    # In a transposed tile a block lies at its place; otherwise its rows lie where memory has them.
    placed = None if operation.transposed is not None else order
    for index, unit in enumerate(shifted_units(emitter, layout, placed)):
        rows = pieces[index * layout.rows : (index + 1) * layout.rows]

        def write(unit: Unit = unit, rows: Sequence[str] = rows) -> None:
            if operation.transposed is not None:
                _write_columns(emitter, layout, unit, rows, lds, operation.lds)
                return
            for step, piece in enumerate(rows):
                shift = step if placed is None else int(placed[step])
                _write_row(emitter, unit, shift, piece, lds, operation.lds)

        if unit.checked:
            inside = emitter.assign(f"icmp ult i32 {unit.number}, {layout.units}")
            emitter.if_then(inside, write)
        else:
            write()


def _write_row(
    emitter: FunctionEmitter,
    unit: Unit,
    shift: int,
    piece: str,
    lds: LdsType,
    buffer: SSAValue,
) -> None:
    bits = ELEMENT_BITS[element_name(lds.element)]
    elements = multiply_add(emitter, unit.row, lds.pitch.data, unit.column)
    base = lds_address(emitter, emitter.value(buffer), elements, bits)
    distance = (unit.row_shift + shift) * lds.pitch.data + unit.column_shift
    address = lds_address(emitter, base, str(distance), bits) if distance else base
    emitter.line(f"store {STAGED_PIECE} {piece}, {LDS} {address}, align 16")


def _write_columns(
    emitter: FunctionEmitter,
    layout: StagedLayout,
    unit: Unit,
    rows: Sequence[str],
    lds: LdsType,
    buffer: SSAValue,
) -> None:
    """Transpose the block in registers: each of its columns is `rows` neighbours in LDS."""
    bits = ELEMENT_BITS[element_name(lds.element)]
    width = layout.rows * bits // 8
    base = multiply_add(emitter, unit.column, lds.pitch.data, unit.row)
    address = lds_address(emitter, emitter.value(buffer), base, bits)
    for column, words in enumerate(transposed_words(emitter, rows, bits)):
        type_ = f"<{len(words)} x i32>"
        vector = "poison"
        for index, word in enumerate(words):
            vector = emitter.assign(f"insertelement {type_} {vector}, i32 {word}, i32 {index}")
        distance = (unit.column_shift + column) * lds.pitch.data + unit.row_shift
        place = lds_address(emitter, address, str(distance), bits)
        emitter.line(f"store {type_} {vector}, {LDS} {place}, align {width}")


def transposed_words(emitter: FunctionEmitter, rows: Sequence[str], bits: int) -> list[list[str]]:
    """Per column of four 128-bit rows of 16- or 8-bit elements, its words in row order."""
    columns: list[list[str]] = []
    for index in range(4):
        word = [emitter.assign(f"extractelement {STAGED_PIECE} {row}, i32 {index}") for row in rows]
        if bits == 16:
            for half in (LOW_HALVES, HIGH_HALVES):
                pairs = ((word[0], word[1]), (word[2], word[3]))
                columns.append([permute_bytes(emitter, *pair, half) for pair in pairs])
            continue
        for interleave in (LOW_BYTES, HIGH_BYTES):
            upper = permute_bytes(emitter, word[0], word[1], interleave)
            lower = permute_bytes(emitter, word[2], word[3], interleave)
            for half in (LOW_HALVES, HIGH_HALVES):
                columns.append([permute_bytes(emitter, upper, lower, half)])
    return columns
