"""Program headers of an ELF-64 shared object to the image that a loader would make of it.

Sources: the ELF-64 specification; LLVM's "User Guide for AMDGPU Backend", section "Relocation
Records".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tessera.emulator.errors import CodeObjectError

LARGEST_IMAGE_BYTES = 1 << 28
SEGMENT_LOAD, SEGMENT_DYNAMIC, SEGMENT_NOTE = 1, 2, 4
FLAG_EXECUTE, FLAG_WRITE = 1, 2
DYNAMIC_SYMBOLS, DYNAMIC_RELOCATIONS, DYNAMIC_RELOCATION_BYTES = 6, 7, 8
RELOCATION_ABSOLUTE_64, RELOCATION_RELATIVE_64 = 3, 13
RELOCATION_BYTES, SYMBOL_BYTES = 24, 24
Range = tuple[int, int]


@dataclass(frozen=True)
class Image:
    """The loaded bytes (addresses from 0), address ranges by use, and the note segments."""

    image: bytes
    code: tuple[Range, ...]
    writable: tuple[Range, ...]
    notes: list[bytes]
    dynamic: dict[int, int]


def read_segments(data: bytes) -> Image:
    """Load the segments of a shared object; CodeObjectError for a truncated or oversized one."""
    offset = struct.unpack_from("<Q", data, 32)[0]
    entry_size, count = struct.unpack_from("<HH", data, 54)
    if entry_size < 56 or offset + entry_size * count > len(data):
        raise CodeObjectError("truncated ELF file: program headers beyond the end")
    image, code, writable, notes = bytearray(), [], [], []
    dynamic: dict[int, int] = {}
    for index in range(count):
        kind, flags, start, address, _, in_file, in_memory, _ = struct.unpack_from(
            "<IIQQQQQQ", data, offset + entry_size * index
        )
        if kind not in (SEGMENT_LOAD, SEGMENT_DYNAMIC, SEGMENT_NOTE):
            continue
        if start + in_file > len(data):
            raise CodeObjectError(f"truncated ELF file: segment {index} beyond the end")
        content = data[start : start + in_file]
        if kind == SEGMENT_NOTE:
            notes.append(content)
        elif kind == SEGMENT_DYNAMIC:
            dynamic = _dynamic(content)
        else:
            end = address + max(in_memory, in_file)
            if end > LARGEST_IMAGE_BYTES:
                raise CodeObjectError(f"segment {index} ends beyond {LARGEST_IMAGE_BYTES} bytes")
            image.extend(bytes(max(0, end - len(image))))
            image[address : address + in_file] = content
            if flags & FLAG_EXECUTE:
                code.append((address, address + in_file))
            if flags & FLAG_WRITE:
                writable.append((address, end))
    if not code:
        raise CodeObjectError("no executable segment")
    return Image(bytes(image), tuple(code), tuple(writable), notes, dynamic)


def _dynamic(content: bytes) -> dict[int, int]:
    """Tags and values of the dynamic segment, up to its null entry."""
    entries: dict[int, int] = {}
    for place in range(0, len(content) - 15, 16):
        tag, value = struct.unpack_from("<QQ", content, place)
        if tag == 0:
            break
        entries.setdefault(tag, value)
    return entries


def relocations(loaded: Image) -> tuple[tuple[int, int], ...]:
    """(place, value) of the 64-bit relocations: the word becomes the image's base plus `value`.

    References to symbols that the object does not define stay 0, as a loader without them would
    refuse the object; a kernel that uses one faults at that address.
    """
    table = loaded.dynamic.get(DYNAMIC_RELOCATIONS)
    size = loaded.dynamic.get(DYNAMIC_RELOCATION_BYTES, 0)
    symbols = loaded.dynamic.get(DYNAMIC_SYMBOLS, 0)
    image = loaded.image
    if table is None:
        return ()
    if table + size > len(image):
        raise CodeObjectError("relocations beyond the end of the image")
    found = []
    for entry in range(table, table + size - RELOCATION_BYTES + 1, RELOCATION_BYTES):
        place, info, addend = struct.unpack_from("<QQq", image, entry)
        kind = info & 0xFFFFFFFF
        if place + 8 > len(image):
            raise CodeObjectError(f"a relocation at {place:#x}, beyond the end of the image")
        if kind == RELOCATION_RELATIVE_64:
            found.append((place, addend))
        elif kind == RELOCATION_ABSOLUTE_64:
            symbol = symbols + SYMBOL_BYTES * (info >> 32)
            section, value = struct.unpack_from("<HQ", image[symbol + 6 : symbol + 16].ljust(10), 0)
            if section:
                found.append((place, value + addend))
        elif kind:
            raise CodeObjectError(f"relocation of type {kind}; supported: ABS64, RELATIVE64")
    return tuple(found)
