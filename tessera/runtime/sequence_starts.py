"""The starts of packed sequences and of groups to a refusal unless they part the rows in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tessera.contracts import CONTRACTS
from tessera.errors import LaunchError, OptionError
from tessera.runtime.prepared import INPUT, PreparedLaunch
from tessera.runtime.tensors import HOST, ArrayKind, TensorArgument


class Parting(NamedTuple):
    """Whose rows starts part: the operand, its axis, and whether every row is part of one."""

    operand: str
    axis: int
    is_complete: bool


PARTED: dict[str, Parting] = {
    "cu_seqlens_q": Parting("q", 2, is_complete=True),
    "cu_seqlens_k": Parting("k", 2, is_complete=True),
    "starts": Parting("a", 0, is_complete=False),
}
"""Operand with the starts -> what it parts."""


class Starts(NamedTuple):
    """One argument that holds starts: which, its name, and the rows that they part."""

    argument: int
    name: str
    rows: int

    def are_in_order(self, values: np.ndarray) -> bool:
        """Whether they ascend within the rows, from the first to the last where all are parted."""
        first, last = int(values[0]), int(values[-1])
        ends_fit = 0 <= first and last <= self.rows
        if PARTED[self.name].is_complete:
            ends_fit = first == 0 and last == self.rows
        return ends_fit and bool((np.diff(values) >= 0).all())


def find_starts(prepared: PreparedLaunch) -> tuple[Starts, ...]:
    """The arguments of a launch that hold starts; LaunchError for starts that are computed."""
    found = []
    for step in prepared.steps:
        if step.contract not in CONTRACTS:
            continue
        names = [one.name for one in CONTRACTS[step.contract].operands_under(step.options)]
        operands = dict(zip(names, step.operands, strict=True))
        for name, parted in PARTED.items():
            if name not in operands:
                continue
            slot = prepared.slots[operands[name].slot]
            if slot.role != INPUT:
                raise LaunchError(f"{step.contract}: {name} must be an argument of the function")
            found.append(Starts(slot.index, name, operands[parted.operand].shape[parted.axis]))
    return tuple(found)


def check_starts(
    starts: Sequence[Starts], arguments: Sequence[TensorArgument], kinds: Sequence[ArrayKind]
) -> None:
    """Raise OptionError unless starts ascend from 0 to the number of rows, or within them.

    Starts on a device are not looked at: that would wait for the device in every call.
    """
    for one in starts:
        argument = arguments[one.argument]
        if argument.device != HOST:
            continue
        values = np.asarray(kinds[one.argument].host_array(argument.value))
        if not one.are_in_order(values):
            parted = PARTED[one.name]
            how = "from" if parted.is_complete else "within"
            raise OptionError(
                f"{one.name} = {values.tolist()} must ascend {how} 0 to {one.rows}, the number of "
                f"rows of {parted.operand}"
            )
