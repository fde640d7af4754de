"""Instruction bytes to a loadable gfx1151 code object, from the public AMDGPU ABI alone."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

EM_AMDGPU = 224
ELFOSABI_AMDGPU_HSA = 64
ABI_VERSION_5 = 3
MACHINE_FLAGS = {"gfx1100": 0x41, "gfx1150": 0x43, "gfx1151": 0x4A, "gfx1201": 0x4E}
NT_AMDGPU_METADATA = 32
S_CODE_END = bytes.fromhex("00009fbf")
# Float mode 0xf0: round to nearest even, no denormal is flushed (what HIP compilers ask for).
FLOAT_MODE_DEFAULT = 0xF0


@dataclass(frozen=True)
class KernelArgument:
    """One explicit argument: its size in bytes, and whether it is a global pointer."""

    name: str
    size: int
    is_buffer: bool


@dataclass(frozen=True)
class Kernel:
    """What the descriptor and the metadata say about one kernel; sizes in bytes."""

    code: bytes
    name: str = "kernel"
    arguments: Sequence[KernelArgument] = ()
    lds_bytes: int = 0
    private_bytes: int = 0
    vgprs: int = 128
    sgprs: int = 106
    max_block: int = 1024
    work_item_dimensions: int = 1
    workgroup_ids: tuple[bool, bool, bool] = (True, False, False)
    float_mode: int = FLOAT_MODE_DEFAULT
    ieee_mode: bool = True
    dx10_clamp: bool = True
    wavefront_size: int = 32
    hidden_arguments: Sequence[tuple[str, int]] = field(default_factory=tuple)

    def layout(self) -> tuple[list[dict[str, Any]], int]:
        """Metadata entries of the arguments, naturally aligned, and the size of the segment."""
        entries: list[dict[str, Any]] = []
        offset = 0
        for argument in self.arguments:
            offset = -(-offset // argument.size) * argument.size
            entry: dict[str, Any] = {
                ".name": argument.name,
                ".offset": offset,
                ".size": argument.size,
                ".value_kind": "global_buffer" if argument.is_buffer else "by_value",
            }
            if argument.is_buffer:
                entry[".address_space"] = "global"
            entries.append(entry)
            offset += argument.size
        for kind, size in self.hidden_arguments:
            offset = -(-offset // size) * size
            entries.append({".offset": offset, ".size": size, ".value_kind": kind})
            offset += size
        return entries, -(-offset // 8) * 8

    def descriptor(self, entry_offset: int) -> bytes:
        """The 64-byte amd_kernel_descriptor whose code lies `entry_offset` bytes behind it."""
        resource1 = (
            (-(-self.vgprs // 8) - 1)
            | self.float_mode << 12
            | self.dx10_clamp << 21
            | self.ieee_mode << 23
            | 0b111 << 29
        )
        user_sgprs = 2
        resource2 = (self.private_bytes > 0) | user_sgprs << 1
        for axis, enabled in enumerate(self.workgroup_ids):
            resource2 |= enabled << (7 + axis)
        resource2 |= (self.work_item_dimensions - 1) << 11
        properties = 1 << 3 | (self.wavefront_size == 32) << 10
        return struct.pack(
            "<IIIIq20sIIIHHI",
            self.lds_bytes,
            self.private_bytes,
            self.layout()[1],
            0,
            entry_offset,
            bytes(20),
            0,
            resource1,
            resource2,
            properties,
            0,
            0,
        )

    def metadata(self) -> dict[str, Any]:
        entries, size = self.layout()
        return {
            ".name": self.name,
            ".symbol": f"{self.name}.kd",
            ".args": entries,
            ".kernarg_segment_size": size,
            ".kernarg_segment_align": 8,
            ".group_segment_fixed_size": self.lds_bytes,
            ".private_segment_fixed_size": self.private_bytes,
            ".max_flat_workgroup_size": self.max_block,
            ".wavefront_size": self.wavefront_size,
            ".sgpr_count": self.sgprs,
            ".vgpr_count": self.vgprs,
            ".sgpr_spill_count": 0,
            ".vgpr_spill_count": 0,
            ".uses_dynamic_stack": False,
        }


@dataclass
class _Section:
    name: str
    kind: int
    flags: int
    align: int
    data: bytes
    link: int = 0
    info: int = 0
    entry_size: int = 0
    address: int = 0
    offset: int = 0


def _note(kernels: Sequence[Kernel], chip: str) -> bytes:
    description = msgpack.packb(
        {
            "amdhsa.version": [1, 2],
            "amdhsa.target": f"amdgcn-amd-amdhsa--{chip}",
            "amdhsa.kernels": [kernel.metadata() for kernel in kernels],
        }
    )
    assert isinstance(description, bytes)
    header = struct.pack("<III", 7, len(description), NT_AMDGPU_METADATA) + b"AMDGPU\0\0"
    return header + description + bytes(-len(description) % 4)


def _hash_table(names: Sequence[str]) -> bytes:
    """A SysV hash table over symbols 1..n with one bucket, so that no hash value matters."""
    count = len(names) + 1
    chain = [0] * count
    for index in range(1, count):
        chain[index] = index + 1 if index + 1 < count else 0
    first = 1 if names else 0
    return struct.pack(f"<III{count}I", 1, count, first, *chain)


def _text(kernels: Sequence[Kernel]) -> tuple[bytes, list[int]]:
    """All code, each kernel 256-byte aligned and followed by s_code_end padding."""
    text = b""
    offsets = []
    for kernel in kernels:
        text += S_CODE_END * (-len(text) % 256 // 4)
        offsets.append(len(text))
        text += kernel.code + S_CODE_END * 16
    return text, offsets


def build_code_object(kernels: Sequence[Kernel] | Kernel, chip: str = "gfx1151") -> bytes:
    """An ET_DYN code object (code object version 5) holding `kernels`.

    Sections: .note, .dynsym, .hash, .dynstr, .rodata (descriptors), .text, .dynamic, .shstrtab.
    """
    kernels = [kernels] if isinstance(kernels, Kernel) else list(kernels)
    text, text_offsets = _text(kernels)
    names = [name for kernel in kernels for name in (kernel.name, f"{kernel.name}.kd")]
    strings = b"\0"
    name_offsets = {}
    for name in names:
        name_offsets[name] = len(strings)
        strings += name.encode() + b"\0"
    alloc, write, execute = 2, 1, 4
    sections = [
        _Section("", 0, 0, 1, b""),
        _Section(".note", 7, alloc, 4, _note(kernels, chip)),
        _Section(".dynsym", 11, alloc, 8, bytes(24 * (len(names) + 1)), 4, 1, 24),
        _Section(".hash", 5, alloc, 4, _hash_table(names), 2, 0, 4),
        _Section(".dynstr", 3, alloc, 1, strings),
        _Section(".rodata", 1, alloc, 64, bytes(64 * len(kernels))),
        _Section(".text", 1, alloc | execute, 256, text),
        _Section(".dynamic", 6, alloc | write, 8, bytes(16 * 6), 4, 0, 16),
    ]
    names_table = b"".join(section.name.encode() + b"\0" for section in sections) + b".shstrtab\0"
    sections.append(_Section(".shstrtab", 3, 0, 1, names_table))
    _place(sections)
    by_name = {section.name: section for section in sections}
    _fill(kernels, by_name, text_offsets, name_offsets)
    return _assemble(sections, by_name, chip)


def _place(sections: list[_Section]) -> None:
    """Assign file offsets, and addresses that keep offset and address congruent per page."""
    position = 64 + 56 * 5
    bias = 0
    for section in sections[1:]:
        position = -(-position // section.align) * section.align
        if section.name in (".text", ".dynamic"):
            bias += 0x1000
        section.offset = position
        section.address = position + bias if section.flags & 2 else 0
        position += len(section.data)


def _fill(
    kernels: Sequence[Kernel],
    by_name: dict[str, _Section],
    text_offsets: Sequence[int],
    name_offsets: dict[str, int],
) -> None:
    """Write the contents that need addresses: descriptors, symbols, the dynamic table."""
    text, rodata = by_name[".text"], by_name[".rodata"]
    descriptors, symbols = b"", bytes(24)
    for index, kernel in enumerate(kernels):
        code_address = text.address + text_offsets[index]
        descriptor_address = rodata.address + 64 * index
        descriptors += kernel.descriptor(code_address - descriptor_address)
        function, data = 0x12, 0x11  # STB_GLOBAL << 4 | STT_FUNC, STT_OBJECT
        symbols += struct.pack(
            "<IBBHQQ", name_offsets[kernel.name], function, 3, 6, code_address, len(kernel.code)
        )
        symbols += struct.pack(
            "<IBBHQQ", name_offsets[f"{kernel.name}.kd"], data, 0, 5, descriptor_address, 64
        )
    rodata.data = descriptors
    by_name[".dynsym"].data = symbols
    dynamic = [
        (6, by_name[".dynsym"].address),
        (11, 24),
        (5, by_name[".dynstr"].address),
        (10, len(by_name[".dynstr"].data)),
        (4, by_name[".hash"].address),
        (0, 0),
    ]
    by_name[".dynamic"].data = b"".join(struct.pack("<QQ", *entry) for entry in dynamic)


def _assemble(sections: list[_Section], by_name: dict[str, _Section], chip: str) -> bytes:
    rodata, text, dynamic = by_name[".rodata"], by_name[".text"], by_name[".dynamic"]
    note = by_name[".note"]
    first = rodata.offset + len(rodata.data)
    headers = [
        (1, 4, 0, 0, first, 0x1000),
        (1, 5, text.offset, text.address, len(text.data), 0x1000),
        (1, 6, dynamic.offset, dynamic.address, len(dynamic.data), 0x1000),
        (2, 6, dynamic.offset, dynamic.address, len(dynamic.data), 8),
        (4, 4, note.offset, note.address, len(note.data), 4),
    ]
    program = b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, offset, address, address, size, size, align)
        for kind, flags, offset, address, size, align in headers
    )
    last = sections[-1]
    table_offset = -(-(last.offset + len(last.data)) // 8) * 8
    identification = b"\x7fELF" + bytes([2, 1, 1, ELFOSABI_AMDGPU_HSA, ABI_VERSION_5]) + bytes(7)
    image = bytearray(table_offset)
    image[:64] = identification + struct.pack(
        "<HHIQQQIHHHHHH",
        3,
        EM_AMDGPU,
        1,
        0,
        64,
        table_offset,
        MACHINE_FLAGS[chip],
        64,
        56,
        len(headers),
        64,
        len(sections),
        len(sections) - 1,
    )
    image[64 : 64 + len(program)] = program
    name_offset = 0
    for section in sections:
        image[section.offset : section.offset + len(section.data)] = section.data
        image += struct.pack(
            "<IIQQQQIIQQ",
            name_offset,
            section.kind,
            section.flags,
            section.address,
            section.offset,
            len(section.data),
            section.link,
            section.info,
            section.align,
            section.entry_size,
        )
        name_offset += len(section.name) + 1
    return bytes(image)
