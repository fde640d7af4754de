"""Callers' arguments to mapped buffers and the bytes of the kernarg segment."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessera.emulator.code_object import KernelArgument, KernelDescription
from tessera.emulator.errors import LaunchArgumentError
from tessera.emulator.memory import PRIVATE_APERTURE, SHARED_APERTURE, AddressSpace

Dimensions = tuple[int, int, int]


@dataclass(frozen=True)
class Uninitialized:
    """An array whose contents count as never written."""

    array: np.ndarray


def uninitialized(array: np.ndarray) -> Uninitialized:
    """Mark a buffer argument as never written: reading it before a write is then a finding."""
    return Uninitialized(array)


def map_arguments(
    memory: AddressSpace, kernel: KernelDescription, args: Sequence[Any]
) -> list[bytes]:
    """Map array arguments into `memory`; the bytes of every explicit argument, in order."""
    expected = kernel.explicit_arguments
    if len(args) != len(expected):
        names = ", ".join(argument.name for argument in expected)
        raise LaunchArgumentError(
            f"kernel {kernel.name!r} takes {len(expected)} arguments ({names}), not {len(args)}"
        )
    arrays, positions = [], []
    for i, (argument, value) in enumerate(zip(expected, args)):
        defined = not isinstance(value, Uninitialized)
        array = value.array if isinstance(value, Uninitialized) else value
        if isinstance(array, np.ndarray) and array.nbytes == argument.size != 8:
            continue  # a structure by value
        if isinstance(array, np.ndarray) and (array.ndim > 0 or argument.is_pointer):
            if argument.size != 8:
                raise LaunchArgumentError(
                    f"argument {argument.name!r} of {kernel.name!r} has {argument.size} bytes: "
                    "a number, not an array"
                )
            arrays.append((argument.name, array, defined))
            positions.append(i)
    addresses = dict(zip(positions, memory.map_arrays(arrays)))
    return [
        struct.pack("<Q", addresses[i]) if i in addresses else _scalar(kernel, argument, value)
        for i, (argument, value) in enumerate(zip(expected, args))
    ]


def _scalar(kernel: KernelDescription, argument: KernelArgument, value: Any) -> bytes:
    """The bytes of a number: float for Python floats, two's complement for integers."""
    where = f"argument {argument.name!r} of kernel {kernel.name!r}"
    if value is None:
        if argument.size != 8:
            raise LaunchArgumentError(f"{where} has {argument.size} bytes and cannot be a pointer")
        return bytes(8)
    if argument.is_pointer and not isinstance(value, int | np.integer):
        kind = type(value).__name__
        raise LaunchArgumentError(f"{where} is a pointer: give a numpy array or None, not {kind}")
    if argument.is_pointer and int(value) != 0:
        raise LaunchArgumentError(f"{where} is a pointer: give a numpy array or None, not {value}")
    if isinstance(value, bytes | bytearray):
        content = bytes(value)
    elif isinstance(value, np.generic | np.ndarray):
        content = value.tobytes()
        if len(content) != argument.size and np.issubdtype(np.asarray(value).dtype, np.integer):
            return _scalar(kernel, argument, int(value))
    elif isinstance(value, bool | int):
        return _integer(where, int(value), argument.size)
    elif isinstance(value, float):
        formats = {2: "<e", 4: "<f", 8: "<d"}
        if argument.size not in formats:
            raise LaunchArgumentError(f"{where} has {argument.size} bytes: not a float")
        content = struct.pack(formats[argument.size], value)
    else:
        raise LaunchArgumentError(
            f"{where}: {type(value).__name__} is neither a number, an array nor None"
        )
    if len(content) != argument.size:
        raise LaunchArgumentError(f"{where} has {argument.size} bytes; the value {len(content)}")
    return content


def _integer(where: str, value: int, size: int) -> bytes:
    bits = 8 * size
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise LaunchArgumentError(f"{where}: {value} does not fit in {size} bytes")
    return (value & ((1 << bits) - 1)).to_bytes(size, "little")


KERNARG_LINE = 64
"""Bytes of which a kernarg segment occupies a whole number."""


def kernarg_segment(
    kernel: KernelDescription,
    values: list[bytes],
    grid: Dimensions,
    block: Dimensions,
    dynamic_lds: int,
) -> bytes:
    """The kernarg segment: explicit values at their offsets, hidden arguments filled in."""
    end = max((a.offset + a.size for a in kernel.arguments), default=0)
    # Runtimes hand out whole lines, and compilers load scalars in wide pieces that count on it.
    size = -(-max(kernel.kernarg_bytes, end) // KERNARG_LINE) * KERNARG_LINE
    segment = bytearray(size)
    for argument, content in zip(kernel.explicit_arguments, values):
        segment[argument.offset : argument.offset + argument.size] = content
    hidden = hidden_values(grid, block, dynamic_lds)
    for argument in kernel.arguments:
        if argument.is_hidden:
            value = hidden.get(argument.kind, 0)
            content = value.to_bytes(8, "little")[: argument.size].ljust(argument.size, b"\0")
            segment[argument.offset : argument.offset + argument.size] = content
    return bytes(segment)


def hidden_values(grid: Dimensions, block: Dimensions, dynamic_lds: int) -> dict[str, int]:
    """Hidden arguments that are not 0; HIP launches whole workgroups, so remainders are 0."""
    dimensions = max((i + 1 for i in range(3) if grid[i] * block[i] > 1), default=1)
    values = {
        "hidden_grid_dims": dimensions,
        "hidden_dynamic_lds_size": dynamic_lds,
        "hidden_shared_base": SHARED_APERTURE >> 32,
        "hidden_private_base": PRIVATE_APERTURE >> 32,
    }
    for axis, name in enumerate("xyz"):
        values[f"hidden_block_count_{name}"] = grid[axis]
        values[f"hidden_group_size_{name}"] = block[axis]
    return values
