"""A module of any level -> the same, unchanged: every op must be legal at the stated level."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tessera.dialects.spec import check_level, level_of


@dataclass(frozen=True)
class VerifyLevelPass(ModulePass):
    """Check against `tessera.dialects.spec`; `level` empty: the furthest level that is present."""

    name = "verify-level"
    level: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raise CompileError for the first illegal op, OptionError for an unknown level."""
        check_level(op, self.level or level_of(op))
