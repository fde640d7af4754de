"""Registers that the emulator left and those expected to a list of readable mismatches.

Results are compared bit for bit, except that one NaN equals another (payloads of computed NaNs are
not documented) and that the instructions of `APPROXIMATE` and `DOT_PRODUCTS` have a stated bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from emulator_witness import harness as h
from emulator_witness import soft_float as sf
from emulator_witness.operand_values import packed_form, scalar_form
from emulator_witness.pseudocode_values import Value
from emulator_witness.vector_cases import VectorPlan, register_count
from emulator_witness.vector_expected import (
    Expected,
    destination_form,
    lane_machine,
    run_lane,
    source_value,
)

APPROXIMATE: Mapping[str, int] = {
    **{f"V_{name}_F32": 1 for name in ("EXP", "LOG", "RCP", "RCP_IFLAG", "SQRT")},
    **{f"V_{name}_F16": 1 for name in ("EXP", "LOG", "RCP", "SQRT")},
    # The text rounds the root before it divides.
    "V_RSQ_F32": 2,
    "V_RSQ_F16": 2,
    "V_RCP_F64": 1,
    "V_SQRT_F64": 1,
    "V_RSQ_F64": 2,
}
"""Largest distance from the text's value in units in the last place."""

# The unit of these takes subnormal operands and results for zeros (LLVM scales around them).
FLUSHING = frozenset(name for name in APPROXIMATE if name.endswith("_F32")) | {"V_DOT2_BF16_BF16"}

DOT_PRODUCTS: Mapping[str, sf.Format] = {
    "V_DOT2_F32_F16": sf.F32,
    "V_DOT2_F32_BF16": sf.F32,
    "V_DOT2ACC_F32_F16": sf.F32,
    "V_DOT2ACC_F32_BF16": sf.F32,  # dual issue alone
    "V_DOT2_F16_F16": sf.F16,
    "V_DOT2_BF16_BF16": sf.BF16,
}
"""Sums with undocumented internal roundings: bounded by two roundings of each partial sum."""

CIRCULAR = {"SIN": math.sin, "COS": math.cos}
# Beyond this many turns the result is outside the documented domain.
LARGEST_TURNS = 256.0


def _as_result(value: Value, plan: VectorPlan) -> int:
    return value.bits & ((1 << max(16, plan.destination_width)) - 1)


def _same(got: int, expected: int, form: sf.Format | None, width: int) -> bool:
    """Equal bit for bit, any NaN for any NaN in each element."""
    if got == expected:
        return True
    if form is None:
        return False
    for shift in range(0, width, form.width):
        mask = (1 << form.width) - 1
        one, other = got >> shift & mask, expected >> shift & mask
        if one != other and not (sf.is_nan(one, form) and sf.is_nan(other, form)):
            return False
    return True


def _flush(bits: int, form: sf.Format) -> int:
    return bits & form.sign_bit if 0 < bits & ~form.sign_bit < 1 << form.mantissa_bits else bits


def _flushed_sources(plan: VectorPlan, machine: Any) -> None:
    for source in plan.sources:
        form = scalar_form(source.format_name) or packed_form(source.format_name)
        if form is None:
            continue
        value = machine.variables[f"S{source.index}"]
        bits = 0
        for shift in range(0, source.width, form.width):
            bits |= _flush(value.bits >> shift & ((1 << form.width) - 1), form) << shift
        machine.variables[f"S{source.index}"] = Value(bits, value.width, value.kind)


def _within_dot_bound(plan: VectorPlan, got: int, rows: Any, flush: bool) -> bool:
    vector_row, scalar_row, lane = rows
    form = DOT_PRODUCTS[plan.name]
    machine = lane_machine(plan, vector_row, scalar_row, lane)
    if flush:
        _flushed_sources(plan, machine)
    element = packed_form(plan.sources[0].format_name)
    assert element is not None
    state = machine.variables
    pairs = [
        tuple(sf.to_float(state[name].bits >> shift & 0xFFFF, element) for name in ("S0", "S1"))
        for shift in (0, 16)
    ]
    addend = state["S2"].bits & ((1 << form.width) - 1)
    terms = [a * b for a, b in pairs] + [sf.to_float(addend, form)]
    value = sf.to_float(got, form)
    exact = math.fsum(terms) if all(map(math.isfinite, terms)) else sum(terms)
    if not math.isfinite(exact):
        return sf.is_nan(got, form) == math.isnan(exact) and (math.isnan(exact) or value == exact)
    bound = 4.0 * 2.0 ** -(form.mantissa_bits + 1) * math.fsum(map(abs, terms))
    bound += 2.0 ** (1 - form.bias)  # results below the smallest normal number may be flushed
    largest = sf.to_float(form.largest, form)
    if math.isinf(value):
        return abs(exact) + bound > largest and (value > 0) == (exact > 0)
    return abs(value - exact) <= bound


def _within_circular_bound(plan: VectorPlan, got: int, rows: Any) -> bool:
    """One unit in the last place of 1, and the rounding of the product with 2 pi."""
    vector_row, scalar_row, _ = rows
    form = destination_form(plan)
    assert form is not None
    bits = source_value(plan.sources[0], plan, vector_row, scalar_row).bits
    turns = sf.to_float(bits, form)
    if not abs(turns) <= LARGEST_TURNS:
        return True
    exact = CIRCULAR[plan.name[2:5]](2.0 * math.pi * math.fmod(turns, 1.0))
    unit = 2.0**-form.mantissa_bits
    return abs(sf.to_float(got, form) - exact) <= unit * (1.0 + 2.0 * math.pi * abs(turns))


def _near(plan: VectorPlan, got: int, expected: int, rows: Any) -> bool:
    """Whether a difference is within what the instruction's documentation leaves open."""
    form = destination_form(plan)
    if plan.destination_width == 16:
        if got >> 16 != expected >> 16:
            return False
        got, expected = got & 0xFFFF, expected & 0xFFFF
    if plan.variant == "clamp" and form is not None and {got, expected} == {0, form.sign_bit}:
        return True  # the sign of a clamped zero is not documented
    if plan.name.startswith("V_DIV_FMAS") and form is not None:
        return _is_rounded_twice(plan, got, rows)
    if plan.name[2:5] in CIRCULAR and form is not None:
        return _within_circular_bound(plan, got, rows)
    if plan.name in DOT_PRODUCTS:
        flushing = plan.name in FLUSHING
        return _within_dot_bound(plan, got, rows, False) or (
            flushing and _within_dot_bound(plan, got, rows, True)
        )
    if plan.name.startswith("V_FRACT_") and form is not None:
        one = sf.from_float(1.0, form)
        return (got, expected) == (one - 1, one)  # the result stays below 1
    if plan.name == "V_CVT_NEAREST_I32_F32":
        exact = math.floor(sf.to_float(_source_bits(plan, rows), sf.F32) + 0.5)
        return got == exact & 0xFFFFFFFF
    if "CVT" in plan.name and "NORM" in plan.name:
        return _halves_within_one(got, expected)
    if plan.name not in APPROXIMATE or form is None:
        return False
    return _within_ulps(plan, got, expected, form, rows)


def _source_bits(plan: VectorPlan, rows: Any) -> int:
    return source_value(plan.sources[0], plan, rows[0], rows[1]).bits


def _is_rounded_twice(plan: VectorPlan, got: int, rows: Any) -> bool:
    """The scale may follow the rounding of the sum, as the text writes it, or precede it."""
    form = destination_form(plan)
    assert form is not None
    a, b, c = (source_value(x, plan, rows[0], rows[1]).bits for x in plan.sources)
    step = 128 if form is sf.F64 else 64
    power = step if c & ~form.sign_bit >= sf.from_float(2.0, form) else -step
    return got == sf.scale(sf.fma(a, b, c, form), power, form)


def _halves_within_one(got: int, expected: int) -> bool:
    """Normalized integers: the multiplication with 32767 or 65535 may round before conversion."""
    return all(abs((got >> s & 0xFFFF) - (expected >> s & 0xFFFF)) <= 1 for s in (0, 16))


def _within_ulps(plan: VectorPlan, got: int, expected: int, form: sf.Format, rows: Any) -> bool:
    limit = APPROXIMATE[plan.name]
    if sf.ulp_distance(got, expected, form) <= limit:
        return True
    if plan.name not in FLUSHING:
        return False
    if got == _flush(expected, form):
        return True
    machine = lane_machine(plan, *rows)
    _flushed_sources(plan, machine)
    run_lane(plan, machine)
    again = machine.variables["D0"].bits & ((1 << form.width) - 1)
    return sf.ulp_distance(got, again, form) <= limit or got == _flush(again, form)


def _describe(plan: VectorPlan, rows: Any, got: int, expected: int, where: str) -> str:
    vector_row, scalar_row, _ = rows
    operands = ", ".join(
        f"{x.name}={source_value(x, plan, vector_row, scalar_row).bits:#x}" for x in plan.sources
    )
    return (
        f"{plan.name} ({type(plan.instruction).__name__}, {plan.variant}) {where}: {operands}"
        f"{' ' + str(plan.modifiers) if plan.modifiers else ''}"
        f" -> got {got:#x}, expected {expected:#x}"
    )


def mismatches(
    plan: VectorPlan,
    inputs: tuple[np.ndarray, np.ndarray],
    expected: Expected,
    outcome: h.Outcome,
    limit: int = 3,
) -> list[str]:
    """At most `limit` descriptions of registers that differ."""
    vectors, scalars = inputs
    found = _scalar_mismatches(plan, expected, outcome)
    count = register_count(plan.destination_width) if plan.destination == "vector" else 0
    destination = range(plan.result, plan.result + count)
    others = [r for r in range(16) if r not in destination]
    if not np.array_equal(outcome.vectors[..., others], expected.vectors[..., others]):
        where = np.argwhere(outcome.vectors[..., :16] != expected.vectors)
        found.append(f"{plan.name}: changed v{where[0][2]}, which it does not name")
    differs = (outcome.vectors[..., :16] != expected.vectors)[..., destination].any(axis=2)
    form = destination_form(plan)
    for wave, lane in np.argwhere(differs):
        rows = vectors[wave, lane], scalars[wave], int(lane)
        got, wanted = (
            sum(int(x[wave, lane, plan.result + word]) << (32 * word) for word in range(count))
            for x in (outcome.vectors, expected.vectors)
        )
        width = 32 if count == 1 else plan.destination_width
        if plan.high or plan.name == "V_FMA_MIXHI_F16":
            # Compare the written half as the low one, the kept half exactly.
            got, wanted = (x >> 16 | (x & 0xFFFF) << 16 for x in (got, wanted))
        if form is not None and form.width == 16 == plan.destination_width:
            same = got >> 16 == wanted >> 16 and _same(got & 0xFFFF, wanted & 0xFFFF, form, 16)
        else:
            same = _same(got, wanted, form, width)
        if same or (expected.written[wave, lane] and _near(plan, got, wanted, rows)):
            continue
        state = "" if expected.written[wave, lane] else " (lane is off)"
        found.append(_describe(plan, rows, got, wanted, f"wave {wave} lane {lane}{state}"))
        if len(found) >= limit:
            break
    return found


def _scalar_mismatches(plan: VectorPlan, expected: Expected, outcome: h.Outcome) -> list[str]:
    names = [*(f"s{16 + i}" for i in range(12)), "VCC", "SCC", "EXEC", "M0"]
    found = []
    for wave, index in np.argwhere(outcome.scalars != expected.scalars)[:3]:
        got, wanted = int(outcome.scalars[wave, index]), int(expected.scalars[wave, index])
        found.append(
            f"{plan.name} ({type(plan.instruction).__name__}, {plan.variant}) wave {wave}: "
            f"{names[index]} is {got:#010x}, expected {wanted:#010x}"
        )
    return found
