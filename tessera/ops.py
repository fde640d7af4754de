"""Operations on traced tensors: each call adds one operation to the function's Graph IR."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from tessera.contracts import BIAS_AXES, CAUSAL_MODES
from tessera.errors import DtypeError, OptionError, ShapeError, supported
from tessera.frontend.arguments import dtype_name
from tessera.frontend.sizes import UnknownSize
from tessera.frontend.tracer import Tracer

GELU_FORMS = {"none": "gelu", "tanh": "gelu_tanh"}
CAUSAL_VALUES = {False: "none", True: "bottom_right", **{mode: mode for mode in CAUSAL_MODES}}
GEMM_SCHEDULE = ("mt", "nt", "waves_m", "waves_n", "block_k", "group_m", "split_k")
ATTENTION_SCHEDULE = ("waves", "queries_per_wave", "keys_per_step")
BACKWARD_SCHEDULE = ("waves", "rows_per_step")


def matmul(
    a: Tracer,
    b: Tracer,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: Any = None,
    schedule: Mapping[str, int] | None = None,
    *,
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

    The rest is computed in f32 and rounded once: `addend`, `gate` and `residual` have c's shape,
    `bias` one number per column of c, or per row with `bias_axis` "row"; any may be f16, bf16 or
    f32. `activation` is relu, gelu (by erf), gelu_tanh or silu. c is f32 (i32 of integers), or what
    `out_dtype` asks for. `schedule` fixes some of
    mt, nt, waves_m, waves_n, block_k, group_m, split_k instead of what is chosen from the sizes.
    Raises ShapeError, DtypeError or OptionError that name the operand and what it is.
    """
    extra = {"addend": addend, "bias": bias, "gate": gate, "residual": residual}
    given = {name: value for name, value in extra.items() if value is not None}
    operands = _tensors("matmul", a=a, b=b, **given)
    if bias_axis not in BIAS_AXES:
        raise OptionError(f"matmul: bias_axis = {bias_axis!r}; " + supported(BIAS_AXES))
    packed_a, packed_b = packed if isinstance(packed, tuple) else (packed, packed)
    scale = _number("matmul", "alpha", alpha)
    options = {
        "transpose_a": _flag("matmul", "transpose_a", transpose_a) or None,
        "transpose_b": _flag("matmul", "transpose_b", transpose_b) or None,
        "out_dtype": None if out_dtype is None else dtype_name(out_dtype),
        "packed_a": packed_a,
        "packed_b": packed_b,
        "inner_size": inner_size,
        "alpha": scale if scale != 1.0 else None,
        "beta": None if addend is None else _number("matmul", "beta", beta),
        "bias": None if bias is None else bias_axis,
        "activation": activation,
        "gate": True if gate is not None else None,
        "residual": True if residual is not None else None,
        "schedule": _schedule("matmul", schedule, GEMM_SCHEDULE),
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
    operands = _tensors("matmul", a=a, b=weight, scale=scale, **given)
    options = {
        "transpose_b": True,
        "out_dtype": None if out_dtype is None else dtype_name(out_dtype),
        "weight": weight_dtype,
        "group_size": group_size,
        "zero": True if zero is not None else None,
        "bias": None if bias is None else "column",
        "activation": activation,
        "schedule": _schedule("matmul", schedule, GEMM_SCHEDULE),
    }
    return operands[0].trace.tensor_op("matmul", operands, options)[0]


def flash_attn(
    q: Tracer,
    k: Tracer,
    v: Tracer,
    causal: bool | str = False,
    scale: float | None = None,
    return_lse: bool = False,
    schedule: Mapping[str, int] | None = None,
    *,
    window: Sequence[int | None] | None = None,
    softcap: float | None = None,
    bias: Tracer | None = None,
    alibi_slopes: Tracer | None = None,
    cu_seqlens_q: Tracer | None = None,
    cu_seqlens_k: Tracer | None = None,
) -> Any:
    """o = softmax(s) v with s = scale q k^T, without a score matrix in memory.

    q is [batch, heads, seq_q, head_dim], k and v [batch, heads_k, seq_k, head_dim(_v)], all f16 or
    all bf16; heads must be a multiple of heads_k (grouped heads), head_dim 1 to 256. `causal` is
    False, "top_left" or "bottom_right"; True means "bottom_right". `scale` is head_dim^-1/2 when
    None. Rows that see no key give 0. With `return_lse` the result is (o, lse), lse being
    [batch, heads, seq_q] f32, the natural log of each row's sum, -inf for rows that see no key.

    With position = query, plus seq_k - seq_q except under "top_left", further options are
    `window` (left, right): keys from position - left to position + right, None or -1 for no limit;
    `softcap`: s becomes softcap tanh(s / softcap); `bias` (f16, bf16 or f32, broadcast to [batch,
    heads, seq_q, seq_k]): added to s; `alibi_slopes` (f32 [heads] or [batch, heads]): slope
    |position - key| is subtracted from s. With `cu_seqlens_q` and `cu_seqlens_k` (i32 [sequences +
    1], ascending from 0 to the number of rows) batch is 1, and sequence i has the rows from entry
    i to entry i + 1 of q, and of k and v.
    Raises ShapeError, DtypeError or OptionError that name the operand and what it is.
    """
    extra = {"bias": bias, "alibi_slopes": alibi_slopes}
    extra |= {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    options = _attention("flash_attn", causal, scale, window, softcap, extra)
    options["schedule"] = _schedule("flash_attn", schedule, ATTENTION_SCHEDULE)
    operands = _tensors("flash_attn", q=q, k=k, v=v, **_given(extra))
    o, lse = operands[0].trace.tensor_op("flash_attn", operands, options)
    return (o, lse) if _flag("flash_attn", "return_lse", return_lse) else o


def flash_attn_bwd(
    q: Tracer,
    k: Tracer,
    v: Tracer,
    o: Tracer,
    lse: Tracer,
    do: Tracer,
    causal: bool | str = False,
    scale: float | None = None,
    schedule: Mapping[str, int] | None = None,
    *,
    window: Sequence[int | None] | None = None,
    softcap: float | None = None,
    bias: Tracer | None = None,
    alibi_slopes: Tracer | None = None,
    cu_seqlens_q: Tracer | None = None,
    cu_seqlens_k: Tracer | None = None,
    bias_gradient: bool = False,
) -> tuple[Tracer, ...]:
    """(dq, dk, dv): the gradients of q, k and v where that of o is do; the same bits on every run.

    o and lse are what `flash_attn` gave under the same options. dk and dv are summed over the query
    heads that share a key head. Rows that see no key give no gradient. With `bias_gradient` the
    result is (dq, dk, dv, dbias), dbias having the shape and dtype of bias.
    Raises ShapeError, DtypeError or OptionError that name the operand and what it is.
    """
    op = "flash_attn_bwd"
    extra = {"bias": bias, "alibi_slopes": alibi_slopes}
    extra |= {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    options = _attention(op, causal, scale, window, softcap, extra)
    options["bias_gradient"] = _flag(op, "bias_gradient", bias_gradient) or None
    options["schedule"] = _schedule(op, schedule, BACKWARD_SCHEDULE)
    operands = _tensors(op, q=q, k=k, v=v, o=o, lse=lse, do=do, **_given(extra))
    return tuple(operands[0].trace.tensor_op(op, operands, options))


def add(x: Any, y: Any) -> Tracer:
    """x + y, broadcast by NumPy's rule; one of them may be a number. f16, bf16 or f32."""
    return _binary("add", x, y)


def mul(x: Any, y: Any) -> Tracer:
    """x * y, broadcast by NumPy's rule; one of them may be a number. f16, bf16 or f32."""
    return _binary("mul", x, y)


def relu(x: Tracer) -> Tracer:
    """max(x, 0), NaN staying NaN."""
    return _unary("relu", x)


def gelu(x: Tracer, approximate: str = "none") -> Tracer:
    """x Phi(x), Phi being the normal distribution's; "tanh" takes the usual approximation of it."""
    if approximate not in GELU_FORMS:
        raise OptionError(
            f"gelu: approximate = {approximate!r} is not allowed; " + supported(GELU_FORMS)
        )
    return _unary(GELU_FORMS[approximate], x)


def silu(x: Tracer) -> Tracer:
    """x / (1 + exp(-x))."""
    return _unary("silu", x)


def cast(x: Tracer, dtype: Any) -> Tracer:
    """x rounded to `dtype`: "f16", "bf16", "f32", or what NumPy or PyTorch call these."""
    return _unary("cast", x, out_dtype=dtype_name(dtype))


def reshape(x: Tracer, *sizes: Any) -> Tracer:
    """x's elements in the same order under new sizes, one of which may be -1; copies nothing."""
    (x,) = _tensors("reshape", x=x)
    wanted = [-1 if isinstance(size, UnknownSize) else size for size in _flat(sizes)]
    return x.trace.view("reshape", x, _integers("reshape", wanted))


def permute(x: Tracer, *axes: Any) -> Tracer:
    """Axis i of the result is axis axes[i] of x (negative: from behind); copies nothing."""
    (x,) = _tensors("permute", x=x)
    wanted = _integers("permute", _flat(axes))
    return x.trace.view("permute", x, [axis % len(wanted) if axis < 0 else axis for axis in wanted])


def transpose(x: Tracer, *axes: Any) -> Tracer:
    """x with its axes in the order `axes`, or with its last two axes swapped when there are none.

    Two axes of a tensor of higher rank are swapped with each other.
    """
    (x,) = _tensors("transpose", x=x)
    rank = x.ndim
    wanted = _integers("transpose", _flat(axes))
    if len(wanted) in (0, 2) and rank < 2:
        raise ShapeError(f"transpose: operand 'x' has rank {rank}; at least 2 is needed")
    order = list(range(rank))
    first, second = (-2, -1) if not wanted else (wanted[0], wanted[-1])
    if len(wanted) == 2 and rank == 2 and wanted == [0, 1]:
        raise OptionError(
            "transpose: axes (0, 1) of a matrix swap in PyTorch and stay in NumPy; "
            "use permute, or transpose without axes"
        )
    if len(wanted) in (0, 2):
        for axis in (first, second):
            if not -rank <= axis < rank:
                raise ShapeError(f"transpose: no axis {axis} in rank {rank}")
        order[first], order[second] = order[second], order[first]
        return permute(x, *order)
    return permute(x, *wanted)


def _attention(
    op: str,
    causal: bool | str,
    scale: float | None,
    window: Sequence[int | None] | None,
    softcap: float | None,
    extra: Mapping[str, Tracer | None],
) -> dict[str, object]:
    """The attributes that attention's options become; None for what was not asked for."""
    is_known = isinstance(causal, bool | str) and causal in CAUSAL_VALUES
    if not is_known:
        raise OptionError(f"{op}: causal = {causal!r} is not allowed; " + supported(CAUSAL_VALUES))
    mode = CAUSAL_VALUES[causal]
    left, right = _window(op, window)
    cap = None if softcap is None else _number(op, "softcap", softcap)
    if cap is not None and cap <= 0:
        raise OptionError(f"{op}: softcap = {softcap!r} must be positive, or None for no cap")
    starts = [extra[name] is not None for name in ("cu_seqlens_q", "cu_seqlens_k")]
    if starts[0] != starts[1]:
        raise OptionError(f"{op}: cu_seqlens_q and cu_seqlens_k are given together or not at all")
    bias = extra["bias"]
    return {
        "causal": mode if mode != "none" else None,
        "scale": None if scale is None else _number(op, "scale", scale),
        "window_left": left,
        "window_right": right,
        "softcap": cap,
        "bias_dtype": bias.spec.dtype if isinstance(bias, Tracer) else None,
        "alibi": extra["alibi_slopes"] is not None or None,
        "variable_lengths": starts[0] or None,
    }


def _window(op: str, window: Sequence[int | None] | None) -> tuple[int | None, int | None]:
    """Keys to the left and to the right of a query's position; None for no limit."""
    if window is None:
        return None, None
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise OptionError(f"{op}: window = {window!r} must be a pair (left, right)")
    sides: list[int | None] = []
    for side in window:
        if side is None or (isinstance(side, Integral) and not isinstance(side, bool)):
            sides.append(None if side is None or side == -1 else int(side))
        else:
            raise OptionError(f"{op}: window = {window!r} must hold integers or None")
        if sides[-1] is not None and sides[-1] < 0:
            raise OptionError(
                f"{op}: window = {window!r}: sides are at least 0, or -1 for no limit"
            )
    return sides[0], sides[1]


def _given(operands: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in operands.items() if value is not None}


def _binary(function: str, x: Any, y: Any) -> Tracer:
    numbers = [one for one in (x, y) if isinstance(one, Real) and not isinstance(one, bool)]
    if len(numbers) == 2:
        raise OptionError(f"{function}: one operand must be a tensor, got {x!r} and {y!r}")
    if not numbers:
        operands = _tensors(function, x0=x, x1=y)
        return operands[0].trace.tensor_op("elementwise", operands, {"function": function})[0]
    operand = _tensors(function, **({"x1": y} if isinstance(x, Real) else {"x0": x}))
    scalar = _number(function, "scalar", numbers[0])
    options = {"function": function, "scalar": scalar}
    return operand[0].trace.tensor_op("elementwise", operand, options)[0]


def _unary(function: str, x: Tracer, out_dtype: str | None = None) -> Tracer:
    operands = _tensors(function, x0=x)
    options = {"function": function, "out_dtype": out_dtype}
    return operands[0].trace.tensor_op("elementwise", operands, options)[0]


def _tensors(op: str, **operands: Any) -> list[Tracer]:
    """The operands if all are traced tensors; DtypeError names the one that is not."""
    for name, value in operands.items():
        if isinstance(value, Tracer):
            continue
        hint = ""
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            hint = "; inside a traced function pass it as an argument, outside use tessera.jit"
        raise DtypeError(
            f"{op}: operand {name!r} must be a traced tensor, got {type(value).__name__}{hint}"
        )
    return list(operands.values())


def _flag(op: str, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"{op}: {name} = {value!r} is not allowed; " + supported((False, True)))
    return value


def _number(op: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise OptionError(f"{op}: {name} = {value!r} must be a finite number")
    return float(value)


def _schedule(
    op: str, schedule: Mapping[str, int] | None, known: tuple[str, ...]
) -> dict[str, int] | None:
    if schedule is None:
        return None
    for name, value in schedule.items():
        if name not in known:
            raise OptionError(f"{op}: unknown schedule entry {name!r}; " + supported(known))
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
            raise OptionError(f"{op}: schedule entry {name} = {value!r} must be an integer >= 0")
    return {name: int(value) for name, value in schedule.items()}


def _flat(values: tuple[Any, ...]) -> list[Any]:
    """Sizes or axes given one by one, or as one tuple or list."""
    if len(values) == 1 and isinstance(values[0], tuple | list):
        return list(values[0])
    return list(values)


def _integers(op: str, values: list[Any]) -> list[int]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ShapeError(f"{op}: {value!r} is no integer; got {values}")
    return [int(value) for value in values]
