"""Staged rows to buffer loads: scalar base, 32-bit lane offset, bounds checked by the hardware."""

from __future__ import annotations

from tessera.codegen.llvm_text import FunctionEmitter
from tessera.codegen.llvm_types import STAGED_PIECE
from tessera.codegen.rocm.memory import GLOBAL, concatenate, uniform_pointer

RESOURCE = "ptr addrspace(8)"
RESOURCE_FLAGS = 0x31016000
"""Word 3 of a raw buffer resource: 32-bit format, bounds check on the byte offset alone."""

PIECE_BYTES = 16
OUTSIDE = -1
"""A byte offset past the end of every buffer: such lanes read 0."""


class BufferTile:
    """Rows of one tile, read through a buffer resource that ends with its last valid row.

    Reads past the end give 0 and touch no memory, so a tile that is cut off costs no more than a
    whole one: no masks, no branches, no clamped second address.
    """

    def __init__(
        self,
        emitter: FunctionEmitter,
        pointer: str,
        stride: str,
        bits: int,
        shape: tuple[int, int],
        row_limit: str | None,
        column_limit: str | None,
        zero_columns: bool,
        alignment: int,
    ) -> None:
        self.emitter, self.stride, self.bits = emitter, stride, bits
        self.alignment = min(alignment, PIECE_BYTES)
        self.column_limit = column_limit if zero_columns else None
        columns = str(shape[1])
        if column_limit is not None:
            arguments = [("i32", column_limit), ("i32", columns)]
            columns = emitter.call("i32", "llvm.smin.i32", arguments)
        rows = str(shape[0])
        if row_limit is not None:
            # No more than the tile's own rows, so that the size in bytes fits 32 bits.
            rows = emitter.call("i32", "llvm.smin.i32", [("i32", row_limit), ("i32", rows)])
        before = emitter.assign(f"sub i32 {rows}, 1")
        start = emitter.assign(f"mul i32 {before}, {stride}")
        end = emitter.assign(f"add i32 {start}, {columns}")
        self.size = self._bytes(end)
        size = emitter.assign(f"zext i32 {self.size} to i64")
        arguments = [
            (GLOBAL, uniform_pointer(emitter, pointer)),
            ("i16", "0"),
            ("i64", size),
            ("i32", str(RESOURCE_FLAGS)),
        ]
        self.resource = emitter.call(RESOURCE, "llvm.amdgcn.make.buffer.rsrc.p8.p1", arguments)

    def _bytes(self, elements: str) -> str:
        if self.bits < 8:
            return self.emitter.assign(f"lshr i32 {elements}, {(8 // self.bits).bit_length() - 1}")
        return self.emitter.assign(f"shl i32 {elements}, {(self.bits // 8).bit_length() - 1}")

    def load(self, row: str, column: str, row_shift: int = 0, column_shift: int = 0) -> str:
        """128 bits at (row + row_shift, column + column_shift); zeros where that is outside.

        Shifts cost no vector register: rows go into the scalar offset, columns into the
        instruction.
        """
        emitter = self.emitter
        start = emitter.assign(f"mul i32 {row}, {self.stride}")
        offset = self._bytes(emitter.assign(f"add i32 {start}, {column}"))
        if column_shift:
            moved = column_shift * self.bits // 8
            offset = emitter.assign(f"add nuw i32 {offset}, {moved}")
        if self.column_limit is None:
            return self._pieces(offset, row_shift)
        left = emitter.assign(f"sub i32 {self.column_limit}, {column}")
        if column_shift:
            left = emitter.assign(f"sub i32 {left}, {column_shift}")
        if self.alignment < PIECE_BYTES:
            return self._keep_first(self._pieces(offset, row_shift), left)
        inside = emitter.assign(f"icmp sgt i32 {left}, 0")
        offset = emitter.assign(f"select i1 {inside}, i32 {offset}, i32 {OUTSIDE}")
        return self._pieces(offset, row_shift)

    def _pieces(self, offset: str, row_shift: int) -> str:
        """128 bits in loads as wide as the alignment allows."""
        emitter, step = self.emitter, self.alignment
        name = {2: "i16", 4: "i32", 8: "v2i32", 16: "v4i32"}[step]
        type_ = {2: "i16", 4: "i32", 8: "<2 x i32>", 16: STAGED_PIECE}[step]
        scalar_offset = self._scalar_offset(row_shift)
        parts: list[str] = []
        for start in range(0, PIECE_BYTES, step):
            place = emitter.assign(f"add nuw i32 {offset}, {start}") if start else offset
            arguments = [
                (RESOURCE, self.resource),
                ("i32", place),
                ("i32", scalar_offset),
                ("i32", "0"),
            ]
            function = f"llvm.amdgcn.raw.ptr.buffer.load.{name}"
            parts.append(emitter.call(type_, function, arguments))
        if step >= 8:
            return concatenate(emitter, parts, step // 4, "i32")
        vector_type = f"<{len(parts)} x {type_}>"
        vector = "poison"
        for index, part in enumerate(parts):
            vector = emitter.assign(
                f"insertelement {vector_type} {vector}, {type_} {part}, i32 {index}"
            )
        if step == 4:
            return vector
        return emitter.assign(f"bitcast {vector_type} {vector} to {STAGED_PIECE}")

    def _keep_first(self, piece: str, count: str) -> str:
        """Zero all 16-bit elements of a piece but the first `count`."""
        emitter = self.emitter
        vector = "poison"
        for word in range(PIECE_BYTES // 4):
            both = emitter.assign(f"icmp sgt i32 {count}, {2 * word + 1}")
            first = emitter.assign(f"icmp sgt i32 {count}, {2 * word}")
            low = emitter.assign(f"select i1 {first}, i32 65535, i32 0")
            mask = emitter.assign(f"select i1 {both}, i32 -1, i32 {low}")
            value = emitter.assign(f"extractelement {STAGED_PIECE} {piece}, i32 {word}")
            kept = emitter.assign(f"and i32 {value}, {mask}")
            vector = emitter.assign(
                f"insertelement {STAGED_PIECE} {vector}, i32 {kept}, i32 {word}"
            )
        return vector

    def _scalar_offset(self, rows: int) -> str:
        """Bytes of some rows, and no more than the buffer has.

        The check compares the lane's offset with the size minus this, which must not be negative.
        """
        if not rows:
            return "0"
        distance = self._bytes(self.emitter.assign(f"mul i32 {rows}, {self.stride}"))
        arguments = [("i32", distance), ("i32", self.size)]
        return self.emitter.call("i32", "llvm.umin.i32", arguments)
