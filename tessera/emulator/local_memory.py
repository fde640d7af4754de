"""DS instructions to steps: LDS loads, stores and atomics, and moves between lanes.

Fields (RDNA 3.5 ISA guide, section 12): OFFSET0 7..0, OFFSET1 15..8, ADDR 39..32, DATA0 47..40,
DATA1 55..48, VDST 63..56. One-address forms use a 16-bit offset, two-address forms two 8-bit ones
in elements, or in 64 elements.
"""

from __future__ import annotations

import numpy as np

from tessera.emulator.access import ACCESS_KINDS, AccessKind
from tessera.emulator.atomics import atomic_step, is_atomic
from tessera.emulator.decode import Instruction
from tessera.emulator.global_memory import (
    Addresses,
    access_kind,
    load_step,
    operation_name,
    store_step,
    write_loaded,
)
from tessera.emulator.native_memory import LaneAddress
from tessera.emulator.registers import EXEC_LO, LANES, M0, vector_set
from tessera.emulator.space import lds_port
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Mode, Step, unsupported

LANE_MOVES = ("SWIZZLE_B32", "PERMUTE_B32", "BPERMUTE_B32")


def translate_ds(instruction: Instruction, mode: Mode) -> Step:
    """DS: GDS forms are refused, everything else works on the workgroup's LDS."""
    name = operation_name(instruction)
    if instruction.field(17, 17):
        raise unsupported(instruction, "GDS")
    if name == "NOP":
        return Step(instruction, lambda g: None)
    if name in LANE_MOVES:
        return _lane_move(instruction, name)
    if name in ("CONSUME", "APPEND"):
        return _counter_step(instruction, name)
    address, offset = instruction.field(39, 32), instruction.field(15, 0)
    reads = vector_set(address)
    if "ADDTID" in name:
        addresses, reads = _lane_addresses(offset), 1 << M0
        name = name.replace("ADDTID_", "")
    elif "2ADDR" in name:
        return _two_addresses(instruction, name, address)
    else:
        addresses = lds_addresses(address, offset)
    access = access_kind(name)
    data, destination = instruction.field(47, 40), instruction.field(63, 56)
    if access is not None:
        verb, kind = access
        port = lds_port(instruction)
        if verb == "load":
            return load_step(instruction, kind, addresses, reads, port, "lgkm", destination)
        return store_step(instruction, kind, addresses, reads, port, "lgkm", data)
    if not is_atomic(name):
        raise unsupported(instruction)
    registers = (data, destination)
    second = instruction.field(55, 48)
    return atomic_step(
        instruction,
        name,
        addresses,
        reads,
        lds_port,
        "lgkm",
        registers,
        "_RTN" in name,
        second,
    )


def lds_addresses(register: int, offset: int) -> Addresses:
    """LDS byte addresses, int64 [waves, 32]: a 32-bit VGPR plus an unsigned offset."""
    return LaneAddress(register, offset)


def _lane_addresses(offset: int) -> Addresses:
    lanes = np.arange(LANES, dtype=np.int64)[None, :] * 4 + offset

    def addresses(g: WaveGroup) -> np.ndarray:
        base = (g.sgpr[M0] & np.uint32(0xFFFF)).astype(np.int64)
        return np.broadcast_to(base[:, None] + lanes, (g.count, LANES))

    return addresses


def _two_addresses(instruction: Instruction, name: str, address: int) -> Step:
    """Two elements at two offsets: loads to consecutive registers, stores from DATA0 and DATA1."""
    stride = 64 if "STRIDE64" in name else 1
    plain = name.replace("_STRIDE64", "").replace("2ADDR_", "")
    destination = instruction.field(63, 56)
    size = 8 if plain.endswith("64") else 4
    offsets = [instruction.field(7, 0) * stride * size, instruction.field(15, 8) * stride * size]
    if plain.startswith("STOREXCHG"):
        return _two_exchanges(instruction, plain, address, offsets, size // 4)
    access = access_kind(plain)
    if access is None:
        raise unsupported(instruction)
    verb, kind = access
    port = lds_port(instruction)
    places = [lds_addresses(address, offset) for offset in offsets]
    data = [instruction.field(47, 40), instruction.field(55, 48)]
    if verb == "store":
        parts = [
            store_step(instruction, kind, place, vector_set(address), port, "lgkm", register)
            for place, register in zip(places, data)
        ]
        return _combined(instruction, parts)

    if not destination <= address < destination + 2 * kind.registers:
        parts = [
            load_step(instruction, kind, place, vector_set(address), port, "lgkm", goal)
            for place, goal in zip(places, (destination, destination + kind.registers))
        ]
        return _combined(instruction, parts)

    def run(g: WaveGroup) -> None:
        values = [port.load(g, place(g), size, g.mask) for place in places]
        for i, words in enumerate(values):
            if words is not None:
                write_loaded(g, destination + i * kind.registers, words, kind)

    written = vector_set(destination, 2 * kind.registers)
    return Step(
        instruction,
        run,
        vector_set(address),
        written,
        written | 1 << EXEC_LO,
        counter="lgkm",
        returns=written,
    )


def _two_exchanges(
    instruction: Instruction, name: str, address: int, offsets: list[int], registers: int
) -> Step:
    data, destination = instruction.field(47, 40), instruction.field(63, 56)
    sources = [data, instruction.field(55, 48)]
    parts = [
        atomic_step(
            instruction,
            name,
            lds_addresses(address, offset),
            vector_set(address),
            lds_port,
            "lgkm",
            (source, destination + i * registers),
            True,
        )
        for i, (offset, source) in enumerate(zip(offsets, sources))
    ]
    return _combined(instruction, parts)


def _combined(instruction: Instruction, parts: list[Step]) -> Step:
    first, second = parts

    def run(g: WaveGroup) -> None:
        first.run(g)
        second.run(g)

    return Step(
        instruction,
        run,
        first.reads | second.reads,
        first.writes | second.writes,
        first.keeps | second.keeps,
        counter="lgkm",
        returns=first.returns | second.returns,
        unchecked=first.unchecked | second.unchecked,
        data=first.data | second.data,
    )


def _lane_move(instruction: Instruction, name: str) -> Step:
    address, data = instruction.field(39, 32), instruction.field(47, 40)
    destination, offset = instruction.field(63, 56), instruction.field(15, 0)
    reads = vector_set(address) | (vector_set(data) if name != "SWIZZLE_B32" else 0)
    word = ACCESS_KINDS["B32"]
    if name == "SWIZZLE_B32":
        lanes = swizzle_lanes(offset)

        def run(g: WaveGroup) -> None:
            value = g.u32[address][:, lanes]
            if g.mask is not None:
                value = np.where(g.mask[:, lanes], value, np.uint32(0))
            write_loaded(g, destination, [value], word)

    elif name == "BPERMUTE_B32":

        def run(g: WaveGroup) -> None:
            source = _lane_of(g.u32[address], offset)
            value = np.take_along_axis(g.u32[data], source, 1)
            if g.mask is not None:
                value = np.where(np.take_along_axis(g.mask, source, 1), value, np.uint32(0))
            write_loaded(g, destination, [value], word)

    else:

        def run(g: WaveGroup) -> None:
            goal = _lane_of(g.u32[address], offset)
            value = np.zeros((g.count, LANES), np.uint32)
            rows = np.arange(g.count)
            active = g.active()
            for lane in range(LANES):  # in lane order: the highest lane that writes a goal wins
                chosen = active[:, lane]
                value[rows[chosen], goal[chosen, lane]] = g.u32[data][chosen, lane]
            write_loaded(g, destination, [value], word)

    written = vector_set(destination)
    return Step(
        instruction,
        run,
        reads,
        written,
        written | 1 << EXEC_LO,
        counter="lgkm",
        returns=written,
        unchecked=reads,
    )


def _lane_of(addresses: np.ndarray, offset: int) -> np.ndarray:
    return ((addresses + np.uint32(offset)) >> np.uint32(2) & np.uint32(31)).astype(np.int64)


def swizzle_lanes(offset: int) -> np.ndarray:
    """The lane that each lane reads under DS_SWIZZLE_B32, int [32].

    Offset from 0xe000 on: FFT order; from 0xc000: rotation; with bit 15: quad permutation; else the
    and, or and xor masks in 5 bits each.
    """
    lanes = np.arange(LANES)
    if offset >= 0xE000:
        mask = offset & 31
        count = mask.bit_count()
        turned = np.array([int(f"{lane:05b}"[::-1], 2) for lane in range(LANES)])
        return turned >> count | lanes & mask
    if offset >= 0xC000:
        amount = offset >> 5 & 31
        if offset >> 10 & 1:
            amount = -amount
        mask = offset & 31
        return lanes & mask | lanes + amount & 31 & ~mask
    if offset & 0x8000:
        selects = np.array([offset >> 2 * (lane & 3) & 3 for lane in range(LANES)])
        return (lanes & ~3) + selects
    return (lanes & (offset & 31) | offset >> 5 & 31) ^ (offset >> 10 & 31)


def _counter_step(instruction: Instruction, name: str) -> Step:
    """DS_APPEND and DS_CONSUME: one LDS word per wave goes up or down by the active lanes."""
    destination, offset = instruction.field(63, 56), instruction.field(15, 0)
    port = lds_port(instruction)
    word = AccessKind(4)
    sign = 1 if name == "APPEND" else -1

    def run(g: WaveGroup) -> None:
        base = (np.broadcast_to(g.sgpr[M0], (g.count,)) & np.uint32(0xFFFF)).astype(np.int64)
        active = g.active()
        returned = np.zeros((g.count, LANES), np.uint32)
        for wave in range(g.count):
            lanes = np.zeros((g.count, LANES), bool)
            lanes[wave, 0] = True
            places = np.full((g.count, LANES), base[wave] + offset)
            parts = port.locate(g, places, 4, True, lanes)
            for part in parts:
                position = int(part.positions[wave, 0]) >> 2
                old = int(part.storage.words[position])
                returned[wave] = old
                change = sign * int(np.count_nonzero(active[wave]))
                part.storage.words[position] = (old + change) & 0xFFFFFFFF
        write_loaded(g, destination, [returned], word)

    written = vector_set(destination)
    return Step(
        instruction, run, 1 << M0, written, written | 1 << EXEC_LO, counter="lgkm", returns=written
    )
