"""Register numbers of the source encoding to bit sets, and lane masks to bits and back.

Scalar registers keep their encoding (0-105 SGPR, 106 VCC_LO, 107 VCC_HI, 108-123 TTMP, 124 NULL,
125 M0, 126 EXEC_LO, 127 EXEC_HI); vector registers follow from 256 on, as in the 9-bit source
field. A set of registers is a Python integer with one bit per number: union and test are one
operation.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

LANES = 32
SCALAR_REGISTERS = 128
VCC_LO, VCC_HI, NULL, M0, EXEC_LO, EXEC_HI = 106, 107, 124, 125, 126, 127
FIRST_VGPR = 256
SCC_BIT = 1 << 128
LANE_NUMBERS = np.arange(LANES, dtype=np.uint32)[None, :]
ALL_LANES = np.uint32(0xFFFFFFFF)
ZERO = np.zeros(1, np.uint32)
ZERO.setflags(write=False)
# Registers that hold a value at the start whatever the kernel asks for. VCC_HI and EXEC_HI are of
# no effect in wave32, and compilers read VCC and EXEC as pairs.
ALWAYS_DEFINED = 1 << EXEC_LO | 1 << EXEC_HI | 1 << NULL | 1 << VCC_HI | 0xFFFF << 108 | SCC_BIT


def register_set(first: int, count: int = 1) -> int:
    """The set of `count` registers from encoding `first` on."""
    return ((1 << count) - 1) << first


def vector_set(first: int, count: int = 1) -> int:
    """The set of `count` vector registers from v[`first`] on."""
    return ((1 << count) - 1) << (FIRST_VGPR + first)


def register_union(numbers: Iterable[int]) -> int:
    """The set of these register numbers."""
    registers = 0
    for number in numbers:
        registers |= 1 << number
    return registers


def members(registers: int) -> list[int]:
    """The register numbers of a set, ascending."""
    numbers = []
    while registers:
        lowest = registers & -registers
        numbers.append(lowest.bit_length() - 1)
        registers ^= lowest
    return numbers


def name_of(register: int) -> str:
    """The assembly name of a register number."""
    special = {106: "vcc_lo", 107: "vcc_hi", 124: "null", 125: "m0", 126: "exec_lo", 127: "exec_hi"}
    if register >= FIRST_VGPR:
        return f"v{register - FIRST_VGPR}"
    if register == 128:
        return "scc"
    if 108 <= register < 124:
        return f"ttmp{register - 108}"
    return special.get(register, f"s{register}")


def mask_to_bits(mask: np.ndarray) -> np.ndarray:
    """Lane masks, bool [waves, 32], to uint32 [waves]: lane i is bit i."""
    return np.packbits(mask.reshape(-1), bitorder="little").view(np.uint32)


def bits_to_mask(bits: np.ndarray) -> np.ndarray:
    """uint32 [waves] to lane masks, bool [waves, 32]."""
    flat = np.unpackbits(np.ascontiguousarray(bits).view(np.uint8), bitorder="little")
    return flat.view(bool).reshape(-1, LANES)
