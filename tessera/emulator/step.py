"""A translated instruction: what runs it, which registers it touches, which counter it raises.

Translators are functions `Instruction, Mode -> Step`; `translate.py` holds their table by format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tessera.emulator.decode import Instruction
from tessera.emulator.errors import UnsupportedInstructionError
from tessera.emulator.state import WaveGroup

Run = Callable[[WaveGroup], Any]


@dataclass(frozen=True)
class Step:
    """One executable instruction.

    `reads` and `writes` are register sets; `keeps` are registers written in part (masked lanes or
    one half): they must hold their old value, but are not read. `counter` is the wait counter that
    the instruction raises ("vm", "vs", "lgkm"; several joined by "+"), `returns` the registers that
    arrive later. For the sanitizers: `unchecked` are registers whose lanes may be without a value,
    `tolerated` those that may be so altogether,
    `data` those that a store takes its values from, `copies` pairs of registers (written, read)
    that a move connects, `ignores_exec` says that all lanes are written, `matrix` gives
    the first register and the count of A and of B. With `control` set
    the step ends a block: "jump" (`run` gives the next pc, an integer or int64 [waves]), "barrier"
    or "end".
    """

    instruction: Instruction
    run: Run
    reads: int = 0
    writes: int = 0
    keeps: int = 0
    counter: str = ""
    returns: int = 0
    in_order: bool = True
    wait: Callable[[WaveGroup], None] | None = None
    control: str = ""
    unchecked: int = 0
    tolerated: int = 0
    data: int = 0
    copies: tuple[tuple[int, int], ...] = ()
    ignores_exec: bool = False
    matrix: tuple[tuple[int, int], tuple[int, int]] | None = None
    target: int | None = None


@dataclass(frozen=True)
class Mode:
    """The part of the MODE register that changes results: rounding and denormals.

    Two bits each: `round32`, `round64` (0: to nearest even), `denorm32`, `denorm64` (3: kept).
    `ieee` turns output modifiers off.
    """

    round32: int = 0
    round64: int = 0
    denorm32: int = 3
    denorm64: int = 3
    dx10_clamp: bool = True
    ieee: bool = False

    @staticmethod
    def from_bits(bits: int) -> Mode:
        """From MODE: bits 1:0, 3:2, 5:4, 7:6, DX10_CLAMP in bit 8 and IEEE in bit 9."""
        fields = [bits >> shift & 3 for shift in (0, 2, 4, 6)]
        return Mode(*fields, dx10_clamp=bool(bits >> 8 & 1), ieee=bool(bits >> 9 & 1))


def unsupported(instruction: Instruction, why: str = "not implemented") -> Exception:
    """The error that names an instruction with its pc and the reason."""
    return UnsupportedInstructionError(
        f"{instruction.name} ({instruction.format}) at pc {instruction.pc:#x} "
        f"`{instruction.text}`: {why}"
    )
