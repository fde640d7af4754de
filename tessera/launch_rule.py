"""Launch rules as data: how operand shapes become a kernel's grid and argument list."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from tessera.errors import LaunchError

BUFFER = "buffer"
SCALAR = "scalar"


def ceildiv(numerator: int, denominator: int) -> int:
    """Smallest integer not below numerator / denominator, for a positive denominator."""
    return -(-numerator // denominator)


@dataclass(frozen=True)
class ArgumentRule:
    """One kernel argument: a buffer named by its contract name, or a scalar expression."""

    name: str
    kind: str
    dtype: str
    value: str

    def __post_init__(self) -> None:
        if self.kind not in (BUFFER, SCALAR):
            raise ValueError(f"argument {self.name!r}: kind {self.kind!r} is not buffer or scalar")


@dataclass(frozen=True)
class LaunchRule:
    """One kernel launch as a function of the operands' sizes.

    `grid` holds three integer expressions counting workgroups, `block` three integers counting
    threads. Expressions use the contract's dimension symbols, `stride(operand, axis)` and
    `size(operand, axis)` in elements (of a broadcast operand: 0 and 1 where it repeats),
    `address(operand)` in bytes, `ceildiv`, `min`, `max` and Python's arithmetic and comparisons.
    `requires` pairs an expression that must hold with the message for when it does not.
    `workspaces` names temporary buffers as (name, dtype, shape expressions).
    """

    kernel: str
    grid: tuple[str, str, str]
    block: tuple[int, int, int]
    arguments: tuple[ArgumentRule, ...]
    requires: tuple[tuple[str, str], ...] = ()
    workspaces: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; `from_dict` is its inverse."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> LaunchRule:
        """Rebuild a rule from `to_dict`'s output, also after a trip through JSON."""
        return LaunchRule(
            kernel=data["kernel"],
            grid=_triple(data["grid"]),
            block=_triple(data["block"]),
            arguments=tuple(ArgumentRule(**argument) for argument in data["arguments"]),
            requires=tuple((expression, message) for expression, message in data["requires"]),
            workspaces=tuple(
                (name, dtype, tuple(shape)) for name, dtype, shape in data["workspaces"]
            ),
        )


def rules_to_json(rules: tuple[LaunchRule, ...]) -> str:
    """The launch rules of one directive as one line of JSON."""
    return json.dumps([rule.to_dict() for rule in rules], separators=(",", ":"))


def rules_from_json(text: str) -> tuple[LaunchRule, ...]:
    """Inverse of `rules_to_json`."""
    return tuple(LaunchRule.from_dict(data) for data in json.loads(text))


def _triple(values: Any) -> tuple[Any, Any, Any]:
    first, second, third = values
    return first, second, third


_ALLOWED_NODES = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Call, ast.BinOp, ast.UnaryOp,
    ast.Compare, ast.BoolOp, ast.IfExp, ast.And, ast.Or, ast.Not, ast.USub, ast.Add, ast.Sub,
    ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.Eq, ast.NotEq, ast.Lt, ast.LtE,
    ast.Gt, ast.GtE,
)  # fmt: skip


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> CodeType:
    """Compile an expression after checking that it holds arithmetic only."""
    tree = ast.parse(expression, mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED_NODES):
            raise LaunchError(
                f"launch expression {expression!r}: {type(node).__name__} is not allowed"
            )
    return compile(tree, "<launch rule>", "eval")


def evaluate(
    expression: str,
    symbols: Mapping[str, int | float],
    functions: Mapping[str, Callable[..., int]] | None = None,
) -> Any:
    """Value of a launch expression for given symbol values.

    `functions` adds `stride` and `address`, which the caller binds to its tensors by operand name:
    inside a call the operand is written bare, as in `stride(q, 1)`.
    Raises LaunchError for an unknown symbol or for syntax beyond arithmetic.
    """
    code = _compiled(expression)
    environment: dict[str, Any] = {"ceildiv": ceildiv, "min": min, "max": max, "__builtins__": {}}
    if functions:
        environment.update(functions)
        # Bare operand names inside stride(...) evaluate to themselves.
        environment.update({name: name for name in code.co_names if name not in environment})
    environment.update(symbols)
    try:
        return eval(code, environment)
    except (NameError, TypeError, ZeroDivisionError) as error:
        raise LaunchError(f"launch expression {expression!r}: {error}") from error
