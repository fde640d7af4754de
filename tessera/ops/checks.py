"""Arguments of operations to traced tensors and plain values, or a refusal by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from tessera.errors import DtypeError, OptionError, ShapeError, supported
from tessera.frontend.tracer import Tracer

LARGEST_F32 = (2 - 2**-23) * 2.0**127


def given_only(operands: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in operands.items() if value is not None}


def tensors(op: str, **operands: Any) -> list[Tracer]:
    """The operands if all are traced tensors; DtypeError names the one that is not."""
    for name, value in operands.items():
        if isinstance(value, Tracer):
            continue
        hint = ""
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            hint = "; inside a traced function pass it as an argument, outside use tessera.jit"
        raise DtypeError(
            f"{op}: operand {name!r} must be a traced tensor, got {type(value).__name__}{hint}"
        )
    return list(operands.values())


def flag(op: str, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"{op}: {name} = {value!r} is not allowed; " + supported((False, True)))
    return value


def number(op: str, name: str, value: Any) -> float:
    """The value as a float that f32, in which kernels compute, can hold; OptionError otherwise."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise OptionError(f"{op}: {name} = {value!r} must be a finite number")
    if abs(value) > LARGEST_F32:
        raise OptionError(f"{op}: {name} = {value!r} must lie in the range of f32")
    return float(value)


def schedule_of(
    op: str, schedule: Mapping[str, int] | None, known: tuple[str, ...]
) -> dict[str, int] | None:
    """The entries of a schedule as plain integers; OptionError for others, and unknown names."""
    if schedule is None:
        return None
    if not isinstance(schedule, Mapping):
        raise OptionError(f"{op}: schedule = {schedule!r} must map names to integers")
    for name, value in schedule.items():
        if name not in known:
            raise OptionError(f"{op}: unknown schedule entry {name!r}; " + supported(known))
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
            raise OptionError(f"{op}: schedule entry {name} = {value!r} must be an integer >= 0")
    return {name: int(value) for name, value in schedule.items()}


def flat(values: tuple[Any, ...]) -> list[Any]:
    """Sizes or axes given one by one, or as one tuple or list."""
    if len(values) == 1 and isinstance(values[0], tuple | list):
        return list(values[0])
    return list(values)


def integers(op: str, values: list[Any]) -> list[int]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ShapeError(f"{op}: {value!r} is no integer; got {values}")
    return [int(value) for value in values]
