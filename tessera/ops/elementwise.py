"""Functions of each element of traced tensors."""

from __future__ import annotations

from numbers import Real
from typing import Any

from tessera.errors import OptionError, supported
from tessera.frontend.arguments import dtype_name
from tessera.frontend.tracer import Tracer
from tessera.ops.checks import number, tensors

GELU_FORMS = {"none": "gelu", "tanh": "gelu_tanh"}


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


def _binary(function: str, x: Any, y: Any) -> Tracer:
    numbers = [one for one in (x, y) if isinstance(one, Real) and not isinstance(one, bool)]
    if len(numbers) == 2:
        raise OptionError(f"{function}: one operand must be a tensor, got {x!r} and {y!r}")
    if not numbers:
        operands = tensors(function, x0=x, x1=y)
        return operands[0].trace.tensor_op("elementwise", operands, {"function": function})[0]
    operand = tensors(function, **({"x1": y} if isinstance(x, Real) else {"x0": x}))
    scalar = number(function, "scalar", numbers[0])
    options = {"function": function, "scalar": scalar}
    return operand[0].trace.tensor_op("elementwise", operand, options)[0]


def _unary(function: str, x: Tracer, out_dtype: str | None = None) -> Tracer:
    operands = tensors(function, x0=x)
    options = {"function": function, "out_dtype": out_dtype}
    return operands[0].trace.tensor_op("elementwise", operands, options)[0]
