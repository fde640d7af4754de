"""32-bit integer instructions to numpy functions: sums, carries, products, shifts, logic."""

from __future__ import annotations

import numpy as np

from tessera.emulator.semantics.float32 import subtract_reversed
from tessera.emulator.semantics.kinds import Array, vector

_31 = np.uint32(31)
_LOW_24 = np.uint32(0xFFFFFF)
_8 = np.uint32(8)
_32 = np.uint64(32)
_INT_MIN, _INT_MAX = np.int64(-(2**31)), np.int64(2**31 - 1)
_UINT_MAX = np.uint32(0xFFFFFFFF)


def shift_left_reversed(count: Array, x: Array) -> Array:
    """x << (count mod 32) (V_LSHLREV_B32)."""
    return x << (count & _31)


def shift_right_reversed(count: Array, x: Array) -> Array:
    """Unsigned x >> (count mod 32) (V_LSHRREV_B32)."""
    return x >> (count & _31)


def arithmetic_shift_reversed(count: Array, x: Array) -> Array:
    """int32 x >> (count mod 32) (V_ASHRREV_I32)."""
    return x >> (count & _31).view(np.int32)


def not_xor(a: Array, b: Array) -> Array:
    """~(a ^ b)."""
    return ~(a ^ b)


def signed_24(x: Array) -> Array:
    """Low 24 bits of uint32, sign-extended to int32."""
    return (x << _8).view(np.int32) >> np.int32(8)


def multiply_i24(a: Array, b: Array) -> Array:
    """Low 32 bits of the product of signed 24-bit numbers (V_MUL_I32_I24)."""
    return signed_24(a) * signed_24(b)


def multiply_u24(a: Array, b: Array) -> Array:
    """Low 32 bits of the product of unsigned 24-bit numbers (V_MUL_U32_U24)."""
    return (a & _LOW_24) * (b & _LOW_24)


def multiply_high_i24(a: Array, b: Array) -> Array:
    """Bits 63..32 of the product of signed 24-bit numbers (V_MUL_HI_I32_I24)."""
    return multiply_high_signed(signed_24(a), signed_24(b))


def multiply_high_u24(a: Array, b: Array) -> Array:
    """Bits 47..32 of the product of unsigned 24-bit numbers (V_MUL_HI_U32_U24)."""
    return multiply_high_unsigned(a & _LOW_24, b & _LOW_24)


def multiply_high_unsigned(a: Array, b: Array) -> Array:
    """High 32 bits of a uint32 product (V_MUL_HI_U32)."""
    return ((a.astype(np.uint64) * b.astype(np.uint64)) >> _32).astype(np.uint32)


def multiply_high_signed(a: Array, b: Array) -> Array:
    """High 32 bits of an int32 product (V_MUL_HI_I32)."""
    return ((a.astype(np.int64) * b.astype(np.int64)) >> np.int64(32)).astype(np.int32)


def add_carry(a: Array, b: Array) -> tuple[Array, Array]:
    """uint32 sum and carry out (V_ADD_CO_U32)."""
    total = a + b
    return total, total < a


def add_with_carry(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    """uint32 sum with carry in, and carry out (V_ADD_CO_CI_U32)."""
    partial = a + b
    total = partial + carry
    return total, (partial < a) | (total < partial)


def subtract_borrow(a: Array, b: Array) -> tuple[Array, Array]:
    """uint32 difference and borrow out (V_SUB_CO_U32)."""
    return a - b, b > a


def subtract_borrow_reversed(a: Array, b: Array) -> tuple[Array, Array]:
    """uint32 b - a and borrow out (V_SUBREV_CO_U32)."""
    return subtract_borrow(b, a)


def subtract_with_borrow(a: Array, b: Array, borrow: Array) -> tuple[Array, Array]:
    """uint32 a - b - borrow, and borrow out (V_SUB_CO_CI_U32)."""
    return a - b - borrow, (b > a) | ((b == a) & borrow)


def subtract_with_borrow_reversed(a: Array, b: Array, borrow: Array) -> tuple[Array, Array]:
    """uint32 b - a - borrow, and borrow out (V_SUBREV_CO_CI_U32)."""
    return subtract_with_borrow(b, a, borrow)


def saturated_i32(wide: Array) -> Array:
    """int64 to int32, saturating."""
    return np.minimum(np.maximum(wide, _INT_MIN), _INT_MAX).astype(np.int32)


def add_saturating_i32(a: Array, b: Array) -> Array:
    """int32 sum, saturating."""
    return saturated_i32(a.astype(np.int64) + b)


def subtract_saturating_i32(a: Array, b: Array) -> Array:
    """int32 difference, saturating."""
    return saturated_i32(a.astype(np.int64) - b)


def add_saturating_u32(a: Array, b: Array) -> Array:
    """uint32 sum, saturating."""
    total = a + b
    return np.where(total < a, _UINT_MAX, total)


def subtract_saturating_u32(a: Array, b: Array) -> Array:
    """uint32 difference, at least 0."""
    return np.maximum(a, b) - b


def subtract_saturating_reversed_u32(a: Array, b: Array) -> Array:
    """uint32 b - a, at least 0."""
    return subtract_saturating_u32(b, a)


def _saturated_u32(wide: Array) -> Array:
    return np.minimum(wide, np.uint64(0xFFFFFFFF)).astype(np.uint32)


def multiply_add_i24(a: Array, b: Array, c: Array) -> Array:
    """Signed 24-bit product plus int32 (V_MAD_I32_I24)."""
    return signed_24(a) * signed_24(b) + c


def multiply_add_u24(a: Array, b: Array, c: Array) -> Array:
    """Unsigned 24-bit product plus uint32 (V_MAD_U32_U24)."""
    return multiply_u24(a, b) + c


def multiply_add_saturating_i24(a: Array, b: Array, c: Array) -> Array:
    """V_MAD_I32_I24 with CLAMP."""
    return saturated_i32(signed_24(a).astype(np.int64) * signed_24(b) + c)


def multiply_add_saturating_u24(a: Array, b: Array, c: Array) -> Array:
    """V_MAD_U32_U24 with CLAMP."""
    product = (a & _LOW_24).astype(np.uint64) * (b & _LOW_24)
    return _saturated_u32(product + c)


def multiply_add_u16(a: Array, b: Array, c: Array) -> Array:
    """uint16 product plus uint32 (V_MAD_U32_U16)."""
    return a.astype(np.uint32) * b.astype(np.uint32) + c


def multiply_add_i16(a: Array, b: Array, c: Array) -> Array:
    """int16 product plus int32 (V_MAD_I32_I16)."""
    return a.astype(np.int32) * b.astype(np.int32) + c


def multiply_add_saturating_u16(a: Array, b: Array, c: Array) -> Array:
    """V_MAD_U32_U16 with CLAMP."""
    return _saturated_u32(a.astype(np.uint64) * b + c)


def multiply_add_saturating_i16(a: Array, b: Array, c: Array) -> Array:
    """V_MAD_I32_I16 with CLAMP."""
    return saturated_i32(a.astype(np.int64) * b + c)


def add3(a: Array, b: Array, c: Array) -> Array:
    """Sum of three (V_ADD3_U32)."""
    return a + b + c


def shift_add(a: Array, count: Array, c: Array) -> Array:
    """(a << count mod 32) + c (V_LSHL_ADD_U32)."""
    return (a << (count & _31)) + c


def add_shift(a: Array, b: Array, count: Array) -> Array:
    """(a + b) << count mod 32 (V_ADD_LSHL_U32)."""
    return (a + b) << (count & _31)


def shift_or(a: Array, count: Array, c: Array) -> Array:
    """(a << count mod 32) | c (V_LSHL_OR_B32)."""
    return (a << (count & _31)) | c


def and_or(a: Array, b: Array, c: Array) -> Array:
    """(a & b) | c (V_AND_OR_B32)."""
    return (a & b) | c


def or3(a: Array, b: Array, c: Array) -> Array:
    """a | b | c (V_OR3_B32)."""
    return a | b | c


def xor3(a: Array, b: Array, c: Array) -> Array:
    """a ^ b ^ c (V_XOR3_B32)."""
    return a ^ b ^ c


def xor_add(a: Array, b: Array, c: Array) -> Array:
    """(a ^ b) + c (V_XAD_U32)."""
    return (a ^ b) + c


def select(a: Array, b: Array, mask: Array) -> Array:
    """b where the mask is set, else a (V_CNDMASK_B32/B16)."""
    return np.where(mask, b, a)


INTEGER_OPS = {
    "V_MOV_B32": vector(np.positive, "b32", "b32"),
    "V_MOV_B16": vector(np.positive, "b16", "b16"),
    "V_CNDMASK_B32": vector(select, "b32 b32 mask", "b32"),
    "V_CNDMASK_B16": vector(select, "b16 b16 mask", "b16"),
    "V_NOT_B32": vector(np.invert, "b32", "b32"),
    "V_NOT_B16": vector(np.invert, "b16", "b16"),
    "V_AND_B32": vector(np.bitwise_and, "b32 b32", "b32"),
    "V_OR_B32": vector(np.bitwise_or, "b32 b32", "b32"),
    "V_XOR_B32": vector(np.bitwise_xor, "b32 b32", "b32"),
    "V_XNOR_B32": vector(not_xor, "b32 b32", "b32"),
    "V_AND_B16": vector(np.bitwise_and, "b16 b16", "b16"),
    "V_OR_B16": vector(np.bitwise_or, "b16 b16", "b16"),
    "V_XOR_B16": vector(np.bitwise_xor, "b16 b16", "b16"),
    "V_LSHLREV_B32": vector(shift_left_reversed, "u32 u32", "u32"),
    "V_LSHRREV_B32": vector(shift_right_reversed, "u32 u32", "u32"),
    "V_ASHRREV_I32": vector(arithmetic_shift_reversed, "u32 i32", "i32"),
    "V_ADD_NC_U32": vector(np.add, "u32 u32", "u32", clamped=add_saturating_u32),
    "V_SUB_NC_U32": vector(np.subtract, "u32 u32", "u32", clamped=subtract_saturating_u32),
    "V_SUBREV_NC_U32": vector(
        subtract_reversed, "u32 u32", "u32", clamped=subtract_saturating_reversed_u32
    ),
    "V_ADD_NC_I32": vector(np.add, "i32 i32", "i32", clamped=add_saturating_i32),
    "V_SUB_NC_I32": vector(np.subtract, "i32 i32", "i32", clamped=subtract_saturating_i32),
    "V_ADD_CO_U32": vector(add_carry, "u32 u32", "u32 mask"),
    "V_SUB_CO_U32": vector(subtract_borrow, "u32 u32", "u32 mask"),
    "V_SUBREV_CO_U32": vector(subtract_borrow_reversed, "u32 u32", "u32 mask"),
    "V_ADD_CO_CI_U32": vector(add_with_carry, "u32 u32 mask", "u32 mask"),
    "V_SUB_CO_CI_U32": vector(subtract_with_borrow, "u32 u32 mask", "u32 mask"),
    "V_SUBREV_CO_CI_U32": vector(subtract_with_borrow_reversed, "u32 u32 mask", "u32 mask"),
    "V_MUL_I32_I24": vector(multiply_i24, "i24 i24", "i32"),
    "V_MUL_U32_U24": vector(multiply_u24, "u24 u24", "u32"),
    "V_MUL_HI_I32_I24": vector(multiply_high_i24, "i24 i24", "i32"),
    "V_MUL_HI_U32_U24": vector(multiply_high_u24, "u24 u24", "u32"),
    "V_MUL_LO_U32": vector(np.multiply, "u32 u32", "u32"),
    "V_MUL_HI_U32": vector(multiply_high_unsigned, "u32 u32", "u32"),
    "V_MUL_HI_I32": vector(multiply_high_signed, "i32 i32", "i32"),
    "V_MAD_I32_I24": vector(
        multiply_add_i24, "i24 i24 i32", "i32", clamped=multiply_add_saturating_i24
    ),
    "V_MAD_U32_U24": vector(
        multiply_add_u24, "u24 u24 u32", "u32", clamped=multiply_add_saturating_u24
    ),
    "V_MAD_U32_U16": vector(
        multiply_add_u16, "u16 u16 u32", "u32", clamped=multiply_add_saturating_u16
    ),
    "V_MAD_I32_I16": vector(
        multiply_add_i16, "i16 i16 i32", "i32", clamped=multiply_add_saturating_i16
    ),
    "V_ADD3_U32": vector(add3, "u32 u32 u32", "u32"),
    "V_LSHL_ADD_U32": vector(shift_add, "u32 u32 u32", "u32"),
    "V_ADD_LSHL_U32": vector(add_shift, "u32 u32 u32", "u32"),
    "V_LSHL_OR_B32": vector(shift_or, "b32 u32 b32", "b32"),
    "V_AND_OR_B32": vector(and_or, "b32 b32 b32", "b32"),
    "V_OR3_B32": vector(or3, "b32 b32 b32", "b32"),
    "V_XOR3_B32": vector(xor3, "b32 b32 b32", "b32"),
    "V_XAD_U32": vector(xor_add, "u32 u32 u32", "u32"),
}
