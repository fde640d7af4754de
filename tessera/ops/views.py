"""Traced tensors to the same memory under another shape."""

from __future__ import annotations

from typing import Any

from tessera.errors import OptionError, ShapeError
from tessera.frontend.sizes import UnknownSize
from tessera.frontend.tracer import Tracer
from tessera.ops.checks import flat, integers, tensors


def reshape(x: Tracer, *sizes: Any) -> Tracer:
    """x's elements in the same order under new sizes, one of which may be -1; copies nothing."""
    (x,) = tensors("reshape", x=x)
    wanted = [-1 if isinstance(size, UnknownSize) else size for size in flat(sizes)]
    return x.trace.view("reshape", x, integers("reshape", wanted))


def permute(x: Tracer, *axes: Any) -> Tracer:
    """Axis i of the result is axis axes[i] of x (negative: from behind); copies nothing."""
    (x,) = tensors("permute", x=x)
    wanted = integers("permute", flat(axes))
    return x.trace.view("permute", x, [axis + x.ndim if axis < 0 else axis for axis in wanted])


def transpose(x: Tracer, *axes: Any) -> Tracer:
    """x with its axes in the order `axes`, or with its last two axes swapped when there are none.

    Two axes of a tensor of higher rank are swapped with each other.
    """
    (x,) = tensors("transpose", x=x)
    rank = x.ndim
    wanted = integers("transpose", flat(axes))
    if len(wanted) in (0, 2) and rank < 2:
        raise ShapeError(f"transpose: operand 'x' has rank {rank}; at least 2 is needed")
    order = list(range(rank))
    first, second = (-2, -1) if not wanted else (wanted[0], wanted[-1])
    if len(wanted) == 2 and rank == 2 and wanted == [0, 1]:
        raise OptionError(
            "transpose: axes (0, 1) of a matrix swap in PyTorch and stay in NumPy; "
            "use permute, or transpose without axes"
        )
    if len(wanted) in (0, 2):
        for axis in (first, second):
            if not -rank <= axis < rank:
                raise ShapeError(f"transpose: no axis {axis} in rank {rank}")
        order[first], order[second] = order[second], order[first]
        return permute(x, *order)
    return permute(x, *wanted)
