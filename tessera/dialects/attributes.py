"""Python option values to attributes and back, and the checks that all dialects share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from tessera.errors import supported

ALIGNMENTS = (1, 2, 4, 8, 16)
"""Bytes by which every row's start may be known to be divisible."""


def to_attribute(value: object) -> Attribute:
    """A bool, int, float, str, tuple of int, or mapping of these as the attribute that holds it."""
    if isinstance(value, bool):
        return IntegerAttr(int(value), i1)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, tuple):
        return DenseArrayBase.from_list(i64, value)
    if isinstance(value, Mapping):
        return DictionaryAttr({name: to_attribute(one) for name, one in value.items()})
    raise TypeError(f"no attribute for {value!r}")


def from_attribute(attribute: Attribute) -> object:
    """Inverse of `to_attribute`; VerifyException for an attribute of another kind."""
    match attribute:
        case IntegerAttr() if attribute.type == i1:
            return bool(attribute.value.data)
        case IntegerAttr():
            return attribute.value.data
        case FloatAttr():
            return attribute.value.data
        case StringAttr():
            return attribute.data
        case DenseArrayBase():
            return tuple(one.value.data for one in attribute.iter_attrs())
        case DictionaryAttr():
            return {name: from_attribute(one) for name, one in attribute.data.items()}
        case _:
            raise VerifyException(f"attribute {attribute} is no bool, integer, float or string")


def options_of(op: Operation) -> dict[str, object]:
    """All attributes of an operation as Python values, by name."""
    return {name: from_attribute(value) for name, value in op.attributes.items()}


def check_choice(op: Operation, name: str, allowed: Sequence[str] | Mapping[str, object]) -> None:
    """Raise VerifyException unless the string attribute `name`, if present, is allowed."""
    attribute = op.attributes.get(name)
    if attribute is None:
        return
    value = from_attribute(attribute)
    if value not in allowed:
        raise VerifyException(f"{op.name}: {name} = {value!r}; " + supported(allowed))


def check_positive(op: Operation, *names: str) -> None:
    """Raise VerifyException unless the integer attributes, where present, are at least 1."""
    for name in names:
        attribute = op.attributes.get(name)
        if attribute is not None:
            value = from_attribute(attribute)
            if not isinstance(value, int) or value < 1:
                raise VerifyException(f"{op.name}: {name} = {value!r} must be a positive integer")


def check_alignment(op: Operation) -> None:
    """Raise VerifyException unless `alignment`, if present, is 1, 2, 4, 8 or 16 bytes."""
    attribute = op.attributes.get("alignment")
    value = 1 if attribute is None else from_attribute(attribute)
    if value not in ALIGNMENTS:
        raise VerifyException(f"{op.name}: alignment = {value}; " + supported(ALIGNMENTS))


def check_head_dims(op: Operation, largest: int) -> None:
    """Raise VerifyException unless `head_dim` and `head_dim_v`, where present, are 1 to largest."""
    for axis in ("head_dim", "head_dim_v"):
        attribute = op.attributes.get(axis)
        size = 1 if attribute is None else from_attribute(attribute)
        if not isinstance(size, int) or not 1 <= size <= largest:
            raise VerifyException(
                f"{op.name}: {axis} = {size} is not supported; supported: 1 to {largest}"
            )
