"""Bit and byte instructions to numpy functions: fields, counts, permutes, sums of differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessera.emulator.semantics.float16 import join
from tessera.emulator.semantics.kinds import Array, vector

_0, _1, _3, _5, _7, _8, _16, _31 = (np.uint32(x) for x in (0, 1, 3, 5, 7, 8, 16, 31))
_BYTE = np.uint32(0xFF)
_ALL = np.uint32(0xFFFFFFFF)
_EVERY_SECOND_BYTE = np.uint32(0x00FF00FF)
# Lanes below each lane, as a mask of 32 bits.
_BELOW = ((np.uint64(1) << np.arange(32, dtype=np.uint64)) - np.uint64(1)).astype(np.uint32)


def extract_unsigned(x: Array, offset: Array, width: Array) -> Array:
    """`width` mod 32 bits of x from `offset` mod 32 (V_BFE_U32)."""
    return (x >> (offset & _31)) & ((_1 << (width & _31)) - _1)


def extract_signed(x: Array, offset: Array, width: Array) -> Array:
    """`width` mod 32 bits of int32 x from `offset` mod 32, sign-extended (V_BFE_I32)."""
    bits = width & _31
    sign = (_1 << bits) >> _1
    field = (x >> (offset & _31).view(np.int32)).view(np.uint32) & ((_1 << bits) - _1)
    return ((field ^ sign) - sign).view(np.int32)


def insert(mask: Array, a: Array, b: Array) -> Array:
    """Bits of a where the mask is set, of b elsewhere (V_BFI_B32)."""
    return (mask & (a ^ b)) ^ b


def field_mask(width: Array, offset: Array) -> Array:
    """`width` mod 32 ones shifted to `offset` mod 32 (V_BFM_B32)."""
    return ((_1 << (width & _31)) - _1) << (offset & _31)


def align_bits(high: Array, low: Array, count: Array) -> Array:
    """Low word of (high:low) >> count mod 32 (V_ALIGNBIT_B32)."""
    shift = count & _31
    return (low >> shift) | ((high << _1) << (_31 - shift))


def align_bytes(high: Array, low: Array, count: Array) -> Array:
    """Low word of (high:low) >> 8 * (count mod 4) (V_ALIGNBYTE_B32)."""
    return align_bits(high, low, (count & _3) << _3)


def reverse(x: Array) -> Array:
    """Bits of uint32 in reverse order (V_BFREV_B32)."""
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        step, bits = np.uint32(shift), np.uint32(mask)
        x = ((x >> step) & bits) | ((x & bits) << step)
    return (x >> _16) | (x << _16)


def count_ones(x: Array, addend: Array) -> Array:
    """Ones in x plus the addend (V_BCNT_U32_B32)."""
    return addend + np.bitwise_count(x)


def count_below(x: Array, addend: Array) -> Array:
    """Ones of x in bits below the lane's own number, plus the addend (V_MBCNT_LO_U32_B32)."""
    return addend + np.bitwise_count(x & _BELOW)


def count_below_high(x: Array, addend: Array) -> Array:
    """V_MBCNT_HI_U32_B32: lanes of wave32 have no bits of the high half below them."""
    return addend | np.zeros_like(x)


def leading_zeros(x: Array) -> Array:
    """int32 zeros above the highest one of uint32, -1 for zero (V_CLZ_I32_U32)."""
    exponent = np.frexp(x.astype(np.float64))[1]  # position of the highest one, counted from 1
    return np.where(x == 0, np.int32(-1), np.int32(32) - exponent)


def trailing_zeros(x: Array) -> Array:
    """int32 zeros below the lowest one of uint32, -1 for zero (V_CTZ_I32_B32)."""
    below = np.bitwise_count(~x & (x - _1)).astype(np.int32)
    return np.where(x == 0, np.int32(-1), below)


def leading_sign_bits(x: Array) -> Array:
    """int32 number of leading bits equal to the sign bit, -1 if all are (V_CLS_I32)."""
    return leading_zeros((x ^ (x >> np.int32(31))).view(np.uint32))


def permute_bytes(high: Array, low: Array, selector: Array) -> Array:
    """Four bytes picked from (high:low) or made from their signs (V_PERM_B32)."""
    first = selector.flat[0]
    other = selector != first
    if not other.any():
        return _permute_constant(high, low, int(first))
    second = selector.flat[np.argmax(other)]
    if ((selector == second) | ~other).all():  # two patterns, as in exchanges of half rows
        chosen = _permute_constant(high, low, int(second))
        return np.where(other, chosen, _permute_constant(high, low, int(first)))
    both = (high.astype(np.uint64) << np.uint64(32)) | low
    result = _0
    for position in range(4):
        pick = (selector >> np.uint32(8 * position)) & _BYTE
        byte = (both >> ((pick & _7).astype(np.uint64) << np.uint64(3))).astype(np.uint32) & _BYTE
        if (pick > _7).any():
            signs = (both >> ((pick & _3) * np.uint32(16) + np.uint32(15))).astype(np.uint32) & _1
            special = np.where(pick < np.uint32(12), signs * _BYTE, _BYTE)
            special = np.where(pick == np.uint32(12), _0, special)
            byte = np.where(pick > _7, special, byte)
        result = result | (byte << np.uint32(8 * position))
    return result


def _permute_constant(high: Array, low: Array, selector: int) -> Array:
    """`permute_bytes` for a selector that is the same everywhere: a few shifts and masks."""
    picks = [selector >> (8 * position) & 0xFF for position in range(4)]
    moves: dict[tuple[bool, int], int] = {}  # (from the high word, shift left) -> mask of bytes
    constant = 0
    signs: list[tuple[bool, int, int]] = []
    for position, pick in enumerate(picks):
        if pick < 8:
            key = (pick >= 4, position - pick % 4)
            moves[key] = moves.get(key, 0) | 0xFF << (8 * position)
        elif pick < 12:
            signs.append((pick >= 10, 31 if pick % 2 else 15, position))
        elif pick > 12:
            constant |= 0xFF << (8 * position)
    shape = np.broadcast_shapes(high.shape, low.shape)
    result = np.full(shape, constant, np.uint32) if constant or not moves else None
    for (from_high, left), mask in moves.items():
        word = high if from_high else low
        shift = np.uint32(8 * abs(left))
        part = (word << shift if left > 0 else word >> shift if left else word) & np.uint32(mask)
        result = part if result is None else result | part
    for from_high, bit, position in signs:
        sign = ((high if from_high else low) >> np.uint32(bit)) & _1
        result = result | (sign * np.uint32(0xFF << (8 * position)))
    return result


def lerp_bytes(a: Array, b: Array, rounding: Array) -> Array:
    """Per byte (a + b + low bit of `rounding`) >> 1 (V_LERP_U8)."""
    ones = np.uint32(0x00010001)
    mask = _EVERY_SECOND_BYTE
    even = (((a & mask) + (b & mask) + (rounding & ones)) >> _1) & mask
    shifted = (rounding >> _8) & ones
    odd = ((((a >> _8) & mask) + ((b >> _8) & mask) + shifted) >> _1) & mask
    return even | (odd << _8)


def _byte_differences(a: Array, b: Array, skip_zero: bool) -> Array:
    """Sum over the four bytes of |a - b|; bytes where b is zero are left out if asked."""
    total: Array = _0
    for shift in (_0, _8, _16, np.uint32(24)):
        x, y = (a >> shift) & _BYTE, (b >> shift) & _BYTE
        difference = np.maximum(x, y) - np.minimum(x, y)
        total = total + (difference * (y != 0) if skip_zero else difference)
    return total


def sad_bytes(a: Array, b: Array, addend: Array) -> Array:
    """Sum of absolute differences of bytes plus the addend (V_SAD_U8)."""
    return _byte_differences(a, b, False) + addend


def sad_bytes_high(a: Array, b: Array, addend: Array) -> Array:
    """The sum of `sad_bytes` in the high half plus the addend (V_SAD_HI_U8)."""
    return (_byte_differences(a, b, False) << _16) + addend


def sad_masked(a: Array, b: Array, addend: Array) -> Array:
    """`sad_bytes` without the bytes where b is zero (V_MSAD_U8)."""
    return _byte_differences(a, b, True) + addend


def sad_halves(a: Array, b: Array, addend: Array) -> Array:
    """Sum of absolute differences of 16-bit halves plus the addend (V_SAD_U16)."""
    half = np.uint32(0xFFFF)
    low_a, low_b, high_a, high_b = a & half, b & half, a >> _16, b >> _16
    low = np.maximum(low_a, low_b) - np.minimum(low_a, low_b)
    return low + (np.maximum(high_a, high_b) - np.minimum(high_a, high_b)) + addend


def sad_words(a: Array, b: Array, addend: Array) -> Array:
    """|a - b| plus the addend (V_SAD_U32)."""
    return np.maximum(a, b) - np.minimum(a, b) + addend


def _windows(wide: Array) -> list[Array]:
    """The four 32-bit words that start at bytes 0..3 of uint64."""
    return [(wide >> np.uint64(8 * byte)).astype(np.uint32) for byte in range(4)]


def quad_sad(skip_zero: bool) -> Callable[[Array, Array, Array], Array]:
    """V_QSAD_PK_U16_U8 or V_MQSAD_PK_U16_U8: four sliding sums added to four packed u16."""

    def apply(wide: Array, reference: Array, addends: Array) -> Array:
        sums = []
        for index, window in enumerate(_windows(wide)):
            addend = (addends >> np.uint64(16 * index)).astype(np.uint16)
            difference = _byte_differences(window, reference, skip_zero)
            sums.append(difference.astype(np.uint16) + addend)
        low, high = join(sums[0], sums[1]), join(sums[2], sums[3])
        return low | (high.astype(np.uint64) << np.uint64(32))

    return apply


def quad_sad_words(wide: Array, reference: Array, addends: tuple[Array, ...]) -> tuple[Array, ...]:
    """V_MQSAD_U32_U8: four sliding masked sums added to four words."""
    return tuple(
        _byte_differences(window, reference, True) + addend
        for window, addend in zip(_windows(wide), addends, strict=True)
    )


_WORDS = "b32 b32 b32"

BIT_OPS = {
    "V_BFE_U32": vector(extract_unsigned, "u32 u32 u32", "u32"),
    "V_BFE_I32": vector(extract_signed, "i32 u32 u32", "i32"),
    "V_BFI_B32": vector(insert, _WORDS, "b32"),
    "V_BFM_B32": vector(field_mask, "b32 b32", "b32"),
    "V_ALIGNBIT_B32": vector(align_bits, "b32 b32 u16", "b32"),
    "V_ALIGNBYTE_B32": vector(align_bytes, "b32 b32 u16", "b32"),
    "V_BFREV_B32": vector(reverse, "b32", "b32"),
    "V_BCNT_U32_B32": vector(count_ones, "b32 u32", "u32"),
    "V_MBCNT_LO_U32_B32": vector(count_below, "u32 u32", "u32"),
    "V_MBCNT_HI_U32_B32": vector(count_below_high, "u32 u32", "u32"),
    "V_CLZ_I32_U32": vector(leading_zeros, "u32", "i32"),
    "V_CTZ_I32_B32": vector(trailing_zeros, "b32", "i32"),
    "V_CLS_I32": vector(leading_sign_bits, "i32", "i32"),
    "V_PERM_B32": vector(permute_bytes, _WORDS, "b32"),
    "V_LERP_U8": vector(lerp_bytes, _WORDS, "b32"),
    "V_SAD_U8": vector(sad_bytes, "b32 b32 u32", "u32"),
    "V_SAD_HI_U8": vector(sad_bytes_high, "b32 b32 u32", "u32"),
    "V_SAD_U16": vector(sad_halves, "b32 b32 u32", "u32"),
    "V_SAD_U32": vector(sad_words, "u32 u32 u32", "u32"),
    "V_MSAD_U8": vector(sad_masked, "b32 b32 u32", "u32"),
    "V_QSAD_PK_U16_U8": vector(quad_sad(False), "b64 b32 b64", "b64"),
    "V_MQSAD_PK_U16_U8": vector(quad_sad(True), "b64 b32 b64", "b64"),
    "V_MQSAD_U32_U8": vector(quad_sad_words, "b64 b32 b128", "b128"),
}
