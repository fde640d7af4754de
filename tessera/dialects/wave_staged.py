"""Operations on staged tiles: fetched into registers, changed there, written to LDS."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    operand_def,
    opt_attr_def,
    opt_operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import (
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from tessera.dialects.wave_types import (
    AXES,
    LdsType,
    PointerType,
    StagedType,
)


@irdl_op_definition
class StageOp(IRDLOperation):
    """Read one tile from global memory into the registers of the workgroup's threads.

    Tile element (r, c) is at `pointer[r * stride + c]`. Rows at or past `row_limit` hold anything
    finite that valid rows hold or 0, or are zero with `zero_rows`; columns at or past
    `column_limit` are zero, or with `any_columns` anything. Where rows overlap in memory, missing
    rows may hold what the valid ones do. Nothing outside the limits is read; a limit is at least 1.
    `alignment` is in bytes, of every row's start. `order`, for the arrangement `blocks`, lists
    which row of each group of len(order) comes at which place.
    """

    name = "wave.stage"
    pointer = operand_def(PointerType)
    stride = operand_def(i32)
    row_limit = opt_operand_def(i32)
    column_limit = opt_operand_def(i32)
    result = result_def(StagedType)
    zero_rows = opt_attr_def(UnitAttr)
    any_columns = opt_attr_def(UnitAttr)
    alignment = attr_def(IntegerAttr)
    threads = attr_def(IntegerAttr)
    order = opt_attr_def(DenseArrayBase)
    irdl_options = (AttrSizedOperandSegments(),)
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        pointer: SSAValue,
        stride: SSAValue,
        staged: StagedType,
        threads: int,
        alignment: int,
        row_limit: SSAValue | None = None,
        column_limit: SSAValue | None = None,
        zero_rows: bool = False,
        any_columns: bool = False,
        order: Sequence[int] | None = None,
    ) -> None:
        attributes: dict[str, Attribute] = {
            "alignment": IntegerAttr(alignment, i64),
            "threads": IntegerAttr(threads, i64),
        }
        if zero_rows:
            attributes["zero_rows"] = UnitAttr()
        if any_columns:
            attributes["any_columns"] = UnitAttr()
        if order is not None:
            attributes["order"] = DenseArrayBase.from_list(i64, list(order))
        super().__init__(
            operands=[pointer, stride, optional_operand(row_limit), optional_operand(column_limit)],
            result_types=[staged],
            attributes=attributes,
        )

    def verify_(self) -> None:
        if self.zero_rows is not None and self.row_limit is None:
            raise VerifyException("wave.stage: zero_rows needs a row_limit")


@irdl_op_definition
class CommitOp(IRDLOperation):
    """Write a staged tile into LDS: as in memory, or with `transposed` with its axes swapped.

    Only the arrangement `blocks` can be transposed. `order` is that of the tile's wave.stage; it
    places the rows of a transposed tile, while an untransposed one has them as in memory.
    """

    name = "wave.commit"
    staged = operand_def(StagedType)
    lds = operand_def(LdsType)
    threads = attr_def(IntegerAttr)
    transposed = opt_attr_def(UnitAttr)
    order = opt_attr_def(DenseArrayBase)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$staged `,` $lds attr-dict `:` type($staged) `,` type($lds)"

    def __init__(
        self,
        staged: SSAValue,
        lds: SSAValue,
        threads: int,
        transposed: bool = False,
        order: Sequence[int] | None = None,
    ) -> None:
        attributes: dict[str, Attribute] = {"threads": IntegerAttr(threads, i64)}
        if transposed:
            attributes["transposed"] = UnitAttr()
        if order is not None:
            attributes["order"] = DenseArrayBase.from_list(i64, list(order))
        super().__init__(operands=[staged, lds], attributes=attributes)

    def verify_(self) -> None:
        staged, lds = self.staged.type, self.lds.type
        assert isinstance(staged, StagedType)
        assert isinstance(lds, LdsType)
        if self.transposed is not None and staged.arrangement.data != "blocks":
            raise VerifyException("wave.commit: only the arrangement blocks can be transposed")
        shape = staged.shape if self.transposed is None else staged.shape[::-1]
        if shape != lds.shape:
            raise VerifyException(f"wave.commit: a {shape} tile does not fit {lds.shape}")


@irdl_op_definition
class MaskStagedOp(IRDLOperation):
    """A staged tile with zeros where the index along `axis` is below `first`.

    With `last`, the high four bits of the bytes at index `last` are zero as well: the second of two
    packed numbers, of which an odd row has no use. With `whole_chunks`, `first` divides the tile at
    the boundary of a 128-bit chunk. `axis` is "row" or "column" of the tile as it lies in memory.
    """

    name = "wave.mask_staged"
    staged = operand_def(StagedType)
    first = operand_def(i32)
    last = opt_operand_def(i32)
    result = result_def(StagedType)
    axis = attr_def(StringAttr)
    whole_chunks = opt_attr_def(UnitAttr)
    irdl_options = (AttrSizedOperandSegments(),)
    traits = traits_def(Pure())

    def __init__(
        self,
        staged: SSAValue,
        first: SSAValue,
        axis: str,
        last: SSAValue | None = None,
        whole_chunks: bool = False,
    ) -> None:
        attributes: dict[str, Attribute] = {"axis": StringAttr(axis)}
        if whole_chunks:
            attributes["whole_chunks"] = UnitAttr()
        super().__init__(
            operands=[staged, first, [] if last is None else [last]],
            result_types=[staged.type],
            attributes=attributes,
        )

    def verify_(self) -> None:
        if self.axis.data not in AXES:
            raise VerifyException(f"wave.mask_staged axis {self.axis.data!r}; supported: {AXES}")
        if self.last is not None and self.axis.data != "column":
            raise VerifyException("wave.mask_staged: packed numbers lie along columns")


@irdl_op_definition
class LdsPartOp(IRDLOperation):
    """The rows of an LDS tile from `first_row` on, as a tile of its own."""

    name = "wave.lds_part"
    lds = operand_def(LdsType)
    first_row = operand_def(i32)
    result = result_def(LdsType)
    traits = traits_def(Pure())
    assembly_format = "$lds `[` $first_row `]` attr-dict `:` type($lds) `->` type($result)"

    def __init__(self, lds: SSAValue, first_row: SSAValue, rows: int) -> None:
        assert isinstance(lds.type, LdsType)
        part = LdsType(rows, lds.type.shape[1], lds.type.element, lds.type.pitch.data)
        super().__init__(operands=[lds, first_row], result_types=[part])

    def verify_(self) -> None:
        whole, part = self.lds.type, self.result.type
        assert isinstance(whole, LdsType)
        assert isinstance(part, LdsType)
        if (whole.element, whole.pitch, whole.columns) != (part.element, part.pitch, part.columns):
            raise VerifyException(f"wave.lds_part: {part} is no part of {whole}")


@irdl_op_definition
class StagePerPieceOp(IRDLOperation):
    """Read one number per 128-bit piece of a tile that is staged by rows: that of the piece's row.

    The number of tile row r is at `pointer[r * stride]`. Rows at or past `row_limit` repeat the
    last valid one.
    """

    name = "wave.stage_per_piece"
    pointer = operand_def(PointerType)
    stride = operand_def(i32)
    row_limit = operand_def(i32)
    result = result_def(StagedType)
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self, pointer: SSAValue, stride: SSAValue, row_limit: SSAValue, staged: StagedType
    ) -> None:
        super().__init__(operands=[pointer, stride, row_limit], result_types=[staged])

    def verify_(self) -> None:
        assert isinstance(self.result.type, StagedType)
        if self.result.type.arrangement.data != "per_piece":
            raise VerifyException("wave.stage_per_piece: the result has one number per piece")


@irdl_op_definition
class CommitDequantizedOp(IRDLOperation):
    """Write (number - zero) * scale of a staged tile of small integers into an f16 LDS tile.

    The tile's bytes hold `dtype` numbers along rows: two i4 or u4, the first one in the low four
    bits, or one i8. Both steps round to f16; without `zeros` the first one is left out.
    """

    name = "wave.commit_dequantized"
    staged = operand_def(StagedType)
    scales = operand_def(StagedType)
    zeros = opt_operand_def(StagedType)
    lds = operand_def(LdsType)
    dtype = attr_def(StringAttr)
    irdl_options = (AttrSizedOperandSegments(),)
    traits = traits_def(MemoryWriteEffect())

    def __init__(
        self,
        staged: SSAValue,
        scales: SSAValue,
        zeros: SSAValue | None,
        lds: SSAValue,
        dtype: str,
    ) -> None:
        super().__init__(
            operands=[staged, scales, [] if zeros is None else [zeros], lds],
            attributes={"dtype": StringAttr(dtype)},
        )

    def verify_(self) -> None:
        staged, lds = self.staged.type, self.lds.type
        assert isinstance(staged, StagedType)
        assert isinstance(lds, LdsType)
        if self.dtype.data not in PACKED_NUMBERS:
            raise VerifyException(f"wave.commit_dequantized dtype {self.dtype.data!r}")
        numbers = staged.shape[1] * PACKED_NUMBERS[self.dtype.data]
        if (staged.shape[0], numbers) != lds.shape or staged.arrangement.data != "rows":
            raise VerifyException(f"wave.commit_dequantized: {staged} does not fit {lds}")


PACKED_NUMBERS = {"i4": 2, "u4": 2, "i8": 1}
"""Numbers in one byte of a tile that is dequantized."""


def optional_operand(value: SSAValue | None) -> list[SSAValue]:
    """An optional operand as xDSL takes it: a list of at most one."""
    return [] if value is None else [value]
