"""Machine code bytes to `Instruction` records with fields, mnemonic and readable text.

The tables are tinygrad's, generated from AMD's machine-readable ISA. Its decoder has no MUBUF
format, so that one is detected here (RDNA 3.5 ISA guide, section 15.7: bits 31..26 = 0b111000).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tessera.emulator.errors import UnsupportedInstructionError

MUBUF_ENCODING = 0b111000
LONGEST_INSTRUCTION_BYTES = 12
DPP8_SOURCES = (233, 234)
# Where SRC0 starts in the formats that may have a DPP8 word behind them.
FIRST_SOURCE_BIT = {"VOP1": 0, "VOP2": 0, "VOPC": 0, "VOP3": 32, "VOP3SD": 32, "VOP3P": 32}


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction at byte `pc` of the image.

    `name` is the operation without encoding suffix (V_ADD_F32, not V_ADD_F32_E32); `format` the
    encoding's family (VOP2, VOP3, SOPP, DS, MUBUF...), `encoded` the tinygrad record of fields.
    """

    pc: int
    size: int
    name: str
    format: str
    encoded: Any
    raw: int

    @property
    def text(self) -> str:
        """The instruction in readable assembly."""
        from tessera.emulator.disassemble import disassemble

        return disassemble(self)

    @property
    def literal(self) -> int:
        """The 32-bit literal constant behind the instruction; 0 without one."""
        return int(getattr(self.encoded, "literal", 0) or 0)

    def field(self, high: int, low: int) -> int:
        """Bits `high`..`low` of the encoding."""
        return self.raw >> low & ((1 << (high - low + 1)) - 1)


def plain_name(name: str) -> str:
    """A mnemonic without the suffix of its encoding."""
    return name.removesuffix("_E32").removesuffix("_E64")


FORMAT_SUFFIXES = ("_SDST_LIT", "_SDST", "_LIT", "_DPP16", "_DPP8")


def decode(code: bytes, pc: int) -> Instruction:
    """Decode the instruction at `pc`; raises UnsupportedInstructionError for an unknown word."""
    data = code[pc : pc + LONGEST_INSTRUCTION_BYTES]
    if len(data) < 4:
        raise UnsupportedInstructionError(f"the program runs past its end at pc {pc:#x}")
    encoded = _encoded(data.ljust(LONGEST_INSTRUCTION_BYTES, b"\0"), pc)
    encoded = _with_dpp8(encoded, data)
    size = encoded.size()
    if len(data) < size:
        raise UnsupportedInstructionError(f"truncated instruction at pc {pc:#x}: {data.hex()}")
    kind = type(encoded).__name__
    for suffix in FORMAT_SUFFIXES:
        if kind.endswith(suffix):
            kind = kind.removesuffix(suffix)
            break
    name = (
        f"{encoded.opx.name}::{encoded.opy.name}" if kind == "VOPD" else plain_name(encoded.op.name)
    )
    return Instruction(pc, size, name, kind, encoded, int.from_bytes(data[:size], "little"))


def _with_dpp8(encoded: Any, data: bytes) -> Any:
    """The same instruction with its DPP8 word, which tinygrad's decoder does not look for."""
    from tinygrad.runtime.autogen.amd.rdna3 import ins

    kind = type(encoded).__name__
    first = FIRST_SOURCE_BIT.get(kind)
    if first is None or encoded._raw >> first & 0x1FF not in DPP8_SOURCES:
        return encoded
    variant = getattr(ins, f"{kind}_DPP8", None)
    return encoded if variant is None else variant.from_bytes(data)


@lru_cache(maxsize=65536)
def _encoded(data: bytes, pc: int) -> Any:
    from tinygrad.renderer.amd import decode_inst
    from tinygrad.runtime.autogen.amd.rdna3 import ins

    word = int.from_bytes(data[:4], "little")
    encoded: Any
    try:
        if word >> 26 == MUBUF_ENCODING:
            encoded = ins.MUBUF.from_bytes(data)
        else:
            encoded = decode_inst(data, "rdna3")
        if hasattr(encoded, "op"):
            _ = encoded.op.name
        else:
            _ = (encoded.opx.name, encoded.opy.name)
        return encoded
    except (ValueError, AssertionError, AttributeError, RuntimeError) as error:
        raise UnsupportedInstructionError(
            f"unknown instruction word {word:#010x} at pc {pc:#x}"
        ) from error
