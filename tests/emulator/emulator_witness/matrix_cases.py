"""16x16 matrices to the register layout of the RDNA 3 matrix core and back (ISA guide, 7.9).

A lane of the first half and its partner of the second hold the same row of A or column of B. An
accumulator's lane is its column; register r holds row 2 r in the first half, 2 r + 1 in the second.
"""

from __future__ import annotations

import numpy as np

LANES, SIZE = 32, 16


def pack_operand(rows: np.ndarray, bits: int) -> np.ndarray:
    """Bit patterns [16, 16] (row or column, k) of `bits` each to registers [32, 16 * bits / 32]."""
    per_register = 32 // bits
    registers = np.zeros((LANES, SIZE * bits // 32), np.uint32)
    mask = (1 << bits) - 1
    for lane in range(LANES):
        for k in range(SIZE):
            value = np.uint32(int(rows[lane % SIZE, k]) & mask)
            registers[lane, k // per_register] |= value << np.uint32(bits * (k % per_register))
    return registers


def pack_accumulator(matrix: np.ndarray, high: bool = False) -> np.ndarray:
    """A matrix [16, 16] of 32-bit or 16-bit patterns to registers [32, 8]."""
    registers = np.zeros((LANES, 8), np.uint32)
    shift = 16 if high else 0
    for lane in range(LANES):
        for register in range(8):
            value = int(matrix[2 * register + lane // SIZE, lane % SIZE])
            registers[lane, register] = (value & 0xFFFFFFFF) << shift & 0xFFFFFFFF
    return registers


def unpack_accumulator(registers: np.ndarray) -> np.ndarray:
    """Registers [32, 8] to the 32-bit patterns of a matrix [16, 16]."""
    matrix = np.zeros((SIZE, SIZE), np.uint32)
    for lane in range(LANES):
        for register in range(8):
            matrix[2 * register + lane // SIZE, lane % SIZE] = registers[lane, register]
    return matrix
