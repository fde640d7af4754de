"""An AMDGPU code object (ELF) to what its own metadata note says about each kernel."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from tessera.errors import ArtifactError

_ELF_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian.
_MACHINE_AMDGPU = 224
_SEGMENT_NOTE = 4
_NOTE_METADATA = 32  # NT_AMDGPU_METADATA; see LLVM's AMDGPUUsage, "Note Records".
_PROGRAM_HEADER_BYTES = 56


@dataclass(frozen=True)
class KernelArgument:
    """One explicit kernel argument as the code object lays it out; offset and size in bytes.

    `kind` is the metadata's value kind: "global_buffer" or "by_value" for what Tessera emits.
    """

    name: str
    kind: str
    offset: int
    size: int


@dataclass(frozen=True)
class KernelInfo:
    """One kernel: its arguments, threads per workgroup, and resources.

    `block` is the required workgroup size, or (largest flat size, 1, 1) where none is required.
    `grid` is the launch rule's three expressions, empty when the kernel came without one.
    """

    name: str
    chip: str
    arguments: tuple[KernelArgument, ...]
    block: tuple[int, int, int]
    lds_bytes: int
    vgprs: int
    sgprs: int
    scratch_bytes: int
    vgpr_spills: int
    sgpr_spills: int
    kernarg_bytes: int
    wave_size: int
    grid: tuple[str, ...] = ()


def read_kernels(hsaco: bytes) -> tuple[KernelInfo, ...]:
    """Every kernel of a code object, in the order of its metadata.

    Raises ArtifactError when the bytes are no AMDGPU code object or are damaged.
    """
    metadata = read_metadata(hsaco)
    try:
        chip = str(metadata["amdhsa.target"]).rpartition("-")[2].partition(":")[0]
        return tuple(_kernel(chip, kernel) for kernel in metadata["amdhsa.kernels"])
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"code object: unexpected kernel metadata: {error!r}") from error


def read_metadata(hsaco: bytes) -> dict[str, Any]:
    """The code object's metadata note as a dictionary (AMDGPUUsage, "Code Object Metadata")."""
    import msgpack

    note = _metadata_note(hsaco)
    try:
        metadata = msgpack.unpackb(note)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise ArtifactError(f"code object: damaged metadata note: {error}") from error
    if not isinstance(metadata, dict):
        raise ArtifactError("code object: damaged metadata note: not a map")
    return metadata


def _kernel(chip: str, data: dict[str, Any]) -> KernelInfo:
    block = data.get(".reqd_workgroup_size") or (data[".max_flat_workgroup_size"], 1, 1)
    x, y, z = (int(size) for size in block)
    arguments = tuple(
        KernelArgument(
            str(entry.get(".name", f"argument{index}")),
            str(entry[".value_kind"]),
            int(entry[".offset"]),
            int(entry[".size"]),
        )
        for index, entry in enumerate(data.get(".args", ()))
        if not str(entry[".value_kind"]).startswith("hidden_")
    )
    return KernelInfo(
        name=str(data[".name"]),
        chip=chip,
        arguments=arguments,
        block=(x, y, z),
        lds_bytes=int(data[".group_segment_fixed_size"]),
        vgprs=int(data[".vgpr_count"]),
        sgprs=int(data[".sgpr_count"]),
        scratch_bytes=int(data[".private_segment_fixed_size"]),
        vgpr_spills=int(data.get(".vgpr_spill_count", 0)),
        sgpr_spills=int(data.get(".sgpr_spill_count", 0)),
        kernarg_bytes=int(data[".kernarg_segment_size"]),
        wave_size=int(data[".wavefront_size"]),
    )


def _metadata_note(hsaco: bytes) -> bytes:
    """The descriptor of the AMDGPU metadata note, found through the program headers."""
    if hsaco[:6] != _ELF_MAGIC:
        raise ArtifactError("code object: not a 64-bit little-endian ELF file")
    try:
        (machine,) = struct.unpack_from("<H", hsaco, 18)
        (table,) = struct.unpack_from("<Q", hsaco, 32)
        (count,) = struct.unpack_from("<H", hsaco, 56)
        if machine != _MACHINE_AMDGPU:
            raise ArtifactError(f"code object: ELF machine {machine} is not AMDGPU (224)")
        for index in range(count):
            header = table + index * _PROGRAM_HEADER_BYTES
            kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", hsaco, header)
            if kind == _SEGMENT_NOTE:
                note = _note_in_segment(hsaco, offset, offset + size)
                if note is not None:
                    return note
    except struct.error as error:
        raise ArtifactError(f"code object: truncated: {error}") from error
    raise ArtifactError("code object: no AMDGPU metadata note (is it linked?)")


def _note_in_segment(hsaco: bytes, position: int, end: int) -> bytes | None:
    while position + 12 <= end:
        name_size, size, kind = struct.unpack_from("<III", hsaco, position)
        name_at = position + 12
        description_at = name_at + (name_size + 3) // 4 * 4
        if description_at + size > len(hsaco):
            raise ArtifactError("code object: truncated: a note runs past the end of the file")
        name = hsaco[name_at : name_at + name_size].rstrip(b"\0")
        if name == b"AMDGPU" and kind == _NOTE_METADATA:
            return hsaco[description_at : description_at + size]
        position = description_at + (size + 3) // 4 * 4
    return None
