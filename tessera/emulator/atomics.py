"""Atomic instructions of all address spaces to steps; lanes that share an address go in order.

The operation itself stands in `semantics.ATOMIC_OPS`. Lanes execute in ascending order of wave and
lane, which is one of the orders that the hardware allows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessera.emulator.access import Storage, is_aligned
from tessera.emulator.decode import Instruction
from tessera.emulator.faults import first_lane
from tessera.emulator.operands import dtype_of, join_words, width_of
from tessera.emulator.registers import EXEC_LO, LANES, vector_set
from tessera.emulator.semantics import ATOMIC_OPS, AtomicOp
from tessera.emulator.space import MemoryPort
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Step

Addresses = Callable[[WaveGroup], np.ndarray]


def operation_key(name: str) -> str:
    """The key in ATOMIC_OPS of a mnemonic without its address space."""
    plain = name.removeprefix("ATOMIC_").replace("_RTN", "")
    return plain.replace("CMPSTORE", "CMPSWAP").replace("STOREXCHG", "SWAP")


def is_atomic(name: str) -> bool:
    """Whether an operation name is a known atomic."""
    return operation_key(name) in ATOMIC_OPS


def atomic_step(
    instruction: Instruction,
    name: str,
    addresses: Addresses,
    reads: int,
    port: Callable[[Instruction], MemoryPort],
    counter: str,
    registers: tuple[int, int],
    returns: bool,
    second: int | None = None,
) -> Step:
    """An atomic at `addresses`; `registers` are those of the data and of the returned value.

    A second operand (the value compared with) is in `second`, or follows the data.
    """
    operation = ATOMIC_OPS[operation_key(name)]
    data, destination = registers
    count = max(1, width_of(operation.kind) // 32)
    other = second if second is not None else data + count
    through = port(instruction)

    def run(g: WaveGroup) -> None:
        mask = g.mask
        if mask is not None and not mask.any():
            return
        places = addresses(g)
        old = _execute(g, instruction, through, places, operation, data, other, count)
        if returns:
            for k in range(count):
                where = True if mask is None else mask
                np.copyto(g.u32[destination + k], old[k], where=where)

    reads |= vector_set(data, count) | (vector_set(other, count) if operation.compares else 0)
    written = vector_set(destination, count) if returns else 0
    if counter.startswith("vm") and not returns:
        counter = counter.replace("vm", "vs")
    return Step(
        instruction,
        run,
        reads,
        written,
        written | 1 << EXEC_LO,
        counter=counter,
        returns=written,
    )


def _execute(
    g: WaveGroup,
    instruction: Instruction,
    port: MemoryPort,
    places: np.ndarray,
    operation: AtomicOp,
    data: int,
    other: int,
    count: int,
) -> list[np.ndarray]:
    """Apply the operation for every active lane; the old words, uint32 [waves, 32] each."""
    size = 4 * count
    _check_alignment(g, instruction, places, size)
    old = [np.zeros((g.count, LANES), np.uint32) for _ in range(count)]
    for part in port.locate(g, places, size, True, g.mask):
        chosen = np.ones((g.count, LANES), bool) if part.mask is None else part.mask
        operands = [_values(g, data, count, operation.kind, chosen)]
        if operation.compares:
            operands.append(_values(g, other, count, operation.kind, chosen))
        before = _apply(part.storage, part.positions[chosen], size, operation, operands)
        words = before.view(np.uint32)
        for k in range(count):
            old[k][chosen] = words[k::count]
    return old


def _check_alignment(g: WaveGroup, instruction: Instruction, places: np.ndarray, size: int) -> None:
    aligned = np.where(g.active(), places, 0)
    if is_aligned(aligned, size):
        return
    wave, lane = first_lane(aligned & (size - 1) != 0)
    address = int(places[wave, lane])
    g.batch.faults.report(
        "misaligned",
        instruction,
        f"atomic of {size} bytes at {address:#x}, not a multiple of {size}",
        g,
        wave,
        lane,
        address,
    )


def _values(g: WaveGroup, register: int, count: int, kind: str, chosen: np.ndarray) -> np.ndarray:
    words = [g.u32[register + k][chosen] for k in range(count)]
    bits = words[0] if count == 1 else join_words(words[0], words[1])
    return np.ascontiguousarray(bits).view(dtype_of(kind))


def _apply(
    storage: Storage,
    positions: np.ndarray,
    size: int,
    operation: AtomicOp,
    operands: list[np.ndarray],
) -> np.ndarray:
    """Old values, flat [lanes]; one round for each time that an address is repeated."""
    memory = storage.elements(size).view(dtype_of(operation.kind))
    index = positions >> (2 if size == 4 else 3)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(ordered)])
    old = np.empty(len(index), memory.dtype)
    for turn in range(int(lengths.max(initial=0))):
        lanes = order[starts[lengths > turn] + turn]
        places = index[lanes]
        before = memory[places]
        old[lanes] = before
        memory[places] = operation.function(before, *[value[lanes] for value in operands])
    return old
