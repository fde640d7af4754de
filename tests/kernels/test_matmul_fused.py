"""Matmul with batches and epilogues, and every schedule against every other."""

from functools import cache

import numpy as np
import pytest
from kernel_runs import CHIP, DTYPES, HALF, frozen, launch, matmul_function

import tessera
from tessera import ops, testing
from tessera.kernels.schedules import GEMM_SCHEDULES
from tessera.reference.fused_matmul import fused_matmul
from tessera.testing import random_tensor


@cache
def function(names=(), **options):
    """A jitted matmul that takes the named epilogue tensors behind a and b."""

    @tessera.jit(target=CHIP)
    def matmul(a, b, *extra):
        return ops.matmul(a, b, **dict(zip(names, extra)), **options)

    return matmul


def run(executor, a, b, out_dtype="f32", tensors=None, **options):
    tensors = tensors or {}
    operands = [testing.guarded(x) for x in (a, b, *tensors.values())]
    artifact = function(tuple(tensors), out_dtype=out_dtype, **options).lower(
        *(operand.array for operand in operands)
    )
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    c = testing.guarded_empty((*batch, a.shape[-2], b.shape[-1]), DTYPES[out_dtype])
    launch(artifact, tuple(operands), (c,), executor)
    return c.array


# Bias after the activation, rounding before the bias, one form of gelu taken for the other.
@pytest.mark.parametrize(
    "activation, at_three, at_minus_one",
    [
        (None, 3.0, -1.0),
        ("relu", 3.0, 0.0),
        ("gelu", 2.99595031, -0.15865525),
        ("gelu_tanh", 2.99636261, -0.15880801),
        ("silu", 2.85772238, -0.26894142),
    ],
)
def test_b60_bias_before_activation(executor, activation, at_three, at_minus_one):
    ones = np.ones((16, 2), np.float16)
    bias = {"bias": np.ones(16, np.float16)}
    for sign, expected in ((1, at_three), (-1, at_minus_one)):
        b = np.full((2, 16), sign, np.float16)
        for out_dtype in ("f32", "f16"):
            c = run(executor, ones, b, out_dtype, bias, activation=activation)
            bound = 2e-6 + 1.01 * testing.rounding_bound(expected, DTYPES[out_dtype])
            testing.check(c, np.full((16, 16), expected), bound)


# A sum beyond f16 that the bias brings back, lost when it is rounded before the bias.
def test_b60_nothing_is_rounded_before_the_end(executor):
    a, b = np.full((16, 2), 200.0, np.float16), np.full((2, 16), 200.0, np.float16)
    bias = {"bias": np.full(16, -60000.0, np.float16)}
    c = run(executor, a, b, "f16", bias)
    np.testing.assert_array_equal(c, np.full((16, 16), 20000.0))


EPILOGUES = {
    "alpha": dict(alpha=-0.5),
    "addend": dict(addend=True, beta=2.0),
    "alpha and addend": dict(alpha=0.25, addend=True, beta=-1.0),
    "bias per column": dict(bias=True),
    "bias per row": dict(bias=True, bias_axis="row"),
    "relu": dict(activation="relu"),
    "gate": dict(activation="silu", gate=True),
    "residual": dict(residual=True),
    "all": dict(
        alpha=0.5, addend=True, beta=0.5, bias=True, activation="gelu", gate=True, residual=True
    ),
}


@pytest.mark.parametrize("out_dtype", ["f32", "f16"])
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_epilogues(executor, epilogue, dtype, out_dtype):
    m, n, k = 17, 33, 40
    options = dict(EPILOGUES[epilogue])
    bias_shape = (m if options.get("bias_axis") == "row" else n,)
    shapes = {"addend": (m, n), "bias": bias_shape, "gate": (m, n), "residual": (m, n)}
    tensors = {
        name: random_tensor(shapes[name], DTYPES[dtype], seed)
        for seed, name in enumerate(("addend", "bias", "gate", "residual"), 5)
        if options.pop(name, False)
    }
    a, b = random_tensor((m, k), DTYPES[dtype], 1), random_tensor((k, n), DTYPES[dtype], 2)
    c = run(executor, a, b, out_dtype, tensors, **options)
    expected = fused_matmul(a, b, **tensors, **options)
    # What the product is off by passes through at most a slope of 1.13 and a gate of 4.
    gate = np.abs(tensors["gate"].astype(float)) if "gate" in tensors else 1.0
    product_bound = testing.matmul_bound(a, b, np.float32)
    carried = (1.13 * product_bound + 4e-6) * np.maximum(gate, 1.0)
    bound = carried + testing.rounding_bound(np.abs(expected) + carried, DTYPES[out_dtype])
    testing.check(c, expected, bound)


@pytest.mark.parametrize(
    "batch_a, batch_b", [((3,), (3,)), ((3,), (1,)), ((), (2,)), ((2,), ())], ids=str
)
def test_batches_broadcast(executor, batch_a, batch_b):
    a = random_tensor((*batch_a, 17, 33), np.float16, 1)
    b = random_tensor((*batch_b, 33, 16), np.float16, 2)
    c = run(executor, a, b)
    expected = fused_matmul(a, b)
    magnitude = np.abs(a.astype(float)) @ np.abs(b.astype(float))
    testing.check(c, expected, 2 * 33 * 2.0**-24 * magnitude + 2.0**-24 * np.abs(expected))


# Some settings of a software pipeline give other sums than all the rest.
@pytest.mark.parametrize("size", [17, 64, pytest.param(129, marks=pytest.mark.slow),
                                  pytest.param(250, marks=pytest.mark.slow)])  # fmt: skip
@pytest.mark.parametrize("name", GEMM_SCHEDULES)
def test_b65_every_schedule_gives_the_same_sums(executor, name, size):
    random = np.random.default_rng(size)
    a, b = (random.integers(-4, 5, (size, size)).astype(np.float16) for _ in range(2))
    schedule = GEMM_SCHEDULES[name]
    chosen = {key: getattr(schedule, key) for key in ("mt", "nt", "waves_m", "waves_n", "block_k")}
    artifact = matmul_function(schedule=frozen(chosen)).lower(a, b)
    c = testing.guarded_empty((size, size), np.float32)
    launch(artifact, (testing.guarded(a), testing.guarded(b)), (c,), executor)
    # Exact in float32; hardware may lose the last bits within an instruction.
    expected = a.astype(np.int64) @ b.astype(np.int64)
    testing.check(c.array, expected, 1e-6 * np.abs(expected) + 1e-4)


@pytest.mark.parametrize("split_k", [1, 2, 3, 8])
@pytest.mark.parametrize("k", [1, 31, 129, 200])
def test_split_k_gives_the_same_sums(executor, split_k, k):
    a, b = random_tensor((17, k), np.float16, 1), random_tensor((k, 33), np.float16, 2)
    artifact = matmul_function(schedule=frozen({"split_k": split_k})).lower(a, b)
    c = testing.guarded_empty((17, 33), np.float32)
    launch(artifact, (testing.guarded(a), testing.guarded(b)), (c,), executor)
    testing.check(c.array, fused_matmul(a, b), testing.matmul_bound(a, b, np.float32))
