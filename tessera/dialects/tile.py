"""The tile dialect: one op per kernel launch, with its kernel's name, tiling and schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, i64
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
from tessera.dialects.attributes import check_choice, check_positive
from tessera.dialects.matmul_options import MatmulOptions, MatmulSchedule
from tessera.dialects.tensor_op import TensorOp
from tessera.dialects.views import verify_view


class LaunchableOp(TensorOp):
    """Base of the ops that become one kernel launch.

    The attributes that `SCHEDULE` names are absent until `assign-schedules` has chosen them.
    `alignment` is in bytes: what divides the start of every row of every operand and result.
    """

    kernel = attr_def(StringAttr, attr_name="name")
    alignment = opt_attr_def(IntegerAttr)
    traits = traits_def(Pure())

    SCHEDULE: ClassVar[tuple[str, ...]] = ()

    def is_scheduled(self) -> bool:
        """Whether every attribute of the schedule is there."""
        return all(name in self.attributes for name in (*self.SCHEDULE, "alignment"))


@irdl_op_definition
class MatmulOp(LaunchableOp, MatmulOptions, MatmulSchedule):
    """`tessera.matmul` tiled: each of `waves_m` x `waves_n` waves computes `mt` x `nt` tiles.

    The contracted axis is walked `block_k` elements at a time, 0 for one instruction's depth.
    """

    name = "tile.matmul"
    CONTRACT: ClassVar[str] = "matmul"

    SCHEDULE: ClassVar[tuple[str, ...]] = ("mt", "nt", "waves_m", "waves_n", "block_k")

    def verify_options(self) -> None:
        self.verify_matmul_options()
        self.verify_matmul_schedule()


@irdl_op_definition
class FlashAttnOp(LaunchableOp, AttentionOptions):
    """`tessera.flash_attn` tiled: `waves` waves of `queries_per_wave` queries share the keys.

    Keys and values are walked `keys_per_step` at a time.
    """

    name = "tile.flash_attn"
    CONTRACT: ClassVar[str] = "flash_attn"
    waves = opt_attr_def(IntegerAttr)
    queries_per_wave = opt_attr_def(IntegerAttr)
    keys_per_step = opt_attr_def(IntegerAttr)

    SCHEDULE: ClassVar[tuple[str, ...]] = ("waves", "queries_per_wave", "keys_per_step")

    def verify_options(self) -> None:
        self.verify_attention_options()
        check_positive(self, *self.SCHEDULE)


@irdl_op_definition
class FlashAttnBwdOp(LaunchableOp, AttentionOptions):
    """`tessera.flash_attn_bwd` tiled: `waves` waves own 16 keys each for dk and dv, queries for dq.

    The other axis is walked `rows_per_step` rows at a time, the next ones being fetched meanwhile
    under `prefetch` (i1). Becomes three kernels.
    """

    name = "tile.flash_attn_bwd"
    CONTRACT: ClassVar[str] = "flash_attn_bwd"
    bias_gradient = opt_attr_def(IntegerAttr)
    compute_lse = opt_attr_def(IntegerAttr)
    waves = opt_attr_def(IntegerAttr)
    rows_per_step = opt_attr_def(IntegerAttr)
    prefetch = opt_attr_def(IntegerAttr)

    SCHEDULE: ClassVar[tuple[str, ...]] = ("waves", "rows_per_step")

    def verify_options(self) -> None:
        self.verify_attention_options()
        check_positive(self, *self.SCHEDULE)


@irdl_op_definition
class ElementwiseOp(LaunchableOp):
    """`tessera.elementwise` as one launch with one thread per element."""

    name = "tile.elementwise"
    CONTRACT: ClassVar[str] = "elementwise"
    function = attr_def(StringAttr)
    scalar = opt_attr_def(FloatAttr)
    out_dtype = opt_attr_def(StringAttr)

    def verify_options(self) -> None:
        check_choice(self, "function", ELEMENTWISE_FUNCTIONS)
        check_choice(self, "out_dtype", FLOAT_DTYPES)


@irdl_op_definition
class ViewOp(IRDLOperation):
    """The same memory seen with another shape; see `tessera.dialects.views` for the kinds."""

    name = "tile.view"
    kind = attr_def(StringAttr)
    parameters = attr_def(DenseArrayBase.constr(i64))
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(
        self, source: SSAValue, result: Attribute, kind: str, parameters: Sequence[int]
    ) -> None:
        super().__init__(
            operands=[source],
            result_types=[result],
            attributes={
                "kind": StringAttr(kind),
                "parameters": DenseArrayBase.from_list(i64, list(parameters)),
            },
        )

    def verify_(self) -> None:
        verify_view(
            self.name,
            self.kind.data,
            self.parameters.get_values(),
            self.source.type,
            self.result.type,
        )


LAUNCHABLE: tuple[type[LaunchableOp], ...] = (MatmulOp, FlashAttnOp, FlashAttnBwdOp, ElementwiseOp)

Tile = Dialect("tile", [*LAUNCHABLE, ViewOp], [])
