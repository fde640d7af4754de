"""Global and LDS addresses, bounded loads and stores of pieces of rows, as LLVM IR."""

from __future__ import annotations

from dataclasses import dataclass

from tessera.codegen.llvm_text import FunctionEmitter

GLOBAL = "ptr addrspace(1)"
LDS = "ptr addrspace(3)"


@dataclass(frozen=True)
class RowPiece:
    """`count` consecutive elements of one row in global memory, in elements from a uniform base.

    `offset` is the element offset of the row's start (i32), `column` the first column (i32). The
    whole piece is zero where `row_valid` (i1 or None) does not hold. Columns at or past
    `column_limit` (i32 or None) are zero, or with `zero_columns` False anything. Nothing invalid
    is read.
    """

    pointer: str
    offset: str
    column: str
    count: int
    alignment: int
    bits: int
    row_valid: str | None = None
    column_limit: str | None = None
    zero_columns: bool = True


def global_address(emitter: FunctionEmitter, pointer: str, elements: str, bits: int) -> str:
    """Address `elements` (i32, unsigned) past a uniform pointer: scalar base, 32-bit offset."""
    shift = (bits // 8).bit_length() - 1
    offset = emitter.assign(f"shl nuw i32 {elements}, {shift}") if shift else elements
    wide = emitter.assign(f"zext i32 {offset} to i64")
    return emitter.assign(f"getelementptr inbounds i8, {GLOBAL} {pointer}, i64 {wide}")


def uniform_pointer(emitter: FunctionEmitter, pointer: str) -> str:
    """A pointer that is the same in all lanes, fixed as such.

    LLVM's loop-invariant code motion otherwise adds the lane's offset to it outside the loop, which
    takes two registers per address and two vector additions per iteration.
    """
    return emitter.call(GLOBAL, "llvm.amdgcn.readfirstlane.p1", [(GLOBAL, pointer)])


def load_row_piece(emitter: FunctionEmitter, piece: RowPiece) -> str:
    """Load a RowPiece as one integer vector, in steps that the alignment allows."""
    step = min(piece.count, max(1, piece.alignment * 8 // piece.bits))
    type_ = f"<{step} x i{piece.bits}>"
    parts = [
        _load_step(emitter, piece, first, step, type_) for first in range(0, piece.count, step)
    ]
    return concatenate(emitter, parts, step, f"i{piece.bits}")


def load_row_words(emitter: FunctionEmitter, piece: RowPiece) -> str:
    """Load a RowPiece as 32-bit words, in steps that the alignment allows."""
    words = piece.count * piece.bits // 32
    step_bits = min(piece.count * piece.bits, max(piece.bits, piece.alignment * 8))
    step = step_bits // piece.bits
    if step_bits >= 32:
        width = step_bits // 32
        type_ = f"<{width} x i32>"
        parts = [
            _load_step(emitter, piece, first, step, type_) for first in range(0, piece.count, step)
        ]
        return concatenate(emitter, parts, width, "i32")
    if piece.bits == 16:
        vector = load_row_piece(emitter, piece)
        return emitter.assign(f"bitcast <{piece.count} x i16> {vector} to <{words} x i32>")
    # LLVM would keep a vector of bytes in one register each; in words it cannot.
    vector = "poison"
    for word in range(words):
        total = ""
        for shift in range(0, 32, step_bits):
            first = (word * 32 + shift) // piece.bits
            part = _load_step(emitter, piece, first, step, f"i{step_bits}")
            wide = emitter.assign(f"zext i{step_bits} {part} to i32")
            moved = emitter.assign(f"shl i32 {wide}, {shift}") if shift else wide
            total = emitter.assign(f"or i32 {total}, {moved}") if total else moved
        vector = emitter.assign(f"insertelement <{words} x i32> {vector}, i32 {total}, i32 {word}")
    return vector


def _load_step(emitter: FunctionEmitter, piece: RowPiece, first: int, step: int, type_: str) -> str:
    column = emitter.assign(f"add i32 {piece.column}, {first}") if first else piece.column
    valid = piece.row_valid
    if piece.column_limit is not None:
        inside = emitter.assign(f"icmp slt i32 {column}, {piece.column_limit}")
        if piece.zero_columns:
            valid = inside if valid is None else emitter.assign(f"and i1 {valid}, {inside}")
        else:
            # Which element is read does not matter, only that it exists: the row's first one.
            column = emitter.assign(f"select i1 {inside}, i32 {column}, i32 0")

    def load() -> str:
        elements = emitter.assign(f"add i32 {piece.offset}, {column}")
        address = global_address(emitter, piece.pointer, elements, piece.bits)
        alignment = min(piece.alignment, step * piece.bits // 8)
        return emitter.assign(f"load {type_}, {GLOBAL} {address}, align {alignment}")

    # Invalid lanes sit the load out. A second, clamped address would do as well, but would occupy
    # registers throughout the loop around it.
    return load() if valid is None else emitter.value_where(valid, type_, load)


def concatenate(emitter: FunctionEmitter, parts: list[str], width: int, element: str) -> str:
    """Join equally long vectors pairwise into one; the number of parts is a power of two."""
    while len(parts) > 1:
        mask = ", ".join(f"i32 {index}" for index in range(2 * width))
        type_ = f"<{width} x {element}>"
        parts = [
            emitter.assign(
                f"shufflevector {type_} {parts[i]}, {type_} {parts[i + 1]}, "
                f"<{2 * width} x i32> <{mask}>"
            )
            for i in range(0, len(parts), 2)
        ]
        width *= 2
    return parts[0]


def lds_address(emitter: FunctionEmitter, lds: str, elements: str, bits: int) -> str:
    """Address of an element of an LDS tile (i32 element index)."""
    return emitter.assign(f"getelementptr inbounds i{bits}, {LDS} {lds}, i32 {elements}")


def multiply_add(emitter: FunctionEmitter, row: str, stride: str | int, column: str) -> str:
    """row * stride + column in i32."""
    product = emitter.assign(f"mul i32 {row}, {stride}")
    return emitter.assign(f"add i32 {product}, {column}")
