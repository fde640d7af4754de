"""A vector plan and its operands to the registers that AMD's pseudo-code leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from emulator_witness import harness as h
from emulator_witness import soft_float as sf
from emulator_witness.operand_values import packed_form, scalar_form
from emulator_witness.pseudocode import Machine
from emulator_witness.pseudocode_remedies import REMEDIES
from emulator_witness.pseudocode_values import Value, boolean, integer
from emulator_witness.vector_cases import (
    HALVES,
    SCALAR_DESTINATION,
    SCALAR_SOURCE,
    Source,
    VectorPlan,
    register_count,
)


@dataclass
class Expected:
    """Registers that the pseudo-code leaves, and the lanes that it wrote."""

    vectors: np.ndarray
    scalars: np.ndarray
    written: np.ndarray


def _gather(row: Any, register: int, width: int) -> int:
    count = register_count(width)
    return sum(int(row[register + word]) << (32 * word) for word in range(count))


def _inline_constant(source: Source) -> int:
    """Integers are sign-extended to the operand's width; floats take the operand's format."""
    if isinstance(source.constant, int):
        return source.constant & ((1 << source.width) - 1)
    form = scalar_form(source.format_name)
    assert form is not None
    return sf.from_float(source.constant, form)


def _select_halves(bits: int, index: int, plan: VectorPlan, is_float: bool) -> int:
    """OPSEL, OPSEL_HI, NEG and NEG_HI of VOP3P applied to a packed 32-bit operand."""

    def bit(name: str, default: int = 0) -> int:
        return plan.modifiers.get(name, default) >> index & 1

    low = bits >> 16 if bit("opsel") else bits & 0xFFFF
    high = bits >> 16 if bit("opsel_hi", 7) else bits & 0xFFFF
    if is_float:
        low ^= bit("neg") << 15
        high ^= bit("neg_hi") << 15
    return high << 16 | low


def _mixed_modifiers(bits: int, index: int, plan: VectorPlan) -> int:
    """FMA_MIX: NEG negates and NEG_HI takes the absolute value of the operand that is chosen."""
    modifiers = plan.modifiers
    half = modifiers.get("opsel_hi", 7) >> index & 1
    signs = 0x80008000 if half else 0x80000000
    if modifiers.get("neg_hi", 0) >> index & 1:
        bits &= ~signs
    if modifiers.get("neg", 0) >> index & 1:
        bits ^= signs
    return bits


def source_value(source: Source, plan: VectorPlan, vector_row: Any, scalar_row: Any) -> Value:
    """The operand's bits after its modifiers."""
    if source.kind == "literal":
        assert isinstance(source.constant, int)
        bits = source.constant
    elif source.kind == "constant":
        bits = _inline_constant(source)
    elif source.kind == "vector":
        bits = _gather(vector_row, source.register, source.width)
    else:
        bits = _gather(scalar_row, source.register - SCALAR_SOURCE, source.width)
    if source.width == 16 and source.kind not in ("constant", "literal"):
        bits = bits >> 16 if source.high else bits & 0xFFFF
    if "_FMA_MIX" in plan.name:
        bits = _mixed_modifiers(bits, source.index, plan)
    elif plan.packed and source.format_name in HALVES:
        is_float = packed_form(source.format_name) is not None
        bits = _select_halves(bits, source.index, plan, is_float)
    elif plan.packed and plan.name.startswith("V_DOT2_F32") and source.index == 2:
        if plan.modifiers.get("neg_hi", 0) & 4:
            bits &= ~sf.F32.sign_bit
        bits ^= (plan.modifiers.get("neg", 0) >> 2 & 1) << 31
    form = scalar_form(source.format_name) or packed_form(source.format_name)
    if form is not None and source.absolute:
        bits &= ~form.sign_bit
    if form is not None and source.negate:
        bits ^= form.sign_bit
    return Value(bits, source.width, "b")


def lane_machine(plan: VectorPlan, vector_row: Any, scalar_row: Any, lane: int) -> Machine:
    """A machine with the operands of one lane."""
    machine = Machine()
    state = machine.variables
    for source in plan.sources:
        value = source_value(source, plan, vector_row, scalar_row)
        if source.kind == "mask":
            state["VCC"] = Value(value.bits, 64, "u")
        else:
            state["S" + source.name[-1]] = value
    state.setdefault("VCC", Value(int(scalar_row[h.VCC]), 64, "u"))
    state["EXEC"] = Value(int(scalar_row[h.EXEC]), 64, "u")
    state["SCC"] = Value(int(scalar_row[h.SCC]), 1, "u")
    state["laneId"] = integer(lane)
    state["M0"] = Value(int(scalar_row[h.M0]), 32, "u")
    state["SIMM32"] = Value(plan.literal, 32, "b")
    for name in ("NEG", "OPSEL", "OPSEL_HI"):
        default = 7 if name == "OPSEL_HI" else 0
        state[name] = Value(plan.modifiers.get(name.lower(), default), 3)
    old = _gather(vector_row, plan.result, plan.destination_width)
    if plan.high:
        old >>= 16
    state["D0"] = Value(old, max(32, plan.destination_width), "b")
    if plan.destination in ("mask", "exec", "vcc"):
        state["D0"] = Value(0, 64, "u")
    state["D1"] = boolean(False)
    state.setdefault("S2", state["D0"])
    state["S"] = [state["S0"], state.get("S1", state["S0"]), state["S2"]]
    state["given"] = ("S",)
    return machine


def run_lane(plan: VectorPlan, machine: Machine) -> None:
    """The text, or what stands in for it where it is known to be incomplete."""
    remedy = REMEDIES.get(plan.name)
    if remedy is None or not remedy(machine):
        machine.run(plan.text)
    if plan.variant == "clamp":
        _clamp(plan, machine)


def _clamp(plan: VectorPlan, machine: Machine) -> None:
    """Clamp to [0, 1]; a NaN becomes 0 as the DX10 clamp bit of the descriptor asks for."""
    form = scalar_form(plan.destination_format)
    assert form is not None
    value = machine.variables["D0"]
    mask = (1 << form.width) - 1
    bits = value.bits & mask
    one = sf.from_float(1.0, form)
    if sf.is_nan(bits, form) or bits & form.sign_bit:
        bits = 0
    elif bits > one:
        bits = one
    machine.variables["D0"] = Value((value.bits & ~mask) | bits, value.width, value.kind)


def evaluate(plan: VectorPlan, vectors: np.ndarray, scalars: np.ndarray) -> Expected:
    """Run the pseudo-code for every active lane of every wave."""
    out_vectors, out_scalars = vectors.copy(), scalars.copy()
    written = np.zeros(vectors.shape[:2], bool)
    for wave in range(vectors.shape[0]):
        mask = 0
        execute = int(scalars[wave, h.EXEC])
        for lane in range(h.LANES):
            if not execute >> lane & 1:
                continue
            machine = lane_machine(plan, vectors[wave, lane], scalars[wave], lane)
            run_lane(plan, machine)
            written[wave, lane] = True
            mask |= _lane_bit(plan, machine, lane) << lane
            if plan.destination == "vector":
                _write_vector(plan, machine, out_vectors[wave, lane])
        _write_masks(plan, mask, out_scalars[wave])
    return Expected(out_vectors, out_scalars, written)


def _lane_bit(plan: VectorPlan, machine: Machine, lane: int) -> int:
    state = machine.variables
    if plan.name.startswith("V_DIV_SCALE"):
        return state["VCC"].bits & 1
    if plan.name.startswith("V_MAD_") and plan.carry_out:
        return state["D1"].bits & 1
    name = {"mask": "D0", "vcc": "D0", "exec": "EXEC"}.get(plan.destination, "VCC")
    return state[name].bits >> lane & 1


def _write_vector(plan: VectorPlan, machine: Machine, row: np.ndarray) -> None:
    bits = machine.variables["D0"].bits
    if plan.destination_width == 16 and plan.high:
        row[plan.result] = (int(row[plan.result]) & 0xFFFF) | (bits & 0xFFFF) << 16
        return
    for word in range(register_count(plan.destination_width)):
        row[plan.result + word] = bits >> (32 * word) & 0xFFFFFFFF


def _write_masks(plan: VectorPlan, mask: int, row: np.ndarray) -> None:
    """A lane mask is written whole: lanes that are off get 0."""
    if plan.destination == "exec":
        row[h.EXEC] = mask
    elif plan.destination == "vcc" or plan.carry_out == "vcc":
        row[h.VCC] = mask
    elif plan.destination == "mask" or plan.carry_out == "scalar":
        row[SCALAR_DESTINATION - SCALAR_SOURCE] = mask


def destination_form(plan: VectorPlan) -> sf.Format | None:
    """The float format of a vector result, of its halves for a packed one; None for integers."""
    if plan.destination != "vector":
        return None
    return scalar_form(plan.destination_format) or packed_form(plan.destination_format)
