"""Levels to the operations that are legal at each, and a check of a module against that table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.dialects.gpu import GPU
from xdsl.dialects.math import Math
from xdsl.dialects.scf import Scf
from xdsl.ir import Dialect, Operation

from tessera.dialects.graph import Graph
from tessera.dialects.rocm import Rocm
from tessera.dialects.tile import Tile
from tessera.dialects.wave import Wave
from tessera.errors import CompileError, OptionError, supported

LEVELS = ("graph", "tile", "target", "kernel")
"""The levels that are modules, in the order of lowering."""

DIALECTS: tuple[Dialect, ...] = (Builtin, Func, Graph, Tile, Rocm, GPU, Wave, Arith, Math, Scf)
"""Every dialect that a module of some level may use."""


@dataclass(frozen=True)
class LevelSpec:
    """What one level may contain.

    Names ending in `.*` stand for a whole dialect. `excluded` takes single operations out again.
    `marks` are the prefixes that only this level and none before it has.
    """

    operations: tuple[str, ...]
    marks: tuple[str, ...]
    excluded: tuple[str, ...] = ()

    def allows(self, operation: str) -> bool:
        """Whether an operation of this name is legal at the level."""
        if operation in self.excluded:
            return False
        return any(
            operation == one or (one.endswith(".*") and operation.startswith(one[:-1]))
            for one in self.operations
        )


_FUNCTION = ("builtin.module", "func.func", "func.return")

SPEC: Mapping[str, LevelSpec] = MappingProxyType(
    {
        "graph": LevelSpec((*_FUNCTION, "tessera.*"), marks=("tessera.",)),
        "tile": LevelSpec((*_FUNCTION, "tile.*"), marks=("tile.",)),
        "target": LevelSpec(
            (*_FUNCTION, "tessera_rocm.*"),
            marks=("tessera_rocm.",),
            excluded=("tessera_rocm.launch",),
        ),
        "kernel": LevelSpec(
            (
                *_FUNCTION,
                "tessera_rocm.launch",
                "tessera_rocm.view",
                "gpu.module",
                "wave.*",
                "scf.for",
                "scf.if",
                "scf.yield",
                "arith.*",
                "math.*",
            ),
            marks=("gpu.", "wave.", "tessera_rocm.launch"),
        ),
    }
)
"""The legal operations of every level."""


def make_context() -> Context:
    """An xDSL context that knows every dialect of every level."""
    context = Context()
    for dialect in DIALECTS:
        context.load_dialect(dialect)
    return context


def level_of(module: ModuleOp) -> str:
    """The furthest level that some operation of the module belongs to; `graph` when none does."""
    furthest = 0
    for op in module.walk():
        for index in range(len(LEVELS) - 1, furthest, -1):
            if op.name.startswith(SPEC[LEVELS[index]].marks):
                furthest = index
                break
    return LEVELS[furthest]


def check_level(module: ModuleOp, level: str) -> None:
    """Raise CompileError for the first operation that is not legal at `level`.

    Raises OptionError for an unknown level.
    """
    if level not in SPEC:
        raise OptionError(f"unknown level {level!r}; " + supported(LEVELS))
    spec = SPEC[level]
    for op in module.walk():
        if not spec.allows(op.name):
            raise CompileError(
                f"{op.name} is not legal at level {level}{_place(op)}; "
                + supported(spec.operations)
            )


def _place(op: Operation) -> str:
    """ " in @f" for an operation inside a function called f."""
    parent = op.parent_op()
    while parent is not None:
        symbol = parent.properties.get("sym_name")
        if symbol is not None and parent.name == "func.func":
            return f" in @{getattr(symbol, 'data', symbol)}"
        parent = parent.parent_op()
    return ""
