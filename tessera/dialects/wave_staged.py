"""Operations on staged tiles between global memory and LDS: a tile in registers to another."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, UnitAttr, i32
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
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tessera.dialects.wave_types import AXES, StagedType


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
