"""Decoded instructions to steps: the table from encoding format to translator."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tessera.emulator import (
    buffer_memory,
    control,
    dual_issue,
    global_memory,
    lane_operations,
    local_memory,
    scalar_alu,
    scalar_memory,
    vector_alu,
    vector_packed,
)
from tessera.emulator.decode import Instruction
from tessera.emulator.errors import UnsupportedInstructionError
from tessera.emulator.step import Mode, Step, unsupported

TRANSLATORS: Mapping[str, Callable[[Instruction, Mode], Step]] = {
    "SOP1": control.translate_scalar_one,
    "SOP2": scalar_alu.translate_sop2,
    "SOPC": scalar_alu.translate_sopc,
    "SOPK": control.translate_sopk,
    "SOPP": control.translate_sopp,
    "SMEM": scalar_memory.translate_smem,
    "VOP1": vector_alu.translate_vop1,
    "VOP2": vector_alu.translate_vop2,
    "VOPC": vector_alu.translate_vopc,
    "VOP3": vector_alu.translate_vop3,
    "VOP3SD": vector_alu.translate_vop3,
    "VOP3P": vector_packed.translate_vop3p,
    "VOPD": dual_issue.translate_vopd,
    "DS": local_memory.translate_ds,
    "GLOBAL": global_memory.translate_global,
    "FLAT": global_memory.translate_flat,
    "SCRATCH": global_memory.translate_scratch,
    "MUBUF": buffer_memory.translate_mubuf,
}


def translate(instruction: Instruction, mode: Mode) -> Step:
    """The step for one instruction; raises UnsupportedInstructionError for what is missing."""
    if instruction.name in lane_operations.TRANSLATORS:
        return lane_operations.TRANSLATORS[instruction.name](instruction, mode)
    translator = TRANSLATORS.get(instruction.format)
    if translator is None:
        raise unsupported(instruction)
    try:
        return translator(instruction, mode)
    except UnsupportedInstructionError as error:
        if instruction.name in str(error):
            raise
        raise unsupported(instruction, str(error)) from error
