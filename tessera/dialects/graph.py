"""The tessera dialect (Graph IR): what a traced function computes on tensors, one op per call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    operand_def,
    opt_attr_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from tessera.contracts import ELEMENTWISE_FUNCTIONS, FLOAT_DTYPES
from tessera.dialects.attention_options import AttentionOptions
from tessera.dialects.attributes import check_choice
from tessera.dialects.matmul_options import MatmulOptions
from tessera.dialects.tensor_op import TensorOp
from tessera.dialects.tensors import spec_of
from tessera.dialects.views import verify_view


@irdl_op_definition
class MatmulOp(TensorOp, MatmulOptions):
    """c[m, n] = sum over k of a[m, k] b[k, n], accumulated in f32 and rounded to `out_dtype`.

    Bytes are summed in i32. `MatmulOptions` tells how operands are stored, and the epilogue.
    `schedule` fixes schedule attributes of the tile op by name; the others are chosen later.
    """

    name = "tessera.matmul"
    CONTRACT: ClassVar[str] = "matmul"
    schedule = opt_attr_def(DictionaryAttr)
    traits = traits_def(Pure())

    def verify_options(self) -> None:
        self.verify_matmul_options()


@irdl_op_definition
class FlashAttnOp(TensorOp, AttentionOptions):
    """o = softmax(scale q k^T) v, and lse, the natural log of each row's sum of exponentials.

    Operands are [batch, heads, seq, head_dim]; k and v may have fewer heads (each serves a group of
    query heads). `scale` is head_dim^-1/2 when absent. A row that sees no key gives 0 and -inf.
    `AttentionOptions` tells the other options.
    `schedule` fixes schedule attributes of the tile op by name; the others are chosen later.
    """

    name = "tessera.flash_attn"
    CONTRACT: ClassVar[str] = "flash_attn"
    schedule = opt_attr_def(DictionaryAttr)
    traits = traits_def(Pure())

    def verify_options(self) -> None:
        self.verify_attention_options()


@irdl_op_definition
class FlashAttnBwdOp(TensorOp, AttentionOptions):
    """dq, dk, dv from q, k, v, o, lse and do, the gradient of o; options as in `flash_attn`.

    `bias_gradient` (i1) adds the result dbias; under `compute_lse` (i1) there is no operand lse.
    Rows that see no key give no gradient.
    `schedule` fixes schedule attributes of the tile op by name; the others are chosen later.
    """

    name = "tessera.flash_attn_bwd"
    CONTRACT: ClassVar[str] = "flash_attn_bwd"
    bias_gradient = opt_attr_def(IntegerAttr)
    compute_lse = opt_attr_def(IntegerAttr)
    schedule = opt_attr_def(DictionaryAttr)
    traits = traits_def(Pure())

    def verify_options(self) -> None:
        self.verify_attention_options()


@irdl_op_definition
class ElementwiseOp(TensorOp):
    """out = function(x0[, x1]), broadcast by NumPy's rule, computed in f32.

    `scalar` is the second input of a two-input function that has one tensor only.
    """

    name = "tessera.elementwise"
    CONTRACT: ClassVar[str] = "elementwise"
    function = attr_def(StringAttr)
    scalar = opt_attr_def(FloatAttr)
    out_dtype = opt_attr_def(StringAttr)
    traits = traits_def(Pure())

    def verify_options(self) -> None:
        check_choice(self, "function", ELEMENTWISE_FUNCTIONS)
        check_choice(self, "out_dtype", FLOAT_DTYPES)


class GraphView(IRDLOperation):
    """Base of the ops that see the same elements with another shape."""

    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def view(self) -> tuple[str, tuple[int, ...]]:
        """The view kind and its parameters, as tessera.dialects.views has them."""
        raise NotImplementedError(self.name)

    def verify_(self) -> None:
        kind, parameters = self.view()
        verify_view(self.name, kind, parameters, self.source.type, self.result.type)


@irdl_op_definition
class ReshapeOp(GraphView):
    """The source's elements in the same order under new sizes; -1 for a size not known yet."""

    name = "tessera.reshape"
    sizes = attr_def(DenseArrayBase.constr(i64))
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, result: Attribute, sizes: Sequence[int]) -> None:
        super().__init__(
            operands=[source],
            result_types=[result],
            attributes={"sizes": DenseArrayBase.from_list(i64, list(sizes))},
        )

    def view(self) -> tuple[str, tuple[int, ...]]:
        """Kind `reshape` with the sizes."""
        return "reshape", self.sizes.get_values()


@irdl_op_definition
class PermuteOp(GraphView):
    """Axis i of the result is axis `axes[i]` of the source."""

    name = "tessera.permute"
    axes = attr_def(DenseArrayBase.constr(i64))
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, result: Attribute, axes: Sequence[int]) -> None:
        super().__init__(
            operands=[source],
            result_types=[result],
            attributes={"axes": DenseArrayBase.from_list(i64, list(axes))},
        )

    def view(self) -> tuple[str, tuple[int, ...]]:
        """Kind `permute` with the axes."""
        return "permute", self.axes.get_values()


@irdl_op_definition
class TransposeOp(GraphView):
    """The source with its last two axes swapped."""

    name = "tessera.transpose"
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, result: Attribute) -> None:
        super().__init__(operands=[source], result_types=[result])

    def view(self) -> tuple[str, tuple[int, ...]]:
        """Kind `permute` with the last two axes swapped."""
        rank = len(spec_of(self.source.type).shape)
        return "permute", last_two_swapped(rank)


def last_two_swapped(rank: int) -> tuple[int, ...]:
    """The permutation of `rank` axes that swaps the last two; the identity below rank 2."""
    axes = list(range(rank))
    axes[-2:] = reversed(axes[-2:])
    return tuple(axes)


VIEWS: tuple[type[GraphView], ...] = (ReshapeOp, PermuteOp, TransposeOp)

Graph = Dialect("tessera", [MatmulOp, FlashAttnOp, FlashAttnBwdOp, ElementwiseOp, *VIEWS], [])
