"""Operand and result modifiers to wrapped functions: NEG, ABS, OMOD, CLAMP, denormal flush.

Each function takes a fetch (or value function) and returns one with the modifier applied; without
a modifier the argument itself comes back, so unmodified operands cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from tessera.emulator.decode import Instruction
from tessera.emulator.operands import FLOAT_KINDS, Fetch
from tessera.emulator.step import Mode, unsupported

SIGN_KINDS = {"b32": np.float32, "b16": np.float16, "b64": np.float64}
FACTORS = {1: 2.0, 2: 4.0, 3: 0.5}
SMALLEST_NORMAL = {"f16": np.float16(2.0**-14), "f32": np.float32(2.0**-126), "f64": 2.0**-1022}


def with_sign(fetch: Fetch, kind: str, absolute: bool, negate: bool) -> Fetch:
    """Apply ABS, then NEG, to a float operand (a b32 or b16 operand is treated as a float)."""
    if not (absolute or negate):
        return fetch
    if kind == "bf16":
        keeps, flips = np.uint16(0x7FFF if absolute else 0xFFFF), np.uint16(negate << 15)
        return lambda g: fetch(g) & keeps ^ flips
    if kind in SIGN_KINDS:
        float_type = SIGN_KINDS[kind]
        bits = np.dtype(f"u{np.dtype(float_type).itemsize}")
        inner = with_sign(lambda g: fetch(g).view(float_type), "f", absolute, negate)
        return lambda g: inner(g).view(bits)
    if absolute and negate:
        return lambda g: np.negative(np.abs(fetch(g)))
    if absolute:
        return lambda g: np.abs(fetch(g))
    return lambda g: np.negative(fetch(g))


def _flushed(value: np.ndarray, smallest: np.generic | float) -> np.ndarray:
    tiny = np.abs(value) < smallest
    if not tiny.any():
        return value
    return np.where(tiny, np.copysign(np.zeros(1, value.dtype), value), value)


def check_rounding(instruction: Instruction, kinds: Iterable[str], mode: Mode) -> None:
    """Refuse by name what MODE asks of float operands and is not built: other roundings."""
    chosen = set(kinds)
    narrow = chosen & {"f16", "pk_f16", "f64"}
    if ("f32" in chosen and mode.round32) or (narrow and mode.round64):
        raise unsupported(instruction, "rounding other than to nearest even (MODE)")


def flush_mode(kind: str, mode: Mode) -> int:
    """The denormal field of MODE that rules `kind`."""
    return mode.denorm32 if kind == "f32" else mode.denorm64


def with_input_flush(fetch: Fetch, kind: str, mode: Mode) -> Fetch:
    """Flush denormal inputs of `kind` to zero where MODE says so."""
    if kind not in FLOAT_KINDS or flush_mode(kind, mode) & 1:
        return fetch
    smallest = SMALLEST_NORMAL[kind]
    return lambda g: _flushed(fetch(g), smallest)


Value = Callable[[np.ndarray], np.ndarray]


def result_modifier(kind: str, clamp: bool, omod: int, mode: Mode) -> Value | None:
    """What happens to a float result before it is stored; None for nothing.

    OMOD multiplies by 2, 4 or 1/2, but is ignored where MODE keeps denormals or asks for IEEE;
    CLAMP limits to [0, 1] and turns NaN to 0 (DX10_CLAMP).
    """
    if kind not in FLOAT_KINDS:
        return None
    flush = not flush_mode(kind, mode) & 2
    omod = omod if flush and not mode.ieee else 0
    if not (clamp or omod or flush):
        return None
    factor = FACTORS.get(omod)
    smallest = SMALLEST_NORMAL[kind]

    def modify(value: np.ndarray) -> np.ndarray:
        if factor is not None:
            value = value * value.dtype.type(factor)
        if flush:
            value = _flushed(value, smallest)
        if clamp:
            # fmax returns the number when one side is NaN: NaN becomes 0.
            zero, one = value.dtype.type(0), value.dtype.type(1)
            low = np.fmax if mode.dx10_clamp else np.maximum
            value = np.minimum(low(value, zero), one)
        return value

    return modify
