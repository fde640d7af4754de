"""Target family names to the rules that write kernels for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tessera.codegen.llvm_text import FunctionEmitter, Rule
from tessera.errors import TargetError, supported

FAMILIES = ("rocm",)


@dataclass(frozen=True)
class FamilyRules:
    """How one chip family's kernels are written: per operation, per function, and metadata."""

    rules: Mapping[type, Rule]
    function: Callable[[FunctionEmitter], list[str]]
    metadata: tuple[str, ...]


def family_rules(family: str) -> FamilyRules:
    """The rules of a family; TargetError lists the known ones."""
    if family == "rocm":
        from tessera.codegen.rocm.function import ROCM_RULES

        return ROCM_RULES
    raise TargetError(f"no code generation for target family {family!r}; {supported(FAMILIES)}")
