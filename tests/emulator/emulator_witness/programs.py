"""Seeds to random straight-line programs of vector, scalar and LDS instructions, and their results.

The program is written while the pseudo-code runs it, so that each step can look at the registers.
A value is unsure where documentation leaves its bits open: the payload of a computed NaN. What is
computed from an unsure value is unsure; a step that would spread one to a scalar is not taken.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from emulator_witness import families, memory_cases, memory_expected, scalar_cases
from emulator_witness import harness as h
from emulator_witness import soft_float as sf
from emulator_witness.assembler import isa, s, v
from emulator_witness.operand_values import random_float, random_integer
from emulator_witness.vector_cases import VectorPlan, plan_vector, register_count
from emulator_witness.vector_comparison import APPROXIMATE, DOT_PRODUCTS
from emulator_witness.vector_expected import destination_form, evaluate

VECTORS, MEMORY = 16, 16
VARIANTS = ("plain", "plain", "high", "scalar", "last_scalar", "constant", "literal", "modifiers")
VECTOR_FAMILIES = ("VOP1", "VOP2", "VOP2", "VOPC", "VOP3", "VOP3", "VOP3SD", "VOP3P")
SCALAR_FAMILIES = ("SOP1", "SOP2", "SOP2", "SOPC", "SOPK")
# Open in the last place (or more), or not allowed to write over their own operands.
_LEFT_OUT = ("SIN", "COS", "FRACT", "NEAREST", "NORM", "DIV_", "SAD", "TRIG", "DOT2")
_LDS_OPERATIONS = (
    "LOAD_B32 LOAD_B64 LOAD_B96 LOAD_B128 LOAD_U8 LOAD_I8 LOAD_U16 LOAD_I16 LOAD_U16_D16_HI "
    "LOAD_2ADDR_B32 LOAD_2ADDR_B64 STORE_B8 STORE_B16 STORE_B32 STORE_B64 STORE_B96 STORE_B128 "
    "STORE_2ADDR_B32 STORE_2ADDR_B64 STORE_B16_D16_HI ADD_U32 ADD_RTN_U32 SUB_RTN_U32 MAX_RTN_I32 "
    "MIN_RTN_U64 XOR_RTN_B32 OR_B64 INC_RTN_U32 CMPSTORE_RTN_B32 STOREXCHG_RTN_B64 MSKOR_RTN_B32"
).split()


@dataclass
class State:
    """Registers [waves, 32, 32] (16 and up are LDS), scalars [waves, 16], and unsure registers."""

    vectors: np.ndarray
    scalars: np.ndarray
    unsure: np.ndarray

    def copy(self) -> State:
        return copy.deepcopy(self)


@dataclass
class Program:
    """Steps of a program with the state that the pseudo-code leaves after each."""

    seed: int
    start: State
    steps: list[list[Any]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    def case(self, length: int | None = None) -> h.Case:
        """The first `length` steps as a case; all of them by default."""
        steps = self.steps[:length]
        code = [instruction for step in steps for instruction in step]
        return h.Case(
            f"program {self.seed}", code, self.start.vectors, self.start.scalars, lds=True
        )

    def mismatch(self, outcome: h.Outcome, length: int | None = None) -> str:
        """The first differing register after `length` steps, or an empty text."""
        expected = self.states[(length or len(self.states)) - 1]
        differs = (outcome.vectors != expected.vectors) & ~expected.unsure
        for wave, lane, register in np.argwhere(differs)[:1]:
            place = f"v{register}" if register < MEMORY else f"LDS word {register - MEMORY}"
            return (
                f"wave {wave} lane {lane}: {place} is {outcome.vectors[wave, lane, register]:#x}, "
                f"expected {expected.vectors[wave, lane, register]:#x}"
            )
        for wave, index in np.argwhere(outcome.scalars != expected.scalars)[:1]:
            return (
                f"wave {wave}: scalar slot {index} is {outcome.scalars[wave, index]:#x}, "
                f"expected {expected.scalars[wave, index]:#x}"
            )
        return ""


def _start(rng: random.Random, waves: int) -> State:
    """Registers of all kinds: integers with edges, float32, float16 pairs, halves of float64."""
    vectors = np.zeros((waves, h.LANES, VECTORS + MEMORY), np.uint32)
    for wave in range(waves):
        for lane in range(h.LANES):
            for register in range(VECTORS + MEMORY):
                kind = register % 4
                if kind == 0:
                    bits = random_float(rng, sf.F32)
                elif kind == 1:
                    bits = random_float(rng, sf.F16) | random_float(rng, sf.F16) << 16
                else:
                    bits = random_integer(rng, 32)
                vectors[wave, lane, register] = bits
    scalars = np.zeros((waves, h.SCALARS), np.uint32)
    for wave in range(waves):
        scalars[wave] = [random_integer(rng, 32) for _ in range(h.SCALARS)]
    scalars[:, h.EXEC] = 0xFFFFFFFF
    scalars[:, h.SCC] &= 1
    scalars[:, h.M0] = 0
    return State(vectors, scalars, np.zeros(vectors.shape, bool))


def write_program(seed: int, length: int, waves: int) -> Program:
    """A program of `length` steps over `waves` waves."""
    rng = random.Random(seed)
    start = _start(rng, waves)
    program = Program(seed, start)
    state = start.copy()
    while len(program.steps) < length:
        kind = rng.choices(("vector", "scalar", "lds", "exec"), (60, 22, 14, 4))[0]
        step = _STEPS[kind](rng, state.copy())
        if step is None:
            continue
        name, code, state = step
        program.names.append(name)
        program.steps.append(code)
        program.states.append(state.copy())
    return program


def _vector_step(rng: random.Random, state: State) -> Any:
    family = rng.choice(VECTOR_FAMILIES)
    operation = rng.choice(families.operations(family))
    name = families.base_name(operation)
    if name in APPROXIMATE or name in DOT_PRODUCTS or any(part in name for part in _LEFT_OUT):
        return None
    if "CMPX" in name and rng.random() < 0.8:
        return None
    places = {role: rng.randrange(VECTORS - 3) for role in ("S0", "S1", "S2", "D0")}
    encoding = families.encoding_of(operation, family)
    text = families.text_of(operation)
    plan = plan_vector(operation, encoding, text, rng, rng.choice(VARIANTS), places)
    if plan is None:
        return None
    unsure = _reads_unsure(plan, state)
    if unsure.any() and (plan.destination != "vector" or plan.carry_out):
        return None
    expected = evaluate(plan, state.vectors, state.scalars)
    after = State(expected.vectors, expected.scalars, state.unsure.copy())
    if plan.destination == "vector":
        _mark_unsure(plan, after, expected.written, unsure)
    return f"{name} ({plan.variant})", [plan.instruction], after


def _reads_unsure(plan: VectorPlan, state: State) -> np.ndarray:
    """Lanes [waves, 32] that read an unsure register, the old destination included."""
    unsure = np.zeros(state.unsure.shape[:2], bool)
    spans = [(x.register, x.width) for x in plan.sources if x.kind == "vector"]
    if plan.destination == "vector":
        spans.append((plan.result, plan.destination_width))
    for register, width in spans:
        unsure |= state.unsure[:, :, register : register + register_count(width)].any(axis=2)
    return unsure


def _mark_unsure(plan: VectorPlan, state: State, written: np.ndarray, unsure: np.ndarray) -> None:
    form = destination_form(plan)
    count = register_count(plan.destination_width)
    span = slice(plan.result, plan.result + count)
    for wave, lane in np.argwhere(written):
        words = state.vectors[wave, lane, span]
        bits = sum(int(word) << (32 * index) for index, word in enumerate(words))
        width = max(32, plan.destination_width)
        nan = form is not None and any(
            sf.is_nan(bits >> shift & ((1 << form.width) - 1), form)
            for shift in range(0, width, form.width)
        )
        state.unsure[wave, lane, span] = nan or unsure[wave, lane]


def _scalar_step(rng: random.Random, state: State) -> Any:
    family = rng.choice(SCALAR_FAMILIES)
    operation = rng.choice(scalar_cases.operations(family))
    name = operation.name
    # Two halves of EXEC exist in wave64 alone; NaN payloads of a scalar cannot be marked.
    if "EXEC_B64" in name or "_F32" in name or "_F16" in name or "F16_F" in name:
        return None
    if "EXEC" in name and rng.random() < 0.7:
        return None
    places = {role: rng.randrange(16, 28, 2) for role in ("S0", "S1", "D0")}
    constant = family != "SOPK" and rng.random() < 0.3
    plan = scalar_cases.plan_scalar(operation, family, rng, constant, places)
    after = State(state.vectors, scalar_cases.evaluate(plan, state.scalars), state.unsure)
    return name, [plan.instruction], after


def _lds_step(rng: random.Random, state: State) -> Any:
    operation = isa.DSOp[f"DS_{rng.choice(_LDS_OPERATIONS)}"]
    plan = memory_cases.plan_memory(operation, "DS", "lds", rng)
    plan.instructions[0].addr = v[102]  # where the harness keeps 64 * lane
    touched = state.unsure[:, :, MEMORY:].any() or state.unsure[:, :, 4:12].any()
    if touched and ("LOAD" not in operation.name or state.unsure[:, :, MEMORY:].any()):
        return None
    rows = state.vectors.copy()
    rows[:, :, 0] = np.arange(h.LANES) * memory_cases.OWN_BYTES
    expected = memory_expected.evaluate(plan, rows, state.scalars)
    expected[:, :, 0] = state.vectors[:, :, 0]
    after = State(expected, state.scalars, state.unsure.copy())
    if "D16" not in operation.name:  # which keeps half of a register
        after.unsure &= expected == state.vectors
    return operation.name, plan.instructions, after


def _exec_step(rng: random.Random, state: State) -> Any:
    """EXEC from a scalar register, or all lanes on again."""
    if rng.random() < 0.4:
        register = rng.randrange(16, 28)
        state.scalars[:, h.EXEC] = state.scalars[:, register - 16]
        return "s_mov_b32 exec", [isa.s_mov_b32(isa.EXEC_LO, s[register])], state
    state.scalars[:, h.EXEC] = 0xFFFFFFFF
    return "s_mov_b32 exec, -1", [isa.s_mov_b32(isa.EXEC_LO, -1)], state


_STEPS = {
    "vector": _vector_step,
    "scalar": _scalar_step,
    "lds": _lds_step,
    "exec": _exec_step,
}
