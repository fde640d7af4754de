"""Division helper instructions to numpy functions: V_DIV_SCALE, V_DIV_FMAS and V_DIV_FIXUP.

Compilers divide with scale, reciprocal, Newton steps, fmas and fixup. The published pseudo-code of
these cannot divide as it stands, so the intent is followed, and tests check that LLVM's sequence
gives correctly rounded quotients: V_DIV_SCALE scales a denominator whose reciprocal is denormal
down, not up (which would overflow); V_DIV_FMAS multiplies by 2 ** 64 (f64: 2 ** 128) when its third
operand is at least 2 in size, as after a scaled-up denominator, and by the inverse otherwise;
V_DIV_FIXUP of f32 and f64 gives infinity where the steps made NaN of an overflowing quotient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tessera.emulator.semantics.kinds import Array, vector
from tessera.emulator.semantics.rounding import fma_f32, fma_f64, fma_f64_exact, scaled_fma_f32


@dataclass(frozen=True)
class _Format:
    """Constants of a float type: bit layout and the thresholds of the division instructions."""

    bits: Any
    mantissa_bits: int
    exponent_mask: int
    near_overflow: int  # exponent difference from which the quotient may overflow
    tiny_numerator: int  # biased exponent up to which a numerator is scaled
    step: int  # exponent of the scale
    underflow: int  # exponent difference below which the quotient is zero

    def exponent(self, x: Array) -> Array:
        """Biased exponent as int32."""
        field = x.view(self.bits) >> self.bits(self.mantissa_bits)
        return (field & self.bits(self.exponent_mask)).astype(np.int32)


_F32 = _Format(np.uint32, 23, 0xFF, 96, 23, 64, -150)
_F64 = _Format(np.uint64, 52, 0x7FF, 768, 53, 128, -1075)
_F16 = _Format(np.uint16, 10, 0x1F, 0, 0, 0, -1000)


def _is_denormal(x: Array, form: _Format) -> Array:
    return (form.exponent(x) == 0) & (x != 0)


def _div_scale(x: Array, denominator: Array, numerator: Array, form: _Format) -> Any:
    """(scaled x, mask that V_DIV_FMAS must scale back); x is the denominator or the numerator."""
    x, denominator, numerator = np.broadcast_arrays(x, denominator, numerator)
    top, bottom = form.exponent(numerator), form.exponent(denominator)
    distance = top - bottom
    usual = (np.minimum(top, bottom) > form.tiny_numerator) & (distance < form.near_overflow)
    usual &= (bottom < form.exponent_mask - 1) & (distance > 2 - (form.exponent_mask >> 1))
    if usual.all():
        return x, np.zeros(x.shape, np.bool_)
    up, down = np.ldexp(x, form.step), np.ldexp(x, -form.step)
    is_denominator = x.view(form.bits) == denominator.view(form.bits)
    is_numerator = x.view(form.bits) == numerator.view(form.bits)
    inverse_denormal = _is_denormal(x.dtype.type(1) / denominator, form)
    small = _is_denormal(numerator / denominator, form)
    zero = (numerator == 0) | (denominator == 0)
    near_overflow = distance >= form.near_overflow
    conditions = [
        (zero, np.full_like(x, np.nan), False),
        (near_overflow, np.where(is_denominator, up, x), True),
        (_is_denormal(denominator, form), up, False),
        (inverse_denormal & small, np.where(is_denominator, down, x), True),
        (inverse_denormal, down, False),
        (small, np.where(is_numerator, up, x), True),
        (top <= form.tiny_numerator, up, False),
    ]
    tests = [condition for condition, _, _ in conditions]
    value = np.select(tests, [result for _, result, _ in conditions], x)
    mask = np.select(tests, [np.bool_(flag) for _, _, flag in conditions], np.False_)
    return value, mask


def div_scale_f32(x: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """V_DIV_SCALE_F32: float32 value and mask."""
    return _div_scale(x, denominator, numerator, _F32)


def div_scale_f64(x: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """V_DIV_SCALE_F64: float64 value and mask."""
    return _div_scale(x, denominator, numerator, _F64)


def _power(addend: Array, form: _Format) -> Array:
    """int32 exponent of the scale: up for a large third operand, else down."""
    large = form.exponent(addend) > form.exponent_mask >> 1
    return np.where(large, np.int32(form.step), np.int32(-form.step))


def div_fmas_f32(a: Array, b: Array, c: Array, mask: Array) -> Array:
    """V_DIV_FMAS_F32: a * b + c, scaled back where the mask is set, rounded once."""
    result = fma_f32(a, b, c)
    if not np.any(mask):
        return result
    return np.where(mask, scaled_fma_f32(a, b, c, _power(c, _F32)), result)


def div_fmas_f64(a: Array, b: Array, c: Array, mask: Array) -> Array:
    """V_DIV_FMAS_F64: a * b + c, scaled back where the mask is set, rounded once."""
    result = fma_f64(a, b, c)
    if not np.any(mask):
        return result
    power = np.broadcast_to(_power(c, _F64), result.shape)
    a, b, c, mask = (np.broadcast_to(x, result.shape) for x in (a, b, c, mask))
    result = np.where(mask, np.ldexp(result, power), result)
    # A result that came out denormal was rounded twice.
    again = mask & (np.abs(result) < 2.0**-1022) & np.isfinite(a) & np.isfinite(b)
    for index in zip(*np.nonzero(again), strict=True):
        operands = float(a[index]), float(b[index]), float(c[index])
        result[index] = fma_f64_exact(*operands, int(power[index]))
    return result


def _div_fixup(quotient: Array, denominator: Array, numerator: Array, form: _Format) -> Array:
    """The quotient with the right sign, and the special cases of division."""
    kind = np.result_type(quotient).type
    infinity, zero = kind(np.inf), kind(0)
    sign = np.signbit(denominator) ^ np.signbit(numerator)
    top, bottom = form.exponent(numerator), form.exponent(denominator)
    result = np.abs(quotient)
    if form is not _F16:  # f16 is divided through f32, which cannot overflow on the way
        result = np.where(np.isnan(quotient), infinity, result)
    result = np.where(top - bottom < form.underflow, zero, result)
    top_zero, bottom_zero = numerator == 0, denominator == 0
    top_infinite, bottom_infinite = np.isinf(numerator), np.isinf(denominator)
    result = np.where(bottom_infinite | top_zero, zero, result)
    result = np.where(bottom_zero | top_infinite, infinity, result)
    result = np.where(sign, -result, result)
    invalid = (top_zero & bottom_zero) | (top_infinite & bottom_infinite)
    result = np.where(invalid, -kind(np.nan), result)
    quiet = form.bits(1 << (form.mantissa_bits - 1))
    for operand in (denominator, numerator):
        nan = np.isnan(operand)
        if nan.any():
            result = np.where(nan, (operand.view(form.bits) | quiet).view(kind), result)
    return result


def div_fixup_f32(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """V_DIV_FIXUP_F32."""
    return _div_fixup(quotient, denominator, numerator, _F32)


def div_fixup_f64(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """V_DIV_FIXUP_F64."""
    return _div_fixup(quotient, denominator, numerator, _F64)


def div_fixup_f16(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """V_DIV_FIXUP_F16."""
    return _div_fixup(quotient, denominator, numerator, _F16)


DIVISION_OPS = {
    "V_DIV_SCALE_F32": vector(div_scale_f32, "f32 f32 f32", "f32 mask"),
    "V_DIV_SCALE_F64": vector(div_scale_f64, "f64 f64 f64", "f64 mask"),
    "V_DIV_FMAS_F32": vector(div_fmas_f32, "f32 f32 f32", "f32", reads_vcc=True),
    "V_DIV_FMAS_F64": vector(div_fmas_f64, "f64 f64 f64", "f64", reads_vcc=True),
    "V_DIV_FIXUP_F32": vector(div_fixup_f32, "f32 f32 f32", "f32"),
    "V_DIV_FIXUP_F64": vector(div_fixup_f64, "f64 f64 f64", "f64"),
    "V_DIV_FIXUP_F16": vector(div_fixup_f16, "f16 f16 f16", "f16"),
}
