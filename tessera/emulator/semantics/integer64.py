"""64-bit integer instructions to numpy functions: shifts and multiply-add with carry."""

from __future__ import annotations

import numpy as np

from tessera.emulator.semantics.kinds import Array, vector

_63 = np.uint32(63)


def shift_left(count: Array, x: Array) -> Array:
    """uint64 x << (uint32 count mod 64) (V_LSHLREV_B64)."""
    return x << (count & _63)


def shift_right(count: Array, x: Array) -> Array:
    """uint64 x >> (uint32 count mod 64) (V_LSHRREV_B64)."""
    return x >> (count & _63)


def arithmetic_shift(count: Array, x: Array) -> Array:
    """int64 x >> (uint32 count mod 64) (V_ASHRREV_I64)."""
    return x >> (count & _63).view(np.int32)


def multiply_add_unsigned(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """uint32 a * b plus uint64 c, and the carry out of bit 63 (V_MAD_U64_U32)."""
    total = a.astype(np.uint64) * b.astype(np.uint64) + c
    return total, total < c


def multiply_add_signed(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """int32 a * b plus int64 c, and bit 64 of the 65-bit sum (V_MAD_I64_I32)."""
    product = a.astype(np.int64) * b.astype(np.int64)
    total = product + c
    overflow = ((product ^ total) & (c ^ total)) < 0
    return total, (total < 0) ^ overflow


INTEGER64_OPS = {
    "V_LSHLREV_B64": vector(shift_left, "u32 u64", "u64"),
    "V_LSHRREV_B64": vector(shift_right, "u32 u64", "u64"),
    "V_ASHRREV_I64": vector(arithmetic_shift, "u32 i64", "i64"),
    "V_MAD_U64_U32": vector(multiply_add_unsigned, "u32 u32 u64", "u64 mask"),
    "V_MAD_I64_I32": vector(multiply_add_signed, "i32 i32 i64", "i64 mask"),
}
