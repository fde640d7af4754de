"""Target IR -> Target IR, unchanged: directives and their demands held to a chip's facts.

Needs no chip: the facts are those of `tessera.targets`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tessera.contracts import CONTRACTS, DTYPE_BYTES
from tessera.dialects.attributes import options_of
from tessera.dialects.rocm import Directive, LaunchOp
from tessera.dialects.rocm_contracts import AsyncCopyOp, ContractOp, MfmaOp, WaitOp
from tessera.errors import CompileError, DtypeError, ResourceError, TargetError, supported
from tessera.launch_rule import rules_from_json
from tessera.targets import DEFAULT_ROCM_CHIP, Target, resolve_target


@dataclass(frozen=True)
class CheckContractsPass(ModulePass):
    """Raise for a kernel name that is used twice, or a demand that the chip cannot meet."""

    name = "check-contracts"
    target: str = DEFAULT_ROCM_CHIP

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Check; raises CompileError, TargetError, DtypeError or ResourceError by kernel."""
        target = resolve_target(self.target)
        directives = unique_kernels(op)
        demands: dict[str, list[ContractOp]] = {name: [] for name in directives}
        for one in op.walk():
            if isinstance(one, ContractOp):
                kernel = one.for_kernel.data
                if kernel not in directives:
                    raise CompileError(
                        f"{one.name}: no directive is named {kernel!r}; "
                        f"the module has {', '.join(directives) or 'none'}"
                    )
                demands[kernel].append(one)
        for kernel, directive in directives.items():
            _check_threads(directive, target)
            for one in demands[kernel]:
                CHECKS[type(one)](one, directive, demands[kernel], target)


def unique_kernels(module: ModuleOp) -> dict[str, Directive]:
    """Directives by kernel name; CompileError when two kernels would have the same name."""
    directives: dict[str, Directive] = {}
    taken: dict[str, str] = {}
    for op in module.walk():
        if isinstance(op, Directive):
            names = [op.kernel_name]
            directives[op.kernel_name] = op
        elif isinstance(op, LaunchOp):
            # One launch op may run the same kernel twice; two launch ops may not share one.
            names = list({rule.kernel for rule in rules_from_json(op.rules.data)})
        else:
            continue
        for name in names:
            if name in taken:
                raise CompileError(
                    f"kernel name {name!r} is used twice, by {taken[name]} and {op.name}; "
                    "kernel names are symbols of one code object and must differ"
                )
            taken[name] = op.name
    return directives


def _check_threads(directive: Directive, target: Target) -> None:
    options = options_of(directive)
    waves = [options[name] for name in ("waves", "waves_m", "waves_n") if name in options]
    threads = prod(int(str(count)) for count in waves) * target.facts.wave_size
    limit = target.facts.max_threads_per_workgroup
    if threads > limit:
        raise ResourceError(
            f"{directive.name} {directive.kernel_name!r}: {threads} threads per workgroup; "
            f"{target.chip} has at most {limit}"
        )


def _check_mfma(
    op: ContractOp, directive: Directive, demands: list[ContractOp], target: Target
) -> None:
    assert isinstance(op, MfmaOp)
    wanted = (op.m.value.data, op.n.value.data, op.k.value.data)
    rows = target.facts.matrix_cores
    offered = [f"{r.m}x{r.n}x{r.k} {r.element_dtype} -> {r.accumulator_dtype}" for r in rows]
    if op.dtype.data not in [row.element_dtype for row in rows]:
        raise DtypeError(
            f"{op.name} of {directive.kernel_name!r}: {target.chip} multiplies no "
            f"{op.dtype.data} matrices; " + supported(offered)
        )
    found = (*wanted, op.dtype.data, op.accumulator_dtype.data)
    if found not in [(r.m, r.n, r.k, r.element_dtype, r.accumulator_dtype) for r in rows]:
        raise TargetError(
            f"{op.name} of {directive.kernel_name!r}: {target.chip} has no instruction "
            f"{'x'.join(map(str, wanted))} {op.dtype.data} -> {op.accumulator_dtype.data}; "
            + supported(offered)
        )


def _check_async_copy(
    op: ContractOp, directive: Directive, demands: list[ContractOp], target: Target
) -> None:
    assert isinstance(op, AsyncCopyOp)
    names = [operand.name for operand in CONTRACTS[directive.CONTRACT].operands]
    if op.operand.data not in names:
        raise CompileError(
            f"{op.name} of {directive.kernel_name!r}: no operand {op.operand.data!r}; "
            + supported(names)
        )
    sizes = {
        copy.operand.data: copy.rows.value.data
        * copy.columns.value.data
        * DTYPE_BYTES[copy.dtype.data]
        for copy in demands
        if isinstance(copy, AsyncCopyOp)
    }
    limit = target.facts.max_lds_bytes_per_workgroup
    if sum(sizes.values()) > limit:
        listing = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise ResourceError(
            f"{op.name} of {directive.kernel_name!r}: {sum(sizes.values())} bytes of local memory "
            f"({listing}); {target.chip} has {limit} per workgroup"
        )


def _check_wait(
    op: ContractOp, directive: Directive, demands: list[ContractOp], target: Target
) -> None:
    assert isinstance(op, WaitOp)
    copies = sum(isinstance(one, AsyncCopyOp) for one in demands)
    if op.pending.value.data > copies:
        raise CompileError(
            f"{op.name} of {directive.kernel_name!r}: pending = {op.pending.value.data}, "
            f"but the kernel has {copies} asynchronous copies"
        )


CHECKS: Mapping[
    type[Operation], Callable[[ContractOp, Directive, list[ContractOp], Target], None]
] = MappingProxyType({MfmaOp: _check_mfma, AsyncCopyOp: _check_async_copy, WaitOp: _check_wait})
"""Contract op -> its check against its directive, all demands of that kernel, and the chip."""
