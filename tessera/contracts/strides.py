"""Shapes and strides of broadcast and reshaped tensors."""

from __future__ import annotations

from collections.abc import Sequence

from tessera.contracts.model import Size, TensorSpec
from tessera.errors import ShapeError


def broadcast_shapes(op: str, operands: Sequence[TensorSpec]) -> tuple[Size, ...]:
    """The shape that the operands broadcast to, by NumPy's rule; ShapeError names both sizes.

    An unknown size beside a known one other than 1 is taken to be that one or 1.
    """
    rank = max(len(spec.shape) for spec in operands)
    shape: list[Size] = []
    for axis in range(rank):
        result: Size = 1
        owner = ""
        for index, spec in enumerate(operands):
            position = axis - (rank - len(spec.shape))
            size = 1 if position < 0 else spec.shape[position]
            if size == 1 or size == result:
                continue
            if size is None:
                result = None if result == 1 else result
            elif result in (1, None):
                result, owner = size, f"x{index}"
            else:
                raise ShapeError(
                    f"{op}: operand x{index} has size {size} on axis {position}, which does not "
                    f"broadcast with {result} of {owner}; got "
                    + " and ".join(str(one) for one in operands)
                )
        shape.append(result)
    return tuple(shape)


def broadcast_strides(
    shape: Sequence[int], strides: Sequence[int], sizes: Sequence[int]
) -> tuple[int, ...]:
    """Strides (in the unit of `strides`) of a tensor seen at the broadcast shape `sizes`."""
    missing = len(sizes) - len(shape)
    expanded = (*(0 for _ in range(missing)), *strides)
    known = (*(1 for _ in range(missing)), *shape)
    return tuple(
        0 if size == 1 and wanted != 1 else stride
        for size, stride, wanted in zip(known, expanded, sizes, strict=True)
    )


def reshape_strides(
    shape: Sequence[int], strides: Sequence[int], new_shape: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides of a reshaped view of the same memory, or None when only a copy could do it.

    Sizes of `new_shape` are all known and have the product of `shape`.
    """
    if 0 in new_shape:
        return tuple(0 for _ in new_shape)
    kept = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    # Runs of old axes that step through memory as one axis would, innermost first.
    runs: list[tuple[int, int]] = []
    for size, stride in reversed(kept):
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * size, runs[-1][1])
        else:
            runs.append((size, stride))
    result: list[int] = []
    run, left = 0, runs[0][0] if runs else 1
    step = runs[0][1] if runs else 1
    for size in reversed(new_shape):
        if size != 1 and left == 1:
            run += 1
            left, step = runs[run]
        if left % size:
            return None
        result.append(step)
        step *= size
        left //= size
    return tuple(reversed(result))
