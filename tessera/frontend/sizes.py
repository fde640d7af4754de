"""Sizes that are not known while tracing to values that a traced function can compute with."""

from __future__ import annotations

from typing import Any, NoReturn

from tessera.contracts import Size
from tessera.errors import ShapeError


class UnknownSize:
    """A dimension's size while tracing without arguments; arithmetic on it stays unknown.

    Whatever would need the number raises ShapeError: a comparison, a loop bound, a conversion.
    """

    def _unknown(self, other: object = None) -> UnknownSize:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _unknown
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = _unknown

    def _needed(self, *_: object) -> NoReturn:
        raise ShapeError(
            "a size is not known while tracing without arguments; "
            "call the function, or lower it with arguments"
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _needed
    __bool__ = __int__ = __index__ = __float__ = __truediv__ = __rtruediv__ = _needed
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "?"


UNKNOWN_SIZE = UnknownSize()


def public_shape(shape: tuple[Size, ...]) -> tuple[Any, ...]:
    """A shape as a traced function sees it: numbers, and UNKNOWN_SIZE where there is none."""
    return tuple(UNKNOWN_SIZE if size is None else size for size in shape)
