"""The wave dialect: a kernel as one wave writes it, on matrix fragments instead of lanes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    operand_def,
    opt_attr_def,
    opt_operand_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from tessera.dialects.wave_staged import (
    CommitDequantizedOp,
    LdsPartOp,
    MaskStagedOp,
    StagePerPieceOp,
)
from tessera.dialects.wave_types import (
    FragmentType,
    LdsType,
    PointerType,
    StagedType,
    StatisticType,
)

REDUCTIONS = ("max", "sum")


class _IdOp(IRDLOperation):
    """Base of the ops that ask where in the grid they run; the result counts from 0."""

    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


@irdl_op_definition
class WorkgroupIdOp(_IdOp):
    """Index of the workgroup along the grid's first axis; the same in all lanes."""

    name = "wave.workgroup_id"


@irdl_op_definition
class WaveIdOp(_IdOp):
    """Index of the wave in its workgroup; the same in all lanes."""

    name = "wave.wave_id"


@irdl_op_definition
class ThreadIdOp(_IdOp):
    """Index of the thread in its workgroup."""

    name = "wave.thread_id"


@irdl_op_definition
class AllocLdsOp(IRDLOperation):
    """Local memory for one tile, shared by the workgroup; contents undefined at the start."""

    name = "wave.alloc_lds"
    result = result_def(LdsType)
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, lds: LdsType) -> None:
        super().__init__(result_types=[lds])


@irdl_op_definition
class OffsetOp(IRDLOperation):
    """A global pointer moved by a number of elements (64 bits, the same in all lanes)."""

    name = "wave.offset"
    pointer = operand_def(PointerType)
    elements = operand_def(i64)
    result = result_def(PointerType)
    traits = traits_def(Pure())
    assembly_format = "$pointer `,` $elements attr-dict `:` type($pointer) `->` type($result)"

    def __init__(self, pointer: SSAValue, elements: SSAValue) -> None:
        super().__init__(operands=[pointer, elements], result_types=[pointer.type])


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
            operands=[pointer, stride, _optional(row_limit), _optional(column_limit)],
            result_types=[staged],
            attributes=attributes,
        )

    def verify_(self) -> None:
        if self.zero_rows is not None and self.row_limit is None:
            raise VerifyException("wave.stage: zero_rows needs a row_limit")


@irdl_op_definition
class UndefinedOp(IRDLOperation):
    """A value that nobody reads: what a register holds on a path where it is not used."""

    name = "wave.undefined"
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, type_: Attribute) -> None:
        super().__init__(result_types=[type_])


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
            operands=[pointer, stride, _optional(outer_limit), _optional(inner_limit)],
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
class DotOp(IRDLOperation):
    """Per outer index, the sum over the contracted one of two operands' products, in f32.

    Fragments of role `b` give one number per column.
    """

    name = "wave.dot"
    first = operand_def(FragmentType)
    second = operand_def(FragmentType)
    result = result_def(StatisticType)
    traits = traits_def(Pure())
    assembly_format = (
        "$first `,` $second attr-dict `:` type($first) `,` type($second) `->` type($result)"
    )

    def __init__(self, first: SSAValue, second: SSAValue, statistic: StatisticType) -> None:
        super().__init__(operands=[first, second], result_types=[statistic])

    def verify_(self) -> None:
        fragment = self.first.type
        assert isinstance(fragment, FragmentType)
        if fragment != self.second.type or fragment.role.data != "b":
            raise VerifyException("wave.dot: both operands must be b fragments of one type")


@irdl_op_definition
class ZeroOp(IRDLOperation):
    """An accumulator fragment of zeros."""

    name = "wave.zero"
    result = result_def(FragmentType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, fragment: FragmentType) -> None:
        super().__init__(result_types=[fragment])


@irdl_op_definition
class MmaOp(IRDLOperation):
    """One matrix-core instruction: `a` times `b` plus `accumulator`."""

    name = "wave.mma"
    a = operand_def(FragmentType)
    b = operand_def(FragmentType)
    accumulator = operand_def(FragmentType)
    result = result_def(FragmentType)
    traits = traits_def(Pure())
    assembly_format = (
        "$a `,` $b `,` $accumulator attr-dict "
        "`:` type($a) `,` type($b) `,` type($accumulator) `->` type($result)"
    )

    def __init__(self, a: SSAValue, b: SSAValue, accumulator: SSAValue) -> None:
        super().__init__(operands=[a, b, accumulator], result_types=[accumulator.type])

    def verify_(self) -> None:
        for value, role in ((self.a, "a"), (self.b, "b"), (self.accumulator, "acc")):
            assert isinstance(value.type, FragmentType)
            if value.type.role.data != role:
                raise VerifyException(
                    f"wave.mma: operand {role} is a fragment of role {value.type.role.data}"
                )
        if self.accumulator.type != self.result.type:
            raise VerifyException("wave.mma: accumulator and result differ in type")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends the region of wave.map with one element per result."""

    name = "wave.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(values)])


@irdl_op_definition
class MapOp(IRDLOperation):
    """Apply the region to every element of equally shaped accumulators.

    Operands are accumulators (one element per call), statistics (the element of the call's row or
    column) and scalars. With `coordinates` the region's first two arguments are the element's row
    and column within the fragment (i32). With statistics only, it runs once per statistic element.
    """

    name = "wave.map"
    inputs = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")
    coordinates = opt_attr_def(UnitAttr)
    traits = traits_def(Pure())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        output_types: Sequence[Attribute],
        body: Region,
        coordinates: bool = False,
    ) -> None:
        super().__init__(
            operands=[list(inputs)],
            result_types=[list(output_types)],
            regions=[body],
            attributes={"coordinates": UnitAttr()} if coordinates else {},
        )

    def verify_(self) -> None:
        offset = 2 if self.coordinates is not None else 0
        expected = [i32] * offset + [map_element_type(value.type) for value in self.inputs]
        if [argument.type for argument in self.body.block.args] != expected:
            raise VerifyException("wave.map: the region's arguments do not match the inputs")


def map_element_type(type_: Attribute) -> Attribute:
    """What one call of a wave.map region gets of an input: the element, or the scalar itself."""
    if isinstance(type_, FragmentType | StatisticType):
        return type_.element
    return type_


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Reduce accumulators along their rows into one number per column, or the other way round.

    The result is complete only within each lane: lanes that share a row or column still hold
    partial results until `wave.combine`.
    """

    name = "wave.reduce"
    inputs = var_operand_def(FragmentType)
    result = result_def(StatisticType)
    kind = attr_def(StringAttr)
    traits = traits_def(Pure())
    assembly_format = "$inputs attr-dict `:` type($inputs) `->` type($result)"

    def __init__(self, inputs: Sequence[SSAValue], kind: str, axis: str = "column") -> None:
        first = inputs[0].type
        assert isinstance(first, FragmentType)
        extent = first.shape[1] if axis == "column" else first.shape[0]
        super().__init__(
            operands=[list(inputs)],
            result_types=[StatisticType(extent, first.element, axis)],
            attributes={"kind": StringAttr(kind)},
        )

    def verify_(self) -> None:
        if self.kind.data not in REDUCTIONS:
            raise VerifyException(f"wave.reduce kind {self.kind.data!r}; supported: {REDUCTIONS}")


@irdl_op_definition
class CombineOp(IRDLOperation):
    """Complete a lane-partial statistic across the lanes that share its row or column."""

    name = "wave.combine"
    statistic = operand_def(StatisticType)
    result = result_def(StatisticType)
    kind = attr_def(StringAttr)
    traits = traits_def(Pure())
    assembly_format = "$statistic attr-dict `:` type($statistic) `->` type($result)"

    def __init__(self, statistic: SSAValue, kind: str) -> None:
        super().__init__(
            operands=[statistic],
            result_types=[statistic.type],
            attributes={"kind": StringAttr(kind)},
        )


@irdl_op_definition
class AnyGreaterOp(IRDLOperation):
    """Whether any element of the first statistic exceeds the second's; the same in all lanes."""

    name = "wave.any_greater"
    first = operand_def(StatisticType)
    second = operand_def(StatisticType)
    result = result_def(i1)
    traits = traits_def(Pure())
    assembly_format = "$first `,` $second attr-dict `:` type($first) `,` type($second)"

    def __init__(self, first: SSAValue, second: SSAValue) -> None:
        super().__init__(operands=[first, second], result_types=[i1])

    def verify_(self) -> None:
        if self.first.type != self.second.type:
            raise VerifyException("wave.any_greater: both statistics must have one type")


@irdl_op_definition
class SplatOp(IRDLOperation):
    """A statistic with the same scalar everywhere."""

    name = "wave.splat"
    scalar = operand_def(f32)
    result = result_def(StatisticType)
    traits = traits_def(Pure())
    assembly_format = "$scalar attr-dict `:` type($result)"

    def __init__(self, scalar: SSAValue, statistic: StatisticType) -> None:
        super().__init__(operands=[scalar], result_types=[statistic])


@irdl_op_definition
class ConvertOp(IRDLOperation):
    """Turn an accumulator into an operand of the next product without leaving registers.

    The accumulator's rows become the contracted index, in the order that the matrix-core row's
    `converted_order` states. Rounding is to nearest (of f16 with ties to even, of bf16 with ties
    away from zero), or with `toward_zero` the cheapest one.
    """

    name = "wave.convert"
    toward_zero = opt_attr_def(UnitAttr)
    accumulator = operand_def(FragmentType)
    result = result_def(FragmentType)
    traits = traits_def(Pure())
    assembly_format = "$accumulator attr-dict `:` type($accumulator) `->` type($result)"

    def __init__(
        self, accumulator: SSAValue, fragment: FragmentType, toward_zero: bool = False
    ) -> None:
        super().__init__(
            operands=[accumulator],
            result_types=[fragment],
            attributes={"toward_zero": UnitAttr()} if toward_zero else {},
        )


@irdl_op_definition
class NegateOp(IRDLOperation):
    """Flip the sign of every element of an operand fragment where `condition` holds (exact)."""

    name = "wave.negate_if"
    fragment = operand_def(FragmentType)
    condition = operand_def()
    result = result_def(FragmentType)
    traits = traits_def(Pure())
    assembly_format = (
        "$fragment `,` $condition attr-dict `:` type($fragment) `,` type($condition) "
        "`->` type($result)"
    )

    def __init__(self, fragment: SSAValue, condition: SSAValue) -> None:
        super().__init__(operands=[fragment, condition], result_types=[fragment.type])


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


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All waves of the workgroup wait here, and LDS writes before it are visible after it."""

    name = "wave.barrier"
    traits = traits_def(MemoryWriteEffect(), MemoryReadEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class ScheduleBarrierOp(IRDLOperation):
    """A scheduling hint: no instruction moves across it, which bounds what is live at once."""

    name = "wave.schedule_barrier"
    traits = traits_def(MemoryWriteEffect(), MemoryReadEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


def _optional(value: SSAValue | None) -> list[SSAValue]:
    return [] if value is None else [value]


OPERATIONS: list[type[Operation]] = [
    WorkgroupIdOp,
    WaveIdOp,
    ThreadIdOp,
    AllocLdsOp,
    OffsetOp,
    StageOp,
    UndefinedOp,
    LdsPartOp,
    MaskStagedOp,
    StagePerPieceOp,
    CommitDequantizedOp,
    CommitOp,
    LoadFragmentOp,
    LoadGlobalFragmentOp,
    StoreLdsElementOp,
    LoadStatisticOp,
    StoreAccumulatorOp,
    LoadAccumulatorOp,
    LoadGlobalStatisticOp,
    DotOp,
    ZeroOp,
    MmaOp,
    YieldOp,
    MapOp,
    ReduceOp,
    CombineOp,
    AnyGreaterOp,
    SplatOp,
    ConvertOp,
    NegateOp,
    StoreOp,
    StoreStatisticOp,
    LoadElementOp,
    StoreElementOp,
    BarrierOp,
    ScheduleBarrierOp,
]

Wave = Dialect("wave", OPERATIONS, [FragmentType, StatisticType, StagedType, LdsType, PointerType])
