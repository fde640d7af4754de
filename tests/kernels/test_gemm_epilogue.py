"""What follows the sums of a matmul: order of the steps, flavours of GELU, a single rounding."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from gemm_runs import expected_fused, run_fused
from kernel_runs import CHIP, DTYPES, assert_rounded

import tessera
from tessera import ops, testing
from tessera.errors import OptionError, ShapeError
from tessera.kernels.schedules import GEMM_SCHEDULES
from tessera.testing import random_tensor

SHAPES = [(17, 33, 40), (64, 48, 16), (5, 130, 3)]
SLOPE = 1.13
"""Largest derivative of the activations (GELU's), by which an error of the sum may grow."""


def tensors(shape, names, dtype="f16", batch=None):
    m, n, k = shape
    leading = () if batch is None else (batch,)
    shapes = {"bias": (n,), "row_bias": (m,)}
    made = {
        name: random_tensor(shapes.get(name, (*leading, m, n)), DTYPES[dtype], seed)
        for seed, name in enumerate(names, 10)
    }
    a = random_tensor((*leading, m, k), DTYPES["f16"], 1)
    b = random_tensor((*leading, k, n), DTYPES["f16"], 2)
    return a, b, made


def check_fused(c, a, b, **options):
    """Hold c to float64 within the sums' bound carried through the steps, and one rounding.

    Each step makes one float32 rounding (the activation 16, for its exponential and quotients) of
    what it computes; |gate| and the activation's slope scale what came before.
    """
    expected = expected_fused(a, b, **options)
    magnitude = {name: np.abs(np.asarray(value, np.float64)) if hasattr(value, "shape") else value
                 for name, value in options.items()}  # fmt: skip
    sums = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    alpha, beta = abs(options.get("alpha", 1.0)), abs(options.get("beta", 1.0))
    unit = 2.0**-24
    size = alpha * sums + beta * magnitude.get("addend", 0.0)
    if "bias" in magnitude:
        is_row = options.get("bias_axis") == "row"
        size = size + (magnitude["bias"][:, None] if is_row else magnitude["bias"])
    error = (2.0 * a.shape[-1] + 4.0) * unit * size
    if options.get("activation"):
        error, size = SLOPE * error + 16.0 * unit * size, SLOPE * size
    if "gate" in magnitude:
        error, size = magnitude["gate"] * (error + unit * size), magnitude["gate"] * size
    size = size + magnitude.get("residual", 0.0)
    error = error + unit * size
    bound = testing.rounding_bound(np.abs(expected) + error, c.dtype) + error
    testing.check(c, expected, bound, "c")


# Bias after the activation, a rounding before the bias, the wrong GELU.
@pytest.mark.parametrize("activation, of_three, of_minus_one", [
    ("relu", 3.0, 0.0),
    ("gelu", 2.99595031, -0.15865525),
    ("gelu_tanh", 2.99636261, -0.15880801),
    ("silu", 2.85772238, -0.26894142),
])  # fmt: skip
def test_b60_order_and_flavour(executor, activation, of_three, of_minus_one):
    a = np.ones((16, 2), np.float16)
    b = np.ones((2, 16), np.float16)
    bias = np.ones(16, np.float16)
    for sign, expected in ((1, of_three), (-1, of_minus_one)):
        c = run_fused(
            executor, a, (sign * b).astype(np.float16), bias=bias, activation=activation,
            out_dtype="f32",
        )  # fmt: skip
        testing.check(c, np.full((16, 16), expected), 3e-7, "c")
        rounded = run_fused(
            executor, a, (sign * b).astype(np.float16), bias=bias, activation=activation,
            out_dtype="f16",
        )  # fmt: skip
        assert_rounded(rounded, np.full((16, 16), expected), "rounded c")


STEPS = {
    "alpha": {"alpha": -0.5},
    "addend": {"addend": 1, "beta": 0.25},
    "addend of weight one": {"addend": 1},
    "column bias": {"bias": 1},
    "row bias": {"bias": 1, "bias_axis": "row"},
    "relu": {"activation": "relu"},
    "gelu": {"activation": "gelu"},
    "gate": {"gate": 1},
    "residual": {"residual": 1},
    "everything": {
        "alpha": 0.75, "beta": -2.0, "addend": 1, "bias": 1, "activation": "silu", "gate": 1,
        "residual": 1,
    },
}  # fmt: skip


def options_of(steps, shape, dtype, batch=None):
    names = [name for name, value in steps.items() if value == 1 and name != "alpha"]
    wanted = ["row_bias" if name == "bias" and steps.get("bias_axis") else name for name in names]
    a, b, made = tensors(shape, wanted, dtype, batch)
    filled = {name: made[one] for name, one in zip(names, wanted)}
    return a, b, {**steps, **filled}


@pytest.mark.parametrize("dtypes", [("f32", "f32"), ("f16", "f16"), ("bf16", "bf16")], ids=str)
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_step(executor, shape, steps, dtypes):
    a, b, options = options_of(STEPS[steps], shape, dtypes[0])
    c = run_fused(executor, a, b, out_dtype=dtypes[1], **options)
    assert c.dtype == DTYPES[dtypes[1]]
    check_fused(c, a, b, **options)


@pytest.mark.parametrize("change", [{"split_k": 3}, {"group_m": 1}, {"block_k": 0}], ids=str)
@pytest.mark.parametrize("batch", [None, 2])
def test_the_epilogue_of_every_kind_of_kernel(executor, batch, change):
    schedule = asdict(replace(GEMM_SCHEDULES["32x32"], **change))
    a, b, options = options_of(STEPS["everything"], (40, 50, 70), "f16", batch)
    c = run_fused(executor, a, b, out_dtype="f16", schedule=schedule, **options)
    check_fused(c, a, b, **options)


@pytest.mark.parametrize("change", [{}, {"stages": 2}, {"block_k": 0}], ids=str)
@pytest.mark.parametrize("layout", [(False, False), (False, True), (True, False)], ids=str)
@pytest.mark.parametrize("batch", [None, 2])
def test_a_gated_pair_in_one_kernel(executor, batch, layout, change):
    """silu(a b + bias) * (a pair): small integers, so that both sums are exact."""
    leading = () if batch is None else (batch,)
    random = np.random.default_rng(4)
    a, b, pair = (
        random.integers(-2, 3, (*leading, *shape)).astype(np.float16)
        for shape in ((40, 33), (33, 50), (33, 50))
    )
    swapped = [np.ascontiguousarray(np.swapaxes(x, -1, -2)) for x in (a, b, pair)]
    bias = random.standard_normal(50).astype(np.float32)
    left = swapped[0] if layout[0] else a
    right, other = swapped[1:] if layout[1] else (b, pair)
    schedule = asdict(replace(GEMM_SCHEDULES["32x32"], **change))
    options: dict[str, Any] = dict(
        pair=other, bias=bias, activation="silu", transpose_a=layout[0], transpose_b=layout[1]
    )
    c = run_fused(executor, left, right, out_dtype="f32", schedule=schedule, **options)
    assert len(tessera.runtime.last_launch().kernels) == 1
    expected = expected_fused(left, right, **options)
    gate = np.abs(a.astype(float) @ pair.astype(float))
    testing.check(c, expected, 2.0**-20 * gate * (np.abs(expected_sum(a, b)) + 4), "c")


def expected_sum(a, b):
    return a.astype(float) @ b.astype(float)


def test_a_gated_pair_is_fused_from_a_traced_function(executor):
    @tessera.jit(target=CHIP)
    def swiglu(x, w, v):
        return ops.cast(ops.silu(x @ w) * (x @ v), "f16")

    x = random_tensor((33, 48), np.float16, 1)
    w, v = random_tensor((48, 64), np.float16, 2), random_tensor((48, 64), np.float16, 3)
    artifact = swiglu.lower(x, w, v)
    assert [kernel.name for kernel in artifact.kernels] == ["matmul_0"]
    result = tessera.runtime.launch(artifact, x, w, v, executor=executor)
    expected = expected_fused(x, w, pair=v, activation="silu")
    testing.check(result, expected, testing.rounding_bound(expected, np.float16) + 1e-3, "c")


def test_operands_between_other_columns(executor):
    """Epilogue operands and the result may be column blocks of wider matrices."""
    a, b, options = options_of(STEPS["everything"], (20, 24, 16), "f32")
    for name in ("addend", "gate", "residual"):
        wide = np.full((20, 31), np.nan, np.float32)
        wide[:, 5:29] = options[name]
        options[name] = wide[:, 5:29]
    c = run_fused(executor, a, b, out_dtype="f32", **options)
    check_fused(c, a, b, **options)


def test_scaled_bytes_become_floats(executor):
    """Dequantization: alpha and a bias on exact integer sums."""
    random = np.random.default_rng(3)
    a = random.integers(-128, 128, (20, 48)).astype(np.int8)
    b = random.integers(-128, 128, (48, 36)).astype(np.int8)
    bias = random.standard_normal(36).astype(np.float32)
    options: dict[str, Any] = dict(alpha=2.0**-10, bias=bias, activation="relu")
    c = run_fused(executor, a, b, out_dtype="f16", **options)
    expected = expected_fused(a, b, **options)
    bound = 4 * 2.0**-24 * (np.abs(expected) + np.abs(bias)) + testing.rounding_bound(
        expected, np.float16
    )
    testing.check(c, expected, bound, "c")


def test_k_of_zero_leaves_the_epilogue(executor):
    a, b, options = options_of(STEPS["everything"], (17, 18, 0), "f16")
    check_fused(run_fused(executor, a, b, out_dtype="f32", **options), a, b, **options)


def test_what_does_not_fit_raises_by_name(executor):
    a, b, _ = tensors((8, 8, 8), [])
    with pytest.raises(OptionError, match="activation = 'tanh'"):
        run_fused(executor, a, b, activation="tanh")
    with pytest.raises(OptionError, match="bias_axis"):
        run_fused(executor, a, b, bias=np.zeros(8, np.float16), bias_axis="both")
    with pytest.raises(OptionError, match="beta = 2.0 needs an addend"):
        run_fused(executor, a, b, beta=2.0)
    with pytest.raises(OptionError, match="bias_axis = 'row' needs a bias"):
        run_fused(executor, a, b, bias_axis="row")
    with pytest.raises(OptionError, match="inner_size = 8 is for packed operands"):
        run_fused(executor, a, b, inner_size=8)
    with pytest.raises(ShapeError, match="operand 'bias' has dimension 'n'"):
        run_fused(executor, a, b, bias=np.zeros(9, np.float16))


def test_dequantized_sums_are_fused_from_a_traced_function(executor):
    @tessera.jit(target=CHIP)
    def linear(a, b, bias):
        return ops.relu(ops.matmul(a, b, out_dtype="f32") * 0.125 + bias)

    random = np.random.default_rng(6)
    a = random.integers(-128, 128, (20, 40)).astype(np.int8)
    b = random.integers(-128, 128, (40, 30)).astype(np.int8)
    bias = random.integers(-9, 10, 30).astype(np.float32)
    artifact = linear.lower(a, b, bias)
    assert [kernel.name for kernel in artifact.kernels] == ["matmul_0"]
    result = tessera.runtime.launch(artifact, a, b, bias, executor=executor)
    # Sums below 2^24 and an eighth of them are exact in float32.
    expected = np.maximum((a.astype(int) @ b.astype(int)) * 0.125 + bias, 0.0)
    np.testing.assert_array_equal(result, expected)
