"""Instruction classes of the tables to lists of operations, and to what is left out and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tinygrad.runtime.autogen.amd.rdna3.str_pcode import PCODE

from emulator_witness.assembler import isa
from emulator_witness.vector_cases import base_name

_RELATIVE = "names registers relative to M0: tested in test_lane_instructions.py"
_LANES = "reads or writes other lanes: tested in test_lane_instructions.py"
_MATRIX = "its text is one line of mathematics: tested in test_matrix_instructions.py"
_NOTHING = "has no text because it changes nothing: tested in test_lane_instructions.py"
TESTED_APART: Mapping[str, str] = {
    "V_NOP": _NOTHING,
    "V_PIPEFLUSH": _NOTHING,
    "V_MOVRELD_B32": _RELATIVE,
    "V_MOVRELS_B32": _RELATIVE,
    "V_MOVRELSD_B32": _RELATIVE,
    "V_MOVRELSD_2_B32": _RELATIVE,
    "V_SWAPREL_B32": _RELATIVE,
    "V_READFIRSTLANE_B32": _LANES,
    "V_READLANE_B32": _LANES,
    "V_WRITELANE_B32": _LANES,
    "V_PERMLANE16_B32": _LANES,
    "V_PERMLANEX16_B32": _LANES,
    "V_PERMLANE64_B32": "does nothing in wave32: tested in test_lane_instructions.py",
    "V_SWAP_B32": "writes both operands: tested in test_lane_instructions.py",
    "V_SWAP_B16": "writes both operands: tested in test_lane_instructions.py",
    **{
        f"V_WMMA_{kind}": _MATRIX
        for kind in (
            "F32_16X16X16_F16 F32_16X16X16_BF16 F16_16X16X16_F16 BF16_16X16X16_BF16 "
            "I32_16X16X16_IU8 I32_16X16X16_IU4"
        ).split()
    },
}
"""Vector instructions whose text the evaluator of one lane cannot express."""

_VECTOR_ENCODINGS: Mapping[str, type] = {
    "VOP1": isa.VOP1,
    "VOP2": isa.VOP2,
    "VOPC": isa.VOPC,
    "VOP3": isa.VOP3,
    "VOP3SD": isa.VOP3SD,
    "VOP3P": isa.VOP3P,
}


def encoding_of(operation: Any, family: str) -> type:
    """The class of the tables that encodes `operation`: literals and scalar results differ."""
    name = base_name(operation)
    if family == "VOP2" and any(part in name for part in ("FMAMK", "FMAAK")):
        return isa.VOP2_LIT
    if family == "VOP3" and "_CMP" in name:
        return isa.VOP3_SDST
    return _VECTOR_ENCODINGS[family]


def every_operation(family: str) -> list[Any]:
    """All operations of a vector encoding, by opcode."""
    found = set()
    for name in (family, f"{family}_SDST"):
        encoding = getattr(isa, name, None)
        if encoding is not None:
            found |= dict(encoding._fields)["op"].allowed
    return sorted(found, key=lambda operation: operation.value)


def operations(family: str) -> list[Any]:
    """All operations of a vector encoding, by opcode, without those tested apart."""
    return [x for x in every_operation(family) if base_name(x) not in TESTED_APART]


def text_of(operation: Any) -> str:
    return PCODE[operation]
