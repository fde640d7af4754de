"""A kernel, a grid and arguments to executed waves: HIP's dispatch of an AMDGPU code object.

Sources: LLVM's "User Guide for AMDGPU Backend", sections "Kernel Descriptor", "Initial Kernel
Execution State" (GFX11: packed work-item ids, architected flat scratch) and "Code Object V5
Metadata" (hidden arguments).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tessera.emulator.access import Storage
from tessera.emulator.arguments import kernarg_segment, map_arguments
from tessera.emulator.code_object import CodeObject, KernelDescription, load
from tessera.emulator.errors import LaunchArgumentError
from tessera.emulator.faults import FaultReporter
from tessera.emulator.machine import Machine
from tessera.emulator.memory import AddressSpace, Buffer
from tessera.emulator.program import Program, program_of
from tessera.emulator.registers import (
    ALL_LANES,
    ALWAYS_DEFINED,
    EXEC_LO,
    FIRST_VGPR,
    LANES,
    register_set,
)
from tessera.emulator.report import Report, count_instructions
from tessera.emulator.state import Batch

LDS_LIMIT_BYTES = 65536
LDS_GRANULE = 64
# Waves that are resident together. More of them share the cost of an instruction better, until
# a register of all waves (128 bytes per wave) leaves the processor's first-level cache.
RESIDENT_WAVES = 256
USER_SGPR_KINDS = (
    (0, "private segment buffer", 4),
    (1, "dispatch pointer", 2),
    (2, "queue pointer", 2),
    (3, "kernarg pointer", 2),
    (4, "dispatch id", 2),
    (5, "flat scratch", 2),
    (6, "private segment size", 1),
)
MOST_SCRATCH_BYTES = 1 << 28
Dimensions = tuple[int, int, int]


def run(
    code_object: bytes,
    kernel: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    dynamic_lds: int = 0,
    sanitize: bool = True,
    max_instructions: int | None = None,
    on_finding: str = "raise",
    trace: Callable[[str], None] | None = None,
    profile: bool = False,
) -> Report:
    """Execute `kernel` of an AMDGPU code object for RDNA 3.5.

    `grid` counts workgroups and `block` threads per workgroup (1 to 3 numbers each). `args` holds
    one value per explicit argument: a numpy array (a buffer, updated in place), a number, or None
    for a null pointer. `dynamic_lds` is in bytes. `sanitize` turns on the checks beyond bounds.
    `max_instructions` bounds the wave-instructions of the whole launch; without it, each wave may
    execute 5 million. `on_finding` is "raise" or "collect". `trace` receives a line per instruction
    of the first wave; `profile` fills `Report.by_pc`.

    Raises EmulatorError subclasses: CodeObjectError, LaunchArgumentError,
    UnsupportedInstructionError, and with "raise" those that carry a finding.
    """
    loaded = load(code_object)
    description = loaded.kernel(kernel)
    if on_finding not in ("raise", "collect"):
        raise LaunchArgumentError(f"on_finding is {on_finding!r}; supported: raise, collect")
    sizes = _dimensions("grid", grid), _dimensions("block", block)
    _check_launch(description, *sizes, dynamic_lds)
    launch = Launch(loaded, description, *sizes, dynamic_lds, on_finding == "raise")
    launch.map_arguments(args)
    start = time.perf_counter()
    with np.errstate(all="ignore"):
        launch.execute(sanitize, max_instructions, trace)
    seconds = time.perf_counter() - start
    return launch.report(seconds, profile)


def _dimensions(what: str, value: int | Sequence[int]) -> Dimensions:
    values = [value] if isinstance(value, int | np.integer) else list(value)
    if not 1 <= len(values) <= 3 or not all(isinstance(v, int | np.integer) for v in values):
        raise LaunchArgumentError(f"{what} {value!r} is not one to three integers")
    numbers = [int(v) for v in values] + [1] * (3 - len(values))
    if min(numbers) < 1 or max(numbers) >= 1 << 31:
        raise LaunchArgumentError(f"{what} {value!r} has a size out of range")
    return numbers[0], numbers[1], numbers[2]


def _check_launch(
    kernel: KernelDescription, grid: Dimensions, block: Dimensions, dynamic_lds: int
) -> None:
    if kernel.wave_size != 32:
        raise LaunchArgumentError(
            f"kernel {kernel.name!r} is compiled for wave64; supported: wave32"
        )
    threads = block[0] * block[1] * block[2]
    if threads > min(kernel.max_block, 1024):
        raise LaunchArgumentError(
            f"block {block} has {threads} threads; kernel {kernel.name!r} allows "
            f"{min(kernel.max_block, 1024)}"
        )
    if kernel.required_block and tuple(kernel.required_block) != block:
        raise LaunchArgumentError(
            f"block {block}: kernel {kernel.name!r} requires {kernel.required_block}"
        )
    if dynamic_lds < 0 or kernel.lds_bytes + dynamic_lds > LDS_LIMIT_BYTES:
        raise LaunchArgumentError(
            f"LDS: {kernel.lds_bytes} static and {dynamic_lds} dynamic bytes; a workgroup has "
            f"{LDS_LIMIT_BYTES}"
        )


class Launch:
    """One dispatch: mapped memory, then batches of resident workgroups one after another."""

    def __init__(
        self,
        code_object: CodeObject,
        kernel: KernelDescription,
        grid: Dimensions,
        block: Dimensions,
        dynamic_lds: int,
        raises: bool,
    ) -> None:
        self.code_object, self.kernel = code_object, kernel
        self.grid, self.block, self.dynamic_lds = grid, block, dynamic_lds
        self.memory = AddressSpace()
        self.code = self.memory.map("code", code_object.image, writable=False)
        self.code.writable_ranges = code_object.writable_ranges
        self.memory.relocate(self.code, code_object.relocations)
        self.faults = FaultReporter(kernel.name, kernel.entry, raises)
        self.program: Program = program_of(
            code_object.image, code_object.code_ranges, kernel.entry, kernel.allocated_vgprs
        )
        self.lds_bytes = kernel.lds_bytes + dynamic_lds
        self.scratch_bytes = kernel.scratch_bytes + kernel.stack_bytes
        self.kernarg: Buffer | None = None
        self.packet: Buffer | None = None
        self.waves = 0

    def map_arguments(self, args: Sequence[Any]) -> None:
        """Map the callers' arrays and build the kernarg segment and the dispatch packet."""
        values = map_arguments(self.memory, self.kernel, args)
        content = kernarg_segment(self.kernel, values, self.grid, self.block, self.dynamic_lds)
        self.kernarg = self.memory.map("kernarg segment", content, writable=False)
        self.packet = self.memory.map("dispatch packet", self._packet(), writable=False)

    def _packet(self) -> bytes:
        sizes = [g * b for g, b in zip(self.grid, self.block)]
        assert self.kernarg is not None
        return struct.pack(
            "<HHHHHHIIIIIQQQQ",
            2,
            3,
            *self.block,
            0,
            *[size & 0xFFFFFFFF for size in sizes],
            self.scratch_bytes,
            self.lds_bytes,
            self.code.base + self.kernel.descriptor_address,
            self.kernarg.base,
            0,
            0,
        )

    def execute(
        self, sanitize: bool, limit: int | None, trace: Callable[[str], None] | None
    ) -> None:
        """Run all workgroups; written buffers go back to the caller even when a fault is raised."""
        for block in self.program.blocks.values():
            block.count = 0
        total = self.grid[0] * self.grid[1] * self.grid[2]
        waves_each = -(-(self.block[0] * self.block[1] * self.block[2]) // LANES)
        scratch_per_wave = max(1, self.scratch_bytes * LANES)
        resident = min(RESIDENT_WAVES, MOST_SCRATCH_BYTES // scratch_per_wave)
        step = max(1, resident // waves_each)
        executed = 0
        try:
            for first in range(0, total, step):
                ids = np.arange(first, min(first + step, total))
                batch = self._batch(ids, waves_each, sanitize)
                batch.executed = executed
                first_word = self.kernel.resource1
                mode = first_word >> 12 & 0xFF | (first_word >> 21 & 1) << 8
                mode |= (first_word >> 23 & 1) << 9
                machine = Machine(batch, self.program, mode, limit, trace if first == 0 else None)
                machine.run()
                executed = batch.executed
        finally:
            self.memory.write_back()
        self.waves = total * waves_each
        self.executed = executed

    def _batch(self, workgroups: np.ndarray, waves_each: int, sanitize: bool) -> Batch:
        kernel, count = self.kernel, len(workgroups)
        batch = Batch(count * waves_each, kernel.allocated_vgprs)
        batch.memory, batch.faults = self.memory, self.faults
        batch.code_base = self.code.base
        stride = -(-self.lds_bytes // LDS_GRANULE) * LDS_GRANULE
        batch.lds, batch.lds_bytes = Storage(stride * count), self.lds_bytes
        batch.scratch_bytes = self.scratch_bytes
        batch.scratch_stride = -(-self.scratch_bytes // 16) * 16
        batch.scratch = Storage(batch.scratch_stride * batch.waves * LANES)
        batch.workgroup = np.repeat(np.arange(count), waves_each)
        batch.number = np.tile(np.arange(waves_each), count)
        batch.lds_base = batch.workgroup * stride
        width, height = self.grid[0], self.grid[1]
        ids = np.stack(
            [workgroups % width, workgroups // width % height, workgroups // (width * height)], 1
        )
        self.faults.workgroup_ids = ids
        self._start_registers(batch, np.repeat(ids, waves_each, axis=0))
        if sanitize:
            from tessera.emulator.checks import Checks

            batch.checks = Checks(batch)
        return batch

    def _start_registers(self, batch: Batch, ids: np.ndarray) -> None:
        """Work-item ids, EXEC, user SGPRs, then the workgroup ids that the kernel asks for."""
        threads = self.block[0] * self.block[1] * self.block[2]
        number = batch.number[:, None] * LANES + np.arange(LANES)
        x = number % self.block[0]
        y = number // self.block[0] % self.block[1]
        z = number // (self.block[0] * self.block[1])
        batch.file[0] = (x | y << 10 | z << 20).astype(np.uint32)
        left = np.clip(threads - batch.number * LANES, 0, LANES)
        batch.sgpr[EXEC_LO] = (ALL_LANES >> (LANES - left).astype(np.uint32)).astype(np.uint32)
        position = 0
        for register, value in enumerate(self._user_sgprs()):
            batch.sgpr[register] = np.array([value], np.uint32)
            position = register + 1
        position = max(position, self.kernel.user_sgprs)
        batch.defined = ALWAYS_DEFINED | register_set(0, position) | 1 << FIRST_VGPR
        for axis in range(3):
            if self.kernel.resource2 >> (7 + axis) & 1:
                batch.sgpr[position] = np.ascontiguousarray(ids[:, axis]).astype(np.uint32)
                batch.defined |= 1 << position
                position += 1

    def _user_sgprs(self) -> list[int]:
        assert self.kernarg is not None
        assert self.packet is not None
        values: list[int] = []
        contents = {
            "dispatch pointer": self.packet.base,
            "kernarg pointer": self.kernarg.base,
            "private segment size": self.scratch_bytes,
        }
        for bit, name, count in USER_SGPR_KINDS:
            if self.kernel.properties >> bit & 1:
                content = contents.get(name, 0)
                values += [content >> 32 * word & 0xFFFFFFFF for word in range(count)]
        return values

    def report(self, seconds: float, profile: bool) -> Report:
        """The facts of the finished launch."""
        classes, names, places, texts = count_instructions(self.program, profile)
        return Report(
            kernel=self.kernel.name,
            grid=self.grid,
            block=self.block,
            vgprs=self.kernel.vgprs,
            sgprs=self.kernel.sgprs,
            lds_bytes=self.lds_bytes,
            scratch_bytes=self.kernel.scratch_bytes,
            waves=self.waves,
            instructions=self.executed,
            by_class=classes,
            by_mnemonic=names,
            by_pc=places,
            text_by_pc=texts,
            findings=list(self.faults.findings),
            seconds=seconds,
            chip=self.code_object.chip,
        )
