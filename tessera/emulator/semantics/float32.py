"""Single-precision instructions to numpy functions: sums, products, fused forms, rounding.

Results are rounded to nearest even and denormals are kept; the core flushes them where MODE says
so. Instructions that flush by themselves are in `transcendental`.
"""

from __future__ import annotations

import numpy as np

from tessera.emulator.semantics.kinds import Array, vector
from tessera.emulator.semantics.rounding import fma_f32

LARGEST_FRACTION_F32 = np.float32(1.0 - 2.0**-24)
_MAX_FLOAT_F32 = np.float32(np.finfo(np.float32).max)
_ZERO = np.float32(0)


def subtract_reversed(a: Array, b: Array) -> Array:
    """b - a in the type of the operands."""
    return np.subtract(b, a)


def multiply_dx9(a: Array, b: Array) -> Array:
    """float32 a * b where zero times anything is +0 (V_MUL_DX9_ZERO_F32)."""
    return np.where((a == 0) | (b == 0), _ZERO, a * b)


def fma_dx9(a: Array, b: Array, c: Array) -> Array:
    """float32 a * b + c where zero times anything is 0 and leaves c (V_FMA_DX9_ZERO_F32)."""
    return np.where((a == 0) | (b == 0), c, fma_f32(a, b, c))


def mullit(a: Array, b: Array, c: Array) -> Array:
    """V_MULLIT_F32: a * b, or -MAX_FLOAT where b or c rule it out (the lighting exponent)."""
    excluded = (b == -_MAX_FLOAT_F32) | np.isneginf(b) | np.isnan(b) | ~(c > 0)
    return np.where(excluded, -_MAX_FLOAT_F32, a * b)


def fract_f32(x: Array) -> Array:
    """float32 x - floor(x), at most 0x3f7fffff (V_FRACT_F32)."""
    return np.minimum(x - np.floor(x), LARGEST_FRACTION_F32)


def _cube_faces(x: Array, y: Array, z: Array) -> tuple[Array, Array]:
    """Where z is the major axis, and where y is (after z)."""
    size_x, size_y, size_z = np.abs(x), np.abs(y), np.abs(z)
    on_z = (size_z >= size_x) & (size_z >= size_y)
    return on_z, ~on_z & (size_y >= size_x)


def cube_id(x: Array, y: Array, z: Array) -> Array:
    """V_CUBEID_F32: face 0..5 of the cube map that (x, y, z) hits."""
    on_z, on_y = _cube_faces(x, y, z)
    major = np.where(on_z, z, np.where(on_y, y, x))
    face = np.where(on_z, np.float32(4), np.where(on_y, np.float32(2), _ZERO))
    return face + (major < 0).astype(np.float32)


def cube_s(x: Array, y: Array, z: Array) -> Array:
    """V_CUBESC_F32: S coordinate on the face."""
    on_z, on_y = _cube_faces(x, y, z)
    on_x = np.where(x < 0, z, -z)
    return np.where(on_z, np.where(z < 0, -x, x), np.where(on_y, x, on_x))


def cube_t(x: Array, y: Array, z: Array) -> Array:
    """V_CUBETC_F32: T coordinate on the face."""
    _, on_y = _cube_faces(x, y, z)
    return np.where(on_y, np.where(y < 0, -z, z), -y)


def cube_major(x: Array, y: Array, z: Array) -> Array:
    """V_CUBEMA_F32: twice the major axis."""
    on_z, on_y = _cube_faces(x, y, z)
    return np.where(on_z, z, np.where(on_y, y, x)) * np.float32(2)


_THREE = "f32 f32 f32"

FLOAT32_OPS = {
    "V_ADD_F32": vector(np.add, "f32 f32", "f32"),
    "V_SUB_F32": vector(np.subtract, "f32 f32", "f32"),
    "V_SUBREV_F32": vector(subtract_reversed, "f32 f32", "f32"),
    "V_MUL_F32": vector(np.multiply, "f32 f32", "f32"),
    "V_MUL_DX9_ZERO_F32": vector(multiply_dx9, "f32 f32", "f32"),
    "V_FMA_F32": vector(fma_f32, _THREE, "f32"),
    "V_FMAC_F32": vector(fma_f32, "f32 f32", "f32", accumulates=True),
    "V_FMAAK_F32": vector(fma_f32, _THREE, "f32"),
    "V_FMAMK_F32": vector(fma_f32, _THREE, "f32"),
    "V_FMA_DX9_ZERO_F32": vector(fma_dx9, _THREE, "f32"),
    "V_FMAC_DX9_ZERO_F32": vector(fma_dx9, "f32 f32", "f32", accumulates=True),
    "V_MULLIT_F32": vector(mullit, _THREE, "f32"),
    "V_FRACT_F32": vector(fract_f32, "f32", "f32"),
    "V_TRUNC_F32": vector(np.trunc, "f32", "f32"),
    "V_CEIL_F32": vector(np.ceil, "f32", "f32"),
    "V_FLOOR_F32": vector(np.floor, "f32", "f32"),
    "V_RNDNE_F32": vector(np.rint, "f32", "f32"),
    "V_CUBEID_F32": vector(cube_id, _THREE, "f32"),
    "V_CUBESC_F32": vector(cube_s, _THREE, "f32"),
    "V_CUBETC_F32": vector(cube_t, _THREE, "f32"),
    "V_CUBEMA_F32": vector(cube_major, _THREE, "f32"),
}
