"""Memory instructions and registers to what the access costs: LDS phases, and 128-byte lines.

The phases of gfx11 (measured on a W7900, amd-shark-ai, docs/empirical-lds): a 32-bit access takes
all lanes at once, 64 bits 16 lanes at a time, 128 bits these four groups of eight. Within a phase,
distinct words in one of 32 banks follow one another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessera.emulator import operands as op
from tessera.emulator.decode import Instruction
from tessera.emulator.global_memory import access_kind, operation_name, signed
from tessera.emulator.registers import LANES, NULL
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Step

LINE_BITS = 7
BANKS = 32
_B128_PHASES = (
    (0, 1, 2, 3, 20, 21, 22, 23),
    (4, 5, 6, 7, 16, 17, 18, 19),
    (8, 9, 10, 11, 28, 29, 30, 31),
    (12, 13, 14, 15, 24, 25, 26, 27),
)
_PHASES: dict[int, tuple[tuple[int, ...], ...]] = {
    4: (tuple(range(32)),),
    8: (tuple(range(16)), tuple(range(16, 32))),
    16: _B128_PHASES,
}
Datum = int | tuple[int, ...]
# What one access costs each wave of a group: LDS phases, or the lines that it touches.
Access = Callable[[WaveGroup], list[Datum]]
_Places = Callable[[WaveGroup], tuple[np.ndarray, np.ndarray | None]]


@dataclass(frozen=True)
class _Part:
    """One set of addresses of an instruction: bytes per lane, and where."""

    size: int
    places: _Places


def access_of(step: Step) -> Access | None:
    """The function that gives the cost of a memory step per wave; None for other steps."""
    instruction = step.instruction
    if instruction.format == "DS":
        parts = _lds_parts(instruction)
        return _PhaseCounter(parts) if parts else lambda g: [1] * g.count
    if instruction.format in ("GLOBAL", "FLAT"):
        return _line_counter(_global_part(instruction))
    if instruction.format == "MUBUF" and step.counter:
        return _line_counter(_buffer_part(instruction))
    if instruction.format == "SCRATCH":
        # Lanes are interleaved: a wave touches consecutive bytes of its own area.
        pc = instruction.pc
        return lambda g: [(-(pc << 16) - int(w),) for w in g.wave_indices()]
    return None


def _size(instruction: Instruction) -> int:
    name = operation_name(instruction).replace("2ADDR_", "").replace("_STRIDE64", "")
    known = access_kind(name)
    if known is not None:
        return known[1].size
    return 8 if name.endswith("64") else 4


def _lds_parts(instruction: Instruction) -> list[_Part]:
    name = operation_name(instruction)
    if "PERMUTE" in name or "SWIZZLE" in name or name in ("NOP", "CONSUME", "APPEND"):
        return []
    size, address = _size(instruction), instruction.field(39, 32)
    offsets = [instruction.field(15, 0)]
    if "2ADDR" in name:
        scale = size * (64 if "STRIDE64" in name else 1)
        offsets = [instruction.field(7, 0) * scale, instruction.field(15, 8) * scale]

    def places(offset: int) -> _Places:
        return lambda g: (g.u32[address].astype(np.int64) + offset, g.mask)

    return [_Part(size, places(offset)) for offset in offsets]


def _global_part(instruction: Instruction) -> _Part:
    scalar, vector = instruction.field(54, 48), instruction.field(39, 32)
    offset = np.int64(signed(instruction.field(12, 0), 13))
    has_base = instruction.format == "GLOBAL" and scalar not in (NULL, 0x7F)

    def places(g: WaveGroup) -> tuple[np.ndarray, np.ndarray | None]:
        low = g.u32[vector].astype(np.int64)
        if has_base:
            base = op.join_words(g.sgpr[scalar], g.sgpr[scalar + 1]).view(np.int64)
            return base[:, None] + low + offset, g.mask
        return (g.u32[vector + 1].astype(np.int64) << 32) + low + offset, g.mask

    return _Part(_size(instruction), places)


def _buffer_part(instruction: Instruction) -> _Part:
    """A buffer access: addresses from the resource's base; lanes out of range touch nothing."""
    size, resource = _size(instruction), instruction.field(52, 48) * 4
    vector, offset = instruction.field(39, 32), instruction.field(11, 0)
    has_offset, has_index = instruction.field(54, 54), instruction.field(55, 55)
    scalar = op.scalar_fetch(instruction.field(63, 56), "u32", 0)

    def places(g: WaveGroup) -> tuple[np.ndarray, np.ndarray | None]:
        words = [g.sgpr[resource + i] for i in range(3)]
        base = op.join_words(words[0], words[1] & np.uint32(0xFFFF)).view(np.int64)[:, None]
        stride = (words[1] >> np.uint32(16) & np.uint32(0x3FFF)).astype(np.int64)[:, None]
        where = np.full((g.count, LANES), offset, np.int64)
        if has_offset:
            where = where + g.u32[vector + has_index]
        if has_index:
            where = where + g.u32[vector].astype(np.int64) * stride
        start = scalar(g).astype(np.int64)[:, None]
        records = words[2].astype(np.int64)[:, None] * np.maximum(stride, 1)
        inside = start + where + size <= records
        return base + start + where, inside if g.mask is None else inside & g.mask

    return _Part(size, places)


class _PhaseCounter:
    """Phases of an LDS access per wave; each pattern of addresses is worked out once."""

    known: dict[Any, int] = {}

    def __init__(self, parts: list[_Part]) -> None:
        self.parts = parts

    def __call__(self, g: WaveGroup) -> list[Datum]:
        totals: list[Datum] = [0] * g.count
        for part in self.parts:
            places, mask = part.places(g)
            # Only the addresses' distance from a multiple of all banks matters.
            shifted = places - (places[:, :1] & -(4 * BANKS))
            for wave in range(g.count):
                row = shifted[wave]
                lanes = None if mask is None else mask[wave]
                key = (part.size, row.tobytes(), None if lanes is None else lanes.tobytes())
                phases = self.known.get(key)
                if phases is None:
                    phases = count_phases(row, part.size, lanes)
                    self.known[key] = phases
                totals[wave] += phases  # type: ignore[operator]
        return totals


def count_phases(addresses: np.ndarray, size: int, mask: np.ndarray | None = None) -> int:
    """Cycles of the banks for one wave's access: byte addresses int64 [32], `size` bytes per lane.

    Inactive lanes (`mask` bool [32] False) take no part; at least 1.
    """
    size = 16 if size > 8 else max(size, 4)
    total = 0
    for group in _PHASES[size]:
        words: dict[int, set[int]] = {}
        for lane in group:
            if mask is not None and not mask[lane]:
                continue
            first = int(addresses[lane]) >> 2
            for word in range(first, first + size // 4):
                words.setdefault(word % BANKS, set()).add(word)
        total += max((len(distinct) for distinct in words.values()), default=0)
    return max(total, 1)


def _line_counter(part: _Part) -> Access:
    last = part.size - 1

    def lines(g: WaveGroup) -> list[Datum]:
        places, mask = part.places(g)
        first = places >> LINE_BITS
        if last and np.any(places + last >> LINE_BITS != first):
            first = np.concatenate([first, places + last >> LINE_BITS], axis=1)
            mask = None if mask is None else np.concatenate([mask, mask], axis=1)
        result: list[Datum] = []
        for wave in range(g.count):
            row = first[wave] if mask is None else first[wave][mask[wave]]
            result.append(tuple(dict.fromkeys(row.tolist())))
        return result

    return lines


__all__ = ["LANES", "LINE_BITS", "Access", "Datum", "access_of", "count_phases"]
