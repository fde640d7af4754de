"""Minimum, maximum and median instructions to numpy functions with AMD's NaN and zero rules.

A NaN loses against a number; -0 is less than +0; with IEEE mode on (as compilers set it for compute
kernels) a signaling NaN wins and comes out quiet. Median of three with a NaN is the minimum of
three, otherwise the larger of the two that are not the maximum (in operand order).
"""

from __future__ import annotations

import numpy as np

from tessera.emulator.semantics.float16 import packed
from tessera.emulator.semantics.kinds import Array, vector

_BITS: dict[type, type] = {np.float16: np.uint16, np.float32: np.uint32, np.float64: np.uint64}
_QUIET = {np.float16: 0x200, np.float32: 0x400000, np.float64: 0x8000000000000}


def _with_nans(a: Array, b: Array, result: Array) -> Array:
    """`result`, put right where an operand is NaN: quiet NaNs lose, signaling ones come out."""
    kind = result.dtype.type
    bits, quiet = _BITS[kind], _BITS[kind](_QUIET[kind])
    a, b = np.broadcast_arrays(a, b)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    result = np.where(nan_b, a, np.where(nan_a, b, result))
    for operand, nan in ((b, nan_b), (a, nan_a)):  # the first operand has the last word
        words = operand.view(bits)
        signaling = nan & ((words & quiet) == 0)
        if signaling.any():
            result = np.where(signaling, (words | quiet).view(kind), result)
    return result


def _ordered_f16(x: Array) -> Array:
    """float16 as int16 of the same order, -0 (as -1) below +0; its own inverse on int16."""
    bits = x.view(np.int16)
    return bits ^ ((bits >> np.int16(15)) & np.int16(0x7FFF))


def _choose_f16(choose: np.ufunc, a: Array, b: Array) -> Array:
    """Minimum or maximum of float16, by integers: numpy's float16 loops are slow."""
    chosen = choose(_ordered_f16(a), _ordered_f16(b))
    result = _ordered_f16(chosen).view(np.float16)
    infinity, size = np.int16(0x7C00), np.int16(0x7FFF)
    nan = ((a.view(np.int16) & size) > infinity) | ((b.view(np.int16) & size) > infinity)
    return _with_nans(a, b, result) if nan.any() else result


def maximum(a: Array, b: Array) -> Array:
    """V_MAX_F16/F32/F64 of two arrays of one float type."""
    if a.dtype == np.float16:
        return _choose_f16(np.maximum, a, b)
    result = np.maximum(a, b)
    if not result.all():  # some zero: +0 wins over -0, so the sign bit is set only if both are
        bits = _BITS[result.dtype.type]
        both = np.bitwise_and(a.view(bits), b.view(bits)).view(result.dtype)
        result = np.where(a == b, both, result)
    if np.isnan(result).any():
        result = _with_nans(a, b, result)
    return result


def minimum(a: Array, b: Array) -> Array:
    """V_MIN_F16/F32/F64 of two arrays of one float type."""
    if a.dtype == np.float16:
        return _choose_f16(np.minimum, a, b)
    result = np.minimum(a, b)
    if not result.all():
        bits = _BITS[result.dtype.type]
        either = np.bitwise_or(a.view(bits), b.view(bits)).view(result.dtype)
        result = np.where(a == b, either, result)
    if np.isnan(result).any():
        result = _with_nans(a, b, result)
    return result


def maximum3(a: Array, b: Array, c: Array) -> Array:
    """V_MAX3_F16/F32."""
    return maximum(maximum(a, b), c)


def minimum3(a: Array, b: Array, c: Array) -> Array:
    """V_MIN3_F16/F32."""
    return minimum(minimum(a, b), c)


def median3(a: Array, b: Array, c: Array) -> Array:
    """V_MED3_F16/F32."""
    largest = maximum3(a, b, c)
    last: Array = np.where(largest == b, maximum(a, c), maximum(a, b))
    result = np.where(largest == a, maximum(b, c), last)
    nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(nan, minimum3(a, b, c), result) if nan.any() else result


def minimum_of_maximum(a: Array, b: Array, c: Array) -> Array:
    """V_MAXMIN_F16/F32: min(max(a, b), c)."""
    return minimum(maximum(a, b), c)


def maximum_of_minimum(a: Array, b: Array, c: Array) -> Array:
    """V_MINMAX_F16/F32: max(min(a, b), c)."""
    return maximum(minimum(a, b), c)


def integer_maximum3(a: Array, b: Array, c: Array) -> Array:
    """Largest of three integers."""
    return np.maximum(np.maximum(a, b), c)


def integer_minimum3(a: Array, b: Array, c: Array) -> Array:
    """Smallest of three integers."""
    return np.minimum(np.minimum(a, b), c)


def integer_median3(a: Array, b: Array, c: Array) -> Array:
    """Median of three integers."""
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def integer_maxmin(a: Array, b: Array, c: Array) -> Array:
    """V_MAXMIN_I32/U32: min(max(a, b), c)."""
    return np.minimum(np.maximum(a, b), c)


def integer_minmax(a: Array, b: Array, c: Array) -> Array:
    """V_MINMAX_I32/U32: max(min(a, b), c)."""
    return np.maximum(np.minimum(a, b), c)


MINMAX_OPS = {
    "V_MIN_F32": vector(minimum, "f32 f32", "f32"),
    "V_MAX_F32": vector(maximum, "f32 f32", "f32"),
    "V_MIN_F16": vector(minimum, "f16 f16", "f16"),
    "V_MAX_F16": vector(maximum, "f16 f16", "f16"),
    "V_MIN_F64": vector(minimum, "f64 f64", "f64"),
    "V_MAX_F64": vector(maximum, "f64 f64", "f64"),
    "V_MIN3_F32": vector(minimum3, "f32 f32 f32", "f32"),
    "V_MAX3_F32": vector(maximum3, "f32 f32 f32", "f32"),
    "V_MED3_F32": vector(median3, "f32 f32 f32", "f32"),
    "V_MIN3_F16": vector(minimum3, "f16 f16 f16", "f16"),
    "V_MAX3_F16": vector(maximum3, "f16 f16 f16", "f16"),
    "V_MED3_F16": vector(median3, "f16 f16 f16", "f16"),
    "V_MAXMIN_F32": vector(minimum_of_maximum, "f32 f32 f32", "f32"),
    "V_MINMAX_F32": vector(maximum_of_minimum, "f32 f32 f32", "f32"),
    "V_MAXMIN_F16": vector(minimum_of_maximum, "f16 f16 f16", "f16"),
    "V_MINMAX_F16": vector(maximum_of_minimum, "f16 f16 f16", "f16"),
    "V_PK_MIN_F16": vector(packed(minimum, np.float16), "pk_f16 pk_f16", "pk_f16"),
    "V_PK_MAX_F16": vector(packed(maximum, np.float16), "pk_f16 pk_f16", "pk_f16"),
    "V_MIN_I32": vector(np.minimum, "i32 i32", "i32"),
    "V_MAX_I32": vector(np.maximum, "i32 i32", "i32"),
    "V_MIN_U32": vector(np.minimum, "u32 u32", "u32"),
    "V_MAX_U32": vector(np.maximum, "u32 u32", "u32"),
    "V_MIN_I16": vector(np.minimum, "i16 i16", "i16"),
    "V_MAX_I16": vector(np.maximum, "i16 i16", "i16"),
    "V_MIN_U16": vector(np.minimum, "u16 u16", "u16"),
    "V_MAX_U16": vector(np.maximum, "u16 u16", "u16"),
    "V_MIN3_I32": vector(integer_minimum3, "i32 i32 i32", "i32"),
    "V_MAX3_I32": vector(integer_maximum3, "i32 i32 i32", "i32"),
    "V_MED3_I32": vector(integer_median3, "i32 i32 i32", "i32"),
    "V_MIN3_U32": vector(integer_minimum3, "u32 u32 u32", "u32"),
    "V_MAX3_U32": vector(integer_maximum3, "u32 u32 u32", "u32"),
    "V_MED3_U32": vector(integer_median3, "u32 u32 u32", "u32"),
    "V_MIN3_I16": vector(integer_minimum3, "i16 i16 i16", "i16"),
    "V_MAX3_I16": vector(integer_maximum3, "i16 i16 i16", "i16"),
    "V_MED3_I16": vector(integer_median3, "i16 i16 i16", "i16"),
    "V_MIN3_U16": vector(integer_minimum3, "u16 u16 u16", "u16"),
    "V_MAX3_U16": vector(integer_maximum3, "u16 u16 u16", "u16"),
    "V_MED3_U16": vector(integer_median3, "u16 u16 u16", "u16"),
    "V_MAXMIN_I32": vector(integer_maxmin, "i32 i32 i32", "i32"),
    "V_MINMAX_I32": vector(integer_minmax, "i32 i32 i32", "i32"),
    "V_MAXMIN_U32": vector(integer_maxmin, "u32 u32 u32", "u32"),
    "V_MINMAX_U32": vector(integer_minmax, "u32 u32 u32", "u32"),
    "V_PK_MIN_I16": vector(packed(np.minimum, np.int16), "pk_i16 pk_i16", "pk_i16"),
    "V_PK_MAX_I16": vector(packed(np.maximum, np.int16), "pk_i16 pk_i16", "pk_i16"),
    "V_PK_MIN_U16": vector(packed(np.minimum, np.uint16), "pk_u16 pk_u16", "pk_u16"),
    "V_PK_MAX_U16": vector(packed(np.maximum, np.uint16), "pk_u16 pk_u16", "pk_u16"),
}
