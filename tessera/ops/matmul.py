"""Matrix products of traced tensors, with what is computed on their sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tessera.contracts import BIAS_AXES
from tessera.errors import OptionError, supported
from tessera.frontend.arguments import dtype_name
from tessera.frontend.tracer import Tracer
from tessera.ops.checks import flag, number, schedule_of, tensors

GEMM_SCHEDULE = (
    "mt", "nt", "waves_m", "waves_n", "block_k", "group_m", "split_k", "stages",
)  # fmt: skip


def matmul(
    a: Tracer,
    b: Tracer,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: Any = None,
    schedule: Mapping[str, int] | None = None,
    *,
    pair: Tracer | None = None,
    packed: str | tuple[str, str] | None = None,
    inner_size: int | None = None,
    alpha: float = 1.0,
    addend: Tracer | None = None,
    beta: float = 1.0,
    bias: Tracer | None = None,
    bias_axis: str = "column",
    activation: str | None = None,
    gate: Tracer | None = None,
    residual: Tracer | None = None,
) -> Tracer:
    """c [m, n] = activation(alpha a b + beta addend + bias) * gate + residual.

    a [m, k] and b [k, n] are f16 or bf16, the same for both, summed in f32; or i8 or u8, each of
    its own sign, summed exactly in i32, wrapping around at 2^32. Under `transpose_a` a is [k, m],
    under `transpose_b` b is [n, k]. Either may have a batch axis in front, which broadcasts, and
    then so has c. With `packed` ("i4", "u4", or one for each) a and b are u8 [m, k / 2] and
    [n, k / 2] (transpose_b): two 4-bit integers in each byte, the first one in the low four bits;
    an odd k is given as `inner_size`.

    With `pair`, another b, the gate is a times that, computed in the same kernel.

    The rest is computed in f32 and rounded once: `addend`, `gate` and `residual` have c's shape,
    `bias` one number per column of c, or per row with `bias_axis` "row"; any may be f16, bf16 or
    f32. `activation` is relu, gelu (by erf), gelu_tanh or silu. c is f32 (i32 of integers), or what
    `out_dtype` asks for. `schedule` fixes some of
    mt, nt, waves_m, waves_n, block_k, group_m, split_k instead of what is chosen from the sizes.
    Raises ShapeError, DtypeError or OptionError that name the operand and what it is.
    """
    extra = {"pair": pair, "addend": addend, "bias": bias, "gate": gate, "residual": residual}
    given = {name: value for name, value in extra.items() if value is not None}
    operands = tensors("matmul", a=a, b=b, **given)
    if bias_axis not in BIAS_AXES:
        raise OptionError(f"matmul: bias_axis = {bias_axis!r}; " + supported(BIAS_AXES))
    if addend is None and beta != 1.0:
        raise OptionError(f"matmul: beta = {beta!r} needs an addend")
    if bias is None and bias_axis != "column":
        raise OptionError(f"matmul: bias_axis = {bias_axis!r} needs a bias")
    packed_a, packed_b = packed if isinstance(packed, tuple) else (packed, packed)
    scale = number("matmul", "alpha", alpha)
    options = {
        "transpose_a": flag("matmul", "transpose_a", transpose_a) or None,
        "transpose_b": flag("matmul", "transpose_b", transpose_b) or None,
        "out_dtype": None if out_dtype is None else dtype_name(out_dtype),
        "packed_a": packed_a,
        "packed_b": packed_b,
        "inner_size": inner_size,
        "pair": True if pair is not None else None,
        "alpha": scale if scale != 1.0 else None,
        "beta": None if addend is None else number("matmul", "beta", beta),
        "bias": None if bias is None else bias_axis,
        "activation": activation,
        "gate": True if gate is not None else None,
        "residual": True if residual is not None else None,
        "schedule": schedule_of("matmul", schedule, GEMM_SCHEDULE),
    }
    return operands[0].trace.tensor_op("matmul", operands, options)[0]


def quantized_matmul(
    a: Tracer,
    weight: Tracer,
    scale: Tracer,
    zero: Tracer | None = None,
    weight_dtype: str = "i4",
    group_size: int = 128,
    out_dtype: Any = None,
    schedule: Mapping[str, int] | None = None,
    *,
    bias: Tracer | None = None,
    activation: str | None = None,
) -> Tracer:
    """c [m, n] = activation(a w^T + bias), w = (weight - zero) * scale rounded to f16.

    a is f16 [m, k]. `weight` holds "i4" or "u4" numbers, u8 [n, k / 2], two in each byte with the
    first one in the low four bits, or "i8" ones, [n, k]. scale and zero are f16
    [n, k / group_size]: one for each `group_size` (32, 64 or 128) numbers along k, which must be a
    multiple of it. Both steps round to f16; sums, bias and activation are f32. c is f32 or what
    `out_dtype` asks for.
    Raises ShapeError, DtypeError or OptionError that name the operand and what it is.
    """
    extra = {"zero": zero, "bias": bias}
    given = {name: value for name, value in extra.items() if value is not None}
    operands = tensors("matmul", a=a, b=weight, scale=scale, **given)
    options = {
        "transpose_b": True,
        "out_dtype": None if out_dtype is None else dtype_name(out_dtype),
        "weight": weight_dtype,
        "group_size": group_size,
        "zero": True if zero is not None else None,
        "bias": None if bias is None else "column",
        "activation": activation,
        "schedule": schedule_of("matmul", schedule, GEMM_SCHEDULE),
    }
    return operands[0].trace.tensor_op("matmul", operands, options)[0]


def grouped_matmul(
    a: Tracer,
    b: Tracer,
    starts: Tracer,
    transpose_b: bool = False,
    out_dtype: Any = None,
    schedule: Mapping[str, int] | None = None,
    *,
    bias: Tracer | None = None,
    activation: str | None = None,
) -> Tracer:
    """c [m, n]: rows starts[g] to starts[g + 1] are activation(a b[g] + bias), in one launch.

    a is [m, k], b [groups, k, n] or, under `transpose_b`, [groups, n, k]; dtypes are those of
    `matmul`. starts, i32 [groups + 1], does not decrease and is read by the kernel, so that groups
    may change from call to call; rows outside of all groups are not written.
    Raises ShapeError, DtypeError or OptionError that name the operand and what it is.
    """
    given = {} if bias is None else {"bias": bias}
    operands = tensors("matmul", a=a, b=b, starts=starts, **given)
    options = {
        "transpose_b": flag("matmul", "transpose_b", transpose_b) or None,
        "out_dtype": None if out_dtype is None else dtype_name(out_dtype),
        "grouped": True,
        "bias": None if bias is None else "column",
        "activation": activation,
        "schedule": schedule_of("matmul", schedule, GEMM_SCHEDULE),
    }
    return operands[0].trace.tensor_op("matmul", operands, options)[0]
