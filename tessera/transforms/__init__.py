"""Pass names to passes, and pipeline names to passes in order: one module form to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from tessera.errors import OptionError, supported

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass


@dataclass(frozen=True)
class PassFactory:
    """Where a pass lives; calling it imports the module and returns the class."""

    module: str
    class_name: str

    def __call__(self) -> type[ModulePass]:
        return getattr(import_module(self.module), self.class_name)


PASSES: Mapping[str, PassFactory] = MappingProxyType(
    {
        name: PassFactory(module, class_name)
        for name, module, class_name in (
            ("dce", "xdsl.transforms.dead_code_elimination", "DeadCodeElimination"),
            ("cse", "xdsl.transforms.common_subexpression_elimination",
             "CommonSubexpressionElimination"),
            ("fold-transposes", "tessera.transforms.fold_transposes", "FoldTransposesPass"),
            ("fuse-epilogues", "tessera.transforms.fuse_epilogues", "FuseEpiloguesPass"),
            ("graph-to-tile", "tessera.transforms.graph_to_tile", "GraphToTilePass"),
            ("assign-schedules", "tessera.transforms.assign_schedules", "AssignSchedulesPass"),
            ("tile-to-rocm", "tessera.transforms.tile_to_rocm", "TileToRocmPass"),
            ("check-contracts", "tessera.transforms.check_contracts", "CheckContractsPass"),
            ("generate-wmma-gemm-kernel", "tessera.transforms.generate_wmma_gemm_kernel",
             "GenerateWmmaGemmKernelPass"),
            ("generate-wmma-flash-attn-kernel",
             "tessera.transforms.generate_wmma_flash_attn_kernel",
             "GenerateWmmaFlashAttnKernelPass"),
            ("generate-wmma-flash-attn-bwd-kernel",
             "tessera.transforms.generate_wmma_flash_attn_bwd_kernel",
             "GenerateWmmaFlashAttnBwdKernelPass"),
            ("generate-elementwise-kernel", "tessera.transforms.generate_elementwise_kernel",
             "GenerateElementwiseKernelPass"),
            ("discharge-contracts", "tessera.transforms.discharge_contracts",
             "DischargeContractsPass"),
            ("verify-level", "tessera.transforms.verify_level", "VerifyLevelPass"),
        )
    }
)  # fmt: skip
"""Every pass by the name that `tessera-opt -p` takes."""

_GRAPH_TO_TILE = (
    "fold-transposes",
    "dce",
    "fuse-epilogues",
    "dce",
    "graph-to-tile",
    "assign-schedules",
)
_TILE_TO_TARGET = ("tile-to-rocm", "check-contracts")
_TARGET_TO_KERNEL = (
    "check-contracts",
    "generate-wmma-gemm-kernel",
    "generate-wmma-flash-attn-kernel",
    "generate-wmma-flash-attn-bwd-kernel",
    "generate-elementwise-kernel",
    "discharge-contracts",
)

PIPELINES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "tessera-lower-to-tile": _GRAPH_TO_TILE,
        "tessera-lower-to-rocm": (*_GRAPH_TO_TILE, *_TILE_TO_TARGET),
        "tessera-lower-to-kernel": (*_GRAPH_TO_TILE, *_TILE_TO_TARGET, *_TARGET_TO_KERNEL[1:]),
        "tessera-rocm-to-kernel": _TARGET_TO_KERNEL,
    }
)
"""Pipelines by name. Each takes a module of any earlier level: passes leave others' ops alone."""


def expand(names: list[str] | tuple[str, ...]) -> Iterator[str]:
    """Pass names with each pipeline replaced by its passes; OptionError for an unknown name."""
    for name in names:
        if name in PIPELINES:
            yield from PIPELINES[name]
        elif name in PASSES:
            yield name
        else:
            raise OptionError(f"unknown pass {name!r}; " + supported([*PASSES, *PIPELINES]))


def make_pass(name: str, target: str) -> ModulePass:
    """The pass called `name`, for chip `target` where it asks for one."""
    pass_class = PASSES[name]()
    takes_target = any(field.name == "target" for field in fields(pass_class))
    return pass_class(**({"target": target} if takes_target else {}))


def run_passes(
    context: Context, module: ModuleOp, *names: str, target: str, verify: bool = False
) -> None:
    """Run passes and pipelines on `module` in place, with `verify` after each of them.

    Raises TesseraError from the passes, VerifyException from the verifier.
    """
    for name in expand(names):
        make_pass(name, target).apply(context, module)
        if verify:
            module.verify()
