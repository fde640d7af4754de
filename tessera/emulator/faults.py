"""Faulty accesses of a wave group to findings: raised at once, or collected.

A `FaultReporter` belongs to one launch. It knows the kernel's name and whether the caller wants an
exception or a list.
"""

from __future__ import annotations

import numpy as np

from tessera.emulator.decode import Instruction
from tessera.emulator.errors import Finding, error_for
from tessera.emulator.state import WaveGroup

MOST_FINDINGS = 1000


class FaultReporter:
    """Turns faults into `Finding`s; with `raises` the first one is raised."""

    def __init__(self, kernel: str, entry: int, raises: bool) -> None:
        self.kernel, self.entry, self.raises = kernel, entry, raises
        self.findings: list[Finding] = []
        self.workgroup_ids: np.ndarray = np.zeros((0, 3), np.int64)
        self._seen: set[tuple[str, int]] = set()

    def report(
        self,
        kind: str,
        instruction: Instruction,
        message: str,
        g: WaveGroup | None = None,
        wave: int | None = None,
        lane: int | None = None,
        address: int | None = None,
        buffer: str | None = None,
    ) -> None:
        """Report a fault at row `wave` of the group; collected once per kind and instruction."""
        pc = instruction.pc - self.entry
        if not self.raises and (kind, pc) in self._seen:
            return
        self._seen.add((kind, pc))
        workgroup, number = None, None
        if g is not None and wave is not None:
            ids = self.workgroup_ids[g.workgroup[wave]]
            workgroup = (int(ids[0]), int(ids[1]), int(ids[2]))
            number = int(g.number[wave])
        finding = Finding(
            kind,
            self.kernel,
            pc,
            instruction.text,
            message,
            workgroup,
            number,
            lane,
            address,
            buffer,
        )
        if self.raises:
            raise error_for(finding)
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)


def first_lane(bad: np.ndarray) -> tuple[int, int]:
    """Row and lane of the first True of bool [waves, 32]."""
    position = int(np.argmax(bad.reshape(-1)))
    return position // bad.shape[1], position % bad.shape[1]
