"""4-bit integers to bytes that hold two of them, and back: the first one in the low four bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessera.errors import DtypeError, ShapeError, supported

RANGES = {"i4": (-8, 7), "u4": (0, 15)}


def pack_int4(values: Any, dtype: str = "i4") -> np.ndarray:
    """Bytes [..., ceil(k / 2)] (uint8) of integers [..., k]; a last odd high half is zero.

    `dtype` is "i4" (-8 to 7) or "u4" (0 to 15). ml_dtypes' int4 and uint4 arrays are integers too.
    Raises ShapeError for a value out of range, DtypeError for another dtype.
    """
    low, high = _range(dtype)
    numbers = np.asarray(values).astype(np.int64)
    if numbers.size and (numbers.min() < low or numbers.max() > high):
        raise ShapeError(f"pack_int4: {dtype} holds {low} to {high}")
    padded = np.zeros((*numbers.shape[:-1], numbers.shape[-1] + numbers.shape[-1] % 2), np.uint8)
    padded[..., : numbers.shape[-1]] = (numbers & 15).astype(np.uint8)
    return padded[..., ::2] | padded[..., 1::2] << 4


def unpack_int4(packed: Any, dtype: str = "i4", count: int | None = None) -> np.ndarray:
    """Integers [..., count] (int8) of bytes [..., ceil(count / 2)]; all of them by default."""
    low, _ = _range(dtype)
    octets = np.asarray(packed).view(np.uint8) if np.asarray(packed).size else np.asarray(packed)
    numbers = np.stack([octets & 15, octets >> 4], axis=-1).astype(np.int8)
    numbers = numbers.reshape(*octets.shape[:-1], 2 * octets.shape[-1])[..., :count]
    return np.where(numbers > 7, numbers - 16, numbers).astype(np.int8) if low else numbers


def dequantize(
    packed: Any, scale: Any, zero: Any = None, dtype: str = "i4", group_size: int = 128
) -> np.ndarray:
    """(number - zero) * scale in float16, [n, k], of weights [n, k / 2] (int8: [n, k]).

    scale and zero are float16 [n, k / group_size]; both steps round to float16.
    """
    numbers = np.asarray(packed) if dtype == "i8" else unpack_int4(packed, dtype)
    values = numbers.astype(np.float16)
    if zero is not None:
        values = values - np.repeat(np.asarray(zero, np.float16), group_size, axis=-1)
    return values * np.repeat(np.asarray(scale, np.float16), group_size, axis=-1)


def _range(dtype: str) -> tuple[int, int]:
    if dtype not in RANGES:
        raise DtypeError(f"4-bit dtype {dtype!r}; {supported(RANGES)}")
    return RANGES[dtype]
