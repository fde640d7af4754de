"""View kinds and parameters to the shape of the view, for all levels that have views."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tessera.contracts import Size, TensorSpec
from tessera.dialects.tensors import compatible, spec_of
from tessera.errors import OptionError, ShapeError, TesseraError, supported

VIEW_KINDS = ("reshape", "permute")
UNKNOWN = -1
"""A reshape parameter whose size follows from the others, or is not known yet."""


def view_shape(kind: str, parameters: Sequence[int], shape: Sequence[Size]) -> tuple[Size, ...]:
    """The shape of a view of a tensor of `shape`; ShapeError when the parameters do not fit.

    `permute` lists the source axis of each new axis, `reshape` the new sizes, of which one may be
    -1. With more than one -1, or a source size that is not known, those sizes stay unknown.
    """
    if kind == "permute":
        if sorted(parameters) != list(range(len(shape))):
            raise ShapeError(
                f"permute: {list(parameters)} does not name each of the {len(shape)} axes once"
            )
        return tuple(shape[axis] for axis in parameters)
    if kind == "reshape":
        return _reshaped(parameters, shape)
    raise OptionError(f"unknown view kind {kind!r}; " + supported(VIEW_KINDS))


def _reshaped(parameters: Sequence[int], shape: Sequence[Size]) -> tuple[Size, ...]:
    if any(size < UNKNOWN for size in parameters):
        raise ShapeError(f"reshape: sizes {list(parameters)} must be at least 0, or -1")
    sizes: list[Size] = [None if size == UNKNOWN else size for size in parameters]
    known = [size for size in shape if size is not None]
    if len(known) != len(shape):
        return tuple(sizes)
    total, stated = prod(known), prod(size for size in sizes if size is not None)
    message = f"reshape: {list(shape)} of {total} elements does not fit {list(parameters)}"
    open_axes = [axis for axis, size in enumerate(sizes) if size is None]
    if not open_axes and stated != total:
        raise ShapeError(message)
    if len(open_axes) == 1:
        if stated == 0 or total % stated:
            raise ShapeError(message)
        sizes[open_axes[0]] = total // stated
    return tuple(sizes)


def verify_view(
    op_name: str, kind: str, parameters: Sequence[int], source: Attribute, result: Attribute
) -> None:
    """Raise VerifyException unless `result` is what the view of `source` gives."""
    before, after = spec_of(source), spec_of(result)
    try:
        expected = TensorSpec(view_shape(kind, parameters, before.shape), before.dtype)
    except TesseraError as error:
        raise VerifyException(f"{op_name}: {error}") from error
    if not compatible(after, expected):
        raise VerifyException(f"{op_name}: result must be {expected}, got {after}")
