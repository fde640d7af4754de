"""Target names ("rocm", "gfx1151") to the frozen description that every stage reads."""

from __future__ import annotations

from dataclasses import dataclass

from tessera.errors import TargetError, supported
from tessera.targets.amd import CHIPS, AmdChip
from tessera.targets.matrix_core import MatrixCore

DEFAULT_ROCM_CHIP = "gfx1151"


@dataclass(frozen=True)
class Target:
    """One chip of one family, with what LLVM needs to compile for it."""

    chip: str
    family: str
    triple: str
    facts: AmdChip

    def matrix_core(self, dtype: str) -> MatrixCore:
        """The matrix instruction for operands of `dtype`; raises DtypeError."""
        return self.facts.matrix_core(dtype)


def resolve_target(name: str, attached_chip: str | None = None) -> Target:
    """The target called `name`: a chip, or "rocm" for the attached AMD chip, else gfx1151.

    `attached_chip` is what the caller found on the machine. Raises TargetError for other names.
    """
    chip = (attached_chip or DEFAULT_ROCM_CHIP) if name == "rocm" else name
    if chip not in CHIPS:
        raise TargetError(f"unknown target {name!r}; " + supported(["rocm", *CHIPS]))
    return Target(chip=chip, family="rocm", triple="amdgcn-amd-amdhsa", facts=CHIPS[chip])
