"""Vector instructions that move values between lanes or registers by number, to steps.

Sources: RDNA 3.5 ISA guide, the pseudo-code of V_READLANE, V_WRITELANE, V_PERMLANE16, V_SWAP and
V_MOVREL*. PERMLANE's FI and BOUND_CTRL sit in OPSEL[0] and OPSEL[1].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tessera.emulator import operands as op
from tessera.emulator.decode import Instruction
from tessera.emulator.registers import (
    EXEC_LO,
    FIRST_VGPR,
    LANES,
    M0,
    NULL,
    members,
    vector_set,
)
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Mode, Step, unsupported

ALL_VGPRS = ((1 << 256) - 1) << FIRST_VGPR


def read_first_lane(instruction: Instruction, mode: Mode) -> Step:
    """V_READFIRSTLANE_B32: the lowest active lane, lane 0 when none is."""
    source, destination = _source_and_destination(instruction)
    if not op.is_vgpr(source):
        fetch = op.scalar_fetch(source, "u32", instruction.literal)
        reads = op.source_registers(source, "u32")
        return _scalar_step(instruction, lambda g: fetch(g), reads, destination)
    register = source - FIRST_VGPR

    def value(g: WaveGroup) -> np.ndarray:
        if g.mask is None:
            return g.u32[register][:, 0].copy()
        return g.u32[register][np.arange(g.count), np.argmax(g.mask, 1)]

    return _scalar_step(instruction, value, vector_set(register) | 1 << EXEC_LO, destination)


def read_lane(instruction: Instruction, mode: Mode) -> Step:
    """V_READLANE_B32: the lane that S1 names, active or not."""
    source, destination = instruction.field(40, 32), instruction.field(7, 0)
    if not op.is_vgpr(source):
        raise unsupported(instruction, "a scalar source")
    register = source - FIRST_VGPR
    lane_source = instruction.field(49, 41)
    lane = op.scalar_fetch(lane_source, "u32", instruction.literal)

    def value(g: WaveGroup) -> np.ndarray:
        lanes = lane(g) & np.uint32(31)
        if len(lanes) == 1:
            return g.u32[register][:, int(lanes[0])].copy()
        return g.u32[register][np.arange(g.count), lanes]

    reads = vector_set(register) | op.source_registers(lane_source, "u32")
    return _scalar_step(instruction, value, reads, destination)


def _scalar_step(instruction: Instruction, value: op.Fetch, reads: int, destination: int) -> Step:
    if not op.is_scalar_register(destination):
        raise unsupported(instruction, f"destination {destination} is not a scalar register")
    return Step(
        instruction,
        lambda g: op.store_scalar(g, destination, value(g)),
        reads,
        op.source_registers(destination, "u32"),
        unchecked=reads,
        copies=tuple((destination, r) for r in members(reads) if r >= FIRST_VGPR),
    )


def write_lane(instruction: Instruction, mode: Mode) -> Step:
    """V_WRITELANE_B32: one lane of VDST, EXEC ignored."""
    value_source, lane_source = instruction.field(40, 32), instruction.field(49, 41)
    value = op.scalar_fetch(value_source, "u32", instruction.literal)
    lane = op.scalar_fetch(lane_source, "u32", instruction.literal)
    register = instruction.field(7, 0)

    def run(g: WaveGroup) -> None:
        lanes = np.broadcast_to(lane(g) & np.uint32(31), (g.count,))
        g.u32[register][np.arange(g.count), lanes] = value(g)

    reads = op.source_registers(value_source, "u32") | op.source_registers(lane_source, "u32")
    written = vector_set(register)
    copies = ((FIRST_VGPR + register, value_source),) if value_source < NULL else ()
    return Step(
        instruction,
        run,
        reads,
        written,
        written,
        unchecked=op.source_registers(value_source, "u32") if copies else 0,
        copies=copies,
        ignores_exec=True,
    )


def permute_lanes(instruction: Instruction, mode: Mode) -> Step:
    """V_PERMLANE16_B32 (own row) and V_PERMLANEX16_B32 (other row): 4-bit selects in S1, S2."""
    register, destination = instruction.field(40, 32) - FIRST_VGPR, instruction.field(7, 0)
    low_source, high_source = instruction.field(49, 41), instruction.field(58, 50)
    low = op.scalar_fetch(low_source, "u32", instruction.literal)
    high = op.scalar_fetch(high_source, "u32", instruction.literal)
    opsel = instruction.field(14, 11)
    fetch_inactive, zero_missing = bool(opsel & 1), bool(opsel & 2)
    row = np.arange(LANES) & 16
    if instruction.name == "V_PERMLANEX16_B32":
        row = row ^ 16
    shifts = (np.arange(LANES) % 8 * 4).astype(np.uint32)
    uses_high = np.arange(LANES) % 16 >= 8

    known: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def selected(g: WaveGroup) -> np.ndarray:
        """The lane that each lane reads, int64 [waves or 1, 32]; kept while the selects stay."""
        first, second = low(g), high(g)
        if known and known[0][0] is first and known[0][1] is second:
            return known[0][2]
        words = np.where(uses_high, second[:, None], first[:, None])
        lanes = (words >> shifts & np.uint32(15)).astype(np.int64) + row
        known[:] = [(first, second, lanes)]
        return lanes

    def run(g: WaveGroup) -> None:
        lanes = selected(g)
        uniform = len(lanes) == 1
        source = g.u32[register]
        value = source[:, lanes[0]] if uniform else np.take_along_axis(source, lanes, 1)
        mask = g.mask
        if mask is not None and not fetch_inactive:
            present = mask[:, lanes[0]] if uniform else np.take_along_axis(mask, lanes, 1)
            if zero_missing:
                value = np.where(present, value, np.uint32(0))
            else:
                mask = mask & present
        np.copyto(g.u32[destination], value, where=True if mask is None else mask)

    reads = vector_set(register)
    for source in (low_source, high_source):
        reads |= op.source_registers(source, "u32")
    written = vector_set(destination)
    keeps = written | 1 << EXEC_LO
    return Step(instruction, run, reads, written, keeps, unchecked=vector_set(register))


def swap(instruction: Instruction, mode: Mode) -> Step:
    """V_SWAP_B32 and V_SWAP_B16: two registers, or halves, exchange their active lanes."""
    first, second = instruction.field(24, 17), instruction.field(8, 0) - FIRST_VGPR
    is_half = instruction.name == "V_SWAP_B16"
    halves = (first >> 7, second >> 7)
    if is_half:
        first, second = first & 0x7F, second & 0x7F

    def views(g: WaveGroup) -> tuple[np.ndarray, np.ndarray]:
        if not is_half:
            return g.u32[first], g.u32[second]
        one, two = g.u32[first].view(np.uint16), g.u32[second].view(np.uint16)
        return one[:, halves[0] :: 2], two[:, halves[1] :: 2]

    def run(g: WaveGroup) -> None:
        one, two = views(g)
        kept = one.copy()
        where = True if g.mask is None else g.mask
        np.copyto(one, two.copy(), where=where)
        np.copyto(two, kept, where=where)

    both = vector_set(first) | vector_set(second)
    return Step(instruction, run, both, both, 1 << EXEC_LO, unchecked=both)


def no_operation(instruction: Instruction, mode: Mode) -> Step:
    """V_NOP and V_PIPEFLUSH; V_PERMLANE64_B32 moves nothing in wave32."""
    return Step(instruction, lambda g: None)


def move_relative(instruction: Instruction, mode: Mode) -> Step:
    """V_MOVREL*_B32 and V_SWAPREL_B32: register numbers plus M0, one value of M0 at a time."""
    name = instruction.name
    source, destination = _source_and_destination(instruction)
    is_pair = name in ("V_MOVRELSD_2_B32", "V_SWAPREL_B32")
    moves_source = "RELS" in name or is_pair
    moves_destination = "RELD" in name or "RELSD" in name or is_pair

    def run(g: WaveGroup) -> None:
        offsets = np.broadcast_to(g.sgpr[M0], (g.count,))
        for value in np.unique(offsets):
            low, high = (
                (int(value) & 1023, int(value) >> 16 & 1023) if is_pair else (int(value),) * 2
            )
            chosen = g.active() & (offsets == value)[:, None]
            goal = g.u32[_register(g, destination + (high if moves_destination else 0))]
            if not op.is_vgpr(source):
                moved = op.source_fetch(source, "u32", instruction.literal)(g)
                np.copyto(goal, moved, where=chosen)
                continue
            origin = g.u32[_register(g, source - FIRST_VGPR + (low if moves_source else 0))]
            kept = goal.copy()
            np.copyto(goal, origin.copy(), where=chosen)
            if name == "V_SWAPREL_B32":
                np.copyto(origin, kept, where=chosen)

    def _register(g: WaveGroup, number: int) -> int:
        if number >= len(g.u32):
            raise unsupported(instruction, f"register v{number} is not allocated")
        return number

    scalars = op.source_registers(source, "u32") | 1 << M0 | 1 << EXEC_LO
    return Step(instruction, run, scalars, ALL_VGPRS, ALL_VGPRS, unchecked=ALL_VGPRS)


def _source_and_destination(instruction: Instruction) -> tuple[int, int]:
    if instruction.format == "VOP3":
        return instruction.field(40, 32), instruction.field(7, 0)
    return instruction.field(8, 0), instruction.field(24, 17)


TRANSLATORS: Mapping[str, Callable[[Instruction, Mode], Step]] = {
    "V_NOP": no_operation,
    "V_PIPEFLUSH": no_operation,
    "V_PERMLANE64_B32": no_operation,
    "V_READFIRSTLANE_B32": read_first_lane,
    "V_READLANE_B32": read_lane,
    "V_WRITELANE_B32": write_lane,
    "V_PERMLANE16_B32": permute_lanes,
    "V_PERMLANEX16_B32": permute_lanes,
    "V_SWAP_B32": swap,
    "V_SWAP_B16": swap,
    "V_MOVRELD_B32": move_relative,
    "V_MOVRELS_B32": move_relative,
    "V_MOVRELSD_B32": move_relative,
    "V_MOVRELSD_2_B32": move_relative,
    "V_SWAPREL_B32": move_relative,
}
