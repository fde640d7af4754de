"""Scalar integer instructions (SOP1, SOP2) to numpy functions on arrays of shape [waves].

Functions that set SCC return (value, SCC). 64-bit operands are uint64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tessera.emulator.semantics import bits
from tessera.emulator.semantics import integer as words
from tessera.emulator.semantics.kinds import Array, ScalarOp, scalar

Pair = tuple[Array, Array]
_1, _16, _31, _63, _7F = (np.uint32(x) for x in (1, 16, 31, 63, 0x7F))
_LOW_HALF = np.uint32(0xFFFF)


def nonzero(function: Callable[..., Array]) -> Callable[..., Pair]:
    """The function with SCC = (result is not zero) beside its result."""

    def apply(*operands: Array) -> Pair:
        value = function(*operands)
        return value, value != 0

    return apply


def add_signed(a: Array, b: Array) -> Pair:
    """int32 sum; SCC is signed overflow (S_ADD_I32)."""
    total = a + b
    return total, ((a ^ total) & (b ^ total)) < 0


def subtract_signed(a: Array, b: Array) -> Pair:
    """int32 difference; SCC is signed overflow (S_SUB_I32)."""
    total = a - b
    return total, ((a ^ b) & (a ^ total)) < 0


def absolute_difference(a: Array, b: Array) -> Array:
    """int32 |a - b|, the difference modulo 2 ** 32 (S_ABSDIFF_I32)."""
    return np.abs(a - b)


def shift_left(x: Array, count: Array) -> Array:
    """x << count modulo the width of x (S_LSHL_B32, S_LSHL_B64)."""
    return x << (count & (_63 if x.dtype.itemsize == 8 else _31))


def shift_right(x: Array, count: Array) -> Array:
    """Unsigned x >> count modulo the width of x (S_LSHR_B32, S_LSHR_B64)."""
    return x >> (count & (_63 if x.dtype.itemsize == 8 else _31))


def arithmetic_shift(x: Array, count: Array) -> Array:
    """Signed x >> count modulo the width of x (S_ASHR_I32, S_ASHR_I64)."""
    return x >> (count & (_63 if x.dtype.itemsize == 8 else _31)).view(np.int32)


def shifted_add(places: int) -> Callable[[Array, Array], Pair]:
    """(a << places) + b; SCC is the carry out of the wide sum (S_LSHL1_ADD_U32 ...)."""
    count = np.uint64(places)

    def apply(a: Array, b: Array) -> Pair:
        wide = (a.astype(np.uint64) << count) + b
        return wide.astype(np.uint32), wide >> np.uint64(32) != 0

    return apply


def minimum(a: Array, b: Array) -> Pair:
    """Smaller one; SCC is a < b."""
    return np.minimum(a, b), a < b


def maximum(a: Array, b: Array) -> Pair:
    """Larger one; SCC is a >= b."""
    return np.maximum(a, b), a >= b


def and_not(a: Array, b: Array) -> Array:
    """a & ~b."""
    return a & ~b


def or_not(a: Array, b: Array) -> Array:
    """a | ~b."""
    return a | ~b


def not_and(a: Array, b: Array) -> Array:
    """~(a & b)."""
    return ~(a & b)


def not_or(a: Array, b: Array) -> Array:
    """~(a | b)."""
    return ~(a | b)


def _field(control: Array, wide: bool) -> tuple[Array, Array]:
    """Offset and width (0..127) of a bit-field operand."""
    return control & (_63 if wide else _31), (control >> _16) & _7F


def _ones(width: Array, dtype: Any) -> Array:
    """2 ** width - 1 in the unsigned type; all ones from its width on."""
    size = np.dtype(dtype).itemsize * 8
    one = dtype(1)
    return np.where(width >= size, ~dtype(0), (one << (width & np.uint32(size - 1))) - one)


def extract_unsigned(x: Array, control: Array) -> Array:
    """Bits control[22:16] wide from control[5:0] of uint32 or uint64 (S_BFE_U32/U64)."""
    offset, width = _field(control, x.dtype.itemsize == 8)
    return (x >> offset) & _ones(width, x.dtype.type)


def extract_signed(x: Array, control: Array) -> Array:
    """As `extract_unsigned` on int32 or int64, sign-extended (S_BFE_I32/I64)."""
    unsigned = np.uint64 if x.dtype.itemsize == 8 else np.uint32
    offset, width = _field(control, unsigned is np.uint64)
    field = (x >> offset.view(np.int32)).view(unsigned) & _ones(width, unsigned)
    size = np.uint32(x.dtype.itemsize * 8)
    last = np.minimum(width, size)
    sign = np.where(last == 0, unsigned(0), unsigned(1) << ((last - _1) & (size - _1)))
    return ((field ^ sign) - sign).view(x.dtype)


def field_mask_64(width: Array, offset: Array) -> Array:
    """uint64 with `width` mod 64 ones at `offset` mod 64 (S_BFM_B64)."""
    one = np.uint64(1)
    return ((one << (width & _63)) - one) << (offset & _63)


def select(a: Array, b: Array, scc: Array) -> Array:
    """a if SCC else b (S_CSELECT)."""
    return np.where(scc, a, b)


def conditional_move(x: Array, old: Array, scc: Array) -> Array:
    """x if SCC, else the old destination (S_CMOV)."""
    return np.where(scc, x, old)


def subtract_with_borrow(a: Array, b: Array, scc: Array) -> Pair:
    """a - b - SCC and the borrow (S_SUBB_U32)."""
    return words.subtract_with_borrow(a, b, scc)


def pack(high_a: bool, high_b: bool) -> Callable[[Array, Array], Array]:
    """Half of a in the low half, half of b in the high half (S_PACK_*_B32_B16)."""

    def apply(a: Array, b: Array) -> Array:
        low = a >> _16 if high_a else a & _LOW_HALF
        return low | ((b >> _16) << _16 if high_b else b << _16)

    return apply


def reverse_64(x: Array) -> Array:
    """Bits of uint64 in reverse order (S_BREV_B64)."""
    low = bits.reverse(x.astype(np.uint32)).astype(np.uint64)
    high = bits.reverse((x >> np.uint64(32)).astype(np.uint32))
    return (low << np.uint64(32)) | high


def trailing_zeros_64(x: Array) -> Array:
    """int32 zeros below the lowest one of uint64, -1 for zero (S_CTZ_I32_B64)."""
    below = np.bitwise_count(~x & (x - np.uint64(1))).astype(np.int32)
    return np.where(x == 0, np.int32(-1), below)


def leading_zeros_64(x: Array) -> Array:
    """int32 zeros above the highest one of uint64, -1 for zero (S_CLZ_I32_U64)."""
    high = (x >> np.uint64(32)).astype(np.uint32)
    low = bits.leading_zeros(x.astype(np.uint32))
    in_low = np.where(low < 0, np.int32(-1), low + np.int32(32))
    return np.where(high != 0, bits.leading_zeros(high), in_low)


def leading_sign_bits_64(x: Array) -> Array:
    """int32 number of leading bits equal to the sign, -1 if all are (S_CLS_I32_I64)."""
    return leading_zeros_64((x ^ (x >> np.int64(63))).view(np.uint64))


def count_ones(x: Array) -> Array:
    """int32 number of ones."""
    return np.bitwise_count(x).astype(np.int32)


def count_zeros(x: Array) -> Array:
    """int32 number of zeros."""
    return np.bitwise_count(~x).astype(np.int32)


def sign_extend_8(x: Array) -> Array:
    """int32 of the low byte of uint32 (S_SEXT_I32_I8)."""
    return x.astype(np.uint8).view(np.int8).astype(np.int32)


def sign_extend_16(x: Array) -> Array:
    """int32 of the low half of uint32 (S_SEXT_I32_I16)."""
    return x.astype(np.uint16).view(np.int16).astype(np.int32)


def bit_set(value: int) -> Callable[[Array, Array], Array]:
    """The old destination with bit `x` set to `value` (S_BITSET0/1_B32/B64)."""

    def apply(x: Array, old: Array) -> Array:
        one = old.dtype.type(1)
        bit = one << (x & (_63 if old.dtype.itemsize == 8 else _31))
        return old | bit if value else old & ~bit

    return apply


def replicate_bits(x: Array) -> Array:
    """uint64 with every bit of uint32 twice (S_BITREPLICATE_B64_B32)."""
    wide = x.astype(np.uint64)
    for shift, mask in (
        (16, 0x0000FFFF0000FFFF),
        (8, 0x00FF00FF00FF00FF),
        (4, 0x0F0F0F0F0F0F0F0F),
        (2, 0x3333333333333333),
        (1, 0x5555555555555555),
    ):
        wide = (wide | (wide << np.uint64(shift))) & np.uint64(mask)
    return wide | (wide << np.uint64(1))


def any_of_quad(x: Array) -> Array:
    """One bit per four bits: whether any is set, at the quad's lowest bit."""
    one = x.dtype.type(1)
    pairs = x | (x >> one)
    lowest = x.dtype.type(0x1111111111111111 & int(~x.dtype.type(0)))
    return (pairs | (pairs >> x.dtype.type(2))) & lowest


def quad_mask(x: Array) -> Array:
    """Bit i tells whether any of bits 4 i .. 4 i + 3 is set (S_QUADMASK)."""
    flags = any_of_quad(x)
    dtype = x.dtype.type
    for shift, mask in (
        (3, 0x0303030303030303),
        (6, 0x000F000F000F000F),
        (12, 0x000000FF000000FF),
        (24, 0x000000000000FFFF),
    ):
        if shift == 24 and x.dtype.itemsize == 4:
            break
        flags = (flags | (flags >> dtype(shift))) & dtype(mask & int(~dtype(0)))
    return flags


def whole_quads(x: Array) -> Array:
    """All four bits of each quad with any bit set (S_WQM)."""
    return any_of_quad(x) * x.dtype.type(15)


def _logic() -> dict[str, ScalarOp]:
    """Two-operand logic for both widths."""
    functions: dict[str, Callable[..., Array]] = {
        "AND": np.bitwise_and,
        "OR": np.bitwise_or,
        "XOR": np.bitwise_xor,
        "NAND": not_and,
        "NOR": not_or,
        "XNOR": words.not_xor,
        "AND_NOT1": and_not,
        "OR_NOT1": or_not,
    }
    return {
        f"S_{name}_B{width}": scalar(
            nonzero(function), f"b{width} b{width}", f"b{width}", writes_scc=True
        )
        for name, function in functions.items()
        for width in (32, 64)
    }


def _set(function: Callable[..., Any], sources: str, result: str, **flags: Any) -> ScalarOp:
    """A scalar operation that writes SCC."""
    return scalar(function, sources, result, writes_scc=True, **flags)


SCALAR_INTEGER_OPS: dict[str, ScalarOp] = {
    **_logic(),
    "S_ADD_U32": _set(words.add_carry, "u32 u32", "u32"),
    "S_SUB_U32": _set(words.subtract_borrow, "u32 u32", "u32"),
    "S_ADD_I32": _set(add_signed, "i32 i32", "i32"),
    "S_SUB_I32": _set(subtract_signed, "i32 i32", "i32"),
    "S_ADDC_U32": _set(words.add_with_carry, "u32 u32", "u32", reads_scc=True),
    "S_SUBB_U32": _set(subtract_with_borrow, "u32 u32", "u32", reads_scc=True),
    "S_ABSDIFF_I32": _set(nonzero(absolute_difference), "i32 i32", "i32"),
    "S_LSHL_B32": _set(nonzero(shift_left), "b32 u32", "b32"),
    "S_LSHL_B64": _set(nonzero(shift_left), "b64 u32", "b64"),
    "S_LSHR_B32": _set(nonzero(shift_right), "b32 u32", "b32"),
    "S_LSHR_B64": _set(nonzero(shift_right), "b64 u32", "b64"),
    "S_ASHR_I32": _set(nonzero(arithmetic_shift), "i32 u32", "i32"),
    "S_ASHR_I64": _set(nonzero(arithmetic_shift), "i64 u32", "i64"),
    "S_LSHL1_ADD_U32": _set(shifted_add(1), "u32 u32", "u32"),
    "S_LSHL2_ADD_U32": _set(shifted_add(2), "u32 u32", "u32"),
    "S_LSHL3_ADD_U32": _set(shifted_add(3), "u32 u32", "u32"),
    "S_LSHL4_ADD_U32": _set(shifted_add(4), "u32 u32", "u32"),
    "S_MIN_I32": _set(minimum, "i32 i32", "i32"),
    "S_MIN_U32": _set(minimum, "u32 u32", "u32"),
    "S_MAX_I32": _set(maximum, "i32 i32", "i32"),
    "S_MAX_U32": _set(maximum, "u32 u32", "u32"),
    "S_BFE_U32": _set(nonzero(extract_unsigned), "u32 u32", "u32"),
    "S_BFE_I32": _set(nonzero(extract_signed), "i32 u32", "i32"),
    "S_BFE_U64": _set(nonzero(extract_unsigned), "u64 u32", "u64"),
    "S_BFE_I64": _set(nonzero(extract_signed), "i64 u32", "i64"),
    "S_BFM_B32": scalar(bits.field_mask, "b32 b32", "b32"),
    "S_BFM_B64": scalar(field_mask_64, "b32 b32", "b64"),
    "S_MUL_I32": scalar(np.multiply, "i32 i32", "i32"),
    "S_MUL_HI_U32": scalar(words.multiply_high_unsigned, "u32 u32", "u32"),
    "S_MUL_HI_I32": scalar(words.multiply_high_signed, "i32 i32", "i32"),
    "S_CSELECT_B32": scalar(select, "b32 b32", "b32", reads_scc=True),
    "S_CSELECT_B64": scalar(select, "b64 b64", "b64", reads_scc=True),
    "S_PACK_LL_B32_B16": scalar(pack(False, False), "b32 b32", "b32"),
    "S_PACK_LH_B32_B16": scalar(pack(False, True), "b32 b32", "b32"),
    "S_PACK_HH_B32_B16": scalar(pack(True, True), "b32 b32", "b32"),
    "S_PACK_HL_B32_B16": scalar(pack(True, False), "b32 b32", "b32"),
    "S_MOV_B32": scalar(np.positive, "b32", "b32"),
    "S_MOV_B64": scalar(np.positive, "b64", "b64"),
    "S_CMOV_B32": scalar(conditional_move, "b32", "b32", reads_scc=True, accumulates=True),
    "S_CMOV_B64": scalar(conditional_move, "b64", "b64", reads_scc=True, accumulates=True),
    "S_BREV_B32": scalar(bits.reverse, "b32", "b32"),
    "S_BREV_B64": scalar(reverse_64, "b64", "b64"),
    "S_CTZ_I32_B32": scalar(bits.trailing_zeros, "b32", "i32"),
    "S_CTZ_I32_B64": scalar(trailing_zeros_64, "b64", "i32"),
    "S_CLZ_I32_U32": scalar(bits.leading_zeros, "u32", "i32"),
    "S_CLZ_I32_U64": scalar(leading_zeros_64, "u64", "i32"),
    "S_CLS_I32": scalar(bits.leading_sign_bits, "i32", "i32"),
    "S_CLS_I32_I64": scalar(leading_sign_bits_64, "i64", "i32"),
    "S_SEXT_I32_I8": scalar(sign_extend_8, "b32", "i32"),
    "S_SEXT_I32_I16": scalar(sign_extend_16, "b32", "i32"),
    "S_BITSET0_B32": scalar(bit_set(0), "u32", "b32", accumulates=True),
    "S_BITSET0_B64": scalar(bit_set(0), "u32", "b64", accumulates=True),
    "S_BITSET1_B32": scalar(bit_set(1), "u32", "b32", accumulates=True),
    "S_BITSET1_B64": scalar(bit_set(1), "u32", "b64", accumulates=True),
    "S_BITREPLICATE_B64_B32": scalar(replicate_bits, "b32", "b64"),
    "S_ABS_I32": _set(nonzero(np.abs), "i32", "i32"),
    "S_BCNT0_I32_B32": _set(nonzero(count_zeros), "b32", "i32"),
    "S_BCNT0_I32_B64": _set(nonzero(count_zeros), "b64", "i32"),
    "S_BCNT1_I32_B32": _set(nonzero(count_ones), "b32", "i32"),
    "S_BCNT1_I32_B64": _set(nonzero(count_ones), "b64", "i32"),
    "S_QUADMASK_B32": _set(nonzero(quad_mask), "b32", "b32"),
    "S_QUADMASK_B64": _set(nonzero(quad_mask), "b64", "b64"),
    "S_WQM_B32": _set(nonzero(whole_quads), "b32", "b32"),
    "S_WQM_B64": _set(nonzero(whole_quads), "b64", "b64"),
    "S_NOT_B32": _set(nonzero(np.invert), "b32", "b32"),
    "S_NOT_B64": _set(nonzero(np.invert), "b64", "b64"),
}
