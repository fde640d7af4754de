"""AMD's instruction tables to the page that lists what the emulator implements and what it lacks.

Each operation of each encoding is encoded with plain operands, decoded and translated, as a program
would be: what raises UnsupportedInstructionError is missing, with the reason that it gives.

    python -m tessera.emulator.coverage --write | --check
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tessera.emulator.decode import decode, plain_name
from tessera.emulator.errors import UnsupportedInstructionError
from tessera.emulator.step import Mode
from tessera.emulator.translate import translate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "emulator_coverage.md"

# Encoding -> what it is for; the order of the page.
FAMILIES: Mapping[str, str] = {
    "SOP1": "scalar, one source",
    "SOP2": "scalar, two sources",
    "SOPC": "scalar compares",
    "SOPK": "scalar with a 16-bit constant",
    "SOPP": "program control",
    "SMEM": "scalar memory",
    "VOP1": "vector, one source",
    "VOP2": "vector, two sources",
    "VOPC": "vector compares",
    "VOP3": "vector, 64-bit encoding (with every VOP1, VOP2 and VOPC form)",
    "VOP3SD": "vector with a second, scalar result",
    "VOP3P": "packed and matrix",
    "VOPD": "two operations in one",
    "DS": "local memory (LDS)",
    "GLOBAL": "global memory",
    "FLAT": "flat memory",
    "SCRATCH": "private memory",
    "MUBUF": "untyped buffers",
    "MTBUF": "typed buffers",
    "MIMG": "images and ray tracing",
    "EXP": "exports of graphics stages",
    "LDSDIR": "parameters of pixel stages",
    "VINTERP": "interpolation of pixel stages",
}
GRAPHICS = ("MTBUF", "MIMG", "EXP", "LDSDIR", "VINTERP")
VARIANTS = ("DPP16", "DPP8")
# Lane selection is one mechanism per encoding: one operation shows whether it is there.
REPRESENTATIVES: Mapping[str, str] = {
    "VOP1": "V_CVT_F32_I32",
    "VOP2": "V_ADD_F32",
    "VOPC": "V_CMP_LT_F32",
    "VOP3": "V_ADD3_U32",
    "VOP3SD": "V_ADD_CO_U32",
    "VOP3P": "V_FMA_MIX_F32",
}

_NULL, _MODE_REGISTER, _REAL_TIME, _RELEASE_REGISTERS = 124, 1 | 31 << 11, 131, 3
_FIRST_VECTOR = 256  # operand number of v0
# Operations that mean something only with certain operands: fields of the encoding.
EXAMPLES: Mapping[str, Mapping[str, int]] = {
    "S_SENDMSG": {"simm16": _RELEASE_REGISTERS},
    "S_SENDMSG_RTN_B32": {"ssrc0": _REAL_TIME},
    "S_SENDMSG_RTN_B64": {"ssrc0": _REAL_TIME},
    "S_GETREG_B32": {"simm16": _MODE_REGISTER},
    "S_SETREG_B32": {"simm16": _MODE_REGISTER},
    "S_SETREG_IMM32_B32": {"simm16": _MODE_REGISTER},
    "V_MQSAD_U32_U8": {"src2": _FIRST_VECTOR},
    "V_READLANE_B32": {"src0": _FIRST_VECTOR},
    **{
        f"S_WAITCNT_{counter}": {"sdst": _NULL}
        for counter in ("VSCNT", "VMCNT", "EXPCNT", "LGKMCNT")
    },
}

NOTES = """\
## Where results are chosen, not copied

AMD's pseudo-code leaves some results open or contradicts its own notes. What the emulator does:

- V_EXP, V_LOG, V_RCP, V_RSQ and V_SQRT are computed in binary64 and rounded, f32 forms with
  denormal operands and results flushed to zero, as the ISA guide says. Hardware is allowed one unit
  in the last place, so the last bit can differ from a chip. The f64 forms are exact where hardware
  gives about 24 bits.
- V_SIN and V_COS reduce the angle exactly and are right over the whole range.
- Matrix products (V_WMMA) add in float32 in the order of the host's matrix product, then add C: the
  order in which hardware adds is not published. The integer forms are exact.
- V_DOT2 adds low before high and rounds after each step; V_DOT2_BF16_BF16 flushes denormals.
- V_FRACT stays below 1. V_FREXP normalizes denormals, and zero has exponent 0.
- V_DIV_SCALE, V_DIV_FMAS and V_DIV_FIXUP follow the intent: the division sequence of LLVM gives
  correctly rounded quotients for all operands, denormal and overflowing ones included.
- V_MIN, V_MAX and V_MED3 treat signaling NaN as with IEEE mode on, whatever the descriptor says.
- A computed NaN has the host's payload.
- Rounding is to nearest even; MODE's other rounding modes are refused by name.
"""


@dataclass
class Family:
    """Operations of one encoding: those implemented, and those missing with the reason."""

    name: str
    implemented: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return len(self.implemented) + len(self.missing)


def _tables() -> Any:
    from tinygrad.runtime.autogen.amd.rdna3 import ins

    return ins


def _example(name: str) -> Mapping[str, int]:
    """Fields with which an operation means something."""
    if name.startswith("V_WMMA"):
        return {"vdst": 8, "src0": _FIRST_VECTOR + 16, "src1": _FIRST_VECTOR + 24, "src2": 128}
    return EXAMPLES.get(name, {})


def _with_fields(encoded: Any, values: Mapping[str, int]) -> bytes:
    """The machine code of a record with some fields replaced by raw numbers."""
    data = encoded.to_bytes()
    word, fields = int.from_bytes(data, "little"), dict(encoded._fields)
    for name, value in values.items():
        place = fields[name]
        word = word & ~(place.mask << place.lo) | value << place.lo
    return word.to_bytes(len(data), "little")


def _encodings(family: str) -> Iterator[tuple[str, bytes]]:
    """(operation name, machine code) for each operation of the family, by opcode."""
    tables = _tables()
    found: dict[int, tuple[str, bytes]] = {}
    for suffix in ("", "_SDST", "_LIT"):
        encoding = getattr(tables, family + suffix, None)
        fields = dict(encoding._fields) if encoding is not None else {}
        if encoding is None or "op" not in fields:
            continue
        allowed = fields["op"].allowed
        for operation in allowed if allowed is not None else fields["op"]._enum:
            if operation.value not in found:
                data = _with_fields(encoding(op=operation), _example(operation.name))
                found[operation.value] = (operation.name, data)
    for opcode in sorted(found):
        yield found[opcode]


def _dual_encodings() -> Iterator[tuple[str, bytes]]:
    """Each operation of VOPD with a move as the other half."""
    tables = _tables()
    enum = dict(tables.VOPD._fields)["opx"]._enum
    move, first, second = enum.V_DUAL_MOV_B32, tables.v[0], tables.v[1]
    for operation in enum:
        pair = {"opx": operation, "opy": move} if operation.value < 16 else {
            "opx": move,
            "opy": operation,
        }  # fmt: skip
        encoding = tables.VOPD_LIT if "K_F32" in operation.name else tables.VOPD
        yield operation.name, encoding(**pair, vdstx=first, vdsty=second).to_bytes()


def _reason(data: bytes) -> str | None:
    """Why an encoded instruction is not supported; None when it is."""
    try:
        translate(decode(data, 0), Mode())
    except UnsupportedInstructionError as error:
        return str(error).rsplit(": ", 1)[-1]
    return None


def examine(family: str) -> Family:
    """Try every operation of an encoding family."""
    result = Family(family)
    records = _dual_encodings() if family == "VOPD" else _encodings(family)
    for name, data in records:
        reason = "graphics, not implemented" if family in GRAPHICS else _reason(data)
        if reason is None:
            result.implemented.append(name)
        else:
            result.missing[plain_name(name)] = reason
    if family == "EXP":
        result.missing = {"EXP": "graphics, not implemented"}
    return result


def lane_form(family: str, variant: str) -> str:
    """Yes, or why a family does not run in a DPP form; empty where there is no such form."""
    encoding = getattr(_tables(), f"{family}_{variant}", None)
    wanted = REPRESENTATIVES.get(family)
    if encoding is None or wanted is None:
        return ""
    allowed = dict(encoding._fields)["op"].allowed
    (operation,) = [each for each in allowed if plain_name(each.name) == wanted]
    marker = {"DPP16": 250, "DPP8": 233}[variant]
    return _reason(_with_fields(encoding(op=operation), {"src0": marker})) or "yes"


def _wrapped(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) + "."


def _section(result: Family) -> list[str]:
    lines = [f"### {result.name}: {FAMILIES[result.name]}", ""]
    own = [name for name in result.implemented if not name.endswith(("_E32", "_E64"))]
    plain = own if result.name == "VOP3" else [plain_name(name) for name in result.implemented]
    if plain:
        lines += [f"Implemented ({len(result.implemented)}): {_wrapped(plain)}", ""]
    by_reason: dict[str, list[str]] = {}
    for name, reason in result.missing.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        lines += [f"Missing ({len(names)}; {reason}): {_wrapped(names)}", ""]
    return lines


def page() -> str:
    """The whole page as Markdown."""
    results = [examine(family) for family in FAMILIES]
    compute = [result for result in results if result.name not in GRAPHICS]
    done = sum(len(result.implemented) for result in compute)
    total = sum(result.total for result in compute)
    lines = [
        "# Instructions of the gfx1151 emulator",
        "",
        "Generated by `python -m tessera.emulator.coverage --write`; CI checks that it is current.",
        "Every operation of AMD's tables is encoded, decoded and translated to find out.",
        "",
        f"Compute encodings: {done} of {total} operations. Encodings of graphics are not built.",
        "",
        "| encoding | what | implemented | of | DPP16 | DPP8 |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        forms = [lane_form(result.name, variant) for variant in VARIANTS]
        lines.append(
            f"| {result.name} | {FAMILIES[result.name]} | {len(result.implemented)} |"
            f" {result.total} | {forms[0]} | {forms[1]} |"
        )
    lines += ["", NOTES, "## Operations", ""]
    for result in results:
        lines += _section(result)
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check that the stored one is current (exit status 1 when it is not)."""
    parser = argparse.ArgumentParser(prog="python -m tessera.emulator.coverage")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write docs/emulator_coverage.md")
    action.add_argument("--check", action="store_true", help="fail when the page is not current")
    options = parser.parse_args(arguments)
    text = page()
    if options.write:
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    print(f"{PAGE.name} is not current: run python -m tessera.emulator.coverage --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
