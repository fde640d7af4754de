"""What a generator returns: kernels of one directive and the rules by which they are launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import func
from xdsl.ir import Operation

from tessera.dialects.rocm import options_of
from tessera.launch_rule import BUFFER, SCALAR, ArgumentRule, LaunchRule


@dataclass(frozen=True)
class GeneratedKernels:
    """The kernels of one directive, their launches in order, and the options of its contract."""

    kernels: tuple[func.FuncOp, ...]
    launches: tuple[LaunchRule, ...]
    contract: str
    options: Mapping[str, object] = field(default_factory=dict)


def option(directive: Operation, name: str, default: Any) -> Any:
    """The value of a directive's attribute, or the default where it is absent."""
    return options_of(directive).get(name, default)


def buffer(name: str, dtype: str) -> ArgumentRule:
    """A buffer argument: the operand, result or workspace of that name."""
    return ArgumentRule(name, BUFFER, dtype, name)


def scalar(name: str, dtype: str, value: str) -> ArgumentRule:
    """A scalar argument with the value of a launch expression."""
    return ArgumentRule(name, SCALAR, dtype, value)


def alignment_requirements(
    operands: Mapping[str, tuple[tuple[int, ...], str | None]], alignment: int, bits: int
) -> tuple[tuple[str, str], ...]:
    """Conditions under which every row of every operand starts on an `alignment`-byte boundary.

    `operands` maps a name to (axes whose stride must divide evenly, extent symbol or None): an
    extent that is read in pieces of `alignment` bytes must divide evenly too.
    """
    elements = alignment * 8 // bits
    if elements <= 1:
        return ()
    rules: list[tuple[str, str]] = []
    for name, (axes, extent) in operands.items():
        rules.append(
            (
                f"address({name}) % {alignment} == 0",
                f"operand {name!r}: its address must be a multiple of {alignment} bytes",
            )
        )
        for axis in axes:
            rules.append(
                (
                    f"stride({name}, {axis}) % {elements} == 0",
                    f"operand {name!r}: its stride along axis {axis} must be a multiple of "
                    f"{elements} elements ({alignment} bytes)",
                )
            )
        if extent is not None:
            rules.append(
                (
                    f"{extent} % {elements} == 0",
                    f"operand {name!r}: {extent} must be a multiple of {elements}",
                )
            )
    return tuple(rules)
