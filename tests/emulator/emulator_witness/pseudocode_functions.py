"""Functions that the pseudo-code calls: name and argument values to a value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from emulator_witness import soft_float as sf
from emulator_witness.pseudocode_parser import PseudocodeError
from emulator_witness.pseudocode_values import Value, boolean, integer

_CONVERSION = re.compile(r"(bf16|[uif]\d+)_to_(bf16|[uif]\d+|snorm|unorm)$")
_FROM_FLOAT = re.compile(r"v_cvt_([ui])16_f32$")


def _like(value: Value, bits: int) -> Value:
    return Value(bits, value.width, value.kind)


def _fract(x: Value) -> Value:
    whole = sf.round_integral(x.bits, x.form, "floor")
    return _like(x, sf.add(x.bits, whole ^ x.form.sign_bit, x.form))


def _is_even(x: Value) -> Value:
    return boolean(math.fmod(sf.to_float(x.bits, x.form), 2.0) == 0.0)


def _exponent(x: Value) -> Value:
    return integer(x.bits >> x.form.mantissa_bits & ((1 << x.form.exponent_bits) - 1))


def _mantissa(x: Value) -> Value:
    """The value scaled by a power of two into [0.5, 1)."""
    kind, sign, mantissa, _ = sf.unpack(x.bits, x.form)
    if kind != sf.FINITE or mantissa == 0:
        return x
    return _like(x, sf.round_pack(sign, mantissa, -mantissa.bit_length(), x.form))


def _quiet(x: Value) -> Value:
    return _like(x, x.bits | 1 << (x.form.mantissa_bits - 1))


def _through_float(x: Value, function: Callable[[float], float]) -> Value:
    """Evaluate in binary64; callers compare such results within a bound."""
    return _like(x, sf.from_float(function(sf.to_float(x.bits, x.form)), x.form))


def _log2(x: float) -> float:
    if x == 0.0:
        return -math.inf
    if math.isnan(x) or x < 0.0:
        return math.nan
    return math.inf if math.isinf(x) else math.log2(x)


def _exp2(x: float) -> float:
    try:
        return math.nan if math.isnan(x) else 2.0**x
    except OverflowError:
        return math.inf


def _circular(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: math.nan if math.isnan(x) or math.isinf(x) else function(x)


def _sign_extend_from_bit(value: Value, count: Value) -> Value:
    width = count.number
    if width == 0:
        return integer(0, value.width, "i")
    if width >= value.width:
        return integer(value.number, value.width, "i")
    bits = value.bits & ((1 << width) - 1)
    if bits >> (width - 1):
        bits -= 1 << width
    return integer(bits, value.width, "i")


def _find_first_one(value: Value) -> Value:
    return integer((value.bits & -value.bits).bit_length() - 1)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "abs": lambda x: _like(x, x.bits & ~x.form.sign_bit),
    "sign": lambda x: integer(x.bits >> (x.width - 1), 1, "u"),
    "exponent": _exponent,
    "mantissa": _mantissa,
    "trunc": lambda x: _like(x, sf.round_integral(x.bits, x.form, "trunc")),
    "floor": lambda x: _like(x, sf.round_integral(x.bits, x.form, "floor")),
    "fract": _fract,
    "isEven": _is_even,
    "isNAN": lambda x: boolean(sf.is_nan(x.bits, x.form)),
    "isSignalNAN": lambda x: boolean(sf.is_signaling(x.bits, x.form)),
    "isQuietNAN": lambda x: boolean(
        sf.is_nan(x.bits, x.form) and not sf.is_signaling(x.bits, x.form)
    ),
    "cvtToQuietNAN": _quiet,
    "fma": lambda a, b, c: _like(a, sf.fma(a.bits, b.bits, c.bits, a.form)),
    "ldexp": lambda a, n: _like(a, sf.scale(a.bits, n.number, a.form)),
    "sqrt": lambda x: _like(x, sf.square_root(x.bits, x.form)),
    "pow": lambda _, x: _through_float(x, _exp2),
    "log2": lambda x: _through_float(x, _log2),
    "sin": lambda x: _through_float(x, _circular(math.sin)),
    "cos": lambda x: _through_float(x, _circular(math.cos)),
    "signext": lambda x: integer(x.number if x.kind == "i" else x.bits, 64, "i"),
    "signext_from_bit": _sign_extend_from_bit,
    "s_ff1_i32_b32": _find_first_one,
    "s_ff1_i32_b64": _find_first_one,
}


def _to_norm(value: Value, signed: bool) -> Value:
    scale = 32767 if signed else 65535
    number = sf.to_float(value.bits, value.form)
    if math.isnan(number):
        return integer(0, 16, "i" if signed else "u")
    clamped = max(-1.0 if signed else 0.0, min(1.0, number))
    return integer(round(clamped * scale), 16, "i" if signed else "u")


def _split(name: str) -> tuple[str, int]:
    return ("bf", 16) if name == "bf16" else (name[0], int(name[1:]))


def integer_range(kind: str, width: int) -> tuple[int, int]:
    """Smallest and largest value of an unsigned (u) or signed integer."""
    if kind == "u":
        return 0, (1 << width) - 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def convert_by_name(source: str, target: str, value: Value, mode: str) -> Value:
    """`f32_to_i32(x)` and its relatives: saturating, truncating toward zero to integers."""
    if target in ("snorm", "unorm"):
        return _to_norm(value, target == "snorm")
    (source_kind, source_width), (kind, width) = _split(source), _split(target)
    value = Value(value.bits & ((1 << source_width) - 1), source_width, source_kind)
    low, high = integer_range(kind, width)
    if value.is_float:
        if kind in ("f", "bf"):
            form = Value(0, width, kind).form
            return Value(sf.convert(value.bits, value.form, form, mode), width, kind)
        return integer(sf.to_integer(value.bits, value.form, low, high), width, kind)
    if kind in ("f", "bf"):
        return Value(sf.from_integer(value.number, sf.FORMATS[target], mode), width, kind)
    return integer(max(low, min(high, value.number)), width, kind)


def call_builtin(name: str, arguments: list[Value], mode: str) -> Value | None:
    """The result, or None when `name` is not a function of this table."""
    if name in FUNCTIONS:
        try:
            return FUNCTIONS[name](*arguments)
        except TypeError as error:
            raise PseudocodeError(f"{name} with {len(arguments)} arguments") from error
    match = _CONVERSION.match(name)
    if match:
        return convert_by_name(match.group(1), match.group(2), arguments[0], mode)
    match = _FROM_FLOAT.match(name)
    if match:
        return convert_by_name("f32", f"{match.group(1)}16", arguments[0], mode)
    return None
