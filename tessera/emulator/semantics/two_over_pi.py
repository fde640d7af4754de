"""V_TRIG_PREOP_F64: exponent and segment number to 53 bits of 2 / pi, for range reduction."""

from __future__ import annotations

import functools
import math

import numpy as np

from tessera.emulator.semantics.kinds import Array, vector

_BITS = 1201  # of 2 / pi that the unit holds


def _arctangent(numerator: int, denominator: int, bits: int) -> int:
    """arctan(numerator / denominator) * 2 ** bits by Euler's series, terms rounded down."""
    below = numerator * numerator + denominator * denominator
    term = (numerator * denominator << bits) // below
    total, index = 0, 0
    while term:
        total += term
        index += 1
        term = term * 2 * index * numerator * numerator // ((2 * index + 1) * below)
    return total


@functools.cache
def two_over_pi() -> int:
    """floor(2 / pi * 2 ** 1201), pi = 20 arctan(1/7) + 8 arctan(3/79) (Euler, 1755)."""
    bits = _BITS + 80
    pi = 20 * _arctangent(1, 7, bits) + 8 * _arctangent(3, 79, bits)
    return ((2 << (bits + _BITS)) // pi) & ((1 << _BITS) - 1)


def _segment(exponent: int, segment: int) -> float:
    """The 53 bits of 2 / pi for a biased exponent and a segment, as an aligned float64."""
    shift = segment * 53 + max(0, exponent - 1077)
    whole = (two_over_pi() << shift) >> (_BITS - 53) & ((1 << 53) - 1)
    scale = -53 - shift + (128 if exponent >= 1968 else 0)
    return math.ldexp(whole, scale)


def trig_preop(x: Array, segment: Array) -> Array:
    """V_TRIG_PREOP_F64 of float64 x and the segment number in the low five bits of uint32."""
    exponent = (x.view(np.uint64) >> np.uint64(52)).astype(np.int64) & 0x7FF
    keys, places = np.unique(exponent * 32 + (segment & np.uint32(31)), return_inverse=True)
    values = np.array([_segment(int(key) // 32, int(key) % 32) for key in keys])
    return values[places]


TWO_OVER_PI_OPS = {"V_TRIG_PREOP_F64": vector(trig_preop, "f64 u32", "f64")}
