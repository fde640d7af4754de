"""AMDGPU code objects for RDNA 3.5 (gfx1151) to results, without the chip.

Bytes in, results out: `run` executes a kernel's machine code on numpy arrays and reports what it
did and what the hardware would have done badly. Nothing here knows the compiler.
"""

from __future__ import annotations

from tessera.emulator.arguments import uninitialized
from tessera.emulator.code_object import CodeObject, KernelArgument, KernelDescription, load
from tessera.emulator.errors import (
    BarrierError,
    CodeObjectError,
    EmulatorError,
    Finding,
    HazardError,
    InstructionLimitError,
    InternalError,
    LaunchArgumentError,
    LdsRaceError,
    MatrixOperandError,
    MemoryAccessError,
    MissingWaitError,
    SanitizerError,
    TrapError,
    UninitializedReadError,
    UnsupportedInstructionError,
)
from tessera.emulator.launch import run
from tessera.emulator.report import Report

__all__ = [
    "BarrierError",
    "CodeObject",
    "CodeObjectError",
    "EmulatorError",
    "Finding",
    "HazardError",
    "InstructionLimitError",
    "InternalError",
    "KernelArgument",
    "KernelDescription",
    "LaunchArgumentError",
    "LdsRaceError",
    "MatrixOperandError",
    "MemoryAccessError",
    "MissingWaitError",
    "Report",
    "SanitizerError",
    "TrapError",
    "UninitializedReadError",
    "UnsupportedInstructionError",
    "load",
    "run",
    "uninitialized",
]
