"""Atomic operations of memory and LDS to numpy functions from old value and data to new value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessera.emulator.semantics.float32 import subtract_reversed
from tessera.emulator.semantics.kinds import Array, AtomicOp


def increment(old: Array, limit: Array) -> Array:
    """old + 1, or 0 from the limit on (INC)."""
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def decrement(old: Array, limit: Array) -> Array:
    """old - 1, or the limit when old is 0 or above the limit (DEC)."""
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def subtract_clamped(old: Array, data: Array) -> Array:
    """old - data, at least 0 (CSUB)."""
    return np.maximum(old, data) - data


def swap(old: Array, data: Array) -> Array:
    """The data (SWAP, STOREXCHG)."""
    return np.broadcast_to(data, np.broadcast_shapes(old.shape, data.shape))


def compare_swap(old: Array, data: Array, compare: Array) -> Array:
    """The data where old equals `compare`, else old (CMPSWAP, CMPSTORE)."""
    return np.where(old == compare, data, old)


def masked_or(old: Array, mask: Array, data: Array) -> Array:
    """(old & ~mask) | data; the first data operand is the mask (MSKOR)."""
    return (old & ~mask) | data


def wrap(old: Array, data: Array, limit: Array) -> Array:
    """old - data if old is at least data, else old + limit (WRAP)."""
    return np.where(old >= data, old - data, old + limit)


def float_minimum(old: Array, data: Array) -> Array:
    """The data if it is less than old, else old (MIN_F32, MIN_F64): a NaN never replaces."""
    return np.where(data < old, data, old)


def float_maximum(old: Array, data: Array) -> Array:
    """The data if it is greater than old, else old (MAX_F32, MAX_F64)."""
    return np.where(data > old, data, old)


def conditional_exchange(old: Array, data: Array) -> Array:
    """32-bit halves of uint64 replaced by 31 bits of data whose bit 31 is set (CONDXCHG)."""
    low_bit, high_bit = np.uint64(0x80000000), np.uint64(0x8000000000000000)
    low_mask, high_mask = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFF00000000)
    low = np.where(data & low_bit != 0, data & np.uint64(0x7FFFFFFF), old & low_mask)
    high = np.where(data & high_bit != 0, data & np.uint64(0x7FFFFFFF00000000), old & high_mask)
    return low | high


_ADDRESSED: dict[str, tuple[Callable[..., Array], str]] = {
    "ADD_U": (np.add, "u"),
    "SUB_U": (np.subtract, "u"),
    "RSUB_U": (subtract_reversed, "u"),
    "INC_U": (increment, "u"),
    "DEC_U": (decrement, "u"),
    "MIN_I": (np.minimum, "i"),
    "MAX_I": (np.maximum, "i"),
    "MIN_U": (np.minimum, "u"),
    "MAX_U": (np.maximum, "u"),
    "AND_B": (np.bitwise_and, "b"),
    "OR_B": (np.bitwise_or, "b"),
    "XOR_B": (np.bitwise_xor, "b"),
    "SWAP_B": (swap, "b"),
    "MIN_F": (float_minimum, "f"),
    "MAX_F": (float_maximum, "f"),
}
_COMPARING: dict[str, tuple[Callable[..., Array], str]] = {
    "MSKOR_B": (masked_or, "b"),
    "CMPSWAP_B": (compare_swap, "b"),
    "CMPSWAP_F": (compare_swap, "f"),
}

ATOMIC_OPS: dict[str, AtomicOp] = {
    **{
        f"{name}{width}": AtomicOp(function, f"{kind}{width}")
        for name, (function, kind) in _ADDRESSED.items()
        for width in (32, 64)
    },
    **{
        f"{name}{width}": AtomicOp(function, f"{kind}{width}", compares=True)
        for name, (function, kind) in _COMPARING.items()
        for width in (32, 64)
    },
    "CSUB_U32": AtomicOp(subtract_clamped, "u32"),
    "WRAP_B32": AtomicOp(wrap, "b32", compares=True),
    "ADD_F32": AtomicOp(np.add, "f32"),
    "CONDXCHG32_B64": AtomicOp(conditional_exchange, "b64"),
}
