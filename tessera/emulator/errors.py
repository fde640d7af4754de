"""Faults of an emulated launch to exceptions that name kernel, pc, instruction, lane and address.

Everything the emulator raises on purpose is an `EmulatorError` with a one-line message. What the
sanitizers find is a `Finding`; the exception that reports it carries it as `.finding`.
"""

from __future__ import annotations

from dataclasses import dataclass


class EmulatorError(Exception):
    """Base of everything that the emulator raises on purpose."""


class CodeObjectError(EmulatorError):
    """A damaged, foreign or incomplete code object, or a kernel that it does not hold."""


class LaunchArgumentError(EmulatorError):
    """Arguments, grid, block or LDS size that do not fit the kernel."""


class UnsupportedInstructionError(EmulatorError):
    """An instruction that is unknown or not implemented; names it with its pc."""


class TrapError(EmulatorError):
    """The program executed `s_trap` or halted itself."""


class InternalError(EmulatorError):
    """A fault of the emulator itself while it executed the named instruction."""


@dataclass(frozen=True)
class Finding:
    """One thing that the hardware would do badly.

    `kind` is one of "out_of_bounds", "misaligned", "read_only", "uninitialized", "missing_wait",
    "lds_race", "barrier", "matrix_operands", "hazard", "instruction_limit". `pc` counts bytes from
    the kernel's entry; `wave` is the wave's number inside its workgroup; `address` is the emulated
    address (or LDS byte).
    """

    kind: str
    kernel: str
    pc: int
    instruction: str
    message: str
    workgroup: tuple[int, int, int] | None = None
    wave: int | None = None
    lane: int | None = None
    address: int | None = None
    buffer: str | None = None

    def __str__(self) -> str:
        place = f"{self.kernel} at pc {self.pc:#x} `{self.instruction}`"
        if self.workgroup is not None:
            place += f", workgroup {self.workgroup}"
        if self.wave is not None:
            place += f", wave {self.wave}"
        if self.lane is not None:
            place += f", lane {self.lane}"
        return f"{self.kind}: {self.message} ({place})"


class SanitizerError(EmulatorError):
    """A finding of the sanitizers, kept as `.finding`."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


class MemoryAccessError(SanitizerError):
    """An access out of bounds, misaligned, or a write to a read-only buffer."""


class UninitializedReadError(SanitizerError):
    """A read of global memory, LDS or a register that was never written."""


class MissingWaitError(SanitizerError):
    """A register used before the `s_waitcnt` that its load or store needs."""


class LdsRaceError(SanitizerError):
    """Two waves touch the same LDS byte, one writing, with no barrier between."""


class BarrierError(SanitizerError):
    """Waves of one workgroup that do not meet at the same barrier."""


class MatrixOperandError(SanitizerError):
    """A or B of a matrix instruction differs between the lane halves, which must agree."""


class HazardError(SanitizerError):
    """A matrix result used as A or B by the next vector instruction, which the ISA forbids."""


class InstructionLimitError(SanitizerError):
    """The launch executed more wave-instructions than `max_instructions` allows."""


ERROR_BY_KIND: dict[str, type[SanitizerError]] = {
    "out_of_bounds": MemoryAccessError,
    "misaligned": MemoryAccessError,
    "read_only": MemoryAccessError,
    "uninitialized": UninitializedReadError,
    "missing_wait": MissingWaitError,
    "lds_race": LdsRaceError,
    "barrier": BarrierError,
    "matrix_operands": MatrixOperandError,
    "hazard": HazardError,
    "instruction_limit": InstructionLimitError,
}


def error_for(finding: Finding) -> SanitizerError:
    """The exception that reports `finding`."""
    return ERROR_BY_KIND[finding.kind](finding)
