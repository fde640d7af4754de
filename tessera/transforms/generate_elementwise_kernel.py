"""Pass `generate-elementwise-kernel`: elementwise directives to kernels and launches."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tessera.dialects.rocm import ElementwiseOp
from tessera.kernels.elementwise import generate_elementwise
from tessera.kernels.expand import expand_directives
from tessera.targets import resolve_target


@dataclass(frozen=True)
class GenerateElementwiseKernelPass(ModulePass):
    """Expand every tessera_rocm.elementwise for the chip `target`."""

    name = "generate-elementwise-kernel"
    target: str = "gfx1151"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        expand_directives(op, ElementwiseOp, generate_elementwise, resolve_target(self.target))
