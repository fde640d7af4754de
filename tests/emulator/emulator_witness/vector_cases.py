"""Vector instructions of the tables to test cases, and their pseudo-code to expected registers.

Operands sit in fixed registers: S0 in v0, S1 in v4, S2 in v8, the destination in v12 (scalar
operands and results in s16, s20 and s24). Lane masks (carry, condition) of VOP3 sit in s26.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tinygrad.runtime.autogen.amd.rdna3 import ins as isa
from tinygrad.runtime.autogen.amd.rdna3.operands import OPERANDS

from emulator_witness import harness as h
from emulator_witness import soft_float as sf
from emulator_witness.operand_values import packed_form, random_operand, scalar_form
from emulator_witness.pseudocode import Machine
from emulator_witness.pseudocode_values import Value, boolean, integer

SOURCE_REGISTERS = {"src0": 0, "vsrc0": 0, "src1": 4, "vsrc1": 4, "src2": 8}
DESTINATION, SCALAR_SOURCE, SCALAR_DESTINATION, MASK_REGISTER = 12, 16, 24, 26
LITERALS = {"F32": 0x40490FDB, "F16": 0x4248}
v, s = isa.v, isa.s


@dataclass(frozen=True)
class Source:
    """Where one source operand lives: a vector or scalar register index or a constant."""

    name: str
    format_name: str
    width: int
    kind: str  # "vector", "scalar", "constant", "mask"
    register: int = 0
    constant: int = 0
    high: bool = False
    negate: bool = False
    absolute: bool = False


@dataclass
class VectorPlan:
    """An encoded vector instruction with what the evaluator must know about its operands."""

    name: str
    text: str
    instruction: Any
    sources: list[Source]
    destination_format: str
    destination_width: int
    destination: str  # "vector", "scalar", "mask", "exec", "vcc"
    high: bool = False
    carry_out: str = ""  # "vcc" or "scalar": where a lane mask goes beside the vector result
    modifiers: dict[str, int] = field(default_factory=dict)
    literal: int = 0


def base_name(operation: Any) -> str:
    return operation.name.removesuffix("_E32").removesuffix("_E64")


def _registers(width: int) -> int:
    return max(1, width // 32)


def _vector_register(index: int, width: int) -> Any:
    count = _registers(width)
    return v[index] if count == 1 else v[index : index + count - 1]


def _scalar_register(index: int, width: int) -> Any:
    count = _registers(width)
    return s[index] if count == 1 else s[index : index + count - 1]


def _is_lane_mask(operation: Any, name: str, info: Any) -> bool:
    return name == "src2" and info[0].name == "FMT_NUM_M64"


def _sources(operation: Any, fields: list[str]) -> list[Source]:
    sources = []
    for name in fields:
        info = OPERANDS[operation].get(name)
        if info is None or name not in SOURCE_REGISTERS:
            continue
        width, operand_type = info[1], info[2].name
        if _is_lane_mask(operation, name, info):
            sources.append(Source(name, info[0].name, 32, "mask", MASK_REGISTER))
        elif operand_type.startswith("OPR_SSRC"):
            register = SCALAR_SOURCE + SOURCE_REGISTERS[name]
            sources.append(Source(name, info[0].name, width, "scalar", register))
        else:
            register = SOURCE_REGISTERS[name]
            sources.append(Source(name, info[0].name, width, "vector", register))
    return sources


def _destination(operation: Any, encoding: str) -> tuple[str, str, int]:
    """(kind, format name, width) of what the instruction writes."""
    info = OPERANDS[operation].get("vdst")
    if info is None:
        return ("exec" if "CMPX" in operation.name else "vcc"), "FMT_NUM_M64", 32
    if info[2].name == "OPR_EXEC":
        return "exec", info[0].name, 32
    if info[2].name == "OPR_SREG":
        return ("mask" if info[0].name == "FMT_NUM_M64" else "scalar"), info[0].name, 32
    return "vector", info[0].name, info[1]


def plan_vector(
    operation: Any, encoding: type, text: str, rng: random.Random, variant: str = "plain"
) -> VectorPlan:
    """Encode `operation` with operands in the fixed registers.

    Variants: plain; high (16-bit operands in upper halves); scalar (S0 in an SGPR); constant (S0 an
    inline constant); modifiers (random neg and abs on float sources of VOP3).
    """
    fields = [name for name, _ in encoding._fields]
    sources = _sources(operation, fields)
    kind, format_name, width = _destination(operation, encoding.__name__)
    plan = VectorPlan(base_name(operation), text, None, sources, format_name, width, kind)
    is_vop3 = encoding.__name__.startswith("VOP3")
    if variant == "high":
        plan.high = kind == "vector" and width == 16
        plan.sources = [
            dataclasses.replace(x, high=x.kind == "vector" and x.width == 16) for x in sources
        ]
    elif variant in ("scalar", "constant"):
        first = sources[0]
        if variant == "scalar":
            first = dataclasses.replace(first, kind="scalar", register=SCALAR_SOURCE)
        else:
            first = dataclasses.replace(first, kind="constant", constant=rng.choice([1, 64, -16]))
        plan.sources = [first, *sources[1:]]
    elif variant == "modifiers" and is_vop3:
        plan.sources = [_with_modifiers(x, rng) for x in sources]
    plan.instruction = _encode(operation, encoding, plan)
    return plan


def _with_modifiers(source: Source, rng: random.Random) -> Source:
    if scalar_form(source.format_name) is None:
        return source
    return dataclasses.replace(
        source, negate=rng.random() < 0.6, absolute=rng.random() < 0.5
    )


def _operand(source: Source) -> Any:
    if source.kind == "constant":
        return source.constant
    make = _vector_register if source.kind == "vector" else _scalar_register
    register = make(source.register, source.width)
    if source.high:
        register = register.h
    if source.absolute:
        register = abs(register)
    return -register if source.negate else register


def _encode(operation: Any, encoding: type, plan: VectorPlan) -> Any:
    values: dict[str, Any] = {x.name: _operand(x) for x in plan.sources}
    fields = dict(encoding._fields)
    name = encoding.__name__
    if not name.startswith("VOP3"):  # 16-bit halves are part of the register number
        for source in plan.sources:
            if source.high:
                values[source.name] = v[source.register + 128]
    if "vdst" in fields:
        if plan.destination == "vector":
            register = _vector_register(DESTINATION, plan.destination_width)
            if plan.high:
                register = register.h if name.startswith("VOP3") else v[DESTINATION + 128]
            values["vdst"] = register
        elif plan.destination == "exec":
            values["vdst"] = isa.EXEC_LO
        else:
            values["vdst"] = s[SCALAR_DESTINATION]
    if "sdst" in fields:
        values["sdst"] = s[SCALAR_DESTINATION]
        plan.carry_out = "scalar"
    elif "_CO_CI_" in plan.name:
        plan.carry_out = "vcc"
    if "literal" in fields:
        plan.literal = LITERALS["F16" if "F16" in plan.name else "F32"]
        values["literal"] = plan.literal
    if name.startswith("VOP3P"):
        values.update(plan.modifiers)
    return encoding(operation, **values)


def random_inputs(plan: VectorPlan, waves: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors [waves, 32, 16] and scalars [waves, 16] with operands of the right formats."""
    rng = random.Random(seed)
    vectors = np.zeros((waves, h.LANES, 16), np.uint32)
    scalars = np.zeros((waves, h.SCALARS), np.uint32)
    for wave in range(waves):
        for lane in range(h.LANES):
            row = [rng.getrandbits(32) for _ in range(16)]
            for source in plan.sources:
                if source.kind == "vector":
                    _put(row, source.register, source, rng)
            if scalar_form(plan.destination_format) is not None and plan.destination == "vector":
                bits = random_operand(rng, plan.destination_format, plan.destination_width)
                if plan.destination_width <= 32:
                    row[DESTINATION] = bits << 16 | bits if plan.destination_width == 16 else bits
            vectors[wave, lane] = row
        row = [rng.getrandbits(32) for _ in range(h.SCALARS)]
        for source in plan.sources:
            if source.kind == "scalar":
                _put(row, source.register - SCALAR_SOURCE, source, rng)
        row[h.SCC] = rng.randint(0, 1)
        row[h.EXEC] = 0xFFFFFFFF if wave % 2 == 0 else rng.getrandbits(32)
        row[h.M0] = 0
        scalars[wave] = row
    return vectors, scalars


def _put(row: list[int], register: int, source: Source, rng: random.Random) -> None:
    bits = random_operand(rng, source.format_name, source.width)
    if source.width == 16:
        other = random_operand(rng, source.format_name, 16)
        row[register] = bits << 16 | other if source.high else other << 16 | bits
        return
    for word in range(_registers(source.width)):
        row[register + word] = bits >> (32 * word) & 0xFFFFFFFF


def _gather(row: Any, register: int, width: int) -> int:
    return sum(int(row[register + word]) << (32 * word) for word in range(_registers(width)))


def _inline_constant(source: Source) -> int:
    """Integer inline constants are sign-extended to the operand's width."""
    return source.constant & ((1 << source.width) - 1)


def source_value(source: Source, vector_row: Any, scalar_row: Any) -> Value:
    if source.kind == "constant":
        bits = _inline_constant(source)
    elif source.kind == "vector":
        bits = _gather(vector_row, source.register, source.width)
    else:
        bits = _gather(scalar_row, source.register - SCALAR_SOURCE, source.width)
    if source.width == 16:
        bits = bits >> 16 if source.high else bits & 0xFFFF
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
        value = source_value(source, vector_row, scalar_row)
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
        state[name] = Value(plan.modifiers.get(name.lower(), 7 if name == "OPSEL_HI" else 0), 3)
    old = _gather(vector_row, DESTINATION, plan.destination_width)
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


@dataclass
class Expected:
    """Registers that the pseudo-code leaves, and the lanes that it wrote."""

    vectors: np.ndarray
    scalars: np.ndarray
    written: np.ndarray


def evaluate(plan: VectorPlan, vectors: np.ndarray, scalars: np.ndarray) -> Expected:
    """Run the pseudo-code for every active lane of every wave."""
    from emulator_witness.exact_results import prepare

    out_vectors, out_scalars = vectors.copy(), scalars.copy()
    written = np.zeros(vectors.shape[:2], bool)
    for wave in range(vectors.shape[0]):
        mask = 0
        execute = int(scalars[wave, h.EXEC])
        for lane in range(h.LANES):
            if not execute >> lane & 1:
                continue
            machine = lane_machine(plan, vectors[wave, lane], scalars[wave], lane)
            prepare(plan, machine)
            machine.run(plan.text)
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
        row[DESTINATION] = (int(row[DESTINATION]) & 0xFFFF) | (bits & 0xFFFF) << 16
        return
    for word in range(_registers(plan.destination_width)):
        row[DESTINATION + word] = bits >> (32 * word) & 0xFFFFFFFF


def _write_masks(plan: VectorPlan, mask: int, row: np.ndarray) -> None:
    """A lane mask is written whole: lanes that are off get 0."""
    if plan.destination == "exec":
        row[h.EXEC] = mask
    elif plan.destination == "vcc" or plan.carry_out == "vcc":
        row[h.VCC] = mask
    elif plan.destination == "mask" or plan.carry_out == "scalar":
        row[SCALAR_DESTINATION - SCALAR_SOURCE] = mask


def destination_form(plan: VectorPlan) -> sf.Format | None:
    if plan.destination != "vector":
        return None
    return scalar_form(plan.destination_format) or packed_form(plan.destination_format)
