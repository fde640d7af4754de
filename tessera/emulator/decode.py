"""Machine code bytes to `Instruction` records with fields, mnemonic and readable text.

The tables of fields and operations are tinygrad's, generated from AMD's machine-readable ISA. Which
format a word has is found here: tinygrad's own search takes longer and misses MUBUF and DPP8.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tessera.emulator.errors import UnsupportedInstructionError

LONGEST_INSTRUCTION_BYTES = 12
LITERAL_SOURCE, DPP16_SOURCE, DPP8_SOURCES = 255, 250, (233, 234)
DPP_FAMILIES = ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P")
# (lowest bit, width) of the source fields that can ask for a literal or a DPP word, the one for DPP
# first.
SOURCE_FIELDS: dict[str, tuple[tuple[int, int], ...]] = {
    "VOP1": ((0, 9),),
    "VOP2": ((0, 9),),
    "VOPC": ((0, 9),),
    "VOP3": ((32, 9), (41, 9), (50, 9)),
    "VOP3SD": ((32, 9), (41, 9), (50, 9)),
    "VOP3P": ((32, 9), (41, 9), (50, 9)),
    "VOPD": ((0, 9), (32, 9)),
    "SOP1": ((0, 8),),
    "SOP2": ((0, 8), (8, 8)),
    "SOPC": ((0, 8), (8, 8)),
}


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


def _encoded(data: bytes, pc: int) -> Any:
    """The tinygrad record of the instruction at the start of `data`."""
    word = int.from_bytes(data[:4], "little")
    try:
        kind = _kind(data, word)
        encoded = object.__new__(kind)
        encoded._raw = int.from_bytes(data[: kind._base_size], "little")
        variant = _variant(kind, encoded._raw)
        if variant is not None:
            encoded = object.__new__(variant)
            encoded._raw = int.from_bytes(data[: variant._base_size], "little")
        _ = encoded.op.name if hasattr(kind, "op") else (encoded.opx.name, encoded.opy.name)
        return encoded
    except (ValueError, LookupError) as error:
        raise UnsupportedInstructionError(
            f"unknown instruction word {word:#010x} at pc {pc:#x}"
        ) from error


def _kind(data: bytes, word: int) -> Any:
    """The tinygrad class of the encoding, without literal or DPP word."""
    from tinygrad.renderer.amd import _matches

    for candidate in _candidates()[word >> 26]:
        if _matches(data, candidate):
            return candidate
    raise LookupError(word)


@lru_cache(maxsize=1)
def _candidates() -> list[list[Any]]:
    """tinygrad's formats in its order, and MUBUF, by the upper six bits of the first word."""
    from tinygrad.renderer.amd import _load_formats
    from tinygrad.runtime.autogen.amd.rdna3 import ins

    table: list[list[Any]] = [[] for _ in range(64)]
    for candidate in (*_load_formats()["rdna3"], ins.MUBUF):
        encoding = dict(candidate._fields)["encoding"]
        low = max(encoding.lo, 26)
        for prefix in range(64):
            if prefix >> (low - 26) == encoding.default >> (low - encoding.lo):
                table[prefix].append(candidate)
    return table


def _variant(kind: Any, raw: int) -> Any | None:
    """The class with a literal or DPP word behind it, which a source field asks for."""
    from tinygrad.runtime.autogen.amd.rdna3 import ins

    name = kind.__name__
    family = name.removesuffix("_SDST")
    sources = SOURCE_FIELDS.get(family, ())
    suffix = ""
    for low, width in sources:
        source = raw >> low & (1 << width) - 1
        if source == LITERAL_SOURCE:
            suffix = "_LIT"
        elif family in DPP_FAMILIES and low == sources[0][0]:
            if source in DPP8_SOURCES:
                suffix = "_DPP8"
            elif source == DPP16_SOURCE:
                suffix = "_DPP16"
    if family == "VOPD" and not suffix:
        encoded = object.__new__(kind)
        encoded._raw = raw
        if any("FMA" in x.name and "K_" in x.name for x in (encoded.opx, encoded.opy)):
            suffix = "_LIT"
    if not suffix:
        return None
    return getattr(ins, name + suffix, None) or getattr(ins, family + suffix, None)
