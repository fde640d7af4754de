"""The starts of packed sequences to a refusal unless they part the rows in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tessera.contracts import CONTRACTS
from tessera.errors import LaunchError, OptionError
from tessera.runtime.prepared import INPUT, PreparedLaunch
from tessera.runtime.tensors import HOST, ArrayKind, TensorArgument

PARTED: dict[str, str] = {"cu_seqlens_q": "q", "cu_seqlens_k": "k"}
"""Operand with the starts -> the operand whose rows they part."""
ROW_AXIS = 2


class Starts(NamedTuple):
    """One argument that holds starts: which, its name, and the rows that they part."""

    argument: int
    name: str
    rows: int


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
            found.append(Starts(slot.index, name, operands[parted].shape[ROW_AXIS]))
    return tuple(found)


def check_starts(
    starts: Sequence[Starts], arguments: Sequence[TensorArgument], kinds: Sequence[ArrayKind]
) -> None:
    """Raise OptionError unless starts ascend from 0 to the number of rows.

    Starts on a device are not looked at: that would wait for the device in every call.
    """
    for one in starts:
        argument = arguments[one.argument]
        if argument.device != HOST:
            continue
        values = np.asarray(kinds[one.argument].host_array(argument.value))
        if values[0] != 0 or values[-1] != one.rows or (np.diff(values) < 0).any():
            raise OptionError(
                f"{one.name} = {values.tolist()} must ascend from 0 to {one.rows}, the number of "
                f"rows of {PARTED[one.name]}"
            )
