"""Vector plans and data-parallel-primitive controls to encoded cases and expected registers.

DPP replaces S0 of every lane by S0 of another lane. A lane whose source does not exist or is off
reads 0 with bound control and is not executed without it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from emulator_witness import harness as h
from emulator_witness.assembler import isa, v
from emulator_witness.families import encoding_of, operations, text_of
from emulator_witness.vector_cases import VectorPlan, plan_vector
from emulator_witness.vector_expected import Expected, evaluate

_ROW = 16
_DPP8, _DPP8_FETCH_INACTIVE = isa.src[233], isa.src[234]


@dataclass(frozen=True)
class Control:
    """One DPP control word; `selectors` is set for DPP8 alone."""

    code: int = 0
    selectors: tuple[int, ...] = ()
    row_mask: int = 15
    bank_mask: int = 15
    bound_control: bool = False
    fetch_inactive: bool = False

    def source(self, lane: int) -> int | None:
        """The lane that `lane` reads; None where it lies outside of the row."""
        if self.selectors:
            return lane & ~7 | self.selectors[lane & 7]
        row, place, amount = lane & ~15, lane & 15, self.code & 15
        kind = self.code >> 4
        if self.code <= 0xFF:  # quad permutation
            return lane & ~3 | self.code >> (2 * (lane & 3)) & 3
        if kind == 0x10:  # shift left: from higher lanes
            return row | place + amount if place + amount < _ROW else None
        if kind == 0x11:
            return row | place - amount if place >= amount else None
        if kind == 0x12:
            return row | (place - amount) % _ROW
        if self.code == 0x140:
            return row | 15 - place
        if self.code == 0x141:
            return row | place & 8 | 7 - (place & 7)
        return row | (amount if kind == 0x15 else place ^ amount)  # share, exclusive or

    def writes(self, lane: int) -> bool:
        return bool(self.row_mask >> lane // 16 & 1 and self.bank_mask >> lane % 16 // 4 & 1)


CONTROLS = (
    *range(0x101, 0x110),
    *range(0x111, 0x120),
    *range(0x121, 0x130),
    0x140,
    0x141,
    *range(0x150, 0x170),
)


def random_control(rng: random.Random) -> Control:
    fetch_inactive = rng.random() < 0.3
    if rng.random() < 0.25:
        return Control(
            selectors=tuple(rng.randrange(8) for _ in range(8)), fetch_inactive=fetch_inactive
        )
    code = rng.choice(CONTROLS) if rng.random() < 0.8 else rng.randrange(256)
    masks = (rng.randrange(16), rng.randrange(16)) if rng.random() < 0.3 else (15, 15)
    return Control(code, (), *masks, rng.random() < 0.5, fetch_inactive)


def eligible(family: str) -> list[Any]:
    """Operations that the DPP classes of the tables hold, on operands of at most 32 bits."""
    allowed = set()
    for name in (family, f"{family}_SDST"):
        encoding = getattr(isa, f"{name}_DPP16", None)
        if encoding is not None:
            allowed |= dict(encoding._fields)["op"].allowed
    found = []
    for operation in operations(family):
        if operation not in allowed or encoding_of(operation, family).__name__.endswith("_LIT"):
            continue
        plan = plan_vector(operation, encoding_of(operation, family), "", random.Random(0))
        assert plan is not None
        widths = [source.width for source in plan.sources] + [plan.destination_width]
        if max(widths) <= 32 and plan.sources[0].kind == "vector":
            found.append(operation)
    return found


def plan_dpp(operation: Any, family: str, rng: random.Random) -> tuple[VectorPlan, Control]:
    """The plan of `operation` with its instruction replaced by the DPP form."""
    encoding = encoding_of(operation, family)
    plan = plan_vector(operation, encoding, text_of(operation), rng)
    assert plan is not None
    control = random_control(rng)
    name = encoding.__name__.removesuffix("_SDST")
    fields = dict(encoding._fields)
    plain = plan.instruction
    values = {
        field: getattr(plain, field)
        for field in ("vdst", "sdst", "vsrc1", "src1", "src2")
        if field in fields
    }
    source = v[plan.sources[0].register]
    if control.selectors:
        marker = _DPP8_FETCH_INACTIVE if control.fetch_inactive else _DPP8
        values |= {f"lane_sel_{i}": x for i, x in enumerate(control.selectors)}
        plan.instruction = _build(f"{name}_DPP8", operation, values, marker, source)
    else:
        values |= {"dpp": control.code, "fi": int(control.fetch_inactive)}
        values |= {"bc": int(control.bound_control)}
        values |= {"row_mask": control.row_mask, "bank_mask": control.bank_mask}
        plan.instruction = _build(f"{name}_DPP16", operation, values, isa.DPP, source)
    plan.variant = f"dpp {control}"
    return plan, control


def _build(name: str, operation: Any, values: dict[str, Any], marker: Any, source: Any) -> Any:
    if name.startswith("VOP3") and values["vdst"].offset < 256:
        # The classes know a vector destination alone; the field holds a scalar's number as well.
        values["vdst"] = v[values["vdst"].offset]
    return getattr(isa, name)(operation, src0=marker, vsrc0=source, **values)


def evaluate_dpp(
    plan: VectorPlan, control: Control, vectors: np.ndarray, scalars: np.ndarray
) -> tuple[Expected, np.ndarray]:
    """The text on operands moved between lanes, for the lanes that DPP lets run.

    Returns the expected registers, and the vectors with each lane's S0 as it reads it.
    """
    moved, enabled = vectors.copy(), scalars.copy()
    register = plan.sources[0].register
    for wave in range(vectors.shape[0]):
        execute = int(scalars[wave, h.EXEC])
        for lane in range(h.LANES):
            source = control.source(lane)
            valid = source is not None and (control.fetch_inactive or execute >> source & 1)
            runs = control.writes(lane) and (valid or control.bound_control)
            if not runs:
                enabled[wave, h.EXEC] &= np.uint32(~(1 << lane) & 0xFFFFFFFF)
            moved[wave, lane, register] = vectors[wave, source, register] if valid else 0
    expected = evaluate(plan, moved, enabled)
    for wave in range(vectors.shape[0]):
        # S0 itself is not changed, and EXEC stays as it was unless the instruction writes it.
        expected.vectors[wave, :, register] = vectors[wave, :, register]
        if plan.destination != "exec":
            expected.scalars[wave, h.EXEC] = scalars[wave, h.EXEC]
    return expected, moved
