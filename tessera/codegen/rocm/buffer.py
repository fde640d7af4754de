"""Staged rows to buffer loads: scalar base, 32-bit lane offset, bounds checked by the hardware."""

from __future__ import annotations

from tessera.codegen.llvm_text import FunctionEmitter
from tessera.codegen.llvm_types import STAGED_PIECE
from tessera.codegen.rocm.memory import GLOBAL, uniform_pointer

RESOURCE = "ptr addrspace(8)"
RESOURCE_FLAGS = 0x31016000
"""Word 3 of a raw buffer resource: 32-bit format, bounds check on the byte offset alone."""

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
    ) -> None:
        self.emitter, self.stride, self.bits = emitter, stride, bits
        self.column_limit = column_limit
        rows = str(shape[0])
        if row_limit is not None:
            # No more than the tile's own rows, so that the size in bytes fits 32 bits.
            rows = emitter.call("i32", "llvm.smin.i32", [("i32", row_limit), ("i32", rows)])
        before = emitter.assign(f"sub i32 {rows}, 1")
        start = emitter.assign(f"mul i32 {before}, {stride}")
        end = emitter.assign(f"add i32 {start}, {column_limit or shape[1]}")
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
        if self.column_limit is not None:
            last = emitter.assign(f"sub i32 {self.column_limit}, {column_shift}")
            inside = emitter.assign(f"icmp slt i32 {column}, {last}")
            offset = emitter.assign(f"select i1 {inside}, i32 {offset}, i32 {OUTSIDE}")
        arguments = [
            (RESOURCE, self.resource),
            ("i32", offset),
            ("i32", self._scalar_offset(row_shift)),
            ("i32", "0"),
        ]
        return emitter.call(STAGED_PIECE, "llvm.amdgcn.raw.ptr.buffer.load.v4i32", arguments)

    def _scalar_offset(self, rows: int) -> str:
        """Bytes of some rows, and no more than the buffer has.

        The check compares the lane's offset with the size minus this, which must not be negative.
        """
        if not rows:
            return "0"
        distance = self._bytes(self.emitter.assign(f"mul i32 {rows}, {self.stride}"))
        arguments = [("i32", distance), ("i32", self.size)]
        return self.emitter.call("i32", "llvm.umin.i32", arguments)
