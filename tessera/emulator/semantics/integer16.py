"""16-bit integer instructions to numpy functions, single and packed."""

from __future__ import annotations

import numpy as np

from tessera.emulator.semantics.float16 import packed
from tessera.emulator.semantics.kinds import Array, vector

_15 = np.uint16(15)


def multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a * b + c modulo 2 ** 16 in the 16-bit type of the operands (V_MAD_U16/I16)."""
    return a * b + c


def _limits(dtype: type) -> tuple[np.int64, np.int64]:
    limits = np.iinfo(dtype)
    return np.int64(limits.min), np.int64(limits.max)


def _saturated(wide: Array, dtype: type) -> Array:
    low, high = _limits(dtype)
    return np.minimum(np.maximum(wide, low), high).astype(dtype)


def add_saturating(a: Array, b: Array) -> Array:
    """Sum in the 16-bit type of the operands, saturating."""
    return _saturated(a.astype(np.int64) + b, a.dtype.type)


def subtract_saturating(a: Array, b: Array) -> Array:
    """Difference in the 16-bit type of the operands, saturating."""
    return _saturated(a.astype(np.int64) - b, a.dtype.type)


def multiply_saturating(a: Array, b: Array) -> Array:
    """Product in the 16-bit type of the operands, saturating."""
    return _saturated(a.astype(np.int64) * b, a.dtype.type)


def multiply_add_saturating(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in the 16-bit type of the operands, saturating once at the end."""
    return _saturated(a.astype(np.int64) * b + c, a.dtype.type)


def shift_left(count: Array, x: Array) -> Array:
    """x << (count mod 16) (V_LSHLREV_B16)."""
    return x << (count & _15)


def shift_right(count: Array, x: Array) -> Array:
    """Unsigned x >> (count mod 16) (V_LSHRREV_B16)."""
    return x >> (count & _15)


def arithmetic_shift(count: Array, x: Array) -> Array:
    """int16 x >> (count mod 16) (V_ASHRREV_I16)."""
    return x >> (count & _15).view(np.int16)


def packed_arithmetic_shift(counts: Array, values: Array) -> Array:
    """V_PK_ASHRREV_I16 on packed operands."""
    count = np.ascontiguousarray(counts)[..., None].view(np.uint16)
    value = np.ascontiguousarray(values)[..., None].view(np.int16)
    return arithmetic_shift(count, value).view(np.uint32)[..., 0]


_U, _S = np.uint16, np.int16
_PU2, _PU3 = "pk_u16 pk_u16", "pk_u16 pk_u16 pk_u16"
_PS2, _PS3 = "pk_i16 pk_i16", "pk_i16 pk_i16 pk_i16"

INTEGER16_OPS = {
    "V_ADD_NC_U16": vector(np.add, "u16 u16", "u16", clamped=add_saturating),
    "V_SUB_NC_U16": vector(np.subtract, "u16 u16", "u16", clamped=subtract_saturating),
    "V_ADD_NC_I16": vector(np.add, "i16 i16", "i16", clamped=add_saturating),
    "V_SUB_NC_I16": vector(np.subtract, "i16 i16", "i16", clamped=subtract_saturating),
    "V_MUL_LO_U16": vector(np.multiply, "u16 u16", "u16", clamped=multiply_saturating),
    "V_MAD_U16": vector(multiply_add, "u16 u16 u16", "u16", clamped=multiply_add_saturating),
    "V_MAD_I16": vector(multiply_add, "i16 i16 i16", "i16", clamped=multiply_add_saturating),
    "V_LSHLREV_B16": vector(shift_left, "u16 u16", "u16"),
    "V_LSHRREV_B16": vector(shift_right, "u16 u16", "u16"),
    "V_ASHRREV_I16": vector(arithmetic_shift, "u16 i16", "i16"),
    "V_PK_ADD_U16": vector(packed(np.add, _U), _PU2, "pk_u16", clamped=packed(add_saturating, _U)),
    "V_PK_SUB_U16": vector(
        packed(np.subtract, _U), _PU2, "pk_u16", clamped=packed(subtract_saturating, _U)
    ),
    "V_PK_ADD_I16": vector(packed(np.add, _S), _PS2, "pk_i16", clamped=packed(add_saturating, _S)),
    "V_PK_SUB_I16": vector(
        packed(np.subtract, _S), _PS2, "pk_i16", clamped=packed(subtract_saturating, _S)
    ),
    "V_PK_MUL_LO_U16": vector(
        packed(np.multiply, _U), _PU2, "pk_u16", clamped=packed(multiply_saturating, _U)
    ),
    "V_PK_MAD_U16": vector(
        packed(multiply_add, _U), _PU3, "pk_u16", clamped=packed(multiply_add_saturating, _U)
    ),
    "V_PK_MAD_I16": vector(
        packed(multiply_add, _S), _PS3, "pk_i16", clamped=packed(multiply_add_saturating, _S)
    ),
    "V_PK_LSHLREV_B16": vector(packed(shift_left, _U), _PU2, "pk_u16"),
    "V_PK_LSHRREV_B16": vector(packed(shift_right, _U), _PU2, "pk_u16"),
    "V_PK_ASHRREV_I16": vector(packed_arithmetic_shift, "pk_u16 pk_i16", "pk_i16"),
}
