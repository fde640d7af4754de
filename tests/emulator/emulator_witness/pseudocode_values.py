"""Typed values of the pseudo-code: bit patterns with a width and a kind, and their arithmetic."""

from __future__ import annotations

import re
from dataclasses import dataclass

from emulator_witness import soft_float as sf
from emulator_witness.pseudocode_parser import PseudocodeError

_TYPE_NAME = re.compile(r"(bf|[uifb])(\d+)$")
_KIND_OF_CAST = {"U": "u", "I": "i", "F": "f", "B": "b"}


@dataclass(frozen=True, slots=True)
class Value:
    """`bits` (unsigned) of `width`; kind u, i, b (integers), f, bf (floats) or x (power of two).

    Kind x is an exact 2^n, whose exponent n is in `bits` (may be negative): it exists so that
    `s * 2.0F ** n` scales with one rounding.
    """

    bits: int
    width: int
    kind: str = "u"

    @property
    def is_float(self) -> bool:
        return self.kind in ("f", "bf")

    @property
    def form(self) -> sf.Format:
        if self.kind == "bf":
            return sf.BF16
        return sf.FORMATS[f"f{self.width}"]

    @property
    def number(self) -> int:
        """The integer value; signed for kind i."""
        if self.kind == "i" and self.bits >> (self.width - 1):
            return self.bits - (1 << self.width)
        return self.bits

    @property
    def truth(self) -> bool:
        return self.bits != 0


def integer(value: int, width: int = 32, kind: str = "i") -> Value:
    return Value(value & ((1 << width) - 1), width, kind)


def boolean(value: bool) -> Value:
    return Value(int(value), 1, "u")


def parse_type(name: str) -> tuple[str, int] | None:
    """(kind, width) of a suffix such as f32 or u24; None when it is not a type."""
    match = _TYPE_NAME.match(name)
    return (match.group(1), int(match.group(2))) if match else None


def parse_cast(text: str) -> tuple[str, int]:
    width, letter = text.split("'")
    return _KIND_OF_CAST[letter], int(width)


def reinterpret(value: Value, kind: str, width: int) -> Value:
    """`value.kindwidth`: the low bits under another type; a wider type extends."""
    bits = value.bits
    if width > value.width and value.kind == "i":
        bits = value.number
    return Value(bits & ((1 << width) - 1), width, kind)


def convert_to(value: Value, kind: str, width: int) -> Value:
    """The conversion that an assignment to a typed target performs."""
    if kind in ("f", "bf"):
        target = Value(0, width, kind)
        if value.is_float:
            if value.form == target.form:
                return Value(value.bits, width, kind)
            return Value(sf.convert(value.bits, value.form, target.form), width, kind)
        return Value(value.bits & ((1 << width) - 1), width, kind)
    if value.is_float:
        return Value(value.bits & ((1 << width) - 1), width, kind)
    return integer(value.number, width, kind)


def cast(value: Value, kind: str, width: int) -> Value:
    """`32'U(...)` and friends: value conversion; an integer literal to F keeps its bits."""
    if value.kind == "x":
        return value
    if kind == "f" and not value.is_float and value.width != width:
        return Value(sf.from_integer(value.number, sf.FORMATS[f"f{width}"]), width, "f")
    return convert_to(value, kind, width)


def literal(text: str) -> Value:
    """`5`, `5U`, `0xffLL`, `1.0F`, `0.5`."""
    if text.startswith("0x") or "." not in text:
        for suffix, kind, width in (("ULL", "u", 64), ("LL", "i", 64), ("U", "u", 32)):
            if text.endswith(suffix):
                return integer(int(text[: -len(suffix)], 0), width, kind)
        return integer(int(text, 0))
    if text.endswith("F"):
        return Value(sf.from_float(float(text[:-1]), sf.F32), 32, "f")
    return Value(sf.from_float(float(text), sf.F64), 64, "f")


def sized_literal(text: str) -> Value:
    """`16'0xff`, `1'1U`, `16'0.5`."""
    width_text, body = text.split("'")
    width = int(width_text)
    if "." in body:
        return Value(sf.from_float(float(body), sf.FORMATS[f"f{width}"]), width, "f")
    kind = "u" if body.endswith("U") else "i"
    return integer(int(body.rstrip("UL"), 0), width, kind)


def _common_integer(left: Value, right: Value) -> tuple[int, str]:
    """Width and kind that C's usual conversions give, with a minimum of 32 bits."""
    width = max(32, left.width, right.width)
    if left.width == right.width:
        signed = left.kind == right.kind == "i"
    else:
        signed = (left if left.width > right.width else right).kind == "i"
    return width, "i" if signed else "u"


def _float_operands(left: Value, right: Value) -> tuple[Value, Value]:
    if left.is_float and right.is_float:
        if left.form == right.form:
            return left, right
        wide = left if left.width >= right.width else right
    else:
        wide = left if left.is_float else right
    return to_float_kind(left, wide), to_float_kind(right, wide)


def to_float_kind(value: Value, like: Value) -> Value:
    if value.is_float:
        return Value(sf.convert(value.bits, value.form, like.form), like.width, like.kind)
    return Value(sf.from_integer(value.number, like.form), like.width, like.kind)


def binary(operator: str, left: Value, right: Value) -> Value:
    if operator == "**":
        return _power(left, right)
    if "x" in (left.kind, right.kind):
        return _scaled(operator, left, right)
    if operator == "&&":
        return boolean(left.truth and right.truth)
    if operator == "||":
        return boolean(left.truth or right.truth)
    if left.is_float or right.is_float:
        return _float_binary(operator, *_float_operands(left, right))
    return _integer_binary(operator, left, right)


def _power(left: Value, right: Value) -> Value:
    if not left.is_float or sf.to_float(left.bits, left.form) != 2.0 or right.is_float:
        raise PseudocodeError("only powers of 2.0 with integer exponents are known")
    return Value(right.number, 0, "x")


def _scaled(operator: str, left: Value, right: Value) -> Value:
    if operator != "*":
        raise PseudocodeError(f"operator {operator!r} on an exact power of two")
    number, power = (right, left) if left.kind == "x" else (left, right)
    if number.kind == "x":
        return Value(number.bits + power.bits, 0, "x")
    return Value(sf.scale(number.bits, power.bits, number.form), number.width, number.kind)


def _float_binary(operator: str, left: Value, right: Value) -> Value:
    form = left.form
    arithmetic = {"+": sf.add, "*": sf.multiply}
    if operator in arithmetic:
        return Value(arithmetic[operator](left.bits, right.bits, form), left.width, left.kind)
    if operator == "-":
        return Value(sf.add(left.bits, right.bits ^ form.sign_bit, form), left.width, left.kind)
    if operator == "/":
        return Value(sf.divide(left.bits, right.bits, form), left.width, left.kind)
    order = sf.compare(left.bits, right.bits, form)
    if order is None:
        return boolean(operator == "!=")
    return boolean(_ordered(operator, order))


def _ordered(operator: str, order: int) -> bool:
    return {
        "==": order == 0,
        "!=": order != 0,
        "<>": order != 0,
        "<": order < 0,
        "<=": order <= 0,
        ">": order > 0,
        ">=": order >= 0,
    }[operator]


def _integer_binary(operator: str, left: Value, right: Value) -> Value:
    if operator in ("<<", ">>"):
        width = max(32, left.width)
        count = right.number
        shifted = left.number << count if operator == "<<" else left.number >> count
        return integer(shifted, width, left.kind)
    width, kind = _common_integer(left, right)
    a, b = integer(left.number, width, kind).number, integer(right.number, width, kind).number
    if operator in ("&", "|", "^"):
        bits = {"&": a & b, "|": a | b, "^": a ^ b}[operator]
        narrow = max(left.width, right.width)
        return integer(bits, narrow if narrow < 32 else width, kind)
    if operator in ("+", "-", "*"):
        return integer({"+": a + b, "-": a - b, "*": a * b}[operator], width, kind)
    if operator == "/":
        return integer(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), width, kind)
    if operator == "%":
        return integer(abs(a) % abs(b) * (-1 if a < 0 else 1), width, kind)
    return boolean(_ordered(operator, (a > b) - (a < b)))


def unary(operator: str, value: Value) -> Value:
    if operator == "!":
        return boolean(not value.truth)
    if operator == "+":
        return value
    if operator == "~":
        return integer(~value.bits, value.width, value.kind)
    if value.is_float:
        return Value(value.bits ^ value.form.sign_bit, value.width, value.kind)
    return integer(-value.number, max(32, value.width), value.kind)


def slice_bits(value: Value, high: int, low: int) -> Value:
    """`x[high : low]`; a slice written low first is the bits in reverse order."""
    if high < low:
        width = low - high + 1
        forward = value.bits >> high & ((1 << width) - 1)
        return Value(int(f"{forward:0{width}b}"[::-1], 2), width, "u")
    width = high - low + 1
    return Value(value.bits >> low & ((1 << width) - 1), width, "u")


def concatenate(parts: list[Value]) -> Value:
    bits, width = 0, 0
    for part in parts:
        bits = bits << part.width | part.bits
        width += part.width
    return Value(bits, width, "u")
