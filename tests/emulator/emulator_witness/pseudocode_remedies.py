"""Instructions whose published text is incomplete to what it leaves out, each with the reason.

A remedy takes the machine before the text runs. It returns True when it did the whole work, and
False when it only completed the state.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from emulator_witness import soft_float as sf
from emulator_witness.pseudocode import Machine
from emulator_witness.pseudocode_values import Value

Remedy = Callable[[Machine], bool]


def _store(machine: Machine, bits: int, width: int) -> None:
    """Write the low `width` bits of D0 and keep the others."""
    old = machine.variables["D0"]
    mask = (1 << width) - 1
    kept = old.bits & ~mask if old.width > width else 0
    machine.variables["D0"] = Value(kept | bits & mask, max(old.width, width), "b")


def _round_to_even(form: sf.Format) -> Remedy:
    """The text adds 0.5 first, which rounds for large and for almost-half operands."""

    def remedy(machine: Machine) -> bool:
        bits = machine.variables["S0"].bits & ((1 << form.width) - 1)
        _store(machine, sf.round_integral(bits, form, "even"), form.width)
        return True

    return remedy


def _destination_is_source(machine: Machine) -> bool:
    """Where no case of the text applies, S0 passes unscaled: division sequences rely on it."""
    state = machine.variables
    state["D0"] = Value(state["S0"].bits, state["D0"].width, "b")
    return False


def _div_scale_f32(machine: Machine) -> bool:
    """1 / S1 is never subnormal in binary64, where the text tests it: the case would be dead.

    The format of the operands is meant, as the text of V_DIV_SCALE_F64 has it.
    """
    _destination_is_source(machine)
    state = machine.variables
    s0, s1, s2 = (state[name].bits for name in ("S0", "S1", "S2"))
    form = sf.F32
    zero = any(bits & ~form.sign_bit == 0 for bits in (s1, s2))
    exponent1, exponent2 = (bits >> 23 & 0xFF for bits in (s1, s2))
    one = sf.from_float(1.0, form)
    if zero or exponent2 - exponent1 >= 96 or _subnormal(s1, form):
        return False
    if not _subnormal(sf.divide(one, s1, form), form):
        return False
    quotient = _subnormal(sf.divide(s2, s1, form), form)
    power = 64 if quotient else -64
    state["VCC"] = Value(int(quotient), 64, "u")
    if not quotient or sf.compare(s0, s1, form) == 0:
        state["D0"] = Value(sf.scale(s0, power, form), 32, "b")
    return True


def _subnormal(bits: int, form: sf.Format) -> bool:
    return 0 < bits & ~form.sign_bit < 1 << form.mantissa_bits


def _div_fmas(form: sf.Format, step: int) -> Remedy:
    """V_DIV_SCALE scales by 2^step, so that a flagged quotient is off by as much, either way.

    After a scaled denominator it is too small and far above 1 (the true one is near overflow);
    after a scaled numerator too large and far below 1. The text's 2^(step / 2) undoes neither.
    """

    def remedy(machine: Machine) -> bool:
        state = machine.variables
        if not state["VCC"].bits >> state["laneId"].bits & 1:
            return False
        a, b, c = (state[name].bits for name in ("S0", "S1", "S2"))
        two = sf.from_float(2.0, form)
        power = step if c & ~form.sign_bit >= two else -step
        _store(machine, scaled_fma(a, b, c, power, form), form.width)
        return True

    return remedy


def scaled_fma(a: int, b: int, c: int, power: int, form: sf.Format) -> int:
    """(a * b + c) * 2^power with one rounding where everything is finite."""
    kinds = [sf.unpack(x, form) for x in (a, b, c)]
    (_, sa, ma, ea), (_, sb, mb, eb), (_, sc, mc, ec) = kinds
    exponent = min(ea + eb, ec)
    product = ma * mb * (-1) ** (sa ^ sb) << (ea + eb - exponent)
    total = product + (mc * (-1) ** sc << (ec - exponent))
    if any(kind[0] != sf.FINITE for kind in kinds) or total == 0:
        return sf.fma(a, b, c, form)
    return sf.round_pack(int(total < 0), abs(total), exponent + power, form)


def _div_fixup(form: sf.Format) -> Remedy:
    """The overflow case tests exponent(S1), which earlier cases exclude: the quotient S0 is meant.

    Extreme quotients reach the instruction as infinity minus infinity, and must give infinity.
    """

    def remedy(machine: Machine) -> bool:
        quotient, denominator, numerator = (
            machine.variables[name].bits for name in ("S0", "S1", "S2")
        )
        finite = all(sf.unpack(x, form)[0] == sf.FINITE for x in (denominator, numerator))
        zero = any(x & ~form.sign_bit == 0 for x in (denominator, numerator))
        if not sf.is_nan(quotient, form) or not finite or zero:
            return False
        machine.variables["S0"] = Value(form.infinity, form.width, "b")
        return False

    return remedy


def _frexp_exponent(form: sf.Format, width: int) -> Remedy:
    """`exponent` means the true exponent of a subnormal, and 0 of a zero, as C's frexp has it.

    The compiler relies on it: it selects this instruction for frexp with no further code.
    """

    def remedy(machine: Machine) -> bool:
        bits = machine.variables["S0"].bits & ((1 << form.width) - 1)
        kind, _, mantissa, exponent = sf.unpack(bits, form)
        if kind != sf.FINITE or (mantissa and not _subnormal(bits, form)):
            return False
        _store(machine, mantissa.bit_length() + exponent if mantissa else 0, width)
        return True

    return remedy


@functools.cache
def two_over_pi(bits: int = 1201) -> int:
    """floor(2 / pi * 2^bits), with pi from Machin's formula in integers."""
    guard = bits + 64
    one = 1 << guard

    def arctangent_of_inverse(x: int) -> int:
        total, term, n, sign = 0, one // x, 1, 1
        while term:
            total += sign * (term // n)
            term //= x * x
            n, sign = n + 2, -sign
        return total

    pi = 4 * (4 * arctangent_of_inverse(5) - arctangent_of_inverse(239))
    return (2 * one * one // pi) >> 64


def _trig_preop(machine: Machine) -> bool:
    """The text's 1201-bit constant 2 / pi is not a binary64 number."""
    state = machine.variables
    exponent = state["S0"].bits >> 52 & 0x7FF
    shift = (state["S1"].bits & 31) * 53 + max(0, exponent - 1077)
    whole = (two_over_pi() << shift) >> 1148 & ((1 << 53) - 1)
    scale = -53 - shift + (128 if exponent >= 1968 else 0)
    _store(machine, sf.scale(sf.from_integer(whole, sf.F64), scale, sf.F64), 64)
    return True


REMEDIES: Mapping[str, Remedy] = {
    "V_RNDNE_F16": _round_to_even(sf.F16),
    "V_RNDNE_F32": _round_to_even(sf.F32),
    "V_RNDNE_F64": _round_to_even(sf.F64),
    "S_RNDNE_F16": _round_to_even(sf.F16),
    "S_RNDNE_F32": _round_to_even(sf.F32),
    "V_DIV_SCALE_F32": _div_scale_f32,
    "V_DIV_SCALE_F64": _destination_is_source,
    "V_DIV_FMAS_F32": _div_fmas(sf.F32, 64),
    "V_DIV_FMAS_F64": _div_fmas(sf.F64, 128),
    "V_DIV_FIXUP_F32": _div_fixup(sf.F32),
    "V_DIV_FIXUP_F64": _div_fixup(sf.F64),
    "V_FREXP_EXP_I16_F16": _frexp_exponent(sf.F16, 16),
    "V_FREXP_EXP_I32_F32": _frexp_exponent(sf.F32, 32),
    "V_FREXP_EXP_I32_F64": _frexp_exponent(sf.F64, 32),
    "V_TRIG_PREOP_F64": _trig_preop,
}
