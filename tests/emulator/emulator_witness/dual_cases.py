"""Pairs of dual-issue operations to encoded cases; each half's text is that of its plain form.

The first half reads v0 and v4 and writes v14; the second reads v1 and v5, or v14 in place of v5,
and writes v13. So the operands lie in different register banks, as the hardware asks for.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from tinygrad.runtime.autogen.amd.rdna3.str_pcode import PCODE

from emulator_witness.assembler import isa, s, v
from emulator_witness.harness import Outcome
from emulator_witness.vector_cases import VectorPlan, plan_vector, random_inputs
from emulator_witness.vector_comparison import mismatches
from emulator_witness.vector_expected import evaluate

FIRST_HALF_CODES = 16
_SECOND = {0: 1, 4: 5, 12: 13}


@dataclass
class DualPlan:
    """Both halves as plain plans over their own registers, and the paired instruction."""

    first: VectorPlan
    second: VectorPlan
    instruction: Any
    second_reads_first: bool

    @property
    def name(self) -> str:
        return f"{self.first.name} :: {self.second.name}"


def operations() -> list[Any]:
    return sorted(isa.VOPDOp, key=lambda operation: operation.value)


def _plain(operation: Any, rng: random.Random) -> VectorPlan:
    """The plan of the operation that a half performs."""
    name = operation.name.removeprefix("V_DUAL_")
    if name == "DOT2ACC_F32_BF16":  # has no plain form: V_DOT2_F32_BF16 onto the destination
        twin = isa.VOP2Op.V_DOT2ACC_F32_F16_E32
        text = PCODE[isa.VOP3POp.V_DOT2_F32_BF16].replace("S2.f32", "D0.f32")
        plan = plan_vector(twin, isa.VOP2, text, rng)
        assert plan is not None
        plan.name = "V_DOT2ACC_F32_BF16"
        for index, source in enumerate(plan.sources):
            form = "FMT_NUM_PK2_BF16"
            plan.sources[index] = type(source)(source.name, form, 32, "vector", source.register)
        return plan
    table = isa.VOP1Op if name == "MOV_B32" else isa.VOP2Op
    twin = next(x for x in table if x.name in (f"V_{name}_E32", f"V_{name}"))
    encoding = isa.VOP1 if table is isa.VOP1Op else isa.VOP2
    if "literal" in dict(isa.VOP2_LIT._fields) and ("FMAAK" in name or "FMAMK" in name):
        encoding = isa.VOP2_LIT
    plan = plan_vector(twin, encoding, PCODE[twin], rng)
    assert plan is not None
    return plan


def plan_pair(one: Any, other: Any, rng: random.Random) -> DualPlan:
    first, second = _plain(one, rng), _plain(other, rng)
    reads_first = len(second.sources) > 1 and rng.random() < 0.3
    scalar = rng.random() < 0.3
    values: dict[str, Any] = {"srcx0": v[0], "srcy0": v[1], "vsrcx1": v[4], "vsrcy1": v[5]}
    if scalar:
        values["srcx0"] = s[16]
        source = first.sources[0]
        first.sources[0] = type(source)(source.name, source.format_name, source.width, "scalar", 16)
    if reads_first:
        values["vsrcy1"] = v[14]
    encoding = isa.VOPD
    literal = first.literal or second.literal
    if literal:
        encoding, values["literal"] = isa.VOPD_LIT, literal
    instruction = encoding(one, other, vdstx=v[14], vdsty=v[13], **values)
    return DualPlan(first, second, instruction, reads_first)


def inputs_of(plan: DualPlan, waves: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Operands of both halves in the formats that they ask for."""
    vectors, scalars = random_inputs(plan.first, waves, seed)
    others, _ = random_inputs(plan.second, waves, seed + 1)
    vectors[:, :, 14] = vectors[:, :, 12]
    for source, target in _SECOND.items():
        vectors[:, :, target] = others[:, :, source]
    return vectors, scalars


def _first_view(vectors: np.ndarray) -> np.ndarray:
    """The first half's registers where its plain plan expects them."""
    view = vectors.copy()
    view[:, :, 12] = vectors[:, :, 14]
    return view


def _second_view(plan: DualPlan, vectors: np.ndarray) -> np.ndarray:
    """The second half's registers where its plain plan expects them."""
    view = vectors.copy()
    view[:, :, 0], view[:, :, 12] = vectors[:, :, 1], vectors[:, :, 13]
    view[:, :, 4] = vectors[:, :, 14 if plan.second_reads_first else 5]
    return view


def pair_mismatches(
    plan: DualPlan, inputs: tuple[np.ndarray, np.ndarray], outcome: Outcome
) -> list[str]:
    """Differences of either half; both read their operands before either writes."""
    vectors, scalars = inputs
    got = outcome.vectors[:, :, :16]
    found = []
    untouched = [register for register in range(16) if register not in (13, 14)]
    if not np.array_equal(got[..., untouched], vectors[..., untouched]):
        found.append(f"{plan.name}: changed a register that it does not name")
    halves = (
        (plan.first, _first_view(vectors), 14),
        (plan.second, _second_view(plan, vectors), 13),
    )
    for half, view, destination in halves:
        result = view.copy()
        result[:, :, 12] = got[:, :, destination]
        expected = evaluate(half, view, scalars)
        found += mismatches(half, (view, scalars), expected, Outcome(result, outcome.scalars))
    return [f"{plan.name}: {text}" for text in found]
