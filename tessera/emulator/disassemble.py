"""Instructions to readable assembly in LLVM's style, for reports and traces."""

from __future__ import annotations

from typing import Any

from tessera.emulator.decode import Instruction

HIDDEN_FIELDS = {"op", "opx", "opy", "encoding", "seg", "literal"}


def disassemble(instruction: Instruction) -> str:
    """One line of assembly: mnemonic, registers and constants, then the other fields by name."""
    encoded = instruction.encoded
    if instruction.format == "VOPD":
        return _dual(instruction)
    name = encoded.op.name.lower()
    operands, others = [], []
    used = set(encoded.operands) | {"vsrc0" if "vsrc0" in encoded.operands else ""}
    for field_name, bits in encoded._fields:
        if field_name in HIDDEN_FIELDS or type(bits).__name__ == "FixedBitField":
            continue
        try:
            value = getattr(encoded, field_name)
        except (ValueError, RuntimeError):
            continue
        if type(value).__name__ == "Reg":
            if field_name in used or field_name.startswith(("src", "vsrc", "ssrc")):
                operands.append(_register(value, instruction))
        elif value != bits.default or field_name in ("simm16", "offset"):
            if field_name == "simm16":
                operands.append(_immediate(instruction, value))
            elif value:
                others.append(f"{field_name}:{value}")
    return " ".join([name, ", ".join(operands), *others]).strip()


def _register(value: Any, instruction: Instruction) -> str:
    if value.offset == 255:
        return f"{instruction.literal:#x}"
    if value.offset in (233, 234, 250):
        return "dpp"
    try:
        return value.fmt()
    except RuntimeError:
        return f"src{value.offset}"


def _immediate(instruction: Instruction, value: int) -> str:
    name = instruction.name
    if name == "S_WAITCNT":
        parts = (("vmcnt", value >> 10 & 63, 63), ("expcnt", value & 7, 7))
        text = [f"{label}({count})" for label, count, most in parts if count != most]
        lgkm = value >> 4 & 63
        return " ".join([*text, *([f"lgkmcnt({lgkm})"] if lgkm != 63 else [])])
    from tessera.emulator.control import branch_target

    target = branch_target(instruction)
    return f"{target - instruction.pc:+#x}" if target is not None else f"{value:#x}"


def _dual(instruction: Instruction) -> str:
    encoded = instruction.encoded
    halves = []
    for side in "xy":
        name = getattr(encoded, f"op{side}").name.lower()
        fields = [f"vdst{side}", f"src{side}0"]
        if "mov" not in name:
            fields.append(f"vsrc{side}1")
        registers = [_register(getattr(encoded, field), instruction) for field in fields]
        halves.append(f"{name} {', '.join(registers)}")
    return " :: ".join(halves)
