"""GLOBAL, FLAT and SCRATCH instructions to steps: addresses per lane, bounds, loads and stores.

Address forms (RDNA 3.5 ISA guide, section 11): GLOBAL adds a 64-bit VGPR pair, or an SGPR pair plus
a 32-bit VGPR, to a signed 13-bit offset. SCRATCH adds a VGPR and an SGPR, each optional, inside the
lane's private memory. FLAT takes a 64-bit address that may lie in the LDS or scratch aperture.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessera.emulator import operands as op
from tessera.emulator.access import ACCESS_KINDS, AccessKind, extend
from tessera.emulator.decode import Instruction
from tessera.emulator.native_memory import LaneAddress, native_transfer
from tessera.emulator.registers import EXEC_LO, NULL, register_set, vector_set
from tessera.emulator.space import MemoryPort, flat_port, global_port, scratch_port
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Mode, Step, unsupported

PREFIXES = ("GLOBAL_", "FLAT_", "SCRATCH_", "BUFFER_", "DS_")
Addresses = Callable[[WaveGroup], np.ndarray]


def operation_name(instruction: Instruction) -> str:
    """The mnemonic without the name of the address space."""
    for prefix in PREFIXES:
        if instruction.name.startswith(prefix):
            return instruction.name.removeprefix(prefix)
    return instruction.name


def access_kind(name: str) -> tuple[str, AccessKind] | None:
    """("load" or "store", what it moves) of an operation name such as LOAD_D16_HI_B16."""
    for verb in ("LOAD", "STORE"):
        kind = ACCESS_KINDS.get(name.removeprefix(f"{verb}_")) if name.startswith(verb) else None
        if kind is not None:
            return verb.lower(), kind
    return None


def signed(value: int, bits: int) -> int:
    """`value` of `bits` bits as a two's complement number."""
    return value - (1 << bits) if value >> (bits - 1) else value


def translate_global(instruction: Instruction, mode: Mode) -> Step:
    """GLOBAL: ADDR bits 39..32, DATA 47..40, SADDR 54..48, VDST 63..56, OFFSET 12..0."""
    scalar, vector = instruction.field(54, 48), instruction.field(39, 32)
    offset = signed(instruction.field(12, 0), 13)
    name = operation_name(instruction)
    if "ADDTID" in name:
        return _lane_addressed(instruction, scalar, offset)
    if scalar in (NULL, 0x7F):
        addresses = LaneAddress(vector, offset, vector + 1)
        reads = vector_set(vector, 2)
    else:
        addresses = LaneAddress(vector, offset, wave_offset=_scalar_base(scalar))
        reads = vector_set(vector) | register_set(scalar, 2)
    return memory_step(instruction, name, addresses, reads, global_port, "vm")


def translate_flat(instruction: Instruction, mode: Mode) -> Step:
    """FLAT: as GLOBAL without SADDR; the apertures lead to LDS and scratch."""
    vector, offset = instruction.field(39, 32), signed(instruction.field(12, 0), 13)
    addresses = LaneAddress(vector, offset, vector + 1)
    name = operation_name(instruction)
    return memory_step(instruction, name, addresses, vector_set(vector, 2), flat_port, "vm+lgkm")


def translate_scratch(instruction: Instruction, mode: Mode) -> Step:
    """SCRATCH: private byte = VGPR (when SVE) + SGPR (unless null) + OFFSET."""
    scalar, vector = instruction.field(54, 48), instruction.field(39, 32)
    offset = signed(instruction.field(12, 0), 13)
    uses_vector, uses_scalar = bool(instruction.field(55, 55)), scalar not in (NULL, 0x7F)
    reads = (vector_set(vector) if uses_vector else 0) | (1 << scalar if uses_scalar else 0)

    def addresses(g: WaveGroup) -> np.ndarray:
        total = np.full((1, 1), offset, np.int64)
        if uses_scalar:
            total = total + g.sgpr[scalar].view(np.int32).astype(np.int64)[:, None]
        if uses_vector:
            total = total + g.u32[vector].astype(np.int64)
        return np.broadcast_to(total & 0xFFFFFFFF, (g.count, 32))

    name = operation_name(instruction)
    return memory_step(instruction, name, addresses, reads, scratch_port, "vm")


def _scalar_base(scalar: int) -> Callable[[WaveGroup], np.ndarray]:
    """The 64-bit base in an SGPR pair, int64 [waves] or [1]."""
    return lambda g: op.join_words(g.sgpr[scalar], g.sgpr[scalar + 1]).view(np.int64)


def _lane_addressed(instruction: Instruction, scalar: int, offset: int) -> Step:
    lanes = np.arange(32, dtype=np.int64)[None, :] * 4 + offset

    def addresses(g: WaveGroup) -> np.ndarray:
        base = op.join_words(g.sgpr[scalar], g.sgpr[scalar + 1]).view(np.int64)
        return np.broadcast_to(base[:, None] + lanes, (g.count, 32))

    name = operation_name(instruction).replace("ADDTID_", "")
    reads = register_set(scalar, 2)
    return memory_step(instruction, name, addresses, reads, global_port, "vm")


def memory_step(
    instruction: Instruction,
    name: str,
    addresses: Addresses,
    reads: int,
    port: Callable[[Instruction], MemoryPort],
    counter: str,
) -> Step:
    """A load, store or atomic through `port`; the fields are those of the FLAT encodings."""
    data, destination = instruction.field(47, 40), instruction.field(63, 56)
    access = access_kind(name)
    if access is None:
        from tessera.emulator.atomics import atomic_step, is_atomic

        if not is_atomic(name):
            raise unsupported(instruction)
        returns = bool(instruction.field(14, 14))
        registers = (data, destination)
        return atomic_step(instruction, name, addresses, reads, port, counter, registers, returns)
    verb, kind = access
    through = port(instruction)
    if verb == "load":
        return load_step(instruction, kind, addresses, reads, through, counter, destination)
    store_counter = counter.replace("vm", "vs")
    return store_step(instruction, kind, addresses, reads, through, store_counter, data)


def load_step(
    instruction: Instruction,
    kind: AccessKind,
    addresses: Addresses,
    reads: int,
    port: MemoryPort,
    counter: str,
    destination: int,
) -> Step:
    """Load `kind` at `addresses` into v[`destination`] and following registers."""
    size = kind.size
    transfer = native_transfer(addresses, port, kind, destination, False)

    def run(g: WaveGroup) -> None:
        if transfer is not None and transfer(g):
            return
        values = port.load(g, addresses(g), size, g.mask)
        if values is not None:
            write_loaded(g, destination, values, kind)

    written = vector_set(destination, kind.registers)
    return Step(
        instruction,
        run,
        reads,
        written,
        written | 1 << EXEC_LO,
        counter=counter,
        returns=written,
    )


def write_loaded(g: WaveGroup, register: int, values: list[np.ndarray], kind: AccessKind) -> None:
    """Store loaded words (or one extended or half value) to vector registers under EXEC."""
    mask = g.mask
    if kind.half is not None:
        target = g.u32[register].view(np.uint16)[:, kind.half :: 2]
        value = extend(values[0], kind)
        np.copyto(target, value.astype(np.uint16), where=True if mask is None else mask)
        return
    if kind.signed:
        values = [extend(values[0], kind)]
    for k, value in enumerate(values):
        if mask is None:
            g.u32[register + k][...] = value
        else:
            np.copyto(g.u32[register + k], value, where=mask)


def store_step(
    instruction: Instruction,
    kind: AccessKind,
    addresses: Addresses,
    reads: int,
    port: MemoryPort,
    counter: str,
    data: int,
) -> Step:
    """Store `kind` from v[`data`] and following registers at `addresses`."""
    fetch = stored_values(data, kind)
    transfer = native_transfer(addresses, port, kind, data, True)

    def run(g: WaveGroup) -> None:
        if transfer is not None and transfer(g):
            return
        port.store(g, addresses(g), fetch(g), kind.size, g.mask)

    stored = vector_set(data, kind.registers)
    # LDS and scratch may be filled with values that nobody will use; a function saves registers
    # that its caller may never have written.
    unused = 0 if instruction.format in ("GLOBAL", "FLAT") else stored & ~reads
    return Step(
        instruction,
        run,
        reads | stored,
        0,
        1 << EXEC_LO,
        counter=counter,
        unchecked=unused,
        tolerated=unused if instruction.format == "SCRATCH" else 0,
        data=stored,
    )


def stored_values(register: int, kind: AccessKind) -> Callable[[WaveGroup], list[np.ndarray]]:
    """The words that a store of `kind` takes from vector registers."""
    if kind.half == 1:
        return lambda g: [g.u32[register] >> np.uint32(16)]
    count = kind.registers
    return lambda g: [g.u32[register + k] for k in range(count)]
