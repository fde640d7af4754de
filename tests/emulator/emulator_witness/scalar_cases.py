"""Scalar instructions of the tables to test cases, and their pseudo-code to expected registers.

S0 sits in s16 (and s17), S1 in s20 (and s21), the destination in s24 (and s25).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tinygrad.runtime.autogen.amd.rdna3.operands import OPERANDS
from tinygrad.runtime.autogen.amd.rdna3.str_pcode import PCODE

from emulator_witness import harness as h
from emulator_witness import soft_float as sf
from emulator_witness.assembler import isa, s
from emulator_witness.operand_values import random_operand, scalar_form
from emulator_witness.pseudocode import Machine
from emulator_witness.pseudocode_remedies import REMEDIES
from emulator_witness.pseudocode_values import Value

FIRST = 16
SOURCES = {"ssrc0": 16, "ssrc1": 20}
DESTINATION = 24
LITERAL = 0xC0490FDB

_JUMPS = "changes the program counter: tested in test_control_flow.py"
_MODE = "reads or writes hardware registers: tested in test_control_flow.py"
_RELATIVE = "names registers relative to M0: tested in test_control_flow.py"
_EVENTS = "orders memory or sends messages and leaves no result: tested in test_control_flow.py"
TESTED_APART: Mapping[str, str] = {
    "S_GETPC_B64": _JUMPS,
    "S_SETPC_B64": _JUMPS,
    "S_SWAPPC_B64": _JUMPS,
    "S_CALL_B64": _JUMPS,
    "S_RFE_B64": "returns from a trap handler, which a kernel is not",
    "S_SENDMSG_RTN_B32": _EVENTS,
    "S_SENDMSG_RTN_B64": _EVENTS,
    "S_MOVRELS_B32": _RELATIVE,
    "S_MOVRELS_B64": _RELATIVE,
    "S_MOVRELD_B32": _RELATIVE,
    "S_MOVRELD_B64": _RELATIVE,
    "S_MOVRELSD_2_B32": _RELATIVE,
    "S_GETREG_B32": _MODE,
    "S_SETREG_B32": _MODE,
    "S_SETREG_IMM32_B32": _MODE,
    "S_WAITCNT_VSCNT": _EVENTS,
    "S_WAITCNT_VMCNT": _EVENTS,
    "S_WAITCNT_EXPCNT": _EVENTS,
    "S_WAITCNT_LGKMCNT": _EVENTS,
    "S_SUBVECTOR_LOOP_BEGIN": "a loop of wave64, which wave32 does not have",
    "S_SUBVECTOR_LOOP_END": "a loop of wave64, which wave32 does not have",
}
"""Scalar instructions whose text the evaluator of registers alone cannot express."""

_ENCODINGS: Mapping[str, Any] = {
    "SOP1": isa.SOP1,
    "SOP2": isa.SOP2,
    "SOPC": isa.SOPC,
    "SOPK": isa.SOPK,
}


@dataclass
class ScalarPlan:
    """An encoded scalar instruction: (name, register, width, format) of each source."""

    name: str
    text: str
    instruction: Any
    sources: list[tuple[str, int, int, str]]
    destination_width: int  # 0: writes SCC alone
    destination_format: str
    immediate: int = 0
    literal: int = 0
    constants: dict[str, int] | None = None
    result: int = DESTINATION


def every_operation(family: str) -> list[Any]:
    """All operations of SOP1, SOP2, SOPC or SOPK, by opcode."""
    allowed = dict(_ENCODINGS[family]._fields)["op"].allowed
    literal = dict(getattr(isa, f"{family}_LIT")._fields)["op"].allowed
    return sorted(allowed | literal, key=lambda operation: operation.value)


def operations(family: str) -> list[Any]:
    """Those of `every_operation` that are tested by their text."""
    return [x for x in every_operation(family) if x.name not in TESTED_APART]


def _register(index: int, width: int) -> Any:
    return s[index] if width <= 32 else s[index : index + width // 32 - 1]


def plan_scalar(
    operation: Any,
    family: str,
    rng: random.Random,
    constant: bool,
    places: Mapping[str, int] | None = None,
) -> ScalarPlan:
    """Encode `operation`; with `constant`, S0 is an inline constant where the format has S0.

    `places` puts the operands S0, S1 and D0 into other registers.
    """
    places = places or {"S0": SOURCES["ssrc0"], "S1": SOURCES["ssrc1"], "D0": DESTINATION}
    target = places["D0"]
    operands = OPERANDS[operation]
    values: dict[str, Any] = {}
    sources = []
    constants = {}
    for field in SOURCES:
        if field not in operands:
            continue
        register = places[f"S{field[-1]}"]
        form, width = operands[field][0].name, operands[field][1]
        sources.append((f"S{field[-1]}", register, width, form))
        values[field] = _register(register, width)
        if constant and field == "ssrc0":
            number = rng.choice([0, 1, 64, -1, -16, 31, 33])
            values[field] = number
            constants["S0"] = number & ((1 << max(32, width)) - 1)
    width, form = 0, ""
    if "sdst" in operands:
        form, width = operands["sdst"][0].name, operands["sdst"][1]
        values["sdst"] = _register(target, width)
    plan = ScalarPlan(
        operation.name,
        PCODE[operation],
        None,
        sources,
        width,
        form,
        constants=constants,
        result=target,
    )
    if "simm16" in operands:
        plan.immediate = random_operand(rng, "FMT_NUM_I16", 16)
        values["simm16"] = plan.immediate
        if "CMPK" in operation.name:  # the register that is compared stands in the SDST field
            sources.append(("S0", target, width, form))
            plan.destination_width = 0
    encoding = _ENCODINGS[family]
    if operation.name in ("S_FMAAK_F32", "S_FMAMK_F32"):
        encoding = isa.SOP2_LIT
        plan.literal = values["literal"] = LITERAL
    plan.instruction = encoding(operation, **values)
    return plan


def random_inputs(plan: ScalarPlan, waves: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors [waves, 32, 16] of zeros and scalars [waves, 16] in the formats of the operands."""
    rng = random.Random(seed)
    scalars = np.zeros((waves, h.SCALARS), np.uint32)
    for wave in range(waves):
        row = [rng.getrandbits(32) for _ in range(h.SCALARS)]
        destination = ("D0", plan.result, plan.destination_width, plan.destination_format)
        for _, register, width, form in [*plan.sources, destination]:
            if width == 0:
                continue
            bits = random_operand(rng, form, width)
            if width == 16:
                bits |= random_operand(rng, form, 16) << 16
            for word in range(max(1, width // 32)):
                row[register - FIRST + word] = bits >> (32 * word) & 0xFFFFFFFF
        row[h.SCC] = rng.randint(0, 1)
        row[h.M0] = 0
        scalars[wave] = row
    return np.zeros((waves, h.LANES, 16), np.uint32), scalars


def _gather(row: np.ndarray, register: int, width: int) -> int:
    return sum(int(row[register - FIRST + w]) << (32 * w) for w in range(max(1, width // 32)))


def evaluate(plan: ScalarPlan, scalars: np.ndarray) -> np.ndarray:
    """Scalars [waves, 16] after the pseudo-code."""
    out = scalars.copy()
    for wave, row in enumerate(scalars):
        machine = Machine()
        state = machine.variables
        for name, register, width, _ in plan.sources:
            bits = (plan.constants or {}).get(name, _gather(row, register, width))
            state[name] = Value(bits, max(32, width), "b")
        width = max(32, plan.destination_width)
        if plan.destination_width:
            state["D0"] = Value(_gather(row, plan.result, plan.destination_width), width, "b")
        state["SCC"] = Value(int(row[h.SCC]), 1, "u")
        state["EXEC"] = Value(int(row[h.EXEC]), 64, "u")
        state["VCC"] = Value(int(row[h.VCC]), 64, "u")
        state["SIMM16"] = Value(plan.immediate, 16, "b")
        state["SIMM32"] = Value(plan.literal, 32, "b")
        remedy = REMEDIES.get(plan.name)
        if remedy is None or not remedy(machine):
            machine.run(plan.text)
        for word in range(plan.destination_width // 32 or plan.destination_width // 16):
            out[wave, plan.result - FIRST + word] = state["D0"].bits >> (32 * word) & 0xFFFFFFFF
        out[wave, h.SCC] = state["SCC"].bits & 1
        out[wave, h.EXEC] = state["EXEC"].bits & 0xFFFFFFFF
    return out


def _equal(one: int, other: int, form: sf.Format) -> bool:
    """Equal words, where a NaN of the format equals another in each half or in the whole."""
    for shift in range(0, 32, form.width):
        a, b = (x >> shift & ((1 << form.width) - 1) for x in (one, other))
        if a != b and not (sf.is_nan(a, form) and sf.is_nan(b, form)):
            return False
    return True


def _destination_form(plan: ScalarPlan) -> sf.Format | None:
    return scalar_form(plan.destination_format)


def mismatches(plan: ScalarPlan, scalars: np.ndarray, expected: np.ndarray, got: np.ndarray):
    """Descriptions of the first differing waves; a NaN equals another NaN."""
    names = [*(f"s{FIRST + i}" for i in range(12)), "VCC", "SCC", "EXEC", "M0"]
    form = _destination_form(plan)
    found = []
    for wave, index in np.argwhere(expected != got):
        one, other = int(got[wave, index]), int(expected[wave, index])
        if form is not None and index == plan.result - FIRST and _equal(one, other, form):
            continue
        operands = [
            f"{n}={(plan.constants or {}).get(n, _gather(scalars[wave], r, w)):#x}"
            for n, r, w, _ in plan.sources
        ]
        found.append(
            f"{plan.name} {', '.join(operands)} simm16={plan.immediate:#x} "
            f"SCC={scalars[wave, h.SCC]}: {names[index]} is {one:#x}, expected {other:#x}"
        )
    return found[:3]
