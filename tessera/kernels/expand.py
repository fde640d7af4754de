"""Directives of one kind to kernels in the module's `gpu.module` and launches in their place."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import func, gpu
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region

from tessera.dialects.rocm import Directive, LaunchOp
from tessera.errors import CompileError
from tessera.kernels.generated import GeneratedKernels
from tessera.launch_rule import rules_to_json
from tessera.targets import Target

Generator = Callable[[Operation, Target], GeneratedKernels]

KERNEL_MODULE = "kernels"


def expand_directives(
    module: ModuleOp, kind: type[Directive], generate: Generator, target: Target
) -> None:
    """Generate the kernels of every directive of `kind` and put a launch in its place.

    A directive without operands asks for its kernels alone and leaves nothing behind.
    """
    for directive in [operation for operation in module.walk() if isinstance(operation, kind)]:
        generated = generate(directive, target)
        for kernel in generated.kernels:
            add_kernel(module, kernel)
        block = directive.parent
        assert block is not None
        if directive.operands or directive.results:
            launch = LaunchOp(
                directive.operands,
                [result.type for result in directive.results],
                generated.contract,
                generated.options,
                rules_to_json(generated.launches),
            )
            block.insert_op_before(launch, directive)
            for old, new in zip(directive.results, launch.results, strict=True):
                old.replace_all_uses_with(new)
        block.erase_op(directive)


def add_kernel(module: ModuleOp, kernel: func.FuncOp) -> None:
    """Append a kernel to the module's one gpu.module; CompileError when its name is taken."""
    gpu_module = next(
        (operation for operation in module.ops if isinstance(operation, gpu.ModuleOp)), None
    )
    if gpu_module is None:
        name = StringAttr(KERNEL_MODULE)
        gpu_module = gpu.ModuleOp(name, Region(Block()))  # type: ignore[arg-type]
        module.body.block.add_op(gpu_module)
    for existing in gpu_module.body.block.ops:
        if isinstance(existing, func.FuncOp) and existing.sym_name == kernel.sym_name:
            raise CompileError(f"two kernels are named {kernel.sym_name.data!r}")
    gpu_module.body.block.add_op(kernel)
