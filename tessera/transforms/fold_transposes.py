"""Graph IR -> Graph IR: a transposed operand of a matmul becomes the matmul's transpose flag.

matmul(a, transpose(b)) --> matmul(a, b) {transpose_b = true}
The kernel reads either orientation with a contiguous last axis, which the transposed view has not.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from tessera.dialects.attributes import from_attribute, to_attribute
from tessera.dialects.graph import GraphView, MatmulOp


@dataclass(frozen=True)
class FoldTransposesPass(ModulePass):
    """Replace matmul operands that are two-axis permutations; dead views are left to `dce`."""

    name = "fold-transposes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every matmul of the module in place."""
        for one in op.walk():
            if isinstance(one, MatmulOp):
                for index, flag in enumerate(("transpose_a", "transpose_b")):
                    _fold(one, index, flag)


def _fold(matmul: MatmulOp, index: int, flag: str) -> None:
    while (source := _transposed(matmul.operands[index])) is not None:
        present = matmul.attributes.get(flag)
        flipped = not (present is not None and from_attribute(present))
        matmul.operands[index] = source
        matmul.attributes[flag] = to_attribute(flipped)


def _transposed(value: SSAValue) -> SSAValue | None:
    """What `value` is the transpose of, or None when it is no transpose."""
    view = value.owner
    if isinstance(view, GraphView) and view.view() == ("permute", (1, 0)):
        return view.source
    return None
