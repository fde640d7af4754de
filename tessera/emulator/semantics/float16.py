"""Half-precision instructions to numpy functions: sums, products, fused forms, packed pairs.

numpy computes float16 sums and products in float32 and rounds once more. That is harmless: 24 bits
are at least 2 * 11 + 2, so the second rounding never sees a false tie (S. Figueroa, 1995). A fused
multiply-add has no such guarantee and goes through `rounding.fma_f16`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessera.emulator.semantics.float32 import subtract_reversed
from tessera.emulator.semantics.kinds import Array, vector
from tessera.emulator.semantics.rounding import fma_f16, fma_f32, fma_f32_to_f16

_LARGEST_FRACTION_F16 = np.float16(1.0 - 2.0**-11)
_HALF_BITS = np.uint32(16)


def fract_f16(x: Array) -> Array:
    """float16 x - floor(x), less than 1 (V_FRACT_F16)."""
    return np.minimum(x - np.floor(x), _LARGEST_FRACTION_F16)


def halves(packed: Array, dtype: type) -> tuple[Array, Array]:
    """Low and high 16 bits of uint32 as two arrays of a 16-bit `dtype`, copied from the operand."""
    low = packed.astype(np.uint16).view(dtype)
    high = (packed >> _HALF_BITS).astype(np.uint16).view(dtype)
    return low, high


def join(low: Array, high: Array) -> Array:
    """Two 16-bit arrays of any type to uint32 with `low` in the low half."""
    upper = high.view(np.uint16).astype(np.uint32) << _HALF_BITS
    return upper | low.view(np.uint16)


def packed(function: Callable[..., Array], dtype: type) -> Callable[..., Array]:
    """The function on both halves of packed operands at once, as a function on uint32 arrays."""

    def apply(*operands: Array) -> Array:
        pairs = [
            np.ascontiguousarray(operand)[..., None].view(dtype)  # one more axis: low, high
            for operand in operands
        ]
        result = np.ascontiguousarray(function(*pairs), dtype)
        return result.view(np.uint32)[..., 0]

    return apply


_TWO, _THREE = "f16 f16", "f16 f16 f16"
_MIX = "f32 f32 f32"

FLOAT16_OPS = {
    "V_ADD_F16": vector(np.add, _TWO, "f16"),
    "V_SUB_F16": vector(np.subtract, _TWO, "f16"),
    "V_SUBREV_F16": vector(subtract_reversed, _TWO, "f16"),
    "V_MUL_F16": vector(np.multiply, _TWO, "f16"),
    "V_FMA_F16": vector(fma_f16, _THREE, "f16"),
    "V_FMAC_F16": vector(fma_f16, _TWO, "f16", accumulates=True),
    "V_FMAAK_F16": vector(fma_f16, _THREE, "f16"),
    "V_FMAMK_F16": vector(fma_f16, _THREE, "f16"),
    "V_FRACT_F16": vector(fract_f16, "f16", "f16"),
    "V_TRUNC_F16": vector(np.trunc, "f16", "f16"),
    "V_CEIL_F16": vector(np.ceil, "f16", "f16"),
    "V_FLOOR_F16": vector(np.floor, "f16", "f16"),
    "V_RNDNE_F16": vector(np.rint, "f16", "f16"),
    "V_FMA_MIX_F32": vector(fma_f32, _MIX, "f32"),
    "V_FMA_MIXLO_F16": vector(fma_f32_to_f16, _MIX, "f16"),
    "V_FMA_MIXHI_F16": vector(fma_f32_to_f16, _MIX, "f16"),
    "V_PK_ADD_F16": vector(packed(np.add, np.float16), "pk_f16 pk_f16", "pk_f16"),
    "V_PK_MUL_F16": vector(packed(np.multiply, np.float16), "pk_f16 pk_f16", "pk_f16"),
    "V_PK_FMA_F16": vector(packed(fma_f16, np.float16), "pk_f16 pk_f16 pk_f16", "pk_f16"),
    "V_PK_FMAC_F16": vector(
        packed(fma_f16, np.float16), "pk_f16 pk_f16", "pk_f16", accumulates=True
    ),
}
