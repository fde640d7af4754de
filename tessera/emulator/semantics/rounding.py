"""Exact sums of products to one correctly rounded result, and 16-bit float conversions.

A fused multiply-add rounds once. Products of two float32 (or float16) are exact in float64; their
sum with a third operand is not always, and rounding it first to 53 bits and then to the result is
wrong exactly when the first rounding lands on a tie of the second one. Those few elements are
rounded to odd first, which makes the second rounding right (S. Boldo, G. Melquiond, "Emulation of
FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tessera.emulator.semantics.kinds import Array

F32_SMALLEST_NORMAL = np.float32(2.0**-126)
F16_SMALLEST_NORMAL = np.float16(2.0**-14)
# The bits of a float64 below the last bit of a float32 or float16, and the pattern of a tie.
_F32_REST, _F32_TIE = np.uint64(0x1FFFFFFF), np.uint64(0x10000000)
_F16_REST, _F16_TIE = np.uint64((1 << 42) - 1), np.uint64(1 << 41)
_ONE = np.uint64(1)


def _round_to_odd(total: Array, first: Array, second: Array) -> Array:
    """`first + second` rounded to odd in float64, given `total`, its rounding to nearest."""
    part = total - first
    error = (first - (total - part)) + (second - part)
    bits = total.view(np.uint64)
    step = np.where((error > 0) == (total > 0), _ONE, ~np.uint64(0))
    change = (error != 0) & ((bits & _ONE) == 0) & np.isfinite(total)
    return np.where(change, bits + step, bits).view(np.float64)


def _add_once(product: Array, addend: Array, rest: Any, tie: Any, smallest: float) -> Array:
    """`product + addend` in float64 such that a second rounding gives the right result."""
    total = product + addend
    bits = total.view(np.uint64)
    suspect = (bits & rest) == tie
    tiny = np.abs(total) < smallest
    if tiny.any():
        suspect |= tiny
    if suspect.any():
        where = np.nonzero(suspect)
        first = np.broadcast_to(product, total.shape)[where]
        second = np.broadcast_to(addend, total.shape)[where]
        total[where] = _round_to_odd(total[where], first, second)
    return total


def fma_f32(a: Array, b: Array, c: Array) -> Array:
    """float32 a * b + c with one rounding to nearest even; denormals kept."""
    product = a.astype(np.float64) * b.astype(np.float64)
    total = _add_once(product, c.astype(np.float64), _F32_REST, _F32_TIE, 2.0**-126)
    return total.astype(np.float32)


def fma_f16(a: Array, b: Array, c: Array) -> Array:
    """float16 a * b + c with one rounding to nearest even; denormals kept."""
    product = a.astype(np.float64) * b.astype(np.float64)
    total = _add_once(product, c.astype(np.float64), _F16_REST, _F16_TIE, 2.0**-14)
    return total.astype(np.float16)


def scaled_fma_f32(a: Array, b: Array, c: Array, power: Array) -> Array:
    """float32 (a * b + c) * 2 ** power with one rounding; |power| (int32) is at most 200."""
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    odd = _round_to_odd(product + addend, product, addend)
    return np.ldexp(odd, power).astype(np.float32)


def fma_f32_to_f16(a: Array, b: Array, c: Array) -> Array:
    """float32 a * b + c rounded to float32, then to float16, as V_FMA_MIXLO_F16 documents."""
    return fma_f32(a, b, c).astype(np.float16)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Float64 product and its exact error (T. J. Dekker, 1971)."""
    product = a * b
    splitter = 134217729.0  # 2**27 + 1
    wide = a * splitter
    a_high = wide - (wide - a)
    wide = b * splitter
    b_high = wide - (wide - b)
    a_low, b_low = a - a_high, b - b_high
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fma_f64_exact(a: float, b: float, c: float, power: int = 0) -> float:
    """(a * b + c) * 2 ** power of finite numbers by rational arithmetic, rounded once."""
    total = (Fraction(a) * Fraction(b) + Fraction(c)) * Fraction(2) ** power
    if total == 0:
        return a * b + c if a == 0 or b == 0 else 0.0
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def fma_f64(a: Array, b: Array, c: Array) -> Array:
    """float64 a * b + c with one rounding to nearest even.

    Operands far from overflow and underflow take the vector way (Boldo and Melquiond); the others
    are computed one by one with exact rational numbers.
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    product, error = _two_product(a, b)
    high, low = _two_sum(c, error)
    total, rest = _two_sum(product, high)
    odd = _round_to_odd(low + rest, low, rest)
    result = total + odd
    size_a, size_b, size_c = np.abs(a), np.abs(b), np.abs(c)
    safe = (size_a < 2.0**400) & (size_b < 2.0**400) & (size_c < 2.0**800)
    safe &= (size_a > 2.0**-400) & (size_b > 2.0**-400) & (size_c > 2.0**-800)
    if not safe.all():
        finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
        result = np.where(finite, result, a * b + c)
        for index in zip(*np.nonzero(finite & ~safe), strict=True):
            result[index] = fma_f64_exact(float(a[index]), float(b[index]), float(c[index]))
    return result


def f32_to_f16_toward_zero(x: Array) -> Array:
    """float32 to the bits (uint16) of the float16 next to it toward zero; overflow gives 65504."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    size = bits & np.uint32(0x7FFFFFFF)
    half = (size >> np.uint32(13)) - np.uint32(112 << 10)
    from_normal = size - np.uint32(0x38800000)  # 0 for 2 ** -14; wraps around below
    if not (from_normal < np.uint32(0x0F000000)).all():
        small = size < np.uint32(0x38800000)
        steps = (np.where(small, np.abs(x), np.float32(0)) * np.float32(2**24)).astype(np.uint32)
        large = np.where(size < np.uint32(0x7F800000), np.uint32(0x7BFF), np.uint32(0x7C00))
        large = np.where(size > np.uint32(0x7F800000), half & np.uint32(0x3FF) | 0x7E00, large)
        half = np.where(small, steps, np.where(size < np.uint32(0x47800000), half, large))
    return (half | ((bits >> np.uint32(16)) & np.uint32(0x8000))).astype(np.uint16)


def bf16_to_f32(bits: Array) -> Array:
    """Bits of bfloat16 (uint16) to float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(x: Array) -> Array:
    """float32 to the bits (uint16) of the nearest bfloat16, ties to even; NaN stays a quiet NaN."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    last = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + np.uint32(0x7FFF) + last) >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(x)
    if nan.any():
        quiet = ((bits >> np.uint32(16)) | np.uint32(0x40)).astype(np.uint16)
        rounded = np.where(nan, quiet, rounded)
    return rounded


def flush_f32(x: Array) -> Array:
    """float32 with denormals replaced by zero of the same sign."""
    tiny = np.abs(x) < F32_SMALLEST_NORMAL
    if not tiny.any():
        return x
    return np.where(tiny, np.copysign(np.float32(0), x), x)


def flush_f16(x: Array) -> Array:
    """float16 with denormals replaced by zero of the same sign."""
    bits = x.view(np.uint16)
    tiny = (bits & np.uint16(0x7C00)) == 0
    return np.where(tiny, bits & np.uint16(0x8000), bits).view(np.float16)


def flush_f64(x: Array) -> Array:
    """float64 with denormals replaced by zero of the same sign."""
    tiny = np.abs(x) < 2.0**-1022
    return np.where(tiny, np.copysign(0.0, x), x)
