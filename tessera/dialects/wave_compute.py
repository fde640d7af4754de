"""Operations on fragments and statistics in registers: products, maps, reductions, conversion."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    StringAttr,
    UnitAttr,
    f32,
    i1,
    i32,
)
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    operand_def,
    opt_attr_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    IsTerminator,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from tessera.dialects.wave_types import (
    FragmentType,
    StatisticType,
)

REDUCTIONS = ("max", "sum")


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
