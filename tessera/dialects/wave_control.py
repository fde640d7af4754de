"""Operations that place a wave: where it runs, what it points at, when it waits."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import (
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
)

from tessera.dialects.wave_types import (
    LdsType,
    PointerType,
)


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
class UndefinedOp(IRDLOperation):
    """A value that nobody reads: what a register holds on a path where it is not used."""

    name = "wave.undefined"
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, type_: Attribute) -> None:
        super().__init__(result_types=[type_])


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
