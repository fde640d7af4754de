"""Vector instructions of the tables to encoded test cases with random operands.

Operands sit in fixed registers: S0 in v0, S1 in v4, S2 in v8, the destination in v12 (scalar
operands and results in s16, s20 and s24). Lane masks (carry, condition) of VOP3 sit in s26.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tinygrad.runtime.autogen.amd.rdna3.operands import OPERANDS

from emulator_witness import harness as h
from emulator_witness.assembler import isa, s, v
from emulator_witness.operand_values import packed_form, random_operand, scalar_form

SOURCE_REGISTERS = {"src0": 0, "vsrc0": 0, "src1": 4, "vsrc1": 4, "src2": 8}
DESTINATION, SCALAR_SOURCE, SCALAR_DESTINATION, MASK_REGISTER = 12, 16, 24, 26
LITERALS = {"F32": 0x40490FDB, "F16": 0x4248}
# Packed sources whose halves OPSEL and NEG choose; the others of VOP3P read whole registers.
HALVES = frozenset(f"FMT_NUM_PK2_{kind}" for kind in ("F16", "BF16", "I16", "U16", "B16"))


@dataclass(frozen=True)
class Source:
    """Where one source operand lives: a vector or scalar register index or a constant."""

    name: str
    format_name: str
    width: int
    kind: str  # "vector", "scalar", "constant", "literal", "mask"
    register: int = 0
    constant: int | float = 0
    high: bool = False
    negate: bool = False
    absolute: bool = False

    @property
    def index(self) -> int:
        """0, 1 or 2: which of S0, S1, S2 it is."""
        return int(self.name[-1])


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
    result: int = DESTINATION  # the first vector register of the result
    variant: str = "plain"
    high: bool = False
    carry_out: str = ""  # "vcc" or "scalar": where a lane mask goes beside the vector result
    modifiers: dict[str, int] = field(default_factory=dict)
    literal: int = 0
    packed: bool = False  # a VOP3P instruction


def base_name(operation: Any) -> str:
    return operation.name.removesuffix("_E32").removesuffix("_E64")


def register_count(width: int) -> int:
    return max(1, width // 32)


def _register(bank: Any, index: int, width: int) -> Any:
    count = register_count(width)
    return bank[index] if count == 1 else bank[index : index + count - 1]


def _sources(operation: Any, fields: list[str]) -> list[Source]:
    operands = OPERANDS[operation]
    sources = []
    for name in fields:
        info = operands.get(name) or operands.get("v" + name)
        if info is None or name not in SOURCE_REGISTERS:
            continue
        form, width, operand_type = info[0].name, info[1], info[2].name
        if name == "src2" and form == "FMT_NUM_M64":
            sources.append(Source(name, form, 32, "mask", MASK_REGISTER))
        elif operand_type.startswith("OPR_SSRC"):
            register = SCALAR_SOURCE + SOURCE_REGISTERS[name]
            sources.append(Source(name, form, width, "scalar", register))
        else:
            sources.append(Source(name, form, width, "vector", SOURCE_REGISTERS[name]))
    return sources


def _destination(operation: Any) -> tuple[str, str, int]:
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
    operation: Any,
    encoding: type,
    text: str,
    rng: random.Random,
    variant: str = "plain",
    places: Mapping[str, int] | None = None,
) -> VectorPlan | None:
    """Encode `operation` with operands in the fixed registers; None if the variant has no meaning.

    Variants: plain; high (16-bit operands in upper halves); scalar (S0 in an SGPR); last_scalar
    (the last operand of VOP3 in one); constant (S0 an inline constant); literal (S0 a literal);
    modifiers (random neg and abs on float sources of VOP3; of VOP3P random neg, neg_hi, opsel and
    opsel_hi); clamp (float results of VOP3 clamped to [0, 1]). `places` puts the
    operands S0, S1, S2 and D0 into other vector registers.
    """
    sources = _sources(operation, [name for name, _ in encoding._fields])
    kind, format_name, width = _destination(operation)
    name = base_name(operation)
    plan = VectorPlan(name, text, None, sources, format_name, width, kind, variant=variant)
    plan.packed = encoding.__name__.startswith("VOP3P")
    is_vop3 = encoding.__name__.startswith("VOP3") and not plan.packed
    if variant == "high":
        if not _make_high(plan):
            return None
    elif variant == "literal":
        with_literal = _with_literal(operation, encoding, plan, rng)
        if with_literal is None:
            return None
        encoding = with_literal
    elif variant == "last_scalar":
        if len(sources) < 2 or not encoding.__name__.startswith("VOP3"):
            return None
        if sources[-1].kind != "vector" or sources[-1].width > 64:
            return None
        sources[-1] = _scalar_or_constant(sources[-1], "scalar", rng)
    elif variant in ("scalar", "constant"):
        if not sources or sources[0].kind != "vector":
            return None
        if variant == "constant" and plan.packed:
            return None
        sources[0] = _scalar_or_constant(sources[0], variant, rng)
    elif variant == "modifiers":
        if is_vop3:
            has_abs = "abs" in dict(encoding._fields)
            plan.sources = [_with_modifiers(x, name, has_abs, rng) for x in sources]
        if plan.sources == sources and not (plan.packed and _random_halves(plan, rng)):
            return None
    elif variant == "clamp":
        if not is_vop3 or kind != "vector" or scalar_form(format_name) is None:
            return None
        if "DOT2" in name:  # the ISA guide lists float dot products among those without clamp
            return None
        plan.modifiers["clmp"] = 1
    if places is not None:
        plan.result = places["D0"]
        plan.sources = [
            dataclasses.replace(x, register=places[f"S{x.index}"]) if x.kind == "vector" else x
            for x in plan.sources
        ]
    plan.instruction = _encode(operation, encoding, plan)
    return plan


def _make_high(plan: VectorPlan) -> bool:
    if plan.packed:
        return False  # FMA_MIXHI writes the upper half by its name
    plan.high = plan.destination == "vector" and plan.destination_width == 16
    plan.sources = [
        dataclasses.replace(x, high=x.kind == "vector" and x.width == 16) for x in plan.sources
    ]
    return plan.high or any(x.high for x in plan.sources)


def _with_literal(
    operation: Any, encoding: type, plan: VectorPlan, rng: random.Random
) -> type | None:
    """Make S0 a literal: the high word of a float64, the low bits of anything shorter."""
    wider = getattr(isa, f"{encoding.__name__}_LIT", None)
    first = plan.sources[0] if plan.sources else None
    if wider is None or first is None or operation not in dict(wider._fields)["op"].allowed:
        return None
    if first.kind != "vector" or (first.width == 64 and first.format_name != "FMT_NUM_F64"):
        return None
    if first.width > 64:
        return None
    word = random_operand(rng, first.format_name, first.width) >> max(0, first.width - 32)
    # An inline constant would be encoded without a literal.
    plan.literal = word & 0xFFFFFFFF | 0x100
    bits = plan.literal << 32 if first.width == 64 else plan.literal & ((1 << first.width) - 1)
    plan.sources[0] = dataclasses.replace(first, kind="literal", constant=bits)
    return wider


def _scalar_or_constant(source: Source, variant: str, rng: random.Random) -> Source:
    if variant == "scalar":
        return dataclasses.replace(source, kind="scalar", register=SCALAR_SOURCE)
    choices: list[int | float] = [1, 64, -16, -1]
    if scalar_form(source.format_name) is not None:
        choices += [0.5, -2.0, 4.0]
    return dataclasses.replace(source, kind="constant", constant=rng.choice(choices))


def _with_modifiers(source: Source, name: str, has_abs: bool, rng: random.Random) -> Source:
    exponent = name.startswith("V_LDEXP") and source.index == 1  # an integer in every format
    if scalar_form(source.format_name) is None or exponent:
        return source
    absolute = rng.random() < 0.5 and has_abs
    return dataclasses.replace(source, negate=rng.random() < 0.6, absolute=absolute)


def _random_halves(plan: VectorPlan, rng: random.Random) -> bool:
    """Random modifiers of a VOP3P instruction; False if it has none."""
    formats = {x.format_name for x in plan.sources}
    mixed = "_FMA_MIX" in plan.name
    signed = bool(formats & {"FMT_NUM_PK4_IU8", "FMT_NUM_PK8_IU4"})
    if not (mixed or signed or formats & HALVES):
        return False
    plan.modifiers["neg"] = rng.choice([0, 1, 2, 3] if signed else range(8))
    if signed:
        return True
    is_float = mixed or bool(formats & {"FMT_NUM_PK2_F16", "FMT_NUM_PK2_BF16"})
    if not is_float:
        plan.modifiers["neg"] = 0  # NEG has no meaning for packed integers
    else:
        plan.modifiers["neg_hi"] = rng.randrange(8)
    plan.modifiers["opsel"] = rng.randrange(8)
    plan.modifiers["opsel_hi"] = rng.randrange(8)
    if plan.name.startswith("V_DOT2_F32"):  # a whole float32 accumulator: no halves to choose
        for name in ("opsel", "opsel_hi", "neg_hi"):
            plan.modifiers[name] = plan.modifiers[name] & 3 | (4 if name == "opsel_hi" else 0)
    return True


def _operand(source: Source) -> Any:
    if source.kind == "constant":
        return source.constant
    if source.kind == "literal":
        return isa.LIT
    register = _register(v if source.kind == "vector" else s, source.register, source.width)
    if source.high:
        register = register.h
    if source.absolute:
        register = abs(register)
    return -register if source.negate else register


def _encode(operation: Any, encoding: type, plan: VectorPlan) -> Any:
    fields = dict(encoding._fields)
    name = encoding.__name__
    values: dict[str, Any] = {x.name: _operand(x) for x in plan.sources}
    for source in plan.sources:
        if source.high and not name.startswith("VOP3"):
            values[source.name] = v[source.register + 128]  # the half is part of the number
        if source.kind == "constant" and source.negate:
            values.setdefault("neg", 0)
            values["neg"] |= 1 << source.index
    if "vdst" in fields:
        if plan.destination == "vector":
            register = _register(v, plan.result, plan.destination_width)
            if plan.high and name.startswith("VOP3"):
                # OPSEL[3]; the assembler's `.h` would set bit 7 of the register number instead.
                values["opsel"] = 8
            elif plan.high:
                register = v[plan.result + 128]
            values["vdst"] = register
        else:
            values["vdst"] = isa.EXEC_LO if plan.destination == "exec" else s[SCALAR_DESTINATION]
    if "sdst" in fields:
        values["sdst"] = s[SCALAR_DESTINATION]
        plan.carry_out = "scalar"
    elif "_CO_CI_" in plan.name:
        plan.carry_out = "vcc"
    if plan.literal:
        values["literal"] = plan.literal
    elif "literal" in fields:
        plan.literal = LITERALS["F16" if "F16" in plan.name else "F32"]
        values["literal"] = plan.literal
    modifiers = dict(plan.modifiers)
    if plan.packed and "opsel_hi" in modifiers:
        modifiers["opsel_hi2"] = modifiers["opsel_hi"] >> 2
        modifiers["opsel_hi"] &= 3
    return encoding(operation, **values, **modifiers)


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
            _put_destination(row, plan, rng)
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


def _put_destination(row: list[int], plan: VectorPlan, rng: random.Random) -> None:
    """Accumulating instructions read the destination: give it a value of its format."""
    form = scalar_form(plan.destination_format) or packed_form(plan.destination_format)
    if form is None or plan.destination != "vector":
        return
    bits = random_operand(rng, plan.destination_format, plan.destination_width)
    if plan.destination_width == 16:
        bits |= bits << 16
    for word in range(register_count(plan.destination_width)):
        row[plan.result + word] = bits >> (32 * word) & 0xFFFFFFFF


def _put(row: list[int], register: int, source: Source, rng: random.Random) -> None:
    bits = random_operand(rng, source.format_name, source.width)
    if source.width == 16:
        other = random_operand(rng, source.format_name, 16)
        row[register] = bits << 16 | other if source.high else other << 16 | bits
        return
    for word in range(register_count(source.width)):
        row[register + word] = bits >> (32 * word) & 0xFFFFFFFF
