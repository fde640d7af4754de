"""Exponent, mantissa, class and double-precision instructions to numpy functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessera.emulator.semantics.kinds import Array, vector
from tessera.emulator.semantics.rounding import fma_f64

_LARGEST_FRACTION_F64 = np.float64(1.0 - 2.0**-53)


def ldexp_f32(x: Array, exponent: Array) -> Array:
    """float32 x * 2 ** exponent (int32), rounded once (V_LDEXP_F32)."""
    power = np.minimum(np.maximum(exponent, np.int32(-300)), np.int32(300))
    scale = ((power + np.int32(1023)).astype(np.int64) << np.int64(52)).view(np.float64)
    return (x.astype(np.float64) * scale).astype(np.float32)


def ldexp_f16(x: Array, exponent: Array) -> Array:
    """float16 x * 2 ** exponent (int16), rounded once (V_LDEXP_F16)."""
    power = np.minimum(np.maximum(exponent, np.int16(-100)), np.int16(100)).astype(np.int32)
    scale = ((power + np.int32(127)) << np.int32(23)).view(np.float32)
    return (x.astype(np.float32) * scale).astype(np.float16)


def ldexp_f64(x: Array, exponent: Array) -> Array:
    """float64 x * 2 ** exponent (int32), rounded once (V_LDEXP_F64)."""
    return np.ldexp(x, exponent)


def frexp_mantissa(x: Array) -> Array:
    """The significand of x in [0.5, 1) with its sign; infinities and NaN as they are."""
    return np.frexp(x)[0]


def frexp_exponent(x: Array) -> Array:
    """int32 exponent that goes with `frexp_mantissa`; 0 for zero, infinities and NaN."""
    return np.where(np.isfinite(x), np.frexp(x)[1], np.int32(0))


def frexp_exponent_16(x: Array) -> Array:
    """int16 exponent of float16, as `frexp_exponent`."""
    return frexp_exponent(x.astype(np.float32)).astype(np.int16)


def frexp_mantissa_16(x: Array) -> Array:
    """float16 significand, as `frexp_mantissa`."""
    return np.frexp(x.astype(np.float32))[0].astype(np.float16)


def fract_f64(x: Array) -> Array:
    """float64 x - floor(x), less than 1 (V_FRACT_F64)."""
    return np.minimum(x - np.floor(x), _LARGEST_FRACTION_F64)


def class_test(bits_type: type, mantissa_bits: int) -> Callable[[Array, Array], Array]:
    """V_CMP_CLASS for floats of `bits_type`: the mask of lanes whose class is asked for.

    Bits of the second operand: 0 signaling NaN, 1 quiet NaN, 2 -inf, 3 -normal, 4 -denormal, 5 -0,
    6 +0, 7 +denormal, 8 +normal, 9 +inf.
    """
    width = bits_type(0).itemsize * 8
    sign_shift = bits_type(width - 1)
    mantissa = bits_type((1 << mantissa_bits) - 1)
    infinity = bits_type(((1 << (width - 1 - mantissa_bits)) - 1) << mantissa_bits)
    quiet = bits_type(1 << (mantissa_bits - 1))
    one = np.uint32(1)

    def test(x: Array, asked: Array) -> Array:
        bits = x.view(bits_type)
        size = bits & (infinity | mantissa)
        # 6 zero, 7 denormal, 8 normal, 9 infinity; mirrored about 5.5 for negative numbers.
        kind = np.uint32(6) + (size > 0) + (size > mantissa) + (size >= infinity)
        kind = np.where(bits >> sign_shift != 0, np.uint32(11) - kind, kind).astype(np.uint32)
        nan = size > infinity
        if nan.any():
            kind = np.where(nan, ((bits & quiet) != 0).astype(np.uint32), kind)
        return (asked.astype(np.uint32) >> kind) & one != 0

    return test


EXPONENT_OPS = {
    "V_LDEXP_F32": vector(ldexp_f32, "f32 i32", "f32"),
    "V_LDEXP_F16": vector(ldexp_f16, "f16 i16", "f16"),
    "V_LDEXP_F64": vector(ldexp_f64, "f64 i32", "f64"),
    "V_FREXP_MANT_F32": vector(frexp_mantissa, "f32", "f32"),
    "V_FREXP_MANT_F64": vector(frexp_mantissa, "f64", "f64"),
    "V_FREXP_MANT_F16": vector(frexp_mantissa_16, "f16", "f16"),
    "V_FREXP_EXP_I32_F32": vector(frexp_exponent, "f32", "i32"),
    "V_FREXP_EXP_I32_F64": vector(frexp_exponent, "f64", "i32"),
    "V_FREXP_EXP_I16_F16": vector(frexp_exponent_16, "f16", "i16"),
    "V_CMP_CLASS_F16": vector(class_test(np.uint16, 10), "f16 b16", "mask"),
    "V_CMP_CLASS_F32": vector(class_test(np.uint32, 23), "f32 b32", "mask"),
    "V_CMP_CLASS_F64": vector(class_test(np.uint64, 52), "f64 b32", "mask"),
    "V_ADD_F64": vector(np.add, "f64 f64", "f64"),
    "V_MUL_F64": vector(np.multiply, "f64 f64", "f64"),
    "V_FMA_F64": vector(fma_f64, "f64 f64 f64", "f64"),
    "V_FRACT_F64": vector(fract_f64, "f64", "f64"),
    "V_TRUNC_F64": vector(np.trunc, "f64", "f64"),
    "V_CEIL_F64": vector(np.ceil, "f64", "f64"),
    "V_FLOOR_F64": vector(np.floor, "f64", "f64"),
    "V_RNDNE_F64": vector(np.rint, "f64", "f64"),
}
