"""Pass `generate-wmma-flash-attn-kernel`: flash_attn directives to wave kernels and launches."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tessera.dialects.rocm import FlashAttnOp
from tessera.kernels.expand import expand_directives
from tessera.kernels.flash_attention import generate_flash_attention
from tessera.targets import resolve_target


@dataclass(frozen=True)
class GenerateWmmaFlashAttnKernelPass(ModulePass):
    """Expand every tessera_rocm.flash_attn for the chip `target`."""

    name = "generate-wmma-flash-attn-kernel"
    target: str = "gfx1151"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        expand_directives(op, FlashAttnOp, generate_flash_attention, resolve_target(self.target))
