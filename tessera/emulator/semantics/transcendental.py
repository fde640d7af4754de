"""Exponential, logarithm, root and sine instructions to numpy functions computed in float64.

Results are the correctly rounded ones up to the error of the host's float64 function; hardware is
allowed 1 ULP in these, so the last bit may differ from a chip. As the ISA guide says, the f32 forms
of exp, log, rcp, rsq and sqrt flush denormal operands and results to zero whatever MODE says.
Sine and cosine take revolutions (the operand is multiplied by 2 pi).
"""

from __future__ import annotations

import numpy as np

from tessera.emulator.semantics.kinds import Array, vector
from tessera.emulator.semantics.rounding import F32_SMALLEST_NORMAL, flush_f32

_TURN = 2.0 * np.pi


def exp2_f32(x: Array) -> Array:
    """float32 2 ** x, results below the smallest normal number give 0 (V_EXP_F32)."""
    result = np.exp2(x.astype(np.float64)).astype(np.float32)
    tiny = result < F32_SMALLEST_NORMAL
    return np.where(tiny, np.float32(0), result) if tiny.any() else result


def log2_f32(x: Array) -> Array:
    """float32 log2(x) of x with denormals flushed (V_LOG_F32)."""
    return np.log2(flush_f32(x).astype(np.float64)).astype(np.float32)


def reciprocal_f32(x: Array) -> Array:
    """float32 1 / x with denormals flushed (V_RCP_F32)."""
    return flush_f32(np.float32(1) / flush_f32(x))


def square_root_f32(x: Array) -> Array:
    """float32 sqrt(x) of x with denormals flushed (V_SQRT_F32)."""
    return np.sqrt(flush_f32(x))


def reciprocal_root_f32(x: Array) -> Array:
    """float32 1 / sqrt(x) of x with denormals flushed (V_RSQ_F32)."""
    return (1.0 / np.sqrt(flush_f32(x).astype(np.float64))).astype(np.float32)


def _revolution(x: Array) -> Array:
    """float64 x less the nearest whole number: in [-0.5, 0.5]; NaN for infinity."""
    wide = x.astype(np.float64)
    return wide - np.rint(wide)


def _sine(x: Array) -> Array:
    """float64 sin(2 pi x), exact at multiples of a quarter; -0 stays -0."""
    part = _revolution(x)
    folded = np.where(np.abs(part) > 0.25, np.copysign(0.5, part) - part, part)
    return np.where(x == 0, x, np.sin(_TURN * folded))


def _cosine(x: Array) -> Array:
    """float64 cos(2 pi x), exact at multiples of a quarter."""
    return np.sin(_TURN * (0.25 - np.abs(_revolution(x))))


def sine_f32(x: Array) -> Array:
    """float32 sin(2 pi x) (V_SIN_F32)."""
    return _sine(x).astype(np.float32)


def cosine_f32(x: Array) -> Array:
    """float32 cos(2 pi x) (V_COS_F32)."""
    return _cosine(x).astype(np.float32)


def exp2_f16(x: Array) -> Array:
    """float16 2 ** x (V_EXP_F16)."""
    return np.exp2(x.astype(np.float64)).astype(np.float16)


def log2_f16(x: Array) -> Array:
    """float16 log2(x) (V_LOG_F16)."""
    return np.log2(x.astype(np.float64)).astype(np.float16)


def reciprocal_f16(x: Array) -> Array:
    """float16 1 / x (V_RCP_F16)."""
    return np.float16(1) / x


def reciprocal_root_f16(x: Array) -> Array:
    """float16 1 / sqrt(x) (V_RSQ_F16)."""
    return (1.0 / np.sqrt(x.astype(np.float64))).astype(np.float16)


def sine_f16(x: Array) -> Array:
    """float16 sin(2 pi x) (V_SIN_F16)."""
    return _sine(x).astype(np.float16)


def cosine_f16(x: Array) -> Array:
    """float16 cos(2 pi x) (V_COS_F16)."""
    return _cosine(x).astype(np.float16)


def reciprocal_f64(x: Array) -> Array:
    """float64 1 / x (V_RCP_F64; hardware gives 29 fewer bits and expects refinement)."""
    return 1.0 / x


def reciprocal_root_f64(x: Array) -> Array:
    """float64 1 / sqrt(x) (V_RSQ_F64; hardware gives 29 fewer bits)."""
    return 1.0 / np.sqrt(x)


TRANSCENDENTAL_OPS = {
    "V_EXP_F32": vector(exp2_f32, "f32", "f32"),
    "V_LOG_F32": vector(log2_f32, "f32", "f32"),
    "V_RCP_F32": vector(reciprocal_f32, "f32", "f32"),
    "V_RCP_IFLAG_F32": vector(reciprocal_f32, "f32", "f32"),
    "V_RSQ_F32": vector(reciprocal_root_f32, "f32", "f32"),
    "V_SQRT_F32": vector(square_root_f32, "f32", "f32"),
    "V_SIN_F32": vector(sine_f32, "f32", "f32"),
    "V_COS_F32": vector(cosine_f32, "f32", "f32"),
    "V_EXP_F16": vector(exp2_f16, "f16", "f16"),
    "V_LOG_F16": vector(log2_f16, "f16", "f16"),
    "V_RCP_F16": vector(reciprocal_f16, "f16", "f16"),
    "V_RSQ_F16": vector(reciprocal_root_f16, "f16", "f16"),
    "V_SQRT_F16": vector(np.sqrt, "f16", "f16"),
    "V_SIN_F16": vector(sine_f16, "f16", "f16"),
    "V_COS_F16": vector(cosine_f16, "f16", "f16"),
    "V_RCP_F64": vector(reciprocal_f64, "f64", "f64"),
    "V_RSQ_F64": vector(reciprocal_root_f64, "f64", "f64"),
    "V_SQRT_F64": vector(np.sqrt, "f64", "f64"),
}
