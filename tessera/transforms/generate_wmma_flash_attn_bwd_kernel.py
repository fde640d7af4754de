"""Pass `generate-wmma-flash-attn-bwd-kernel`: each backward directive to three wave kernels."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tessera.dialects.rocm import FlashAttnBwdOp
from tessera.kernels.expand import expand_directives
from tessera.kernels.flash_attention_backward import generate_flash_attention_backward
from tessera.targets import resolve_target


@dataclass(frozen=True)
class GenerateWmmaFlashAttnBwdKernelPass(ModulePass):
    """Expand every tessera_rocm.flash_attn_bwd for the chip `target`."""

    name = "generate-wmma-flash-attn-bwd-kernel"
    target: str = "gfx1151"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        expand_directives(
            op, FlashAttnBwdOp, generate_flash_attention_backward, resolve_target(self.target)
        )
