"""Instructions to readable assembly in LLVM's style, for reports and traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tessera.emulator.decode import DPP8_SOURCES, DPP16_SOURCE, LITERAL_SOURCE, Instruction

NULL, M0 = 124, 125
SPECIAL = {
    106: "vcc_lo",
    107: "vcc_hi",
    124: "null",
    125: "m0",
    126: "exec_lo",
    127: "exec_hi",
    235: "src_shared_base",
    236: "src_shared_limit",
    237: "src_private_base",
    238: "src_private_limit",
    240: "0.5",
    241: "-0.5",
    242: "1.0",
    243: "-1.0",
    244: "2.0",
    245: "-2.0",
    246: "4.0",
    247: "-4.0",
    248: "0.15915494",
    251: "src_vccz",
    252: "src_execz",
    253: "src_scc",
}
PAIRS = {106: "vcc", 126: "exec"}
FIRST_VGPR = 256
OMOD = {1: "mul:2", 2: "mul:4", 3: "div:2"}


def disassemble(instruction: Instruction) -> str:
    """One line of assembly: mnemonic, operands, then the modifiers that are not the default."""
    writer = WRITERS.get(instruction.format, _plain)
    operands, modifiers = writer(instruction)
    name = _mnemonic(instruction)
    return " ".join(part for part in (name, ", ".join(operands), *modifiers) if part)


Parts = tuple[list[str], list[str]]


def _mnemonic(instruction: Instruction) -> str:
    if instruction.format == "VOPD":
        return ""
    name = instruction.encoded.op.name.lower()
    return name.replace("_e32", "_dpp") if _dpp_source(instruction) is not None else name


def register(number: int, count: int, literal: int = 0) -> str:
    """The name of `count` registers, or the constant, that a 9-bit source number means."""
    if number == LITERAL_SOURCE:
        return f"{literal:#x}"
    if 128 <= number <= 208:
        return str(number - 128 if number <= 192 else 192 - number)
    if count == 2 and number in PAIRS:
        return PAIRS[number]
    if number in SPECIAL:
        return SPECIAL[number]
    if number >= FIRST_VGPR:
        letter, first = "v", number - FIRST_VGPR
    elif 108 <= number < 124:
        letter, first = "ttmp", number - 108
    else:
        letter, first = "s", number
    return f"{letter}{first}" if count == 1 else f"{letter}[{first}:{first + count - 1}]"


def _count(instruction: Instruction, *names: str) -> int:
    """Registers of the first of these operand fields that the operation has; 0 for none."""
    sizes: dict[str, int] = instruction.encoded.op_regs
    return next((sizes[name] for name in names if name in sizes), 0)


def _operand(instruction: Instruction, number: int, *names: str) -> list[str]:
    count = _count(instruction, *names)
    return [register(number, count, instruction.literal)] if count else []


def _plain(instruction: Instruction) -> Parts:
    return [], []


def _scalar(instruction: Instruction) -> Parts:
    """SOP1, SOP2 and SOPC."""
    operands: list[str] = []
    if instruction.format != "SOPC":
        operands += _operand(instruction, instruction.field(22, 16), "sdst")
    operands += _operand(instruction, instruction.field(7, 0), "ssrc0")
    if instruction.format != "SOP1":
        operands += _operand(instruction, instruction.field(15, 8), "ssrc1")
    return operands, []


def _scalar_constant(instruction: Instruction) -> Parts:
    """SOPK and SOPP."""
    from tessera.emulator.control import branch_target

    operands: list[str] = []
    constant = instruction.field(15, 0)
    if instruction.format == "SOPK":
        operands += _operand(instruction, instruction.field(22, 16), "sdst")
    target = branch_target(instruction)
    if instruction.name == "S_WAITCNT":
        operands.append(_wait_counts(constant))
    elif target is not None:
        operands.append(f"{target - instruction.pc:+#x}")
    elif "simm16" in instruction.encoded.operands and instruction.name != "S_ENDPGM":
        operands.append(f"{constant:#x}")
    if instruction.literal:
        operands.append(f"{instruction.literal:#x}")
    return operands, []


def _wait_counts(value: int) -> str:
    fields = (("vmcnt", value >> 10 & 63, 63), ("expcnt", value & 7, 7))
    text = [f"{label}({count})" for label, count, most in fields if count != most]
    lgkm = value >> 4 & 63
    return " ".join([*text, *([f"lgkmcnt({lgkm})"] if lgkm != 63 else [])])


def _scalar_memory(instruction: Instruction) -> Parts:
    operands = _operand(instruction, instruction.field(12, 6), "sdata")
    operands += _operand(instruction, instruction.field(5, 0) * 2, "sbase")
    offset, scalar = instruction.field(52, 32), instruction.field(63, 57)
    offset -= (offset >> 20) << 21
    if operands:
        if scalar != NULL or not offset:
            operands.append(register(scalar, 1))
            return operands, [f"offset:{offset:#x}"] if offset else []
        operands.append(f"{offset:#x}")
    return operands, []


def _dpp_source(instruction: Instruction) -> int | None:
    """The source number that stands for a DPP word; None without one."""
    if instruction.format in ("VOP1", "VOP2", "VOPC"):
        source = instruction.field(8, 0)
    elif instruction.format.startswith("VOP3"):
        source = instruction.field(40, 32)
    else:
        return None
    return source if source in (DPP16_SOURCE, *DPP8_SOURCES) else None


def _dpp_modifiers(instruction: Instruction, base: int) -> list[str]:
    if _dpp_source(instruction) in DPP8_SOURCES:
        lanes = [instruction.field(base + 10 + 3 * i, base + 8 + 3 * i) for i in range(8)]
        return [f"dpp8:[{','.join(map(str, lanes))}]"]
    control, text = instruction.field(base + 16, base + 8), ""
    names = {0x100: "row_shl", 0x110: "row_shr", 0x120: "row_ror", 0x150: "row_share"}
    names[0x160] = "row_xmask"
    if control < 0x100:
        lanes = [control >> 2 * i & 3 for i in range(4)]
        text = f"quad_perm:[{','.join(map(str, lanes))}]"
    elif control in (0x140, 0x141):
        text = "row_mirror" if control == 0x140 else "row_half_mirror"
    else:
        text = f"{names.get(control & 0x1F0, 'dpp_ctrl')}:{control & 15}"
    rows, banks = (instruction.field(base + i + 3, base + i) for i in (28, 24))
    modifiers = [text, f"row_mask:{rows:#x}", f"bank_mask:{banks:#x}"]
    if instruction.field(base + 19, base + 19):
        modifiers.append("bound_ctrl:1")
    return [*modifiers, "fi:1"] if instruction.field(base + 18, base + 18) else modifiers


def _vector_short(instruction: Instruction) -> Parts:
    """VOP1, VOP2 and VOPC."""
    operands: list[str] = []
    modifiers: list[str] = []
    source, name = instruction.field(8, 0), instruction.name
    if instruction.format == "VOPC":
        operands.append("exec_lo" if "CMPX" in name else "vcc_lo")
    else:
        low = instruction.field(24, 17)
        scalar = "READFIRSTLANE" in name
        number = low if scalar else FIRST_VGPR + low
        operands += [_half(instruction, number, "vdst")] if _count(instruction, "vdst") else []
        operands += ["vcc_lo"] if "_CO_CI_" in name else []
    if _dpp_source(instruction) is not None:
        source = FIRST_VGPR + instruction.field(39, 32)
        modifiers = _dpp_modifiers(instruction, 32)
    if _count(instruction, "src0", "vsrc0"):
        operands.append(_half(instruction, source, "src0", "vsrc0"))
    constant = f"{instruction.literal:#x}"
    operands += [constant] if "FMAMK" in name else []
    if instruction.format != "VOP1" and _count(instruction, "vsrc1", "src1"):
        operands.append(_half(instruction, FIRST_VGPR + instruction.field(16, 9), "vsrc1", "src1"))
    operands += [constant] if "FMAAK" in name else []
    operands += ["vcc_lo"] if "CNDMASK" in name or "_CO_CI_" in name else []
    return operands, modifiers


def _half(instruction: Instruction, number: int, *names: str) -> str:
    """A vector register, with .l or .h where a 16-bit operand's bit 7 says which half."""
    bits = next(
        (instruction.encoded.op_bits[n] for n in names if n in instruction.encoded.op_bits), 32
    )
    if bits == 16 and number >= FIRST_VGPR:
        return register(number & ~0x80, 1) + (".h" if number & 0x80 else ".l")
    return register(number, max(1, bits // 32), instruction.literal)


def _vector_long(instruction: Instruction) -> Parts:
    """VOP3, VOP3SD and VOP3P."""
    packed, both = instruction.format == "VOP3P", instruction.format == "VOP3SD"
    scalar_result = type(instruction.encoded).__name__.startswith("VOP3_SDST")
    low = instruction.field(7, 0)
    operands = []
    if _count(instruction, "vdst") and "CMPX" not in instruction.name:
        operands += _operand(instruction, low if scalar_result else FIRST_VGPR + low, "vdst")
    if "CMPX" in instruction.name:
        operands.append("exec_lo")
    operands += [register(instruction.field(14, 8), 1)] if both else []
    negate = instruction.field(63, 61)
    absolute = 0 if packed or both else instruction.field(10, 8)
    modifiers: list[str] = []
    for i in range(3):
        names = (f"src{i}", f"vsrc{i}")
        number = instruction.field(40 + 9 * i, 32 + 9 * i)
        if i == 0 and _dpp_source(instruction) is not None:
            number = FIRST_VGPR + instruction.field(71, 64)
            modifiers = _dpp_modifiers(instruction, 64)
        for text in _operand(instruction, number, *names):
            if absolute >> i & 1:
                text = f"|{text}|"
            operands.append(f"-{text}" if negate >> i & 1 and not packed else text)
    return operands, _long_modifiers(instruction, packed, both) + modifiers


def _long_modifiers(instruction: Instruction, packed: bool, both: bool) -> list[str]:
    count = sum(bool(_count(instruction, f"src{i}", f"vsrc{i}")) for i in range(3))

    def bits(label: str, value: int, default: int = 0, places: int = count) -> list[str]:
        mask = (1 << places) - 1
        if value & mask == default & mask:
            return []
        return [f"{label}:[{','.join(str(value >> i & 1) for i in range(places))}]"]

    modifiers: list[str] = []
    if packed:
        high = instruction.field(60, 59) | instruction.field(14, 14) << 2
        modifiers += bits("op_sel", instruction.field(13, 11))
        modifiers += bits("op_sel_hi", high, 7)
        modifiers += bits("neg_lo", instruction.field(63, 61))
        modifiers += bits("neg_hi", instruction.field(10, 8))
    elif not both and instruction.field(14, 11):
        opsel = instruction.field(14, 11)
        value = opsel & (1 << count) - 1 | opsel >> 3 << count
        modifiers += bits("op_sel", value, 0, count + 1)
    if instruction.field(15, 15):
        modifiers.append("clamp")
    if not packed and instruction.field(60, 59):
        modifiers.append(OMOD[instruction.field(60, 59)])
    return modifiers


def _dual(instruction: Instruction) -> Parts:
    halves = []
    x, y = instruction.field(63, 56), instruction.field(55, 49) << 1
    sides = (
        (instruction.encoded.opx, x, instruction.field(8, 0), instruction.field(16, 9)),
        (
            instruction.encoded.opy,
            y | (x & 1 ^ 1),
            instruction.field(40, 32),
            instruction.field(48, 41),
        ),
    )
    for operation, destination, first, second in sides:
        name = operation.name.lower()
        fields = [register(FIRST_VGPR + destination, 1), register(first, 1, instruction.literal)]
        constant = f"{instruction.literal:#x}"
        fields += [constant] if "fmamk" in name else []
        fields += [register(FIRST_VGPR + second, 1)] if "mov" not in name else []
        fields += [constant] if "fmaak" in name else []
        halves.append(f"{name} {', '.join(fields)}")
    return [" :: ".join(halves)], []


def _lds(instruction: Instruction) -> Parts:
    operands: list[str] = []
    for name, low in (("vdst", 56), ("addr", 32), ("data0", 40), ("data1", 48)):
        operands += _operand(instruction, FIRST_VGPR + instruction.field(low + 7, low), name)
    first, second = instruction.field(7, 0), instruction.field(15, 8)
    if "2ADDR" in instruction.name:
        pairs = (("offset0", first), ("offset1", second))
        return operands, [f"{label}:{value}" for label, value in pairs if value]
    offset = first | second << 8
    return operands, [f"offset:{offset}"] if offset else []


def _flat(instruction: Instruction) -> Parts:
    """FLAT, GLOBAL and SCRATCH."""
    operands: list[str] = []
    scalar, scratch = instruction.field(54, 48), instruction.format == "SCRATCH"
    returns = "ATOMIC" not in instruction.name or instruction.field(14, 14)
    if returns:
        operands += _operand(instruction, FIRST_VGPR + instruction.field(63, 56), "vdst")
    if not scratch or instruction.field(55, 55):
        operands += _operand(instruction, FIRST_VGPR + instruction.field(39, 32), "addr")
    else:
        operands.append("off")
    operands += _operand(instruction, FIRST_VGPR + instruction.field(47, 40), "data")
    if instruction.format != "FLAT":
        off = scalar in (NULL, M0)
        operands.append("off" if off else register(scalar, 1 if scratch else 2))
    offset = instruction.field(12, 0)
    offset -= (offset >> 12) << 13
    return operands, _cache_modifiers(instruction, [f"offset:{offset}"] if offset else [])


def _cache_modifiers(instruction: Instruction, modifiers: list[str]) -> list[str]:
    encoded: Any = instruction.encoded
    return modifiers + [name for name in ("glc", "slc", "dlc") if getattr(encoded, name, 0)]


def _buffer(instruction: Instruction) -> Parts:
    if not _count(instruction, "vdata"):
        return [], []
    has_offset, has_index = instruction.field(54, 54), instruction.field(55, 55)
    operands = _operand(instruction, FIRST_VGPR + instruction.field(47, 40), "vdata")
    address = FIRST_VGPR + instruction.field(39, 32)
    operands.append(register(address, has_offset + has_index) if has_offset or has_index else "off")
    operands.append(register(instruction.field(52, 48) * 4, 4))
    operands.append(register(instruction.field(63, 56), 1))
    modifiers = [n for n, given in (("idxen", has_index), ("offen", has_offset)) if given]
    offset = instruction.field(11, 0)
    return operands, _cache_modifiers(
        instruction, [*modifiers, *([f"offset:{offset}"] * bool(offset))]
    )


WRITERS: Mapping[str, Callable[[Instruction], Parts]] = {
    "SOP1": _scalar,
    "SOP2": _scalar,
    "SOPC": _scalar,
    "SOPK": _scalar_constant,
    "SOPP": _scalar_constant,
    "SMEM": _scalar_memory,
    "VOP1": _vector_short,
    "VOP2": _vector_short,
    "VOPC": _vector_short,
    "VOP3": _vector_long,
    "VOP3SD": _vector_long,
    "VOP3P": _vector_long,
    "VOPD": _dual,
    "DS": _lds,
    "FLAT": _flat,
    "GLOBAL": _flat,
    "SCRATCH": _flat,
    "MUBUF": _buffer,
}
