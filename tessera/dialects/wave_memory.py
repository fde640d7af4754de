"""Operations between memory (global and LDS) and fragments, statistics or single elements."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    IntegerAttr,
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
)
from xdsl.utils.exceptions import VerifyException

from tessera.dialects.wave_staged import optional_operand
from tessera.dialects.wave_types import (
    FragmentType,
    LdsType,
    PointerType,
    StatisticType,
)


@irdl_op_definition
class LoadFragmentOp(IRDLOperation):
    """Read an operand fragment from an LDS tile whose rows are the operand's outer index.

    The fragment starts at (outer, inner) of the tile; the contracted axis lies along the row.
    """

    name = "wave.load_fragment"
    lds = operand_def(LdsType)
    outer = operand_def(i32)
    inner = operand_def(i32)
    result = result_def(FragmentType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$lds `[` $outer `,` $inner `]` attr-dict `:` type($lds) `->` type($result)"

    def __init__(
        self, lds: SSAValue, outer: SSAValue, inner: SSAValue, fragment: FragmentType
    ) -> None:
        super().__init__(operands=[lds, outer, inner], result_types=[fragment])


@irdl_op_definition
class LoadGlobalFragmentOp(IRDLOperation):
    """Read an operand fragment straight from global memory.

    Element (outer, inner) is at `pointer[outer * stride + inner]`, or with `transposed` at
    `pointer[inner * stride + outer]`. Outer indices past `outer_limit` repeat the last valid one;
    inner indices at or past `inner_limit` are zero. Nothing outside the limits is read.
    """

    name = "wave.load_global_fragment"
    pointer = operand_def(PointerType)
    stride = operand_def(i32)
    outer_limit = opt_operand_def(i32)
    inner_limit = opt_operand_def(i32)
    result = result_def(FragmentType)
    transposed = opt_attr_def(UnitAttr)
    alignment = attr_def(IntegerAttr)
    irdl_options = (AttrSizedOperandSegments(),)
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        pointer: SSAValue,
        stride: SSAValue,
        fragment: FragmentType,
        alignment: int,
        outer_limit: SSAValue | None = None,
        inner_limit: SSAValue | None = None,
        transposed: bool = False,
    ) -> None:
        attributes: dict[str, Attribute] = {"alignment": IntegerAttr(alignment, i64)}
        if transposed:
            attributes["transposed"] = UnitAttr()
        super().__init__(
            operands=[
                pointer,
                stride,
                optional_operand(outer_limit),
                optional_operand(inner_limit),
            ],
            result_types=[fragment],
            attributes=attributes,
        )


@irdl_op_definition
class StoreLdsElementOp(IRDLOperation):
    """One lane's write of element (0, index) of a one-row LDS tile."""

    name = "wave.store_lds_element"
    value = operand_def()
    lds = operand_def(LdsType)
    index = operand_def(i32)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value `,` $lds `[` $index `]` attr-dict `:` type($value) `,` type($lds)"

    def __init__(self, value: SSAValue, lds: SSAValue, index: SSAValue) -> None:
        super().__init__(operands=[value, lds, index])


@irdl_op_definition
class LoadStatisticOp(IRDLOperation):
    """Read a per-row statistic from a one-row LDS tile, from element `first` on.

    Places follow the matrix-core row's `converted_order`: element first + p is that of accumulator
    row converted_order[p].
    """

    name = "wave.load_statistic"
    lds = operand_def(LdsType)
    first = operand_def(i32)
    result = result_def(StatisticType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$lds `[` $first `]` attr-dict `:` type($lds) `->` type($result)"

    def __init__(self, lds: SSAValue, first: SSAValue, statistic: StatisticType) -> None:
        super().__init__(operands=[lds, first], result_types=[statistic])

    def verify_(self) -> None:
        assert isinstance(self.result.type, StatisticType)
        if self.result.type.axis.data != "row":
            raise VerifyException("wave.load_statistic: only per-row statistics lie in LDS")


@irdl_op_definition
class StoreAccumulatorOp(IRDLOperation):
    """Write an accumulator into a one-row LDS tile, from element `first` on, for another wave.

    How its elements lie there is the business of `wave.load_accumulator` alone.
    """

    name = "wave.store_accumulator"
    fragment = operand_def(FragmentType)
    lds = operand_def(LdsType)
    first = operand_def(i32)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$fragment `,` $lds `[` $first `]` attr-dict `:` type($fragment) `,` type($lds)"
    )

    def __init__(self, fragment: SSAValue, lds: SSAValue, first: SSAValue) -> None:
        super().__init__(operands=[fragment, lds, first])


@irdl_op_definition
class LoadAccumulatorOp(IRDLOperation):
    """Read an accumulator that `wave.store_accumulator` wrote from element `first` on."""

    name = "wave.load_accumulator"
    lds = operand_def(LdsType)
    first = operand_def(i32)
    result = result_def(FragmentType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$lds `[` $first `]` attr-dict `:` type($lds) `->` type($result)"

    def __init__(self, lds: SSAValue, first: SSAValue, fragment: Attribute) -> None:
        super().__init__(operands=[lds, first], result_types=[fragment])


@irdl_op_definition
class LoadGlobalStatisticOp(IRDLOperation):
    """Read a per-column statistic from consecutive elements of global memory.

    Columns at or past the limit repeat the last valid one.
    """

    name = "wave.load_global_statistic"
    pointer = operand_def(PointerType)
    limit = operand_def(i32)
    result = result_def(StatisticType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$pointer `limit` $limit attr-dict `:` type($pointer) `->` type($result)"

    def __init__(self, pointer: SSAValue, limit: SSAValue, statistic: StatisticType) -> None:
        super().__init__(operands=[pointer, limit], result_types=[statistic])

    def verify_(self) -> None:
        assert isinstance(self.result.type, StatisticType)
        if self.result.type.axis.data != "column":
            raise VerifyException("wave.load_global_statistic: only per-column statistics")


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Write an accumulator to global memory, rounded to the pointer's element type.

    Element (row, column) goes to `pointer[row * stride + column]`, or with `transposed` to
    `pointer[column * stride + row]`. Elements at or past a limit are not written.
    """

    name = "wave.store"
    fragment = operand_def(FragmentType)
    pointer = operand_def(PointerType)
    stride = operand_def(i32)
    row_limit = operand_def(i32)
    column_limit = operand_def(i32)
    transposed = opt_attr_def(UnitAttr)
    alignment = attr_def(IntegerAttr)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$fragment `,` $pointer `,` $stride `limit` `[` $row_limit `,` $column_limit `]` attr-dict "
        "`:` type($fragment) `,` type($pointer)"
    )

    def __init__(
        self,
        fragment: SSAValue,
        pointer: SSAValue,
        stride: SSAValue,
        limits: tuple[SSAValue, SSAValue],
        alignment: int,
        transposed: bool = False,
    ) -> None:
        attributes: dict[str, Attribute] = {"alignment": IntegerAttr(alignment, i64)}
        if transposed:
            attributes["transposed"] = UnitAttr()
        super().__init__(operands=[fragment, pointer, stride, *limits], attributes=attributes)


@irdl_op_definition
class StoreStatisticOp(IRDLOperation):
    """Write a per-column statistic to consecutive elements of global memory, up to a limit."""

    name = "wave.store_statistic"
    statistic = operand_def(StatisticType)
    pointer = operand_def(PointerType)
    limit = operand_def(i32)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$statistic `,` $pointer `limit` $limit attr-dict `:` type($statistic) `,` type($pointer)"
    )

    def __init__(self, statistic: SSAValue, pointer: SSAValue, limit: SSAValue) -> None:
        super().__init__(operands=[statistic, pointer, limit])


@irdl_op_definition
class LoadElementOp(IRDLOperation):
    """One lane's read of `pointer[index]` (64-bit element index), for kernels without matrices."""

    name = "wave.load_element"
    pointer = operand_def(PointerType)
    index = operand_def(i64)
    result = result_def()
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$pointer `[` $index `]` attr-dict `:` type($pointer) `->` type($result)"

    def __init__(self, pointer: SSAValue, index: SSAValue) -> None:
        assert isinstance(pointer.type, PointerType)
        super().__init__(operands=[pointer, index], result_types=[pointer.type.element])


@irdl_op_definition
class StoreElementOp(IRDLOperation):
    """One lane's write of `pointer[index]` (64-bit element index), for kernels without matrices."""

    name = "wave.store_element"
    value = operand_def()
    pointer = operand_def(PointerType)
    index = operand_def(i64)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$value `,` $pointer `[` $index `]` attr-dict `:` type($value) `,` type($pointer)"
    )

    def __init__(self, value: SSAValue, pointer: SSAValue, index: SSAValue) -> None:
        super().__init__(operands=[value, pointer, index])
