"""Chip names to frozen facts: matrix-core layouts, register files, limits."""

from tessera.targets.amd import CHIPS, AmdChip
from tessera.targets.matrix_core import FragmentLayout, MatrixCore
from tessera.targets.target import DEFAULT_ROCM_CHIP, Target, resolve_target

__all__ = [
    "CHIPS",
    "DEFAULT_ROCM_CHIP",
    "AmdChip",
    "FragmentLayout",
    "MatrixCore",
    "Target",
    "resolve_target",
]
