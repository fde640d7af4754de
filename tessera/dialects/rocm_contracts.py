"""The contract operations of tessera_rocm: what a kernel demands of a chip, apart from its code."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import (
    IntegerAttr,
    StringAttr,
)
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from tessera.contracts import (
    DTYPE_BYTES,
    HALF_DTYPES,
)
from tessera.dialects.attributes import (
    check_choice,
    check_positive,
    to_attribute,
)


class ContractOp(IRDLOperation):
    """Base of the contract ops: a demand of the kernel named `for_kernel`, checked before it is."""

    for_kernel = attr_def(StringAttr)
    # A demand has no operands; the effect keeps it from being removed as dead code.
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self, options: Mapping[str, object]) -> None:
        super().__init__(attributes={name: to_attribute(value) for name, value in options.items()})


@irdl_op_definition
class MfmaOp(ContractOp):
    """The kernel needs a matrix instruction: m x n x k of `dtype` summed in `accumulator_dtype`."""

    name = "tessera_rocm.mfma"
    m = attr_def(IntegerAttr)
    n = attr_def(IntegerAttr)
    k = attr_def(IntegerAttr)
    dtype = attr_def(StringAttr)
    accumulator_dtype = attr_def(StringAttr)

    def verify_(self) -> None:
        check_positive(self, "m", "n", "k")
        check_choice(self, "dtype", (*HALF_DTYPES, "i8", "i4"))
        check_choice(self, "accumulator_dtype", ("f32", "i32"))


@irdl_op_definition
class AsyncCopyOp(ContractOp):
    """The kernel keeps a `rows` x `columns` tile of `operand` in local memory, fetched ahead.

    The fetch of the next tile is in flight while the present one is computed on.
    """

    name = "tessera_rocm.async_copy"
    operand = attr_def(StringAttr)
    rows = attr_def(IntegerAttr)
    columns = attr_def(IntegerAttr)
    dtype = attr_def(StringAttr)

    def verify_(self) -> None:
        check_positive(self, "rows", "columns")
        check_choice(self, "dtype", DTYPE_BYTES)


@irdl_op_definition
class WaitOp(ContractOp):
    """The kernel waits until at most `pending` of its asynchronous copies are in flight."""

    name = "tessera_rocm.wait"
    pending = attr_def(IntegerAttr)

    def verify_(self) -> None:
        pending = self.pending.value.data
        if pending < 0:
            raise VerifyException(f"{self.name}: pending = {pending} must be at least 0")


CONTRACT_OPS: tuple[type[ContractOp], ...] = (MfmaOp, AsyncCopyOp, WaitOp)
