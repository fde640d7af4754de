"""Pass `generate-wmma-gemm-kernel`: wmma_gemm directives to wave kernels and launches."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tessera.dialects.rocm import WmmaGemmOp
from tessera.kernels.expand import expand_directives
from tessera.kernels.gemm import generate_gemm
from tessera.targets import resolve_target


@dataclass(frozen=True)
class GenerateWmmaGemmKernelPass(ModulePass):
    """Expand every tessera_rocm.wmma_gemm for the chip `target`."""

    name = "generate-wmma-gemm-kernel"
    target: str = "gfx1151"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        expand_directives(op, WmmaGemmOp, generate_gemm, resolve_target(self.target))
