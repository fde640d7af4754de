"""Conversion instructions to numpy functions: float, integer, packed, normalized.

Float to integer truncates, saturates out-of-range values and turns NaN into 0. Conversions to f16
round to nearest even except the RTZ forms.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessera.emulator.semantics.float16 import join
from tessera.emulator.semantics.kinds import Array, vector
from tessera.emulator.semantics.rounding import f32_to_f16_toward_zero

_OFFSETS = (np.arange(16, dtype=np.float32) - 16 * (np.arange(16) >= 8)).astype(np.float32) / 16


def saturating_integer(x: Array, dtype: type) -> Array:
    """Float array truncated to the integer type `dtype` (at most 32 bits), saturating, NaN to 0."""
    limits = np.iinfo(dtype)
    wide = x.astype(np.float64)
    clipped = np.minimum(np.maximum(wide, float(limits.min)), float(limits.max))
    nan = np.isnan(wide)
    if nan.any():
        clipped[nan] = 0.0
    return clipped.astype(np.int64 if limits.max > 0x7FFFFFFF else np.int32).astype(dtype)


def float_to_i32(x: Array) -> Array:
    """float32 or float64 to int32 (V_CVT_I32_F32, V_CVT_I32_F64)."""
    return saturating_integer(x, np.int32)


def float_to_u32(x: Array) -> Array:
    """float32 or float64 to uint32 (V_CVT_U32_F32, V_CVT_U32_F64)."""
    return saturating_integer(x, np.uint32)


def float_to_i16(x: Array) -> Array:
    """float16 or float32 to int16."""
    return saturating_integer(x, np.int16)


def float_to_u16(x: Array) -> Array:
    """float16 or float32 to uint16."""
    return saturating_integer(x, np.uint16)


def nearest_i32(x: Array) -> Array:
    """int32 of floor(x + 0.5), the sum in float32 as documented (V_CVT_NEAREST_I32_F32)."""
    return saturating_integer(np.floor(x + np.float32(0.5)), np.int32)


def floor_i32(x: Array) -> Array:
    """int32 of floor(x) (V_CVT_FLOOR_I32_F32)."""
    return saturating_integer(np.floor(x), np.int32)


def to_f32(x: Array) -> Array:
    """Any number type to float32, rounded to nearest even."""
    return x.astype(np.float32)


def to_f64(x: Array) -> Array:
    """float32, int32 or uint32 to float64, exact."""
    return x.astype(np.float64)


def to_f16(x: Array) -> Array:
    """float32, int16 or uint16 to float16, rounded to nearest even."""
    return x.astype(np.float16)


def byte_to_f32(index: int) -> Callable[[Array], Array]:
    """The function from uint32 to its byte `index` as float32 (V_CVT_F32_UBYTE0..3)."""
    shift = np.uint32(8 * index)

    def convert(x: Array) -> Array:
        return ((x >> shift) & np.uint32(0xFF)).astype(np.float32)

    return convert


def offset_i4(x: Array) -> Array:
    """Low four bits of uint32 as a signed number over 16 (V_CVT_OFF_F32_I4)."""
    return _OFFSETS[x & np.uint32(15)]


def pack_toward_zero(a: Array, b: Array) -> Array:
    """Two float32 to a pair of float16, each rounded toward zero (V_CVT_PK_RTZ_F16_F32)."""
    return join(f32_to_f16_toward_zero(a), f32_to_f16_toward_zero(b))


def signed_norm(x: Array) -> Array:
    """Float in [-1, 1] to int16 of 32767 * x, rounded to nearest even; others saturate."""
    return saturating_integer(np.rint(np.clip(x.astype(np.float64), -1, 1) * 32767.0), np.int16)


def unsigned_norm(x: Array) -> Array:
    """Float in [0, 1] to uint16 of 65535 * x, rounded to nearest even; others saturate."""
    return saturating_integer(np.rint(np.clip(x.astype(np.float64), 0, 1) * 65535.0), np.uint16)


def pair_of(function: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """The function that packs the 16-bit results of `function` for two operands."""

    def convert(a: Array, b: Array) -> Array:
        return join(function(a), function(b))

    return convert


def narrow_u16(x: Array) -> Array:
    """uint32 to uint16, saturating."""
    return np.minimum(x, np.uint32(0xFFFF)).astype(np.uint16)


def narrow_i16(x: Array) -> Array:
    """int32 to int16, saturating."""
    return np.minimum(np.maximum(x, np.int32(-0x8000)), np.int32(0x7FFF)).astype(np.int16)


def pack_f16(a: Array, b: Array) -> Array:
    """Two float16 to one register (V_PACK_B32_F16)."""
    return join(a, b)


def insert_byte(x: Array, position: Array, old: Array) -> Array:
    """`old` with the byte at `position` replaced by x as a saturated u8 (V_CVT_PK_U8_F32)."""
    shift = (position & np.uint32(3)) << np.uint32(3)
    byte = saturating_integer(x, np.uint8).astype(np.uint32)
    return (old & ~(np.uint32(0xFF) << shift)) | (byte << shift)


def saturate_bytes(x: Array) -> Array:
    """A pair of int16 to a pair of saturated u8 in 16 bits (V_SAT_PK_U8_I16)."""
    low = np.clip(x.astype(np.uint16).view(np.int16), 0, 255).astype(np.uint16)
    high = np.clip((x >> np.uint32(16)).astype(np.uint16).view(np.int16), 0, 255)
    return low | (high.astype(np.uint16) << np.uint16(8))


def sign_extend_16(x: Array) -> Array:
    """int16 to int32."""
    return x.astype(np.int32)


def zero_extend_16(x: Array) -> Array:
    """uint16 to uint32."""
    return x.astype(np.uint32)


CONVERSION_OPS = {
    "V_CVT_I32_F32": vector(float_to_i32, "f32", "i32"),
    "V_CVT_U32_F32": vector(float_to_u32, "f32", "u32"),
    "V_CVT_I32_F64": vector(float_to_i32, "f64", "i32"),
    "V_CVT_U32_F64": vector(float_to_u32, "f64", "u32"),
    "V_CVT_F32_I32": vector(to_f32, "i32", "f32"),
    "V_CVT_F32_U32": vector(to_f32, "u32", "f32"),
    "V_CVT_F64_I32": vector(to_f64, "i32", "f64"),
    "V_CVT_F64_U32": vector(to_f64, "u32", "f64"),
    "V_CVT_F32_F64": vector(to_f32, "f64", "f32"),
    "V_CVT_F64_F32": vector(to_f64, "f32", "f64"),
    "V_CVT_F16_F32": vector(to_f16, "f32", "f16"),
    "V_CVT_F32_F16": vector(to_f32, "f16", "f32"),
    "V_CVT_F16_U16": vector(to_f16, "u16", "f16"),
    "V_CVT_F16_I16": vector(to_f16, "i16", "f16"),
    "V_CVT_U16_F16": vector(float_to_u16, "f16", "u16"),
    "V_CVT_I16_F16": vector(float_to_i16, "f16", "i16"),
    "V_CVT_NEAREST_I32_F32": vector(nearest_i32, "f32", "i32"),
    "V_CVT_FLOOR_I32_F32": vector(floor_i32, "f32", "i32"),
    "V_CVT_OFF_F32_I4": vector(offset_i4, "b32", "f32"),
    "V_CVT_F32_UBYTE0": vector(byte_to_f32(0), "b32", "f32"),
    "V_CVT_F32_UBYTE1": vector(byte_to_f32(1), "b32", "f32"),
    "V_CVT_F32_UBYTE2": vector(byte_to_f32(2), "b32", "f32"),
    "V_CVT_F32_UBYTE3": vector(byte_to_f32(3), "b32", "f32"),
    "V_CVT_PK_RTZ_F16_F32": vector(pack_toward_zero, "f32 f32", "pk_f16"),
    "V_CVT_PK_I16_F32": vector(pair_of(float_to_i16), "f32 f32", "pk_i16"),
    "V_CVT_PK_U16_F32": vector(pair_of(float_to_u16), "f32 f32", "pk_u16"),
    "V_CVT_PK_NORM_I16_F16": vector(pair_of(signed_norm), "f16 f16", "pk_i16"),
    "V_CVT_PK_NORM_U16_F16": vector(pair_of(unsigned_norm), "f16 f16", "pk_u16"),
    "V_CVT_PK_NORM_I16_F32": vector(pair_of(signed_norm), "f32 f32", "pk_i16"),
    "V_CVT_PK_NORM_U16_F32": vector(pair_of(unsigned_norm), "f32 f32", "pk_u16"),
    "V_CVT_NORM_I16_F16": vector(signed_norm, "f16", "i16"),
    "V_CVT_NORM_U16_F16": vector(unsigned_norm, "f16", "u16"),
    "V_CVT_PK_U16_U32": vector(pair_of(narrow_u16), "u32 u32", "pk_u16"),
    "V_CVT_PK_I16_I32": vector(pair_of(narrow_i16), "i32 i32", "pk_i16"),
    "V_CVT_PK_U8_F32": vector(insert_byte, "f32 b32 b32", "b32"),
    "V_SAT_PK_U8_I16": vector(saturate_bytes, "b32", "b16"),
    "V_PACK_B32_F16": vector(pack_f16, "f16 f16", "b32"),
    "V_CVT_I32_I16": vector(sign_extend_16, "i16", "i32"),
    "V_CVT_U32_U16": vector(zero_extend_16, "u16", "u32"),
}
