"""Dot product instructions to numpy functions on packed operands.

The float forms add the products to the accumulator one after the other, low half first, with the
rounding of the result type after each step, as AMD's pseudo-code writes it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessera.emulator.semantics.float16 import halves
from tessera.emulator.semantics.kinds import Array, vector
from tessera.emulator.semantics.rounding import bf16_to_f32, f32_to_bf16, flush_f32

_HIGH = np.uint32(0xFFFF0000)
_16 = np.uint32(16)


def dot2_f32_f16(a: Array, b: Array, c: Array) -> Array:
    """float32 c + a.low * b.low + a.high * b.high of float16 pairs (V_DOT2_F32_F16)."""
    a_low, a_high = (half.astype(np.float32) for half in halves(a, np.float16))
    b_low, b_high = (half.astype(np.float32) for half in halves(b, np.float16))
    return c + a_low * b_low + a_high * b_high


def dot2_f32_bf16(a: Array, b: Array, c: Array) -> Array:
    """float32 c + a.low * b.low + a.high * b.high of bfloat16 pairs (V_DOT2_F32_BF16)."""
    low = (a << _16).view(np.float32) * (b << _16).view(np.float32)
    high = (a & _HIGH).view(np.float32) * (b & _HIGH).view(np.float32)
    return c + low + high


def dot2_f16(a: Array, b: Array, c: Array) -> Array:
    """float16 c + a.low * b.low + a.high * b.high, each step rounded (V_DOT2_F16_F16)."""
    a_low, a_high = halves(a, np.float16)
    b_low, b_high = halves(b, np.float16)
    return c + a_low * b_low + a_high * b_high


def _bf16(x: Array) -> Array:
    """float32 rounded to bfloat16, kept as float32; denormals flushed (ISA guide 7.2.4)."""
    return flush_f32(bf16_to_f32(f32_to_bf16(x)))


def dot2_bf16(a: Array, b: Array, c: Array) -> Array:
    """bfloat16 c + a.low * b.low + a.high * b.high; denormals flushed (V_DOT2_BF16_BF16)."""
    a_low, b_low = (flush_f32((word << _16).view(np.float32)) for word in (a, b))
    a_high, b_high = (flush_f32((word & _HIGH).view(np.float32)) for word in (a, b))
    total = _bf16(flush_f32(bf16_to_f32(c)) + _bf16(a_low * b_low))
    return f32_to_bf16(_bf16(total + _bf16(a_high * b_high)))


def elements(word: Array, bits: int, signed: bool) -> list[Array]:
    """The packed elements of uint32, lowest first, as int32."""
    if signed:
        top, down = 32 - bits, np.int32(32 - bits)
        return [
            (word << np.uint32(top - bits * index)).view(np.int32) >> down
            for index in range(32 // bits)
        ]
    mask = np.uint32((1 << bits) - 1)
    return [
        ((word >> np.uint32(bits * index)) & mask).view(np.int32) for index in range(32 // bits)
    ]


def _products(a: Array, b: Array, bits: int, signed_a: bool, signed_b: bool) -> Array:
    """int32 sum of products of the packed elements; cannot overflow."""
    pairs = zip(elements(a, bits, signed_a), elements(b, bits, signed_b), strict=True)
    total: Array = np.int32(0)
    for x, y in pairs:
        total = total + x * y
    return total


def dot_signed(bits: int, saturate: bool) -> Callable[..., Array]:
    """V_DOT4_I32_IU8 or V_DOT8_I32_IU4; NEG says which operands are signed."""

    def apply(a: Array, b: Array, c: Array, neg: tuple[bool, bool, bool]) -> Array:
        total = _products(a, b, bits, neg[0], neg[1])
        if not saturate:
            return total + c
        wide = np.clip(total.astype(np.int64) + c, -(2**31), 2**31 - 1)
        return wide.astype(np.int32)

    return apply


def dot_unsigned(bits: int, saturate: bool) -> Callable[..., Array]:
    """V_DOT4_U32_U8 or V_DOT8_U32_U4."""

    def apply(a: Array, b: Array, c: Array) -> Array:
        total = np.asarray(_products(a, b, bits, False, False)).view(np.uint32)
        if not saturate:
            return total + c
        return np.minimum(total.astype(np.uint64) + c, np.uint64(2**32 - 1)).astype(np.uint32)

    return apply


DOT_OPS = {
    "V_DOT2_F32_F16": vector(dot2_f32_f16, "pk_f16 pk_f16 f32", "f32"),
    "V_DOT2_F32_BF16": vector(dot2_f32_bf16, "pk_bf16 pk_bf16 f32", "f32"),
    "V_DOT2ACC_F32_F16": vector(dot2_f32_f16, "pk_f16 pk_f16", "f32", accumulates=True),
    "V_DOT2ACC_F32_BF16": vector(dot2_f32_bf16, "pk_bf16 pk_bf16", "f32", accumulates=True),
    "V_DOT2_F16_F16": vector(dot2_f16, "pk_f16 pk_f16 f16", "f16"),
    "V_DOT2_BF16_BF16": vector(dot2_bf16, "pk_bf16 pk_bf16 bf16", "bf16"),
    "V_DOT4_I32_IU8": vector(
        dot_signed(8, False), "pk_i8 pk_i8 i32", "i32", clamped=dot_signed(8, True), takes_neg=True
    ),
    "V_DOT8_I32_IU4": vector(
        dot_signed(4, False), "pk_i4 pk_i4 i32", "i32", clamped=dot_signed(4, True), takes_neg=True
    ),
    "V_DOT4_U32_U8": vector(
        dot_unsigned(8, False), "pk_u8 pk_u8 u32", "u32", clamped=dot_unsigned(8, True)
    ),
    "V_DOT8_U32_U4": vector(
        dot_unsigned(4, False), "pk_u4 pk_u4 u32", "u32", clamped=dot_unsigned(4, True)
    ),
}
