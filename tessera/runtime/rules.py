"""Launch rules to numbers: their expressions over the sizes, strides and addresses of one call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tessera.contracts import CONTRACTS, Binding, broadcast_strides
from tessera.errors import LaunchError, supported
from tessera.launch_rule import BUFFER, ArgumentRule, LaunchRule, evaluate
from tessera.runtime.prepared import ScalarArgument, Value
from tessera.runtime.tensors import ALIGNMENT_CLASS

SCALAR_FORMATS: Mapping[str, str] = {
    "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "f32": "f", "f64": "d",
}  # fmt: skip
"""How a scalar kernel argument is packed (`struct` format, without byte order), by dtype name."""

MAX_GRID = (2**31 - 1, 65535, 65535)
"""Workgroups along each axis that HIP accepts on every supported chip."""
_MAX_THREADS_PER_AXIS = 2**32 - 1  # The dispatch packet counts threads in 32 bits.


class UnalignedError(LaunchError):
    """A kernel's demand on pointers or strides does not hold for the tensors of this call."""


class Scope:
    """What the expressions of one step's rules may name."""

    def __init__(self, contract: str, binding: Binding, tensors: dict[str, Value]) -> None:
        self.tensors = tensors
        self.symbols = {n: size for n, size in binding.symbols.items() if size is not None}
        self.contract = contract
        operands = CONTRACTS[contract].operands if contract in CONTRACTS else ()
        results = CONTRACTS[contract].results if contract in CONTRACTS else ()
        self._broadcast = {one.name: one.dims for one in operands if one.broadcast}
        alike = [one for one in results if one.shape_of in self._broadcast]
        self._broadcast |= {one.name: self._broadcast[one.shape_of] for one in alike}
        self.functions = {"stride": self._stride, "address": self._address, "size": self._size}

    def value(self, expression: str) -> Any:
        """Value of an expression over sizes, strides and addresses."""
        return evaluate(expression, self.symbols, self.functions)

    def integer(self, rule: LaunchRule, expression: str) -> int:
        """Value of an expression that must be an integer and must not depend on addresses."""
        if "address(" in expression:
            raise LaunchError(f"kernel {rule.kernel}: {expression!r} may not depend on an address")
        value = self.value(expression)
        if not isinstance(value, int):
            raise LaunchError(f"kernel {rule.kernel}: {expression!r} = {value!r} is no integer")
        return int(value)

    def _tensor(self, name: str) -> Value:
        if name not in self.tensors:
            raise LaunchError(
                f"{self.contract}: unknown operand {name!r}; {supported(self.tensors)}"
            )
        return self.tensors[name]

    def _stride(self, name: str, axis: int) -> int:
        value = self._tensor(name)
        if self.contract == "elementwise":
            sizes = list(self.symbols.values())
            return broadcast_strides(value.shape, value.strides, sizes)[axis]
        if name in self._broadcast:
            sizes = [self.symbols[dim] for dim in self._broadcast[name]]
            return broadcast_strides(value.shape, value.strides, sizes)[axis]
        return value.strides[axis]

    def _size(self, name: str, axis: int) -> int:
        """An operand's own size, 1 where it is broadcast."""
        shape = self._tensor(name).shape
        missing = len(self._broadcast[name]) - len(shape) if name in self._broadcast else 0
        return 1 if axis < missing else shape[axis - missing]

    def _address(self, name: str) -> int:
        return self._tensor(name).alignment_class


_ADDRESS_USE = re.compile(r"address\(\w+\)\s*%\s*(\d+)")


def check_requirements(rule: LaunchRule, scope: Scope) -> None:
    """Raise LaunchError, or UnalignedError for alignment, for the first demand not met."""
    for expression, message in rule.requires:
        moduli = [int(modulus) for modulus in _ADDRESS_USE.findall(expression)]
        if len(moduli) != expression.count("address(") or any(
            modulus == 0 or ALIGNMENT_CLASS % modulus for modulus in moduli
        ):
            raise LaunchError(
                f"kernel {rule.kernel}: requirement {expression!r} may use address() only as "
                f"address(operand) % n, with n dividing {ALIGNMENT_CLASS}"
            )
        if not scope.value(expression):
            # Only demands that something be a multiple can fall away with narrower accesses.
            error = UnalignedError if "%" in expression else LaunchError
            raise error(f"kernel {rule.kernel}: {message} (requires {expression})")


def check_grid(rule: LaunchRule, grid: tuple[int, int, int]) -> None:
    """Raise LaunchError for a grid beyond what HIP and the dispatch packet can hold."""
    for axis, count, limit, threads in zip("xyz", grid, MAX_GRID, rule.block, strict=True):
        if count > limit or count * threads > _MAX_THREADS_PER_AXIS:
            raise LaunchError(
                f"kernel {rule.kernel}: grid {axis} = {count} workgroups of {threads} threads; the "
                f"limit is {limit} workgroups and {_MAX_THREADS_PER_AXIS} threads"
            )


def bind_argument(rule: LaunchRule, argument: ArgumentRule, scope: Scope) -> int | ScalarArgument:
    """The slot of a buffer argument, or a scalar that fits its type."""
    where = f"kernel {rule.kernel}: argument {argument.name!r}"
    if argument.kind == BUFFER:
        name = argument.value or argument.name
        if name not in scope.tensors:
            raise LaunchError(f"{where}: unknown buffer {name!r}; {supported(scope.tensors)}")
        return scope.tensors[name].slot
    if argument.dtype not in SCALAR_FORMATS:
        raise LaunchError(f"{where}: dtype {argument.dtype}; {supported(SCALAR_FORMATS)}")
    if argument.dtype.startswith("f"):
        return ScalarArgument(argument.dtype, float(scope.value(argument.value)))
    value = scope.integer(rule, argument.value)
    bits = int(argument.dtype[1:])
    low, high = (0, 2**bits) if argument.dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if not low <= value < high:
        raise LaunchError(
            f"{where} = {value} does not fit {argument.dtype}: the tensors need 64-bit indexing"
        )
    return ScalarArgument(argument.dtype, value)
