"""Graph IR -> Tile IR: one tile op per kernel launch, each with a kernel name of its own.

tessera.matmul --> tile.matmul {name = "matmul_0"}; views --> tile.view
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tessera.dialects import graph, tile
from tessera.dialects.attributes import options_of
from tessera.dialects.rocm import Directive
from tessera.dialects.tensor_op import TensorOp
from tessera.transforms.kernel_names import KernelNames


@dataclass(frozen=True)
class GraphToTilePass(ModulePass):
    """Replace every op of the graph dialect; other ops stay as they are."""

    name = "graph-to-tile"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        names = KernelNames()
        for one in op.walk():
            if isinstance(one, tile.LaunchableOp):
                names.claim(one.kernel.data)
            elif isinstance(one, Directive):
                names.claim(one.kernel_name)
        for one in list(op.walk()):
            if isinstance(one, graph.GraphView):
                kind, parameters = one.view()
                view = tile.ViewOp(one.source, one.result.type, kind, parameters)
                Rewriter.replace_op(one, view)
            elif type(one) in RULES:
                Rewriter.replace_op(one, _lowered(one, names))


def _lowered(op: Operation, names: KernelNames) -> tile.LaunchableOp:
    assert isinstance(op, TensorOp)
    lowered_class, stem = RULES[type(op)]
    options = {"name": names.fresh(stem(op)), **options_of(op)}
    schedule = options.pop("schedule", {})
    assert isinstance(schedule, dict)
    options |= schedule
    return lowered_class(op.operands, [value.type for value in op.results], options)


def _function_of(op: TensorOp) -> str:
    function = op.attributes["function"]
    assert isinstance(function, StringAttr)
    return function.data


RULES: Mapping[type[Operation], tuple[type[tile.LaunchableOp], Callable[[TensorOp], str]]] = (
    MappingProxyType(
        {
            graph.MatmulOp: (tile.MatmulOp, lambda op: "matmul"),
            graph.FlashAttnOp: (tile.FlashAttnOp, lambda op: "flash_attn"),
            graph.FlashAttnBwdOp: (tile.FlashAttnBwdOp, lambda op: "flash_attn_bwd"),
            graph.ElementwiseOp: (tile.ElementwiseOp, _function_of),
        }
    )
)
"""Graph op -> tile op and the stem of its kernels' names."""
