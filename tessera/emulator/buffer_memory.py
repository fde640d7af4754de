"""MUBUF instructions to steps: loads, stores and atomics through buffer resources, cache controls.

What lies outside a resource's range reads as 0 and is not written, with no fault; what lies inside
must be in a mapped buffer.
"""

from __future__ import annotations

import numpy as np

from tessera.emulator.access import AccessKind
from tessera.emulator.atomics import atomic_step, is_atomic
from tessera.emulator.buffer_resource import BufferAddress, Lanes
from tessera.emulator.decode import Instruction
from tessera.emulator.global_memory import access_kind, operation_name, stored_values, write_loaded
from tessera.emulator.registers import EXEC_LO, LANES, vector_set
from tessera.emulator.space import GlobalPort, Mask, Part
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Mode, Step, unsupported

CACHE_CONTROLS = ("GL0_INV", "GL1_INV")


def translate_mubuf(instruction: Instruction, mode: Mode) -> Step:
    """MUBUF: VDATA 47..40, GLC 14, TFE 53; the address fields are those of `BufferAddress`."""
    name = operation_name(instruction)
    if name in CACHE_CONTROLS:
        return Step(instruction, lambda g: None)
    if instruction.field(53, 53):
        raise unsupported(instruction, "TFE")
    address = BufferAddress.of(instruction)
    data = instruction.field(47, 40)
    access = access_kind(name)
    if access is None:
        if not is_atomic(name) or "FORMAT" in name:
            raise unsupported(instruction)
        returns = bool(instruction.field(14, 14))
        return atomic_step(
            instruction,
            name,
            lambda g: np.zeros((g.count, LANES), np.int64),
            address.reads,
            lambda i: BufferPort(i, address),
            "vm",
            (data, data),
            returns,
        )
    verb, kind = access
    if verb == "load":
        return _load(instruction, address, kind, data)
    return _store(instruction, address, kind, data)


class BufferPort(GlobalPort):
    """Atomics through a resource: the addresses come from the resource, not from the caller."""

    def __init__(self, instruction: Instruction, address: BufferAddress) -> None:
        super().__init__(instruction)
        self._address = address

    def locate(
        self, g: WaveGroup, addresses: np.ndarray, size: int, write: bool, mask: Mask
    ) -> list[Part]:
        places, inside = self._address.places(g, size)
        chosen = inside if mask is None else inside & mask
        if not chosen.any():
            return []
        return super().locate(g, places, size, write, None if chosen.all() else chosen)


def _load(instruction: Instruction, address: BufferAddress, kind: AccessKind, data: int) -> Step:
    port = GlobalPort(instruction)
    piece = min(kind.size, 4)

    whole = kind.half is None and not kind.signed

    def run(g: WaveGroup) -> None:
        if whole and address.transfer(g, port, kind.size, data, False):
            return
        if g.mask is not None and not g.mask.any():
            return
        lanes = address.lanes(g)
        inside = lanes.inside(kind.size)
        chosen = inside if g.mask is None else inside & g.mask
        active = inside.size if g.mask is None else np.count_nonzero(g.mask)
        if np.count_nonzero(chosen) == active:
            values = port.load(g, lanes.addresses(), kind.size, g.mask)
            assert values is not None
        else:
            values = [_piece(g, lanes, k, piece) for k in range(kind.registers)]
        write_loaded(g, data, values, kind)

    def _piece(g: WaveGroup, lanes: Lanes, k: int, size: int) -> np.ndarray:
        """One word of a load that is partly out of range: the check is per word."""
        inside = lanes.inside(4 * k + size)
        chosen = inside if g.mask is None else inside & g.mask
        loaded = port.load(g, lanes.addresses() + 4 * k, size, chosen)
        if loaded is None:
            return np.zeros((g.count, LANES), np.uint32)
        return np.where(chosen, loaded[0], np.uint32(0))

    written = vector_set(data, kind.registers)
    return Step(
        instruction,
        run,
        address.reads,
        written,
        written | 1 << EXEC_LO,
        counter="vm",
        returns=written,
    )


def _store(instruction: Instruction, address: BufferAddress, kind: AccessKind, data: int) -> Step:
    port = GlobalPort(instruction)
    fetch = stored_values(data, kind)
    piece = min(kind.size, 4)

    whole = kind.half is None

    def run(g: WaveGroup) -> None:
        if whole and address.transfer(g, port, kind.size, data, True):
            return
        if g.mask is not None and not g.mask.any():
            return
        values = fetch(g)
        lanes = address.lanes(g)
        inside = lanes.inside(kind.size)
        chosen = inside if g.mask is None else inside & g.mask
        if chosen.all():
            port.store(g, lanes.addresses(), values, kind.size, None)
            return
        for k, value in enumerate(values):
            inside = lanes.inside(4 * k + piece)
            chosen = inside if g.mask is None else inside & g.mask
            port.store(g, lanes.addresses() + 4 * k, [value], piece, chosen)

    reads = address.reads | vector_set(data, kind.registers)
    return Step(instruction, run, reads, 0, 1 << EXEC_LO, counter="vs")
