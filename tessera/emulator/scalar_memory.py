"""SMEM instructions to steps: S_LOAD_*, S_BUFFER_LOAD_* and the cache controls.

Address (RDNA 3.5 ISA guide, section 8): SBASE plus a signed 21-bit offset plus SOFFSET, the two low
bits ignored. A buffer load reads 0 beyond NUM_RECORDS.
"""

from __future__ import annotations

import numpy as np

from tessera.emulator import operands as op
from tessera.emulator.decode import Instruction
from tessera.emulator.global_memory import signed
from tessera.emulator.registers import NULL, register_set
from tessera.emulator.space import GlobalPort
from tessera.emulator.state import WaveGroup
from tessera.emulator.step import Mode, Step, unsupported

NO_EFFECT = ("S_GL1_INV", "S_DCACHE_INV", "S_ATC_PROBE", "S_ATC_PROBE_BUFFER")


def translate_smem(instruction: Instruction, mode: Mode) -> Step:
    """SMEM: SBASE bits 5..0 (pairs), SDATA 12..6, OFFSET 52..32, SOFFSET 63..57."""
    name = instruction.name
    if name in NO_EFFECT:
        return Step(instruction, lambda g: None)
    if not name.startswith(("S_LOAD_B", "S_BUFFER_LOAD_B")):
        raise unsupported(instruction)
    words = int(name.rsplit("B", 1)[1]) // 32
    is_buffer = name.startswith("S_BUFFER")
    base, destination = instruction.field(5, 0) * 2, instruction.field(12, 6)
    scalar_offset = instruction.field(63, 57)
    constant = np.int64(signed(instruction.field(52, 32), 21))
    port = ScalarPort(instruction)
    limited = is_buffer

    def run(g: WaveGroup) -> None:
        offset = np.full(1, constant, np.int64)
        if scalar_offset != NULL:
            offset = offset + g.sgpr[scalar_offset]
        start = op.join_words(g.sgpr[base], g.sgpr[base + 1]).view(np.int64)
        records = None
        if limited:
            start = start & 0xFFFF_FFFF_FFFF
            records = g.sgpr[base + 2].astype(np.int64)
        values = port.read(g, (start + offset) & ~3, words, records, offset)
        for k, value in enumerate(values):
            op.store_scalar(g, destination + k, value)

    reads = register_set(base, 4 if is_buffer else 2)
    if scalar_offset != NULL:
        reads |= 1 << scalar_offset
    written = register_set(destination, words)
    return Step(instruction, run, reads, written, counter="lgkm", returns=written, in_order=False)


class ScalarPort:
    """Reads of consecutive words at one address per wave."""

    def __init__(self, instruction: Instruction) -> None:
        self._port = GlobalPort(instruction)

    def read(
        self,
        g: WaveGroup,
        addresses: np.ndarray,
        words: int,
        records: np.ndarray | None,
        offsets: np.ndarray,
    ) -> list[np.ndarray]:
        """`words` words per wave: uint32 [waves] or [1]; words past `records` bytes are 0."""
        table = addresses[:, None] + 4 * np.arange(words, dtype=np.int64)
        mask = None
        if records is not None:
            inside = (offsets & ~3)[:, None] + 4 * np.arange(1, words + 1) <= records[:, None]
            mask = np.broadcast_to(inside, table.shape)
            if not mask.any():
                return [np.zeros(len(addresses), np.uint32)] * words
        parts = self._port.locate(g, table, 4, False, mask)
        values = np.zeros(table.shape, np.uint32)
        for part in parts:
            loaded = part.storage.words.take(part.positions >> 2)
            np.copyto(values, loaded, where=True if part.mask is None else part.mask)
        return [np.ascontiguousarray(values[:, k]) for k in range(words)]
