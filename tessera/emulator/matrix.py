"""Matrix instructions (V_WMMA_*, 16 x 16 x 16) on register arrays to their result registers.

Lane layout of RDNA 3 and 3.5 in wave32 (ISA guide, 7.9), element -> (register, part, lane):
  A[i][k], 16-bit   register k / 2, half k % 2, lanes i and i + 16 (both must hold it)
  A[i][k], 8-bit    register k / 4, byte k % 4, lanes i and i + 16
  A[i][k], 4-bit    register k / 8, nibble k % 8, lanes i and i + 16
  B[k][j]           as A with j in place of i
  C, D[i][j]        register i / 2, lane 16 * (i % 2) + j; 16-bit values in the half that OPSEL[2]
                    names, the other half of D keeps its old bits
EXEC is ignored, as on the chip. The order in which the hardware adds the sixteen products is not
published: sums here are in float32 by the host's matrix product and then C is added, so results
agree to rounding, not bit for bit. Integer forms are exact. Lanes 0..15 are the ones read;
`replicas_differ` tells when lanes 16..31 disagree with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tessera.emulator.semantics.rounding import bf16_to_f32, f32_to_bf16

Array = Any

_SIGNS = np.uint32(0x80008000)
_LOW_SIGN, _HIGH_SIGN = np.uint32(0x8000), np.uint32(0x80000000)
_LOW_HALF, _HIGH_HALF = np.uint32(0x0000FFFF), np.uint32(0xFFFF0000)
_16 = np.uint32(16)
# Every float16 as float32: indexing is faster than a conversion without hardware support.
_F16_VALUES = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
_SIGNED_BYTES = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float32)
_UNSIGNED_BYTES = np.arange(256, dtype=np.float32)
_UNSIGNED_NIBBLES = np.stack([_UNSIGNED_BYTES % 16, _UNSIGNED_BYTES // 16], axis=1)
_SIGNED_NIBBLES = np.where(_UNSIGNED_NIBBLES > 7, _UNSIGNED_NIBBLES - 16, _UNSIGNED_NIBBLES)


@dataclass(frozen=True)
class WmmaKind:
    """Element types of a matrix instruction and how many registers hold a row of A."""

    operand: str  # f16, bf16, iu8, iu4
    result: str  # f32, f16, bf16, i32
    registers: int


WMMA_KINDS: dict[str, WmmaKind] = {
    "V_WMMA_F32_16X16X16_F16": WmmaKind("f16", "f32", 8),
    "V_WMMA_F32_16X16X16_BF16": WmmaKind("bf16", "f32", 8),
    "V_WMMA_F16_16X16X16_F16": WmmaKind("f16", "f16", 8),
    "V_WMMA_BF16_16X16X16_BF16": WmmaKind("bf16", "bf16", 8),
    "V_WMMA_I32_16X16X16_IU8": WmmaKind("iu8", "i32", 4),
    "V_WMMA_I32_16X16X16_IU4": WmmaKind("iu4", "i32", 2),
}


def replicas_differ(a: Array, b: Array) -> Array:
    """bool [waves]: lanes 16..31 of A or B (uint32 [registers, waves, 32]) differ from 0..15."""
    differs = (a[..., :16] != a[..., 16:]).any(axis=(0, 2))
    return differs | (b[..., :16] != b[..., 16:]).any(axis=(0, 2))


def _rows(words: Array) -> Array:
    """uint32 [registers, waves, 32] to contiguous [waves, 16, registers] of lanes 0..15."""
    return np.ascontiguousarray(words[..., :16].transpose(1, 2, 0))


def _float_rows(words: Array, kind: str, negate_low: bool, negate_high: bool) -> Array:
    """float32 [waves, 16, 16]: row i (lane) and k, with the halves negated as asked."""
    rows = _rows(words)
    if negate_low or negate_high:
        rows = rows ^ np.uint32(negate_low * 0x8000 | negate_high * 0x80000000)
    if kind == "f16":
        return np.take(_F16_VALUES, rows.view(np.uint16))
    values = np.empty((*rows.shape, 2), np.float32)
    values[..., 0] = (rows << _16).view(np.float32)
    values[..., 1] = (rows & _HIGH_HALF).view(np.float32)
    return values.reshape(rows.shape[0], 16, 16)


def _integer_rows(words: Array, kind: str, signed: bool) -> Array:
    """float32 [waves, 16, 16] of small whole numbers: row i (lane) and k."""
    octets = _rows(words).view(np.uint8)
    if kind == "iu8":
        return np.take(_SIGNED_BYTES if signed else _UNSIGNED_BYTES, octets)
    nibbles = np.take(_SIGNED_NIBBLES if signed else _UNSIGNED_NIBBLES, octets, axis=0)
    return nibbles.reshape(octets.shape[0], 16, 16)


def _tile(values: Array, waves: int) -> Array:
    """[8, waves, 32] (or broadcastable) to a contiguous [waves, 16, 16]: row i, column j."""
    full = np.broadcast_to(values, (8, waves, 32))
    # register, wave, half, column -> wave, register, half, column; row is 2 * register + half
    return full.reshape(8, waves, 2, 16).transpose(1, 0, 2, 3).reshape(waves, 16, 16)


def _registers(tile: Array) -> Array:
    """[waves, 16, 16] to contiguous [8, waves, 32]."""
    waves = tile.shape[0]
    split = tile.reshape(waves, 8, 2, 16).transpose(1, 0, 2, 3)
    return np.ascontiguousarray(split).reshape(8, waves, 32)


def _float_accumulator(c: Array, result: str, neg: int, neg_hi: int, high: bool) -> Array:
    """C as float32, of the shape of c, with ABS (NEG_HI[2]) and NEG (NEG[2]) applied."""
    if result == "f32":
        values = c.view(np.float32)
    else:
        bits = (c >> _16 if high else c & _LOW_HALF).astype(np.uint16)
        values = np.take(_F16_VALUES, bits) if result == "f16" else bf16_to_f32(bits)
    if neg_hi & 4:
        values = np.abs(values)
    return -values if neg & 4 else values


def _integer_wmma(kind: WmmaKind, a: Array, b: Array, c: Array, neg: int, clamp: bool) -> Array:
    """uint32 [8, waves, 32]; |sum of products| < 2 ** 24, so float32 is exact."""
    rows = _integer_rows(a, kind.operand, bool(neg & 1))
    columns = _integer_rows(b, kind.operand, bool(neg & 2))
    products = _registers((rows @ columns.transpose(0, 2, 1)).astype(np.int32))
    if clamp:
        total = products.astype(np.int64) + c.view(np.int32)
        return np.clip(total, -(2**31), 2**31 - 1).astype(np.int32).view(np.uint32)
    return (products + c.view(np.int32)).view(np.uint32)


def wmma(
    operation: str,
    a: Array,
    b: Array,
    c: Array,
    old_d: Array,
    neg: int,
    neg_hi: int,
    opsel: int,
    clamp: bool,
) -> Array:
    """D = A B + C of every wave, as new uint32 registers [8, waves, 32].

    `a` and `b` are uint32 [registers, waves, 32] with 8 (16-bit), 4 (iu8) or 2 (iu4) registers;
    `c` and `old_d` are [8, waves, 32] or broadcastable to it (an inline constant is [8, 1, 1]).
    `neg`, `neg_hi` and `opsel` are the instruction's fields: for float operands bits 0 and 1 of NEG
    and NEG_HI negate the low and high halves of A and B, bit 2 is NEG and ABS of C; for integer
    operands NEG[0] and NEG[1] say that A and B are signed. `clamp` saturates integer results.
    """
    kind = WMMA_KINDS[operation]
    if kind.result == "i32":
        return _integer_wmma(kind, a, b, c, neg, clamp)
    rows = _float_rows(a, kind.operand, bool(neg & 1), bool(neg_hi & 1))
    columns = _float_rows(b, kind.operand, bool(neg & 2), bool(neg_hi & 2))
    products = _registers(rows @ columns.transpose(0, 2, 1))
    high = bool(opsel & 4)
    total = products + _float_accumulator(c, kind.result, neg, neg_hi, high)
    if kind.result == "f32":
        return total.view(np.uint32)
    if kind.result == "f16":
        bits = total.astype(np.float16).view(np.uint16).astype(np.uint32)
    else:
        bits = f32_to_bf16(total).astype(np.uint32)
    if high:
        return (old_d & _LOW_HALF) | (bits << _16)
    return (old_d & _HIGH_HALF) | bits
