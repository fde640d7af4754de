"""The division sequence that LLVM emits, on the semantic functions, against IEEE division."""

from __future__ import annotations

import numpy as np
import pytest

from tessera.emulator.semantics import VECTOR_OPS


def function(name):
    return VECTOR_OPS[name].function


def divide_f32(numerator, denominator):
    """v_div_scale x 2, v_rcp, five v_fma and v_mul, v_div_fmas, v_div_fixup."""
    fma = function("V_FMA_F32")
    bottom, _ = function("V_DIV_SCALE_F32")(denominator, denominator, numerator)
    top, mask = function("V_DIV_SCALE_F32")(numerator, denominator, numerator)
    inverse = function("V_RCP_F32")(bottom)
    inverse = fma(fma(-bottom, inverse, np.float32(1)), inverse, inverse)
    quotient = top * inverse
    quotient = fma(fma(-bottom, quotient, top), inverse, quotient)
    rest = fma(-bottom, quotient, top)
    result = function("V_DIV_FMAS_F32")(rest, inverse, quotient, mask)
    return function("V_DIV_FIXUP_F32")(result, denominator, numerator)


def divide_f64(numerator, denominator):
    fma = function("V_FMA_F64")
    bottom, _ = function("V_DIV_SCALE_F64")(denominator, denominator, numerator)
    top, mask = function("V_DIV_SCALE_F64")(numerator, denominator, numerator)
    inverse = function("V_RCP_F64")(bottom)
    for _ in range(2):
        inverse = fma(inverse, fma(-bottom, inverse, np.float64(1)), inverse)
    quotient = top * inverse
    rest = fma(-bottom, quotient, top)
    result = function("V_DIV_FMAS_F64")(rest, inverse, quotient, mask)
    return function("V_DIV_FIXUP_F64")(result, denominator, numerator)


def divide_f16(numerator, denominator):
    """Through f32, as LLVM does it, with the fixup in f16."""
    wide = numerator.astype(np.float32) * function("V_RCP_F32")(denominator.astype(np.float32))
    return function("V_DIV_FIXUP_F16")(wide.astype(np.float16), denominator, numerator)


def random_bits(rng, kind, count):
    bits = np.dtype(f"uint{np.dtype(kind).itemsize * 8}")
    return rng.integers(0, np.iinfo(bits).max, count, bits, True).view(kind).reshape(-1, 32)


def extreme(rng, kind, count):
    """Exponents near both ends of the range, mantissas random or with few bits."""
    info = np.finfo(kind)
    bits = np.dtype(f"uint{np.dtype(kind).itemsize * 8}")
    ends = np.concatenate([np.arange(60), np.arange(2 * info.maxexp - 60, 2 * info.maxexp)])
    mantissa = rng.integers(0, 1 << info.nmant, count, bits)
    mantissa = np.where(rng.random(count) < 0.5, mantissa, mantissa & bits.type(7)).astype(bits)
    exponent = rng.choice(ends, count).astype(bits) << bits.type(info.nmant)
    return (exponent | mantissa).view(kind).reshape(-1, 32)


SPECIAL = [0.0, -0.0, 1.0, -3.0, np.inf, -np.inf, np.nan, 65504.0, -6e-8, 2.0**-126, 1e-40, 3e38]


def special(kind):
    values = np.array(SPECIAL, np.float64).astype(kind)
    top, bottom = np.meshgrid(values, values)
    count = -(-top.size // 32) * 32
    return (np.resize(x.ravel(), count).reshape(-1, 32) for x in (top, bottom))


def assert_same(got, wanted):
    both_nan = np.isnan(got) & np.isnan(wanted)
    bits = f"uint{got.dtype.itemsize * 8}"
    wrong = (got.view(bits) != wanted.view(bits)) & ~both_nan
    assert not wrong.any(), f"{wrong.sum()} quotients differ"


@pytest.mark.parametrize(
    "kind, divide, count", [(np.float32, divide_f32, 64000), (np.float64, divide_f64, 3200)]
)
def test_quotients_are_correctly_rounded(kind, divide, count):
    rng = np.random.default_rng(7)
    with np.errstate(all="ignore"):
        for make in (random_bits, extreme):
            top, bottom = make(rng, kind, count), make(rng, kind, count)
            assert_same(divide(top, bottom), top / bottom)
        top, bottom = special(kind)
        assert_same(divide(top, bottom), top / bottom)


def test_half_precision_quotients_of_special_values():
    with np.errstate(all="ignore"):
        top, bottom = special(np.float16)
        got, wanted = divide_f16(top, bottom), top / bottom
        both_nan = np.isnan(got) & np.isnan(wanted)
        distance = np.abs(got.view(np.int16).astype(int) - wanted.view(np.int16))
        assert (both_nan | (distance <= 1)).all()
