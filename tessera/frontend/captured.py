"""A function to a key of what it reads besides its arguments: closures, globals, helper functions.

A traced function's captured numbers end up in the compiled code, so a call after one of them has
changed needs another specialization. Looked at are numbers, strings and containers of them, and
the code of helper functions, in turn with what those of the same package capture; of other objects
only which they are. Attributes (of modules, of `self`) are not looked at.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any

PLAIN = (int, float, complex, str, bytes, bool, type(None))
"""Types whose values are compared by value, together with their type."""


class Identity:
    """Equal to another Identity of the same object only; keeps that object alive."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value


def captured_key(function: Callable[..., Any]) -> tuple[Hashable, ...]:
    """Equal before and after exactly if nothing has changed that the function captures."""
    parts: list[Hashable] = []
    _collect(function, _package(function), parts, set())
    return tuple(parts)


def _collect(function: Any, package: str, parts: list[Hashable], seen: set[int]) -> None:
    """Append the function's code and captured values, and those of the helpers it names."""
    while isinstance(function, functools.partial):
        parts.append(value_key((function.args, function.keywords)))
        function = function.func
    if isinstance(function, types.MethodType):
        parts.append(Identity(function.__self__))
        function = function.__func__
    if not isinstance(function, types.FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    parts.append(function.__code__)
    if _package(function) != package:
        return
    for value in _captured(function):
        if isinstance(value, types.ModuleType | type):
            continue
        helper = getattr(value, "function", value)
        if isinstance(helper, types.FunctionType | types.MethodType | functools.partial):
            _collect(helper, package, parts, seen)
        else:
            parts.append(value_key(value))


def value_key(value: Any) -> Hashable:
    """The value of plain data and of containers of it, otherwise the object's identity."""
    if isinstance(value, PLAIN):
        return (type(value), value)
    if isinstance(value, tuple | list):
        return (type(value), *map(value_key, value))
    if isinstance(value, dict):
        return (dict, *((value_key(key), value_key(one)) for key, one in value.items()))
    return Identity(value)


def _captured(function: types.FunctionType) -> Iterator[Any]:
    """Values of the function's closure cells, then of the globals that its code names."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            # Not assigned yet: what needs it will raise while tracing.
            yield None
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield function.__globals__[name]


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """Names that the code and the functions inside it may read from the module."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(dict.fromkeys(_names(constant)))
    return tuple(names)


def _package(function: Any) -> str:
    """The top-level package of a function's module."""
    return str(getattr(function, "__module__", "")).partition(".")[0]
