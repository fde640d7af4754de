"""Target or Kernel IR -> the same without the contract ops whose kernels have been generated.

tessera_rocm.mfma {for_kernel = "x"} --> nothing, once no directive is named x
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tessera.dialects.rocm import Directive
from tessera.dialects.rocm_contracts import ContractOp


@dataclass(frozen=True)
class DischargeContractsPass(ModulePass):
    """Erase met demands; a demand of a kernel that is still to be generated stays."""

    name = "discharge-contracts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Erase in place."""
        ops = list(op.walk())
        open_kernels = {one.kernel_name for one in ops if isinstance(one, Directive)}
        for one in ops:
            if isinstance(one, ContractOp) and one.for_kernel.data not in open_kernels:
                one.detach()
                one.erase()
