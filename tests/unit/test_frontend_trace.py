"""Traced functions to Graph IR: operations, operators, views, guesses, and errors at trace time."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tessera import ops as typed_ops
from tessera.contracts import TensorSpec
from tessera.errors import DtypeError, OptionError, ShapeError
from tessera.frontend.jit import jit
from tessera.frontend.tracer import Tracer

# Tests of refusals pass what the annotations forbid.
ops: Any = typed_ops


def graph(function, *args, **kwargs):
    """Lines of the graph module's host function, without signature and braces."""
    text = str(jit(target="gfx1151")(function).trace(*args, **kwargs))
    return [line.strip() for line in text.splitlines()[2:-2]]


def signature(function, *args, **kwargs):
    return str(jit(target="gfx1151")(function).trace(*args, **kwargs)).splitlines()[1].strip()


def spec(*shape, dtype="f16"):
    return TensorSpec(shape, dtype)


def test_matmul_without_arguments_has_unknown_sizes():
    assert graph(lambda a, b: ops.matmul(a, b)) == [
        "%c = tessera.matmul(%a, %b) : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>",
        "func.return %c : tensor<?x?xf32>",
    ]


def test_matmul_with_arguments_has_theirs():
    a, b = np.zeros((4, 5), ml_dtypes.bfloat16), np.zeros((6, 5), ml_dtypes.bfloat16)
    lines = graph(lambda a, b: ops.matmul(a, b, transpose_b=True, out_dtype="f16"), a, b)
    assert lines[0] == (
        '%c = tessera.matmul(%a, %b) {transpose_b = true, out_dtype = "f16"} : '
        "(tensor<4x5xbf16>, tensor<6x5xbf16>) -> tensor<4x6xf16>"
    )


def test_the_host_function_has_the_python_names():
    def layer(inputs, weights):
        return inputs @ weights

    assert signature(layer) == (
        "func.func @layer(%inputs: tensor<?x?xf16>, %weights: tensor<?x?xf16>) -> tensor<?x?xf32> {"
    )
    assert signature(lambda x: ops.relu(x)).startswith("func.func @lambda(%x: ")


@pytest.mark.parametrize(
    "causal, attribute",
    [
        (False, ""),
        (True, ' {causal = "bottom_right"}'),
        ("none", ""),
        ("top_left", ' {causal = "top_left"}'),
        ("bottom_right", ' {causal = "bottom_right"}'),
    ],
)
def test_attention_without_arguments(causal, attribute):
    lines = graph(lambda q, k, v: ops.flash_attn(q, k, v, causal=causal))
    tensor = "tensor<?x?x?x64xf16>"
    assert lines == [
        f"%o, %lse = tessera.flash_attn(%q, %k, %v){attribute} : ({tensor}, {tensor}, {tensor}) -> "
        f"({tensor}, tensor<?x?x?xf32>)",
        f"func.return %o : {tensor}",
    ]


def test_attention_returns_lse_when_asked():
    lines = graph(lambda q, k, v: ops.flash_attn(q, k, v, scale=0.5, return_lse=True))
    assert "scale = 5.000000e-01 : f64" in lines[0]
    assert lines[1] == "func.return %o, %lse : tensor<?x?x?x64xf16>, tensor<?x?x?xf32>"


def test_operators_and_numbers():
    lines = graph(lambda x, y: (2 * x + y + 0.5) * y)
    functions = [line.partition("{")[2].partition("}")[0] for line in lines[:-1]]
    assert functions == [
        'function = "mul", scalar = 2.000000e+00 : f64',
        'function = "add"',
        'function = "add", scalar = 5.000000e-01 : f64',
        'function = "mul"',
    ]


@pytest.mark.parametrize(
    "function, text",
    [
        (lambda x: ops.relu(x), 'function = "relu"'),
        (lambda x: ops.silu(x), 'function = "silu"'),
        (lambda x: ops.gelu(x), 'function = "gelu"'),
        (lambda x: ops.gelu(x, approximate="tanh"), 'function = "gelu_tanh"'),
        (lambda x: ops.cast(x, "f32"), 'function = "cast", out_dtype = "f32"'),
        (lambda x: ops.cast(x, np.float32), 'function = "cast", out_dtype = "f32"'),
        (lambda x: x.astype(ml_dtypes.bfloat16), 'function = "cast", out_dtype = "bf16"'),
    ],
)
def test_unary_functions(function, text):
    assert f"tessera.elementwise(%x) {{{text}}}" in graph(function)[0]


@pytest.mark.parametrize(
    "function, axes",
    [
        (lambda x: x.T, "0, 1, 3, 2"),
        (lambda x: ops.transpose(x), "0, 1, 3, 2"),
        (lambda x: x.transpose(), "0, 1, 3, 2"),
        (lambda x: x.transpose(1, 2), "0, 2, 1, 3"),
        (lambda x: x.transpose(-1, 0), "3, 1, 2, 0"),
        (lambda x: x.transpose(0, 2, 1, 3), "0, 2, 1, 3"),
        (lambda x: x.permute((3, 2, 1, 0)), "3, 2, 1, 0"),
        (lambda x: x.permute(0, -2, 1, -1), "0, 2, 1, 3"),
    ],
)
def test_permuting_views(function, axes):
    (line, _) = graph(function, spec(2, 3, 4, 5))
    assert f"{{axes = array<i64: {axes}>}}" in line


def test_reshape_takes_sizes_of_the_shape():
    def heads(x):
        seq, width = x.shape
        return x.reshape(1, seq, 8, width // 8).permute(0, 2, 1, 3)

    assert "-> tensor<1x8x17x5xf16>" in graph(heads, spec(17, 40))[1]
    # Unknown sizes go through arithmetic and stay unknown.
    assert "-> tensor<1x8x?x?xf16>" in graph(heads)[1]


def test_a_size_that_is_needed_but_not_known():
    def branches(x):
        return ops.relu(x) if x.shape[0] == 1 else x

    with pytest.raises(ShapeError, match="not known while tracing without arguments"):
        graph(branches)
    assert "func.return %x" in graph(branches, spec(2, 2))[0]


def test_guesses_follow_what_operations_need():
    def mixed(x, bias, q):
        y = x @ x.T + bias
        o = ops.flash_attn(ops.relu(q), ops.relu(q), q)
        return y, o

    assert signature(mixed) == (
        "func.func @mixed(%x: tensor<?x?xf16>, %bias: tensor<?x?xf32>, "
        "%q: tensor<?x?x?x64xf16>) -> (tensor<?x?xf32>, tensor<?x?x?x64xf16>) {"
    )


def test_a_known_head_size_decides_a_guessed_one():
    def block(x, k, v):
        return ops.flash_attn(x.reshape(1, -1, 4, 80).transpose(1, 2), k, v)

    assert "%k: tensor<?x?x?x80xf16>, %v: tensor<?x?x?x64xf16>" in signature(block)


def test_a_rank_comes_from_a_permutation():
    assert "tensor<?x?x?xf16>" in signature(lambda x: x.permute(2, 0, 1))


def test_guesses_that_cannot_be_met_end_in_an_error():
    with pytest.raises(OptionError, match="cannot be guessed"):
        graph(lambda x: (ops.matmul(x, x), ops.flash_attn(x, x, x)))


def test_schedules_are_checked_by_name():
    lines = graph(lambda a, b: ops.matmul(a, b, schedule={"mt": 1, "nt": 2}))
    assert "schedule = {mt = 1 : i64, nt = 2 : i64}" in lines[0]
    with pytest.raises(OptionError, match="'tile_m'; supported: mt, nt, waves_m"):
        graph(lambda a, b: ops.matmul(a, b, schedule={"tile_m": 1}))
    with pytest.raises(OptionError, match="waves = -1"):
        graph(lambda q: ops.flash_attn(q, q, q, schedule={"waves": -1}))


def test_results_may_be_arguments_and_tuples():
    assert graph(lambda x, y: [y, x])[0].startswith("func.return %y, %x")


REFUSALS = {
    "array from outside": (
        DtypeError,
        lambda x: ops.matmul(x, np.zeros((2, 2), np.float16)),
        "matmul: operand 'b' must be a traced tensor, got ndarray; .*pass it as an argument",
    ),
    "number": (DtypeError, lambda x: ops.matmul(x, 3), "matmul: operand 'b' .* got int"),
    "two numbers": (OptionError, lambda x: ops.add(1, 2), "add: one operand must be a tensor"),
    "not finite": (OptionError, lambda x: x * float("inf"), "mul: scalar = inf"),
    "not in f32": (OptionError, lambda x: x * 1e39, "mul: scalar = 1e[+]39 must lie in the range"),
    "no tensor": (DtypeError, lambda x: ops.add(x, "1"), "add: operand 'x1' .* got str"),
    "truth": (TypeError, lambda x: ops.relu(x) if x else x, "branch cannot depend on it"),
    "iteration": (TypeError, lambda x: [*x], "cannot be iterated"),
    "gelu form": (OptionError, lambda x: ops.gelu(x, "erf"), "gelu: approximate = 'erf'.*none"),
    "flag": (OptionError, lambda x: ops.matmul(x, x, transpose_a=1), "transpose_a = 1"),
    "scale": (OptionError, lambda x: ops.flash_attn(x, x, x, scale="1"), "scale = '1'"),
    "causal": (OptionError, lambda x: ops.flash_attn(x, x, x, causal=2), "causal = 2.*top_left"),
    "axes": (ShapeError, lambda x: x.permute(0, 0), r"permute: \[0, 0\]"),
    "negative axes": (ShapeError, lambda x: x.permute(-3, 0), r"permute: \[-1, 0\]"),
    "schedule": (OptionError, lambda x: ops.matmul(x, x, schedule=[1]), r"schedule = \[1\] must"),
    "axis": (ShapeError, lambda x: x.transpose(0, 5), "transpose: no axis 5"),
    "ambiguous": (OptionError, lambda x: x.transpose(0, 1), "swap in PyTorch and stay in NumPy"),
    "reshape": (ShapeError, lambda x: x.reshape(3, 3), "reshape: .* does not fit"),
    "size": (ShapeError, lambda x: x.reshape(2.0, -1), "reshape: 2.0 is no integer"),
    "result": (OptionError, lambda x: 3, "result 0 is a int"),
    "no result": (OptionError, lambda x: None, "result 0 is a NoneType"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_at_trace_time(case):
    error, function, message = REFUSALS[case]
    with pytest.raises(error, match=message):
        graph(function, spec(4, 4))


@pytest.mark.parametrize("dtype", ["f64", "i16", "complex64"])
def test_a_dtype_without_tensors_is_named_with_its_operation(dtype):
    with pytest.raises(DtypeError, match=f"relu: operand x0 has dtype {dtype}"):
        graph(lambda x: ops.relu(x), spec(4, 4, dtype=dtype))
    with pytest.raises(DtypeError, match=f"reshape: operand has dtype {dtype}"):
        graph(lambda x: x.reshape(16), spec(4, 4, dtype=dtype))
    with pytest.raises(DtypeError, match=f"argument 'x' has dtype {dtype}; supported: f16"):
        graph(lambda x, y: y, spec(4, 4, dtype=dtype), spec(4, 4))


def test_operations_outside_of_a_traced_function():
    with pytest.raises(DtypeError, match="operand 'a' .* ndarray; .*tessera.jit"):
        ops.matmul(np.zeros((2, 2), np.float16), np.zeros((2, 2), np.float16))


def test_a_tensor_of_another_trace():
    kept: list[Tracer] = []
    graph(lambda x: kept.append(x) or ops.relu(x), spec(2, 2))
    with pytest.raises(OptionError, match="of another traced call"):
        graph(lambda x: ops.add(x, kept[0]), spec(2, 2))


def test_numpy_arrays_leave_operators_to_the_tracer():
    array = np.zeros((2, 2), np.float16)
    with pytest.raises(DtypeError, match="matmul: operand 'a' .* got ndarray"):
        graph(lambda x: array @ x, spec(2, 2))
