"""IEEE formats to exact integers and back: float arithmetic that is right by construction.

A finite value is (sign, mantissa, exponent) with value (-1)^sign * mantissa * 2^exponent. Every
operation computes exactly in integers and rounds once, so nothing depends on the host's floats.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """Widths in bits of an IEEE binary format."""

    name: str
    width: int
    mantissa_bits: int

    @functools.cached_property
    def exponent_bits(self) -> int:
        return self.width - 1 - self.mantissa_bits

    @functools.cached_property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @functools.cached_property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @functools.cached_property
    def quiet_nan(self) -> int:
        return self.infinity | 1 << (self.mantissa_bits - 1)

    @functools.cached_property
    def sign_bit(self) -> int:
        return 1 << (self.width - 1)

    @functools.cached_property
    def largest(self) -> int:
        return self.infinity - 1

    @functools.cached_property
    def smallest_exponent(self) -> int:
        """Exponent of the least significant bit of a denormal."""
        return 1 - self.bias - self.mantissa_bits


F16 = Format("f16", 16, 10)
BF16 = Format("bf16", 16, 7)
F32 = Format("f32", 32, 23)
F64 = Format("f64", 64, 52)
FORMATS = {f.name: f for f in (F16, BF16, F32, F64)}

NEAREST_EVEN = "nearest_even"
TOWARD_ZERO = "toward_zero"
FINITE, INFINITE, NAN = range(3)
Unpacked = tuple[int, int, int, int]


def unpack(bits: int, form: Format) -> Unpacked:
    """(class, sign, mantissa, exponent) of a bit pattern; a NaN carries its payload as mantissa."""
    sign = bits >> (form.width - 1) & 1
    fraction = bits & ((1 << form.mantissa_bits) - 1)
    biased = bits >> form.mantissa_bits & ((1 << form.exponent_bits) - 1)
    if biased == (1 << form.exponent_bits) - 1:
        return (NAN, sign, fraction, 0) if fraction else (INFINITE, sign, 0, 0)
    if biased == 0:
        return FINITE, sign, fraction, form.smallest_exponent
    implicit = 1 << form.mantissa_bits
    return FINITE, sign, fraction | implicit, form.smallest_exponent + biased - 1


def is_nan(bits: int, form: Format) -> bool:
    return bits & ~form.sign_bit > form.infinity


def is_signaling(bits: int, form: Format) -> bool:
    return is_nan(bits, form) and not bits >> (form.mantissa_bits - 1) & 1


def round_pack(
    sign: int,
    mantissa: int,
    exponent: int,
    form: Format,
    mode: str = NEAREST_EVEN,
    sticky: bool = False,
) -> int:
    """The bit pattern nearest to mantissa * 2^exponent (plus a nonzero rest below when sticky)."""
    top = sign << (form.width - 1)
    if mantissa == 0:
        return top
    quantum = max(mantissa.bit_length() - 1 + exponent - form.mantissa_bits, form.smallest_exponent)
    shift = quantum - exponent
    if shift <= 0:
        kept = mantissa << -shift
    else:
        kept, rest = mantissa >> shift, mantissa & ((1 << shift) - 1)
        half = 1 << (shift - 1)
        above = rest > half or (rest == half and (sticky or kept & 1))
        if mode == NEAREST_EVEN and above:
            kept += 1
    if kept >> (form.mantissa_bits + 1):
        kept >>= 1
        quantum += 1
    if kept < 1 << form.mantissa_bits:
        return top | kept
    biased = quantum - form.smallest_exponent + 1
    if biased >= (1 << form.exponent_bits) - 1:
        return top | (form.infinity if mode == NEAREST_EVEN else form.largest)
    return top | biased << form.mantissa_bits | (kept & ((1 << form.mantissa_bits) - 1))


def convert(bits: int, source: Format, target: Format, mode: str = NEAREST_EVEN) -> int:
    """Convert between formats; a NaN keeps its sign, its quiet bit and the payload that fits."""
    kind, sign, mantissa, exponent = unpack(bits, source)
    if kind == INFINITE:
        return sign << (target.width - 1) | target.infinity
    if kind == NAN:
        shift = target.mantissa_bits - source.mantissa_bits
        payload = mantissa << shift if shift >= 0 else mantissa >> -shift
        return sign << (target.width - 1) | target.infinity | (payload or 1)
    return round_pack(sign, mantissa, exponent, target, mode)


def _signed(sign: int, mantissa: int) -> int:
    return -mantissa if sign else mantissa


def fma(a: int, b: int, c: int, form: Format, mode: str = NEAREST_EVEN) -> int:
    """a * b + c with one rounding."""
    kinds = [unpack(x, form) for x in (a, b, c)]
    if any(kind[0] == NAN for kind in kinds):
        return form.quiet_nan
    (ka, sa, ma, ea), (kb, sb, mb, eb), (kc, sc, mc, ec) = kinds
    sign = sa ^ sb
    if INFINITE in (ka, kb):
        if (ka == FINITE and ma == 0) or (kb == FINITE and mb == 0):
            return form.quiet_nan
        if kc == INFINITE and sc != sign:
            return form.quiet_nan
        return sign << (form.width - 1) | form.infinity
    if kc == INFINITE:
        return c
    if ma * mb == 0 and mc == 0:
        return (sign if sign == sc else 0) << (form.width - 1)
    exponent = min(ea + eb, ec)
    total = (_signed(sign, ma * mb) << (ea + eb - exponent)) + (_signed(sc, mc) << (ec - exponent))
    if total == 0:
        return 0
    return round_pack(int(total < 0), abs(total), exponent, form, mode)


def multiply(a: int, b: int, form: Format, mode: str = NEAREST_EVEN) -> int:
    (ka, sa, ma, ea), (kb, sb, mb, eb) = unpack(a, form), unpack(b, form)
    top = (sa ^ sb) << (form.width - 1)
    if NAN in (ka, kb):
        return form.quiet_nan
    if INFINITE in (ka, kb):
        zero = (ka == FINITE and ma == 0) or (kb == FINITE and mb == 0)
        return form.quiet_nan if zero else top | form.infinity
    return round_pack(sa ^ sb, ma * mb, ea + eb, form, mode)


def add(a: int, b: int, form: Format, mode: str = NEAREST_EVEN) -> int:
    (ka, sa, ma, ea), (kb, sb, mb, eb) = unpack(a, form), unpack(b, form)
    if NAN in (ka, kb) or (ka == kb == INFINITE and sa != sb):
        return form.quiet_nan
    if ka == INFINITE:
        return a
    if kb == INFINITE:
        return b
    exponent = min(ea, eb)
    total = (_signed(sa, ma) << (ea - exponent)) + (_signed(sb, mb) << (eb - exponent))
    if total == 0:
        return (sa & sb) << (form.width - 1)
    return round_pack(int(total < 0), abs(total), exponent, form, mode)


def divide(a: int, b: int, form: Format) -> int:
    (ka, sa, ma, ea), (kb, sb, mb, eb) = unpack(a, form), unpack(b, form)
    top = (sa ^ sb) << (form.width - 1)
    if NAN in (ka, kb) or ka == kb == INFINITE or (ka == kb == FINITE and ma == mb == 0):
        return form.quiet_nan
    if ka == INFINITE or (kb == FINITE and mb == 0):
        return top | form.infinity
    if kb == INFINITE or ma == 0:
        return top
    extra = 2 * form.mantissa_bits + 4 + max(0, mb.bit_length() - ma.bit_length())
    quotient, rest = divmod(ma << extra, mb)
    return round_pack(sa ^ sb, quotient, ea - eb - extra, form, sticky=rest != 0)


def square_root(a: int, form: Format) -> int:
    kind, sign, mantissa, exponent = unpack(a, form)
    if kind == NAN or (sign and (kind == INFINITE or mantissa)):
        return form.quiet_nan
    if kind == INFINITE or mantissa == 0:
        return a
    extra = 2 * form.mantissa_bits + 8
    extra += (exponent - extra) & 1
    scaled = mantissa << extra
    root = math.isqrt(scaled)
    return round_pack(0, root, (exponent - extra) // 2, form, sticky=root * root != scaled)


def scale(a: int, power: int, form: Format, mode: str = NEAREST_EVEN) -> int:
    """a * 2^power with one rounding."""
    kind, sign, mantissa, exponent = unpack(a, form)
    if kind != FINITE:
        return a
    limit = 2 * (1 << form.exponent_bits) + form.mantissa_bits
    return round_pack(sign, mantissa, exponent + max(-limit, min(limit, power)), form, mode)


def round_integral(a: int, form: Format, how: str) -> int:
    """Round to an integer: how is "trunc", "floor", "ceil" or "even"; zero keeps the sign of a."""
    kind, sign, mantissa, exponent = unpack(a, form)
    if kind == NAN:
        return a | 1 << (form.mantissa_bits - 1)
    if kind == INFINITE or exponent >= 0:
        return a
    whole, rest = mantissa >> -exponent, mantissa & ((1 << -exponent) - 1)
    half = 1 << (-exponent - 1)
    away = {
        "trunc": False,
        "floor": bool(sign and rest),
        "ceil": bool(not sign and rest),
        "even": rest > half or (rest == half and bool(whole & 1)),
    }[how]
    return round_pack(sign, whole + away, 0, form)


def compare(a: int, b: int, form: Format) -> int | None:
    """-1, 0, 1 as a <, ==, > b; None when unordered."""
    if is_nan(a, form) or is_nan(b, form):
        return None
    left, right = (_order_key(x, form) for x in (a, b))
    return (left > right) - (left < right)


def _order_key(bits: int, form: Format) -> int:
    magnitude = bits & ~form.sign_bit
    return -magnitude if bits & form.sign_bit else magnitude


def to_integer(bits: int, form: Format, low: int, high: int) -> int:
    """Truncate toward zero and saturate to [low, high]; NaN gives 0."""
    kind, sign, mantissa, exponent = unpack(bits, form)
    if kind == NAN:
        return 0
    if kind == INFINITE:
        return low if sign else high
    whole = mantissa << exponent if exponent >= 0 else mantissa >> -exponent
    return max(low, min(high, _signed(sign, whole)))


def from_integer(value: int, form: Format, mode: str = NEAREST_EVEN) -> int:
    return round_pack(int(value < 0), abs(value), 0, form, mode)


def to_float(bits: int, form: Format) -> float:
    """The value as a Python float (exact: every format here fits binary64)."""
    kind, sign, mantissa, exponent = unpack(bits, form)
    if kind == NAN:
        return math.nan
    value = math.inf if kind == INFINITE else math.ldexp(mantissa, exponent)
    return -value if sign else value


def from_float(value: float, form: Format) -> int:
    """The pattern of `form` nearest to a Python float."""
    if math.isnan(value):
        return form.quiet_nan
    sign = int(math.copysign(1.0, value) < 0)
    if math.isinf(value):
        return sign << (form.width - 1) | form.infinity
    numerator, denominator = abs(value).as_integer_ratio()
    return round_pack(sign, numerator, 1 - denominator.bit_length(), form)


def ulp_distance(a: int, b: int, form: Format) -> float:
    """Patterns between a and b counted through zero; 0 for two NaNs, infinite for one."""
    nan_a, nan_b = is_nan(a, form), is_nan(b, form)
    if nan_a or nan_b:
        return 0.0 if nan_a and nan_b else math.inf
    return float(abs(_order_key(a, form) - _order_key(b, form)))
