"""DPP8 and DPP16 controls to lane selections (RDNA 3.5 ISA guide, section 7.7).

A `LaneSelect` says for each lane which lane it reads and whether that lane exists; what a missing
or inactive source lane means (0, or no write) follows from BOUND_CTRL and FI.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tessera.emulator.decode import Instruction
from tessera.emulator.operands import Fetch
from tessera.emulator.registers import LANES
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import unsupported

DPP16_SOURCE, DPP8_SOURCE, DPP8_FETCH_INACTIVE_SOURCE = 250, 233, 234
DPP_SOURCES = (DPP16_SOURCE, DPP8_SOURCE, DPP8_FETCH_INACTIVE_SOURCE)


@dataclass(frozen=True)
class LaneSelect:
    """`lanes` int [32]: the lane read; bool [32]: `exists`, and `enabled` by row and bank mask."""

    source: int
    lanes: np.ndarray
    exists: np.ndarray
    enabled: np.ndarray
    fetch_inactive: bool
    zero_missing: bool
    negate: tuple[bool, bool]
    absolute: tuple[bool, bool]

    def present(self, g: WaveGroup) -> np.ndarray | None:
        """Lanes whose source lane can be read, bool [1 or waves, 32]; None for all."""
        if self.fetch_inactive or g.mask is None:
            return None if self.exists.all() else self.exists[None, :]
        return g.mask[:, self.lanes] & self.exists

    def wrap(self, fetch: Fetch) -> Fetch:
        """Fetch the selected lanes of a vector operand."""

        def selected(g: WaveGroup) -> np.ndarray:
            value = fetch(g)[:, self.lanes]
            present = self.present(g)
            if present is not None and self.zero_missing:
                value = np.where(present, value, value.dtype.type(0))
            return value

        return selected

    def write_mask(self, g: WaveGroup) -> np.ndarray | None:
        """The lanes that are written, bool [waves, 32]; None for all."""
        mask = g.mask
        if not self.enabled.all():
            mask = np.broadcast_to(self.enabled, (g.count, LANES)) & g.active()
        if not self.zero_missing:
            present = self.present(g)
            if present is not None:
                mask = present & (g.active() if mask is None else mask)
        if mask is not None and len(mask) != g.count:
            mask = np.broadcast_to(mask, (g.count, LANES))
        return mask


def lane_select(instruction: Instruction, source: int, base: int) -> LaneSelect:
    """The DPP control word at bit `base` (32, or 64 behind VOP3) of an instruction."""
    vgpr = instruction.field(base + 7, base)
    if source != DPP16_SOURCE:
        groups = [instruction.field(base + 10 + 3 * i, base + 8 + 3 * i) for i in range(8)]
        lanes = np.array([(lane & ~7) + groups[lane & 7] for lane in range(LANES)])
        every = np.ones(LANES, bool)
        inactive = source == DPP8_FETCH_INACTIVE_SOURCE
        return LaneSelect(
            vgpr, lanes, every, every, inactive, False, (False, False), (False, False)
        )
    lanes, exists = _dpp16_lanes(instruction, instruction.field(base + 16, base + 8))
    bank, row = instruction.field(base + 27, base + 24), instruction.field(base + 31, base + 28)
    numbers = np.arange(LANES)
    enabled = (bank >> (numbers // 4 % 4) & 1).astype(bool) & (row >> (numbers // 16) & 1).astype(
        bool
    )
    flag = [bool(instruction.field(base + i, base + i)) for i in range(18, 24)]
    return LaneSelect(
        vgpr, lanes, exists, enabled, flag[0], flag[1], (flag[2], flag[4]), (flag[3], flag[5])
    )


def _dpp16_lanes(instruction: Instruction, control: int) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.arange(LANES)
    row, position = numbers & ~15, numbers & 15
    exists = np.ones(LANES, bool)
    amount = control & 15
    if control < 0x100:
        selects = np.array([control >> 2 * (lane & 3) & 3 for lane in range(LANES)])
        return (numbers & ~3) + selects, exists
    if 0x101 <= control <= 0x10F:  # row_shl: lane i reads lane i + n
        target = position + amount
        return row + (target & 15), target < 16
    if 0x111 <= control <= 0x11F:  # row_shr
        target = position - amount
        return row + (target & 15), target >= 0
    if 0x121 <= control <= 0x12F:  # row_ror
        return row + (position - amount & 15), exists
    if control == 0x140:  # row_mirror
        return row + 15 - position, exists
    if control == 0x141:  # row_half_mirror
        return (numbers & ~7) + 7 - (numbers & 7), exists
    if 0x150 <= control <= 0x15F:  # row_share
        return row + amount, exists
    if 0x160 <= control <= 0x16F:  # row_xmask
        return row + (position ^ amount), exists
    raise unsupported(instruction, f"DPP control {control:#x}")
