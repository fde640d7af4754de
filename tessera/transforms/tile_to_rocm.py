"""Tile IR -> Target IR: each scheduled tile op becomes a directive and the contract ops it implies.

tile.matmul --> tessera_rocm.mfma, async_copy (a, b), wait, wmma_gemm
tile.flash_attn --> tessera_rocm.mfma, async_copy (k, v), wait, flash_attn
tile.flash_attn_bwd --> tessera_rocm.mfma, async_copy (q, k, v, do), wait, flash_attn_bwd
tile.elementwise --> tessera_rocm.elementwise; tile.view --> tessera_rocm.view
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tessera.contracts import bind
from tessera.dialects import rocm, tile
from tessera.dialects.attributes import options_of
from tessera.dialects.tensors import spec_of
from tessera.errors import CompileError
from tessera.targets import DEFAULT_ROCM_CHIP, Target, resolve_target
from tessera.transforms.assign_schedules import static_head_dims


@dataclass(frozen=True)
class TileToRocmPass(ModulePass):
    """Replace every op of the tile dialect; other ops stay as they are."""

    name = "tile-to-rocm"
    target: str = DEFAULT_ROCM_CHIP

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite in place; raises CompileError for an op without a schedule, DtypeError."""
        target = resolve_target(self.target)
        for one in list(op.walk()):
            rule = RULES.get(type(one))
            if rule is None:
                continue
            if isinstance(one, tile.LaunchableOp) and not one.is_scheduled():
                raise CompileError(
                    f"tile-to-rocm: {one.name} {one.kernel.data!r} has no schedule; "
                    "run assign-schedules first"
                )
            Rewriter.replace_op(one, rule(one, target))


def _matmul(op: Operation, target: Target) -> list[Operation]:
    assert isinstance(op, tile.MatmulOp)
    options = options_of(op)
    operands = bind("matmul", [spec_of(value.type) for value in op.operands], options).operands
    dtype, dtype_b = operands["a"].dtype, operands["b"].dtype
    multiplied = str(options.get("packed_a", dtype))
    row = target.matrix_core(multiplied)
    directive = rocm.WmmaGemmOp(
        op.operands,
        [value.type for value in op.results],
        {
            "name": None,
            "m": row.m,
            "n": row.n,
            "k": row.k,
            "dtype": dtype,
            "dtype_b": dtype_b if dtype_b != dtype else None,
            **{
                f"batch_{one}": (len(operands[one].shape) == 3 and "grouped" not in options) or None
                for one in ("a", "b")
            },
            **{
                f"{name}_dtype": spec.dtype
                for name, spec in operands.items()
                if name not in ("a", "b", "pair", "starts", "scale", "zero")
            },
            **options,
        },
    )
    # A tile in local memory holds elements as memory has them: bytes of packed numbers.
    block_k = int(str(options["block_k"])) // (1 if multiplied == dtype else 2)
    tile_m = row.m * int(str(options["mt"])) * int(str(options["waves_m"]))
    tile_n = row.n * int(str(options["nt"])) * int(str(options["waves_n"]))
    copies = {"a": (tile_m, block_k), "b": (tile_n, block_k)} if block_k else {}
    if copies and "pair" in operands:
        copies["pair"] = copies["b"]
    return [*_demands(op, target, multiplied, copies, dtype), directive]


def _flash_attn(op: Operation, target: Target) -> list[Operation]:
    assert isinstance(op, tile.FlashAttnOp)
    keys = _integer(op, "keys_per_step")
    return _attention(op, rocm.FlashAttnOp, target, {"k": keys, "v": keys})


def _flash_attn_bwd(op: Operation, target: Target) -> list[Operation]:
    assert isinstance(op, tile.FlashAttnBwdOp)
    # Queries are staged for dK and dV, keys for dQ.
    rows = _integer(op, "rows_per_step")
    return _attention(op, rocm.FlashAttnBwdOp, target, dict.fromkeys(("q", "k", "v", "do"), rows))


def _attention(
    op: tile.FlashAttnOp | tile.FlashAttnBwdOp,
    directive_class: type[rocm.AttentionDirective],
    target: Target,
    staged: Mapping[str, int],
) -> list[Operation]:
    """The directive and its demands; `staged` gives rows in local memory by operand."""
    dtype = spec_of(op.operands[0].type).dtype
    head_dim, head_dim_v = static_head_dims(op)
    directive = directive_class(
        op.operands,
        [value.type for value in op.results],
        {
            "name": None,
            "head_dim": head_dim,
            "head_dim_v": head_dim_v if head_dim_v != head_dim else None,
            "dtype": dtype,
            **options_of(op),
        },
    )
    copies = {
        name: (rows, head_dim_v if name in ("v", "do") else head_dim)
        for name, rows in staged.items()
    }
    return [*_demands(op, target, dtype, copies), directive]


def _integer(op: Operation, name: str) -> int:
    value = options_of(op)[name]
    assert isinstance(value, int)
    return value


def _elementwise(op: Operation, target: Target) -> list[Operation]:
    assert isinstance(op, tile.ElementwiseOp)
    return [
        rocm.ElementwiseOp(
            op.operands,
            [value.type for value in op.results],
            {
                **options_of(op),
                "dtype": spec_of(op.operands[0].type).dtype,
                "out_dtype": spec_of(op.results[0].type).dtype,
            },
        )
    ]


def _view(op: Operation, target: Target) -> list[Operation]:
    assert isinstance(op, tile.ViewOp)
    return [rocm.ViewOp(op.source, op.result.type, op.kind.data, op.parameters.get_values())]


def _demands(
    op: tile.LaunchableOp,
    target: Target,
    dtype: str,
    copies: Mapping[str, tuple[int, int]],
    memory_dtype: str = "",
) -> list[Operation]:
    """The contract ops of one kernel; `copies` gives rows and columns by staged operand.

    `dtype` is multiplied, `memory_dtype` (the same when empty) lies in memory.
    """
    row = target.matrix_core(dtype)
    kernel = {"for_kernel": op.kernel.data}
    demands: list[Operation] = [
        rocm.MfmaOp(
            kernel
            | {
                "m": row.m,
                "n": row.n,
                "k": row.k,
                "dtype": row.element_dtype,
                "accumulator_dtype": row.accumulator_dtype,
            }
        )
    ]
    for operand, (rows, columns) in copies.items():
        tile_of = {"operand": operand, "rows": rows, "columns": columns}
        copy = kernel | tile_of | {"dtype": memory_dtype or dtype}
        demands.append(rocm.AsyncCopyOp(copy))
    if copies:
        demands.append(rocm.WaitOp(kernel | {"pending": 0}))
    return demands


RULES: Mapping[type[Operation], Callable[[Operation, Target], list[Operation]]] = MappingProxyType(
    {
        tile.MatmulOp: _matmul,
        tile.FlashAttnOp: _flash_attn,
        tile.FlashAttnBwdOp: _flash_attn_bwd,
        tile.ElementwiseOp: _elementwise,
        tile.ViewOp: _view,
    }
)
"""Tile op -> the ops that replace it, the last of which gives its results."""
