"""Tensors of a host function to the bytes that divide the start of each of their rows."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from tessera.contracts import DTYPE_BYTES, TensorSpec
from tessera.dialects.tensors import spec_of
from tessera.dialects.tile import ViewOp

WIDEST = 16
"""Bytes of the widest memory access; every buffer that a plan allocates starts at a multiple."""

ARGUMENT_ATTRIBUTE = "tessera.alignment"
"""The argument attribute of a host function that promises an alignment in bytes."""


def alignment_of(value: SSAValue) -> int:
    """WIDEST when every row of the tensor surely starts at a multiple of it, else element size.

    A function's argument is as aligned as its `tessera.alignment` attribute promises. Other tensors
    are allocated contiguously, so that the length of a row decides.
    """
    spec = spec_of(value.type)
    element = DTYPE_BYTES[spec.dtype]
    if isinstance(value, BlockArgument):
        return max(element, _promised(value))
    owner = value.owner
    if not isinstance(owner, ViewOp):
        return WIDEST if _rows_fit(spec) else element
    if alignment_of(owner.source) < WIDEST:
        return element
    if owner.kind.data == "permute":
        axes = owner.parameters.get_values()
        keeps_rows = not axes or axes[-1] == len(axes) - 1
        return WIDEST if keeps_rows else element
    # A reshaped tensor's strides are multiples of old strides or of the new row length.
    return WIDEST if _rows_fit(spec) else element


def _rows_fit(spec: TensorSpec) -> bool:
    """Whether consecutive rows of a contiguous tensor start WIDEST-aligned if the first does."""
    outer, row = spec.shape[:-1], spec.shape[-1:]
    if all(size == 1 for size in outer):
        return True
    return row[0] is not None and row[0] * DTYPE_BYTES[spec.dtype] % WIDEST == 0


def _promised(argument: BlockArgument) -> int:
    function = argument.owner.parent_op()
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return 1
    promise = function.arg_attrs.data[argument.index].data.get(ARGUMENT_ATTRIBUTE)
    return promise.value.data if isinstance(promise, IntegerAttr) else 1
