"""Matmul with quantized weights: f16 activations, 4- and 8-bit weights, scales per group."""

from functools import cache

import numpy as np
import pytest
from kernel_runs import CHIP, as_guarded, launch

import tessera
from tessera import ops, testing
from tessera.errors import DtypeError, OptionError, ShapeError
from tessera.reference import dequantize, pack_int4

LIMITS = {"i4": (-8, 8), "u4": (0, 16), "i8": (-128, 128)}


@cache
def function_of(names, dtype, group_size, out_dtype, activation, schedule):
    @tessera.jit(target=CHIP)
    def quantized(a, weight, scale, extra):
        return ops.quantized_matmul(
            a, weight, scale, weight_dtype=dtype, group_size=group_size, out_dtype=out_dtype,
            activation=activation, schedule=dict(schedule) or None, **dict(zip(names, extra)),
        )  # fmt: skip

    return quantized


def run(executor, a, weight, scale, dtype, group_size, out_dtype="f32", activation=None,
        schedule=(), **extra):  # fmt: skip
    extra = {name: value for name, value in extra.items() if value is not None}
    guards = [as_guarded(x) for x in (a, weight, scale, *extra.values())]
    arrays = [guard.array for guard in guards]
    function = function_of(tuple(extra), dtype, group_size, out_dtype, activation, schedule)
    artifact = function.lower(*arrays[:3], tuple(arrays[3:]))
    result_dtype = {"f32": np.float32, "f16": np.float16}[out_dtype]
    c = testing.guarded_empty((a.shape[0], weight.shape[0]), result_dtype)
    launch(artifact, tuple(guards), (c,), executor)
    return c.array


def quantized(n, k, dtype, group_size, seed=0):
    """Stored weights, scales and zero points; all three exact in f16."""
    random = np.random.default_rng(seed)
    numbers = random.integers(*LIMITS[dtype], (n, k))
    weight = numbers.astype(np.int8) if dtype == "i8" else pack_int4(numbers, dtype)
    scale = random.uniform(0.01, 0.2, (n, k // group_size)).astype(np.float16)
    zero = random.integers(*LIMITS[dtype], (n, k // group_size)).astype(np.float16)
    return numbers, weight, scale, zero


def check(c, a, weights):
    expected = tessera.reference.matmul(a, weights, transpose_b=True)
    testing.check(c, expected, testing.matmul_bound(a, weights, c.dtype, transpose_b=True), "c")


@pytest.mark.parametrize("has_zero", [False, True])
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize(
    "m, n, k, group_size", [(1, 17, 32, 32), (33, 40, 192, 64), (70, 130, 256, 128)]
)
def test_weights_are_dequantized_as_the_reference_does(
    executor, m, n, k, group_size, dtype, has_zero
):
    a = testing.random_tensor((m, k), np.float16, 1)
    _, weight, scale, zero = quantized(n, k, dtype, group_size)
    points = zero if has_zero else None
    c = run(executor, a, weight, scale, dtype, group_size, zero=points)
    weights = dequantize(weight, scale, points, dtype, group_size)
    check(c, a, weights)
    check(run("reference", a, weight, scale, dtype, group_size, zero=points), a, weights)


@pytest.mark.parametrize("dtype", LIMITS)
def test_every_number_comes_back_exactly(executor, dtype):
    """One-hot activations read single weights: order, signs, scales and zero points show."""
    k, n = 64, 24
    numbers, weight, _, _ = quantized(n, k, dtype, 32)
    numbers[0, :16] = np.arange(*LIMITS[dtype])[:16]
    weight = numbers.astype(np.int8) if dtype == "i8" else pack_int4(numbers, dtype)
    scale = np.array([[1.0, 2.0]] * n, np.float16)
    zero = np.array([[1.0, -3.0]] * n, np.float16)
    c = run(executor, np.eye(k, dtype=np.float16), weight, scale, dtype, 32, zero=zero)
    per_k = np.repeat([[1.0, 2.0]], 32, axis=1), np.repeat([[1.0, -3.0]], 32, axis=1)
    np.testing.assert_array_equal(c, ((numbers - per_k[1]) * per_k[0]).T)


def test_the_epilogue_and_other_schedules(executor):
    a = testing.random_tensor((40, 128), np.float16, 1)
    _, weight, scale, _ = quantized(50, 128, "i4", 32)
    bias = testing.random_tensor((50,), np.float32, 2)
    for schedule in (
        (),
        (("split_k", 2), ("mt", 1), ("nt", 1)),
        (("mt", 4), ("nt", 4)),
        (("stages", 2),),
    ):
        c = run(executor, a, weight, scale, "i4", 32, "f32", "relu", schedule, bias=bias)
        weights = dequantize(weight, scale, None, "i4", 32)
        expected = np.maximum(tessera.reference.matmul(a, weights, transpose_b=True) + bias, 0.0)
        bound = testing.matmul_bound(a, weights, np.float32, transpose_b=True)
        testing.check(c, expected, bound + 2.0**-23 * (np.abs(bias) + expected), "c")


def test_unaligned_rows(executor):
    """Bases one element off, and rows of an odd distance."""
    _, weight, scale, zero = quantized(20, 64, "u4", 64)
    memory = np.full((20, 35), 0x77, np.uint8)
    memory[:, 1:33] = weight
    wide = np.full((18, 67), np.nan, np.float16)
    a = wide[:, 1:65]
    a[:] = testing.random_tensor((18, 64), np.float16, 1)
    c = run(executor, a, memory[:, 1:33], scale, "u4", 64, zero=zero)
    check(c, a, dequantize(weight, scale, zero, "u4", 64))


@pytest.mark.parametrize("change, error, message", [
    ({"dtype": "i2"}, OptionError, "weight = 'i2'"),
    ({"group_size": 16}, OptionError, "group_size = 16"),
    ({"k": 48}, ShapeError, "k = 48 is no multiple of group_size = 32"),
    ({"scale": (8, 3)}, ShapeError, "'scale' has 3 groups of 32"),
    ({"weight": np.int8}, DtypeError, "operand 'b' must be u8"),
    ({"a": np.float32}, DtypeError, "operand 'a' has dtype f32"),
])  # fmt: skip
def test_what_does_not_fit_raises_by_name(change, error, message):
    k = change.get("k", 64)
    a = np.zeros((4, k), change.get("a", np.float16))
    weight = np.zeros((8, k // 2), change.get("weight", np.uint8))
    scale = np.zeros(change.get("scale", (8, k // 32)), np.float16)
    dtype, group = change.get("dtype", "i4"), change.get("group_size", 32)
    with pytest.raises(error, match=message):
        function_of((), dtype, group, "f32", None, ()).lower(a, weight, scale, ())
