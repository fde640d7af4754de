"""Memory instructions of the tables to test cases, and their pseudo-code to expected contents.

Each lane owns 64 bytes of LDS, global or scratch memory, which the harness moves through v16-v31.
Offsets are in v0, 64-bit addresses in v[2:3], data in v[4:7] and v[8:11], results in v[12:15].
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tinygrad.runtime.autogen.amd.rdna3.operands import OPERANDS
from tinygrad.runtime.autogen.amd.rdna3.str_pcode import PCODE

from emulator_witness import harness as h
from emulator_witness import soft_float as sf
from emulator_witness.assembler import isa, s, v
from emulator_witness.operand_values import random_float, random_integer

DATA, DATA2, RESULT, MEMORY = 4, 8, 12, 16
OWN_BYTES = 64
_LAST_FORMAT = re.compile(r"_([BUIF])(\d+)(?:_D16(?:_HI)?)?$")

_FORMATS = "converts texture formats, which no compute kernel of a known compiler uses"
_TO_LDS = "loads straight into LDS, which gfx1151 does not have"
_GLOBAL_DATA_SHARE = "uses global data share or global wave sync, which HIP does not expose"
_COUNTERS = "counts the active lanes of a wave: tested in test_lane_instructions.py"
_CACHE = "touches caches alone and has no result: tested in test_control_flow.py"
_LANES = "moves data between lanes: tested in test_lane_instructions.py"
TESTED_APART: Mapping[str, str] = {
    **{f"DS_{n}": _GLOBAL_DATA_SHARE for n in (
        "GWS_SEMA_P GWS_SEMA_V GWS_INIT ORDERED_COUNT GWS_SEMA_RELEASE_ALL GWS_SEMA_BR "
        "GWS_BARRIER ADD_GS_REG_RTN SUB_GS_REG_RTN").split()},
    "DS_NOP": "has no text because it changes nothing: tested in test_control_flow.py",
    "DS_BVH_STACK_RTN_B32": "ray tracing: its text calls functions that are not given",
    "DS_SWIZZLE_B32": _LANES,
    "DS_PERMUTE_B32": _LANES,
    "DS_BPERMUTE_B32": _LANES,
    "DS_CONSUME": _COUNTERS,
    "DS_APPEND": _COUNTERS,
    "FLAT_ATOMIC_CSUB_U32": "is in no text; GLOBAL_ATOMIC_CSUB_U32 is tested",
    "BUFFER_GL0_INV": _CACHE,
    "BUFFER_GL1_INV": _CACHE,
    **{f"{p}_LOAD_LDS_{n}": _TO_LDS for p in ("GLOBAL", "SCRATCH", "BUFFER") for n in (
        "B32", "I8", "U8", "I16", "U16", "ADDTID_B32", "FORMAT_X")},
}  # fmt: skip
"""Memory instructions outside the evaluator, with the reason."""

CLASSES: Mapping[str, Any] = {
    "DS": isa.DS,
    "GLOBAL": isa.GLOBAL,
    "FLAT": isa.FLAT,
    "SCRATCH": isa.SCRATCH,
    "MUBUF": isa.MUBUF,
}


@dataclass
class MemoryPlan:
    """An encoded memory instruction; `stride` is the distance between lanes in bytes.

    `offset` is what the instruction adds to the address register; `size` is in bytes.
    """

    name: str
    text: str
    family: str
    form: str
    instructions: list[Any]
    data_width: int
    result_width: int
    size: int
    offset: int = 0
    offsets: Sequence[int] = (0, 0)
    stride: int = OWN_BYTES
    float_form: sf.Format | None = None
    returns_in_data: bool = False
    ignored: list[int] = field(default_factory=list)

    @property
    def step(self) -> int:
        """The natural alignment of the access."""
        return min(16, 1 << (self.size - 1).bit_length())


def _reason(name: str) -> str | None:
    if "FORMAT" in name:
        return _FORMATS
    return TESTED_APART.get(name)


def every_operation(family: str) -> list[Any]:
    """All operations of DS, GLOBAL, FLAT, SCRATCH or MUBUF, by opcode."""
    allowed = dict(CLASSES[family]._fields)["op"].allowed
    own = "BUFFER" if family == "MUBUF" else family
    return sorted((x for x in allowed if x.name.startswith(own)), key=lambda x: x.value)


def operations(family: str) -> list[Any]:
    """Those of `every_operation` that are tested by their text."""
    return [x for x in every_operation(family) if _reason(x.name) is None]


def forms(family: str, name: str) -> list[str]:
    """The addressing forms in which an operation is tested."""
    if family == "DS":
        return ["lds"]
    if family == "GLOBAL":
        return ["saddr"] if "ADDTID" in name else ["saddr", "vaddr"]
    if family == "SCRATCH":
        return ["vaddr", "saddr", "both"]
    return {"FLAT": ["vaddr"], "MUBUF": ["offen", "soffset"]}[family]


def _access_size(name: str, width: int) -> int:
    match = re.search(r"_[BIU](8|16)(?=_|$)", name)
    if match:
        return int(match.group(1)) // 8
    return width // 8


def _span(register: int, width: int) -> Any:
    count = max(1, -(-width // 32))
    return v[register] if count == 1 else v[register : register + count - 1]


def _widths(operation: Any) -> tuple[int, int]:
    """(bits of one data operand, bits of the result); the result of a compare-swap is half."""
    operands = OPERANDS[operation]
    data = next((operands[k][1] for k in ("data0", "data", "vdata") if k in operands), 0)
    result = operands["vdst"][1] if "vdst" in operands else 0
    name = operation.name
    if name.startswith("BUFFER"):
        result = 0 if "STORE" in name else data
        data = 0 if "LOAD" in name else data
    if "ATOMIC_CMPSWAP" in name:
        result = data // 2
    return data, result


def _float_form(name: str) -> sf.Format | None:
    match = _LAST_FORMAT.search(name)
    if match and match.group(1) == "F":
        return sf.FORMATS[f"f{match.group(2)}"]
    return None


def plan_memory(operation: Any, family: str, form: str, rng: random.Random) -> MemoryPlan:
    """Encode `operation` in one addressing form, with what moves its addresses into place."""
    name = operation.name
    data, result = _widths(operation)
    width = data or result
    if "ATOMIC_CMPSWAP" in name or "2ADDR" in name:
        width = result if "CMPSWAP" in name else (data or result // 2)
    if "CONDXCHG32" in name:
        width = 64
    size = _access_size(name, width)
    plan = MemoryPlan(
        name, PCODE[operation], family, form, [], data, result, size, float_form=_float_form(name)
    )
    if family == "DS":
        _encode_lds(plan, operation, rng)
    elif family == "MUBUF":
        _encode_buffer(plan, operation, rng)
    elif family == "SCRATCH":
        _encode_scratch(plan, operation, rng)
    else:
        _encode_flat(plan, operation, rng)
    return plan


def _result(operation: Any) -> Any:
    """The destination operand: the assembler takes every *CMP* for a comparison of 32 bits."""
    width = OPERANDS[operation]["vdst"][1]
    return _span(RESULT, 32 if "CMP" in operation.name else width)


def _small_offset(plan: MemoryPlan, rng: random.Random) -> int:
    """An aligned offset that leaves room for the access inside the lane's bytes."""
    return rng.randrange(0, OWN_BYTES - plan.size + 1, plan.step)


def _encode_lds(plan: MemoryPlan, operation: Any, rng: random.Random) -> None:
    operands = OPERANDS[operation]
    values: dict[str, Any] = {"addr": v[0]} if "addr" in operands else {}
    for name, register in (("data0", DATA), ("data1", DATA2), ("vdst", RESULT)):
        if name in operands:
            values[name] = _span(register, operands[name][1])
    if "vdst" in values:
        values["vdst"] = _result(operation)
    if "2ADDR" in plan.name:
        far = "STRIDE64" in plan.name
        scale = plan.size * (64 if far else 1)
        plan.offsets = tuple(rng.sample(range((h.MEMORY_BYTES if far else OWN_BYTES) // scale), 2))
        values.update(offset0=plan.offsets[0], offset1=plan.offsets[1])
        plan.stride = plan.size if far else OWN_BYTES
    else:
        plan.offset = _small_offset(plan, rng)
        if "ADDTID" in plan.name:
            plan.stride, plan.offset = 4, rng.choice([0, 4, 256, 1920])
        values.update(offset0=plan.offset & 0xFF, offset1=plan.offset >> 8)
    plan.instructions = [isa.DS(operation, **values), *h.wait_all()]


def _data_operands(plan: MemoryPlan, operation: Any, returns: bool) -> dict[str, Any]:
    values: dict[str, Any] = {}
    operands = OPERANDS[operation]
    if "data" in operands:
        values["data"] = _span(DATA, operands["data"][1])
    if "vdst" in operands and (returns or "data" not in operands):
        values["vdst"] = _result(operation)
    if "ATOMIC" in plan.name:
        values["glc"] = int(returns)
        plan.result_width *= returns
    return values


def _returns(name: str, rng: random.Random) -> bool:
    """Whether an atomic returns the old value; the saturating subtraction always has to."""
    return "ATOMIC" in name and (rng.random() < 0.7 or "CSUB" in name)


def _encode_flat(plan: MemoryPlan, operation: Any, rng: random.Random) -> None:
    values = _data_operands(plan, operation, _returns(plan.name, rng))
    prelude: list[Any] = []
    if plan.form == "saddr":
        values["saddr"] = s[86:87]
        if "addr" in OPERANDS[operation]:
            values["addr"] = v[0]
    else:
        prelude = [
            isa.v_add_co_u32(v[2], s[96], s[86], v[0]),
            isa.VOP3SD(isa.VOP3SDOp.V_ADD_CO_CI_U32, v[3], s[97], s[87], 0, s[96]),
        ]
        plan.ignored += [2, 3]
        values["addr"] = v[2:3]
    plan.offset = _small_offset(plan, rng)
    if "ADDTID" in plan.name:
        plan.stride, plan.offset = 4, rng.choice([0, 16, 1024])
    elif plan.family == "GLOBAL":
        plan.offset = rng.choice([plan.offset, -256, -4096])
    values["offset"] = plan.offset & 0x1FFF
    plan.instructions = [*prelude, CLASSES[plan.family](operation, **values), *h.wait_all()]


def _encode_buffer(plan: MemoryPlan, operation: Any, rng: random.Random) -> None:
    width = OPERANDS[operation]["vdata"][1]
    plan.offset = _small_offset(plan, rng)
    values: dict[str, Any] = {"srsrc": s[88:91], "offset": plan.offset, "soffset": 0}
    values.update(offen=1, vaddr=v[0], vdata=_span(RESULT if "LOAD" in plan.name else DATA, width))
    prelude: list[Any] = []
    if plan.form == "soffset":
        prelude = [isa.s_mov_b32(s[96], plan.offset)]
        values.update(soffset=s[96], offset=0)
    if "ATOMIC" in plan.name:
        plan.returns_in_data = _returns(plan.name, rng)
        values["glc"] = int(plan.returns_in_data)
        plan.result_width *= plan.returns_in_data
    plan.instructions = [*prelude, isa.MUBUF(operation, **values), *h.wait_all()]


def _encode_scratch(plan: MemoryPlan, operation: Any, rng: random.Random) -> None:
    """The lane's 64 bytes go to scratch at 64, then the instruction runs, then they come back."""
    values = _data_operands(plan, operation, False)
    plan.offset = _small_offset(plan, rng)
    base = OWN_BYTES
    prelude = [] if plan.form == "vaddr" else [isa.s_mov_b32(s[96], base)]
    if plan.form == "vaddr":
        values.update(addr=v[0], sve=1, offset=plan.offset + base)
    else:
        values.update(addr=v[0], sve=int(plan.form == "both"), saddr=s[96], offset=plan.offset)
    words = [v[MEMORY + 4 * g : MEMORY + 4 * g + 3] for g in range(4)]
    places = [{"addr": v[0], "saddr": isa.NULL, "offset": base + 16 * g} for g in range(4)]
    plan.instructions = [
        *(isa.scratch_store_b128(data=w, **p) for w, p in zip(words, places)),
        *prelude,
        *h.wait_all(),
        isa.SCRATCH(operation, **values),
        *h.wait_all(),
        *(isa.scratch_load_b128(vdst=w, **p) for w, p in zip(words, places)),
        *h.wait_all(),
    ]


def random_inputs(plan: MemoryPlan, waves: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors [waves, 32, 32] and scalars [waves, 16]: addresses, data and memory contents."""
    rng = random.Random(seed)
    scalars = np.zeros((waves, h.SCALARS), np.uint32)
    vectors = np.zeros((waves, h.LANES, 32), np.uint32)
    scalars[:, h.EXEC] = 0xFFFFFFFF
    scalars[1::2, h.EXEC] = rng.getrandbits(32)
    for wave in range(waves):
        for lane in range(h.LANES):
            row = [_random_word(plan, rng) for _ in range(32)]
            if plan.float_form is sf.F64:
                for register in range(DATA, 32, 2):
                    bits = random_float(rng, sf.F64)
                    row[register : register + 2] = [bits & 0xFFFFFFFF, bits >> 32]
            place = _place(plan, rng)
            row[0] = lane * plan.stride + place - plan.offset if plan.stride != 4 else 0
            if plan.family == "SCRATCH":
                row[0] = place - plan.offset
            if "CMP" in plan.name and rng.random() < 0.5:
                _make_equal(plan, row, place)
            vectors[wave, lane] = row
    return vectors, scalars


def _random_word(plan: MemoryPlan, rng: random.Random) -> int:
    if plan.float_form is sf.F32:
        return random_float(rng, sf.F32)
    return random_integer(rng, 32)


def _place(plan: MemoryPlan, rng: random.Random) -> int:
    """The byte of the lane's 64 that the access starts at."""
    if "2ADDR" in plan.name or "ADDTID" in plan.name:
        return 0
    if plan.family == "SCRATCH" and plan.form == "saddr":
        return plan.offset
    return rng.randrange(max(0, plan.offset), OWN_BYTES - plan.size + 1, plan.step)


def _make_equal(plan: MemoryPlan, row: list[int], place: int) -> None:
    """Give a compare-swap the value that memory holds."""
    words = plan.size // 4
    compare = DATA2 if plan.family == "DS" else DATA + words
    row[compare : compare + words] = row[MEMORY + place // 4 : MEMORY + place // 4 + words]
