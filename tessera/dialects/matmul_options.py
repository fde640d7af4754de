"""The attributes that matmul has at every level: how operands are stored, and its epilogue."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr
from xdsl.irdl import IRDLOperation, opt_attr_def

from tessera.contracts import ACTIVATIONS, BIAS_AXES, FLOAT_DTYPES, PACKED_DTYPES, WEIGHT_DTYPES
from tessera.dialects.attributes import check_choice, check_positive


class MatmulOptions(IRDLOperation):
    """activation(alpha a b + beta addend + bias) * gate + residual, rounded once to `out_dtype`.

    Under `transpose_a` the first operand is [k, m], under `transpose_b` the second [n, k].
    `packed_a` and `packed_b` say that each byte holds two 4-bit numbers along k, of which there are
    `inner_size`. With `grouped` the second operand has a matrix for each group of the first one's
    rows, and an operand of its own says where groups start. `weight` (i4, u4 or i8) says that the
    second operand is [n, k] of such numbers, of which `group_size` along k share a scale, and with
    `zero` a zero point, operands of their own; (number - zero) * scale is computed in f16. `bias`
    is "row" or "column"; `gate` and `residual` say whether there is such an operand, and `beta`
    that there is an addend. With `pair` the gate is the first operand times a second matrix.
    """

    transpose_a = opt_attr_def(IntegerAttr)
    transpose_b = opt_attr_def(IntegerAttr)
    out_dtype = opt_attr_def(StringAttr)
    packed_a = opt_attr_def(StringAttr)
    packed_b = opt_attr_def(StringAttr)
    inner_size = opt_attr_def(IntegerAttr)
    grouped = opt_attr_def(IntegerAttr)
    pair = opt_attr_def(IntegerAttr)
    weight = opt_attr_def(StringAttr)
    group_size = opt_attr_def(IntegerAttr)
    zero = opt_attr_def(IntegerAttr)
    alpha = opt_attr_def(FloatAttr)
    beta = opt_attr_def(FloatAttr)
    bias = opt_attr_def(StringAttr)
    activation = opt_attr_def(StringAttr)
    gate = opt_attr_def(IntegerAttr)
    residual = opt_attr_def(IntegerAttr)

    def verify_matmul_options(self) -> None:
        """Raise VerifyException for a value that no matmul has."""
        check_choice(self, "out_dtype", (*FLOAT_DTYPES, "i32"))
        for name in ("packed_a", "packed_b"):
            check_choice(self, name, PACKED_DTYPES)
        check_choice(self, "weight", WEIGHT_DTYPES)
        check_choice(self, "activation", ACTIVATIONS)
        check_choice(self, "bias", BIAS_AXES)
        check_positive(self, "inner_size")


class MatmulSchedule(IRDLOperation):
    """Tiling of a matmul; see `tessera.kernels.schedules.GemmSchedule`."""

    mt = opt_attr_def(IntegerAttr)
    nt = opt_attr_def(IntegerAttr)
    waves_m = opt_attr_def(IntegerAttr)
    waves_n = opt_attr_def(IntegerAttr)
    block_k = opt_attr_def(IntegerAttr)
    group_m = opt_attr_def(IntegerAttr)
    split_k = opt_attr_def(IntegerAttr)
    stages = opt_attr_def(IntegerAttr)

    def verify_matmul_schedule(self) -> None:
        """Raise VerifyException for a count below 1."""
        check_positive(self, "mt", "nt", "waves_m", "waves_n", "split_k", "stages")
