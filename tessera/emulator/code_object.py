"""ELF bytes to the kernels of an AMDGPU code object: machine code, descriptor and metadata.

Sources: LLVM's "User Guide for AMDGPU Backend" (code object V4 to V6, kernel descriptor for
GFX11) and the ELF-64 specification.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tessera.emulator.elf_image import read_segments, relocations
from tessera.emulator.errors import CodeObjectError

EM_AMDGPU = 224
NT_AMDGPU_METADATA = 32
# Low byte of e_flags -> chip. The first ones have the RDNA 3.5 instruction set; the others are
# known by name so that the refusal can say what came.
CHIPS = {
    0x43: "gfx1150",
    0x4A: "gfx1151",
    0x55: "gfx1152",
    0x58: "gfx1153",
    0x54: "gfx11-generic",  # for any chip of the generation, which HIP loads on these too
}
FOREIGN_CHIPS = {
    0x41: "gfx1100",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x44: "gfx1103",
    0x2C: "gfx900",
    0x2F: "gfx906",
    0x30: "gfx908",
    0x3F: "gfx90a",
    0x4C: "gfx942",
    0x4F: "gfx950",
    0x33: "gfx1010",
    0x36: "gfx1030",
    0x48: "gfx1200",
    0x4E: "gfx1201",
}
DESCRIPTOR_BYTES = 64
# What a lane gets beside its fixed scratch where calls recurse or go through pointers.
DYNAMIC_STACK_BYTES = 16384
LARGEST_LDS_BYTES, LARGEST_SCRATCH_BYTES, LARGEST_KERNARG_BYTES = 1 << 16, 1 << 18, 1 << 20


@dataclass(frozen=True)
class KernelArgument:
    """One entry of the kernarg segment; offset and size in bytes; `kind` is `.value_kind`."""

    name: str
    offset: int
    size: int
    kind: str

    @property
    def is_hidden(self) -> bool:
        return self.kind.startswith("hidden_")

    @property
    def is_pointer(self) -> bool:
        return self.kind in ("global_buffer", "image", "sampler", "pipe", "queue")


@dataclass(frozen=True)
class KernelDescription:
    """What descriptor and metadata say about one kernel; sizes in bytes, `entry` in the image.

    `scratch_bytes` is fixed per lane; `stack_bytes` come on top where calls may recurse.
    """

    name: str
    entry: int
    descriptor_address: int
    arguments: tuple[KernelArgument, ...]
    kernarg_bytes: int
    lds_bytes: int
    scratch_bytes: int
    stack_bytes: int
    vgprs: int
    allocated_vgprs: int
    sgprs: int
    max_block: int
    required_block: tuple[int, ...] | None
    wave_size: int
    resource1: int
    resource2: int
    properties: int

    @property
    def explicit_arguments(self) -> tuple[KernelArgument, ...]:
        return tuple(argument for argument in self.arguments if not argument.is_hidden)

    @property
    def user_sgprs(self) -> int:
        return self.resource2 >> 1 & 0x1F


@dataclass(frozen=True)
class CodeObject:
    """A loaded image (addresses from 0) with its kernels.

    `relocations` are (place, value): the 64-bit word at `place` is the image's base plus `value`.
    `writable_ranges` hold the program's global variables.
    """

    chip: str
    image: bytes
    code_ranges: tuple[tuple[int, int], ...]
    writable_ranges: tuple[tuple[int, int], ...] = ()
    relocations: tuple[tuple[int, int], ...] = ()
    kernels: Mapping[str, KernelDescription] = field(default_factory=dict)

    def kernel(self, name: str) -> KernelDescription:
        """The kernel called `name`; a missing one is a CodeObjectError that lists the others."""
        if name not in self.kernels:
            known = ", ".join(sorted(self.kernels)) or "none"
            raise CodeObjectError(f"no kernel {name!r} in the code object; it holds: {known}")
        return self.kernels[name]


def load(code_object: bytes) -> CodeObject:
    """Read an AMDGPU code object for RDNA 3.5.

    Raises CodeObjectError for anything that is not a loadable one, whatever the bytes are.
    """
    if not isinstance(code_object, bytes | bytearray | memoryview):
        raise CodeObjectError(f"a code object is bytes, not {type(code_object).__name__}")
    try:
        return _load(bytes(code_object))
    except CodeObjectError:
        raise
    except Exception as error:  # pyelftools, struct and msgpack raise many kinds on damaged bytes
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise CodeObjectError(f"damaged code object ({reason})") from error


@lru_cache(maxsize=32)
def _load(data: bytes) -> CodeObject:
    if data[:4] != b"\x7fELF":
        raise CodeObjectError("not an ELF file: the first four bytes are not 7f 45 4c 46")
    if len(data) < 64:
        raise CodeObjectError(f"truncated ELF header: {len(data)} bytes")
    if data[4] != 2 or data[5] != 1:
        raise CodeObjectError("not a 64-bit little-endian ELF file")
    kind, machine = struct.unpack_from("<HH", data, 16)
    if machine != EM_AMDGPU:
        raise CodeObjectError(f"an ELF file for machine {machine}, not for AMDGPU ({EM_AMDGPU})")
    if kind != 3:
        hint = "; link it first (ld.lld -shared)" if kind == 1 else ""
        raise CodeObjectError(f"ELF type {kind} is not a shared object{hint}")
    chip = _chip(struct.unpack_from("<I", data, 48)[0])
    loaded = read_segments(data)
    metadata = _metadata(loaded.notes)
    kernels = {}
    for entry in metadata:
        description = _kernel(entry, loaded.image, loaded.code, _symbols(data))
        kernels[description.name] = description
    return CodeObject(
        chip,
        bytes(loaded.image),
        loaded.code,
        loaded.writable,
        relocations(loaded),
        kernels,
    )


def _chip(flags: int) -> str:
    number = flags & 0xFF
    if number in CHIPS:
        return CHIPS[number]
    name = FOREIGN_CHIPS.get(number, f"machine {number:#x}")
    raise CodeObjectError(f"code object for {name}; supported: {', '.join(CHIPS.values())}")


def _metadata(notes: list[bytes]) -> list[dict[str, Any]]:
    import msgpack

    for note in notes:
        position = 0
        while position + 12 <= len(note):
            name_size, size, kind = struct.unpack_from("<III", note, position)
            start = position + 12 + -(-name_size // 4) * 4
            name = note[position + 12 : position + 12 + name_size].rstrip(b"\0")
            if kind == NT_AMDGPU_METADATA and name == b"AMDGPU":
                if start + size > len(note):
                    raise CodeObjectError("truncated metadata note")
                unpacked = msgpack.unpackb(note[start : start + size], strict_map_key=False)
                kernels = unpacked.get("amdhsa.kernels", [])
                if not isinstance(kernels, list):
                    raise CodeObjectError("metadata: amdhsa.kernels is not a list")
                return kernels
            position = start + -(-size // 4) * 4
    raise CodeObjectError("no AMDGPU metadata note")


@lru_cache(maxsize=4)
def _symbols(data: bytes) -> dict[str, int]:
    """Addresses of the dynamic symbols (of all symbols where there is no dynamic table)."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    elf = ELFFile(io.BytesIO(data))
    symbols: dict[str, int] = {}
    for name in (".symtab", ".dynsym"):
        section = elf.get_section_by_name(name)
        if isinstance(section, SymbolTableSection):
            if section["sh_size"] > len(data):
                raise CodeObjectError(f"section {name} is larger than the file")
            symbols.update({symbol.name: symbol["st_value"] for symbol in section.iter_symbols()})
    return symbols


def _kernel(
    entry: dict[str, Any],
    image: bytes,
    code_ranges: tuple[tuple[int, int], ...],
    symbols: dict[str, int],
) -> KernelDescription:
    name, symbol = str(entry[".name"]), str(entry[".symbol"])
    address = symbols.get(symbol)
    if address is None or address + DESCRIPTOR_BYTES > len(image):
        raise CodeObjectError(f"kernel {name!r}: no descriptor {symbol!r} in the image")
    lds, scratch, kernarg, _, offset = struct.unpack_from("<IIIIq", image, address)
    resource1, resource2, properties = struct.unpack_from("<IIH", image, address + 48)
    start = address + offset
    if not any(low <= start < high for low, high in code_ranges):
        raise CodeObjectError(f"kernel {name!r}: its entry {start:#x} lies outside the code")
    wave_size = 32 if properties >> 10 & 1 else 64
    required = entry.get(".reqd_workgroup_size")
    return KernelDescription(
        name=name,
        entry=start,
        descriptor_address=address,
        arguments=tuple(_argument(a, i) for i, a in enumerate(entry.get(".args") or [])),
        kernarg_bytes=_checked(name, "kernarg size", kernarg, LARGEST_KERNARG_BYTES),
        lds_bytes=_checked(name, "LDS size", lds, LARGEST_LDS_BYTES),
        scratch_bytes=_checked(name, "scratch size", scratch, LARGEST_SCRATCH_BYTES),
        stack_bytes=DYNAMIC_STACK_BYTES if properties >> 11 & 1 else 0,
        # The descriptor counts in granules of 8 registers; it is what the hardware allocates.
        vgprs=_checked(name, "vgpr_count", int(entry.get(".vgpr_count", 0)), 256),
        allocated_vgprs=min(256, ((resource1 & 0x3F) + 1) * 8),
        sgprs=_checked(name, "sgpr_count", int(entry.get(".sgpr_count", 0)), 128),
        max_block=int(entry.get(".max_flat_workgroup_size", 1024)),
        required_block=tuple(int(x) for x in required) if required else None,
        wave_size=wave_size,
        resource1=resource1,
        resource2=resource2,
        properties=properties,
    )


def _checked(name: str, what: str, value: int, most: int) -> int:
    """A number of the metadata that must lie between 0 and `most`."""
    if not 0 <= value <= most:
        raise CodeObjectError(f"kernel {name!r}: {what} is {value}; at most {most}")
    return value


def _argument(entry: dict[str, Any], index: int) -> KernelArgument:
    offset, size = int(entry[".offset"]), int(entry[".size"])
    if offset < 0 or not 0 < size <= 1 << 20 or offset > 1 << 20:
        raise CodeObjectError(f"argument {index}: offset {offset}, size {size}")
    return KernelArgument(
        str(entry.get(".name") or f"arg{index}"), offset, size, str(entry.get(".value_kind", ""))
    )
