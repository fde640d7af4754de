"""View steps of a plan to the shape and strides of the same memory."""

from __future__ import annotations

from math import prod

from tessera.contracts import reshape_strides
from tessera.errors import LaunchError, ShapeError, supported
from tessera.plan import ViewStep
from tessera.runtime.prepared import Value, normal_strides


def view_of(step: ViewStep, value: Value) -> Value:
    """The view of a tensor; LaunchError when only a copy could give it."""
    shape, strides = value.shape, value.strides
    if step.view == "permute":
        shape = tuple(value.shape[axis] for axis in step.parameters)
        strides = tuple(value.strides[axis] for axis in step.parameters)
    elif step.view == "reshape":
        shape = _reshaped(step, value.shape)
        reshaped = reshape_strides(value.shape, value.strides, shape)
        if reshaped is None:
            raise LaunchError(
                f"reshape: {list(value.shape)} with strides {list(value.strides)} cannot be seen "
                f"as {list(shape)} without a copy"
            )
        strides = reshaped
    else:
        raise LaunchError(f"unknown view {step.view!r}; {supported(['reshape', 'permute'])}")
    return Value(
        value.slot, value.dtype, shape, normal_strides(shape, strides), value.alignment_class
    )


def _reshaped(step: ViewStep, shape: tuple[int, ...]) -> tuple[int, ...]:
    total = prod(shape)
    sizes = list(step.parameters)
    known = prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known and total % known == 0:
        sizes[sizes.index(-1)] = total // known
    if -1 in sizes or prod(sizes) != total:
        raise ShapeError(f"reshape: {list(shape)} does not fit {list(step.parameters)}")
    return tuple(sizes)
