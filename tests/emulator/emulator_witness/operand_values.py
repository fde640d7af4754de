"""Operand formats of the instruction tables to edge and random bit patterns."""

from __future__ import annotations

import functools
import random

from emulator_witness import soft_float as sf

_FLOAT_EDGES = (
    "0x0 1.0 -1.0 0.5 -0.5 1.5 2.5 -2.5 3.0 0.3 -0.3 2.0 4.0 127.5 -128.0 255.0 1023.75 -7.0 0.1"
).split()
_LARGE = {
    "f16": (2048.0, 2049.0, 32767.0, 65504.0),
    "bf16": (256.0, 65536.0, 3.0e38),
    "f32": (65504.0, 65520.0, 8388609.0, 16777217.0, 2147483648.0, 4294967296.0, 3.0e38, 1e-30),
    "f64": (2147483648.0, 4294967295.0, 9007199254740993.0, 1e300, 1e-300, 16777217.0),
}


@functools.cache
def float_edges(form: sf.Format) -> tuple[int, ...]:
    """Zeros, infinities, quiet and signaling NaN, denormals, the largest, and plain numbers."""
    positive = [
        0,
        form.infinity,
        form.quiet_nan,
        form.infinity | 1,
        1,
        (1 << form.mantissa_bits) - 1,
        1 << form.mantissa_bits,
        form.largest,
        sf.from_float(1.0, form) - 1,
        sf.from_float(1.0, form) + 1,
    ]
    values = [sf.from_float(float.fromhex(t) if "x" in t else float(t), form) for t in _FLOAT_EDGES]
    large = [sf.from_float(x, form) for x in _LARGE[form.name]]
    return (*(bits ^ sign for bits in positive + large for sign in (0, form.sign_bit)), *values)


@functools.cache
def integer_edges(width: int) -> tuple[int, ...]:
    mask = (1 << width) - 1
    top = 1 << (width - 1)
    small = [0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256]
    extremes = (-1, -2, -16, -17, -32, top, top - 1, top + 1, 0x5A5A5A5A)
    return tuple(x & mask for x in (*small, *extremes))


def _moderate_float(rng: random.Random, form: sf.Format) -> int:
    return sf.from_float(rng.uniform(-8.0, 8.0) * 2.0 ** rng.randint(-4, 4), form)


def random_float(rng: random.Random, form: sf.Format) -> int:
    choice = rng.random()
    if choice < 0.4:
        return rng.choice(float_edges(form))
    if choice < 0.75:
        return _moderate_float(rng, form)
    return rng.getrandbits(form.width)


def random_integer(rng: random.Random, width: int) -> int:
    choice = rng.random()
    if choice < 0.45:
        return rng.choice(integer_edges(width))
    if choice < 0.6:
        return rng.getrandbits(rng.randint(1, width))
    return rng.getrandbits(width)


def scalar_form(format_name: str) -> sf.Format | None:
    """The float format of FMT_NUM_F32 and the like; None for integers and packed formats."""
    return sf.FORMATS.get(format_name.removeprefix("FMT_NUM_").lower())


def packed_form(format_name: str) -> sf.Format | None:
    """The element of FMT_NUM_PK2_F16 and FMT_NUM_PK2_BF16; None otherwise."""
    if "PK2_" not in format_name:
        return None
    return sf.FORMATS.get(format_name.rsplit("_", 1)[1].lower())


def random_operand(rng: random.Random, format_name: str, width: int) -> int:
    """Bits of an operand of the given format name (an `Fmt` of the tables)."""
    form = scalar_form(format_name)
    if form is not None and form.width == width:
        return random_float(rng, form)
    packed = packed_form(format_name)
    if packed is not None:
        return random_float(rng, packed) | random_float(rng, packed) << 16
    if "PK2_" in format_name:
        return random_integer(rng, 16) | random_integer(rng, 16) << 16
    return random_integer(rng, width)
