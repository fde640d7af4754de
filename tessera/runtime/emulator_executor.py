"""A prepared launch to emulator runs of the artifact's own machine code, kernel by kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessera.artifact import Artifact
from tessera.errors import LaunchError
from tessera.runtime.executors import Call
from tessera.runtime.host_buffers import TemporaryPool, flat_buffers, poison
from tessera.runtime.prepared import INPUT, KernelLaunch, PreparedLaunch
from tessera.runtime.record import LaunchRecord
from tessera.runtime.tensors import HOST


class EmulatorRunner:
    """Runs the kernels of one prepared launch on the emulator, all checks on."""

    def __init__(self, artifact: Artifact, prepared: PreparedLaunch) -> None:
        self.hsaco, self.chip = artifact.hsaco, artifact.chip
        self.prepared = prepared
        self.pool = TemporaryPool(prepared.slots)

    def __call__(self, call: Call) -> LaunchRecord:
        """Run all kernels in order; LaunchError carries what the emulator found wrong."""
        for argument in call.arguments:
            if argument.device != HOST:
                raise LaunchError(
                    f"the emulator takes tensors in host memory, got one on {argument.device}"
                )
        temporaries = self.pool.take()
        try:
            buffers = flat_buffers(self.prepared, call, temporaries)
            for slot, buffer in zip(self.prepared.slots, buffers, strict=True):
                is_fresh = slot.role != INPUT and not self._is_given(slot.index, slot.role)
                if is_fresh:
                    poison(buffer)
            reports = self._run(buffers)
        finally:
            self.pool.give_back(temporaries)
        return LaunchRecord(
            executor="emulator",
            chip=self.chip,
            kernels=tuple(kernel.kernel for kernel in self.prepared.kernels),
            time_source="host clock of the emulator",
            seconds=sum(report.seconds for report in reports),
            reports=tuple(reports),
        )

    def _is_given(self, index: int, role: str) -> bool:
        return role == "output" and self.prepared.given[index] is not None

    def _run(self, buffers: list[np.ndarray]) -> list[Any]:
        from tessera import emulator

        # Until the first kernel that takes it has run, a buffer of ours holds nothing to read.
        unwritten = {index for index, slot in enumerate(self.prepared.slots) if slot.role != INPUT}
        reports = []
        for launch in self.prepared.kernels:
            arguments = self._arguments(launch, buffers, unwritten)
            try:
                report = emulator.run(
                    self.hsaco, launch.kernel, launch.grid, launch.block, arguments
                )
            except emulator.EmulatorError as error:
                raise LaunchError(f"kernel {launch.kernel} on the emulator: {error}") from error
            reports.append(report)
            unwritten.difference_update(a for a in launch.arguments if isinstance(a, int))
        return reports

    def _arguments(
        self, launch: KernelLaunch, buffers: list[np.ndarray], unwritten: set[int]
    ) -> list[Any]:
        from tessera import emulator

        arguments: list[Any] = []
        for argument in launch.arguments:
            if not isinstance(argument, int):
                arguments.append(argument.value)
            elif argument in unwritten:
                arguments.append(emulator.uninitialized(buffers[argument]))
            else:
                arguments.append(buffers[argument])
        return arguments
