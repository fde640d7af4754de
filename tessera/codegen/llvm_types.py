"""Kernel-level types to LLVM types, and how a staged tile is dealt out to threads."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
)
from xdsl.ir import Attribute

from tessera.dialects.wave_types import (
    ELEMENT_BITS,
    FragmentType,
    LdsType,
    PointerType,
    StagedType,
    StatisticType,
    element_name,
)
from tessera.errors import CompileError
from tessera.targets import FragmentLayout, MatrixCore, Target

CHUNK_BYTES = 16
"""The widest load of one lane: 128 bits."""

STAGED_PIECE = "<4 x i32>"
"""What carries 128 bits of a staged tile: LLVM keeps vectors of narrower numbers one by one."""

TRANSPOSE_ROWS = 4
"""Rows of the block that a thread transposes in registers: four 16-bit values fill 64 bits."""


def scalar_type(type_: Attribute) -> str:
    """LLVM's name of a scalar type."""
    match type_:
        case IntegerType():
            return f"i{type_.width.data}"
        case IndexType():
            return "i64"
        case Float16Type():
            return "half"
        case BFloat16Type():
            return "bfloat"
        case Float32Type():
            return "float"
        case Float64Type():
            return "double"
        case _:
            raise CompileError(f"LLVM printer: no scalar type for {type_}")


def storage_type(element: Attribute) -> str:
    """The integer that carries an element in memory and in operand fragments."""
    return f"i{ELEMENT_BITS[element_name(element)]}"


@dataclass(frozen=True)
class StagedLayout:
    """How a staged tile is split: `units` blocks of `rows` x `chunk` elements over the threads."""

    tile_rows: int
    tile_columns: int
    rows: int
    chunk: int
    threads: int

    def __post_init__(self) -> None:
        if self.tile_rows % self.rows or self.tile_columns % self.chunk:
            raise CompileError(
                f"a {self.tile_rows}x{self.tile_columns} tile does not split into "
                f"{self.rows}x{self.chunk} blocks"
            )

    @property
    def chunks_per_row(self) -> int:
        """128-bit chunks in one row of the tile."""
        return self.tile_columns // self.chunk

    @property
    def units(self) -> int:
        """Blocks in the whole tile."""
        return self.chunks_per_row * (self.tile_rows // self.rows)

    @property
    def units_per_thread(self) -> int:
        """Blocks that each thread handles, the last one possibly in some threads only."""
        return -(-self.units // self.threads)

    @property
    def is_even(self) -> bool:
        """Whether all threads handle the same number of blocks."""
        return self.units % self.threads == 0


def staged_layout(type_: StagedType, threads: int) -> StagedLayout:
    """The split of a staged tile over `threads` threads."""
    rows, columns = type_.shape
    per_piece = type_.arrangement.data == "per_piece"
    # One number per piece of the tile of bytes that it goes with.
    bits = 8 if per_piece else ELEMENT_BITS[element_name(type_.element)]
    chunk = CHUNK_BYTES * 8 // bits
    block_rows = TRANSPOSE_ROWS if type_.arrangement.data == "blocks" else 1
    return StagedLayout(rows, columns, block_rows, chunk, threads)


def fragment_core(type_: FragmentType, target: Target) -> MatrixCore:
    """The matrix-core row that a fragment type belongs to."""
    element = element_name(type_.element)
    if type_.role.data != "acc":
        return target.matrix_core(element)
    for row in target.facts.matrix_cores:
        if row.accumulator_dtype == element and (row.m, row.n) == type_.shape:
            return row
    raise CompileError(f"{target.chip}: no matrix instruction accumulates into {type_}")


def fragment_layout(type_: FragmentType, target: Target) -> FragmentLayout:
    """Where the lanes of `target` keep the elements of a fragment."""
    row = fragment_core(type_, target)
    return {"a": row.a, "b": row.b, "acc": row.accumulator}[type_.role.data]


def _fragment_type(type_: FragmentType, target: Target) -> str:
    row = fragment_core(type_, target)
    if type_.role.data == "acc":
        return row.accumulator_type
    if isinstance(type_.element, IntegerType):
        return {"a": row.a_type, "b": row.b_type}[type_.role.data]
    return f"<{fragment_layout(type_, target).slots} x {storage_type(type_.element)}>"


def llvm_types(type_: Attribute, target: Target, threads: int) -> tuple[str, ...]:
    """The LLVM types that together carry a value of a kernel-level type."""
    match type_:
        case FragmentType():
            return (_fragment_type(type_, target),)
        case StatisticType():
            if type_.axis.data == "column":
                return (scalar_type(type_.element),)
            slots = target.facts.matrix_cores[0].accumulator.slots
            return (f"<{slots} x {scalar_type(type_.element)}>",)
        case StagedType():
            layout = staged_layout(type_, threads)
            if type_.arrangement.data == "per_piece":
                return (scalar_type(type_.element),) * layout.units_per_thread
            return (STAGED_PIECE,) * (layout.units_per_thread * layout.rows)
        case PointerType():
            return ("ptr addrspace(1)",)
        case LdsType():
            return ("ptr addrspace(3)",)
        case _:
            return (scalar_type(type_),)
