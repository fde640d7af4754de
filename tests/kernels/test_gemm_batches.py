"""Batches of matmuls: their strides, broadcast entries, empty ones, and results within views."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from gemm_runs import lowered, run_fused
from kernel_runs import DTYPES

import tessera
from tessera import testing
from tessera.contracts import TensorSpec, bind
from tessera.errors import ShapeError
from tessera.kernels.schedules import GEMM_SCHEDULES
from tessera.launch_rule import evaluate


def integers(shape, dtype="f16", seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(DTYPES[dtype])


def product(a, b, transpose_a=False, transpose_b=False):
    a, b = a.astype(np.int64), b.astype(np.int64)
    a = np.swapaxes(a, -1, -2) if transpose_a else a
    return a @ (np.swapaxes(b, -1, -2) if transpose_b else b)


@pytest.mark.parametrize("batches", [(3, 3), (3, 1), (1, 3), (1, 1), (3, None), (None, 3)], ids=str)
@pytest.mark.parametrize("shape", [(17, 33, 24), (40, 16, 65)], ids=str)
def test_batches_broadcast(executor, shape, batches):
    m, n, k = shape
    a, b = (
        integers((k_or_m if count is None else (count, *k_or_m)), seed=seed)
        for seed, (count, k_or_m) in enumerate(zip(batches, ((m, k), (k, n))))
    )
    c = run_fused(executor, a, b)
    assert c.ndim == 3
    np.testing.assert_array_equal(c, np.broadcast_to(product(a, b), c.shape))


@pytest.mark.parametrize("layout", [(False, True), (True, False), (True, True)], ids=str)
def test_batches_in_every_layout(executor, layout):
    a, b = integers((2, 20, 36) if not layout[0] else (2, 36, 20)), integers((2, 36, 24), seed=1)
    b = np.ascontiguousarray(np.swapaxes(b, 1, 2)) if layout[1] else b
    c = run_fused(executor, a, b, transpose_a=layout[0], transpose_b=layout[1])
    np.testing.assert_array_equal(c, product(a, b, *layout))


def test_b48_batch_stride_of_zero_and_of_more_than_a_matrix(executor):
    """Every entry of a is the same memory; those of b lie further apart than they are long."""
    a = np.broadcast_to(integers((16, 32)), (4, 16, 32))
    b = testing.guarded(integers((4, 32, 48), seed=1), capacity=(4, 40, 56))
    artifact, _ = lowered(a, b.array)
    c = testing.guarded_empty((4, 16, 48), np.float32, capacity=(4, 17, 49))
    tessera.runtime.launch(artifact, a, b.array, out=c.array, executor=executor)
    c.check("c")
    np.testing.assert_array_equal(c.array, product(a, b.array))


def test_batches_of_bytes(executor):
    a = np.random.default_rng(2).integers(-128, 128, (3, 20, 40)).astype(np.int8)
    b = np.random.default_rng(3).integers(0, 256, (3, 40, 24)).astype(np.uint8)
    np.testing.assert_array_equal(run_fused(executor, a, b), product(a, b))


@pytest.mark.parametrize("split_k", [1, 3])
def test_batches_over_split_k_and_bands(executor, split_k):
    schedule = asdict(replace(GEMM_SCHEDULES["32x32"], split_k=split_k, group_m=2))
    a, b = integers((2, 100, 150)), integers((2, 150, 70), seed=1)
    c = run_fused(executor, a, b, schedule=schedule)
    np.testing.assert_array_equal(c, product(a, b))


@pytest.mark.parametrize("shape", [(0, 4, 5, 6), (2, 0, 5, 6), (2, 4, 0, 6), (2, 4, 5, 0)], ids=str)
def test_empty_batches_and_sizes(executor, shape):
    batch, m, n, k = shape
    c = run_fused(executor, integers((batch, m, k)), integers((batch, k, n)))
    assert c.shape == (batch, m, n)
    assert not c.any()


def test_batch_counts_that_differ():
    with pytest.raises(ShapeError, match="operand 'b' has 3 batch entries, expected 1 or 2"):
        bind("matmul", [TensorSpec((2, 4, 5), "f16"), TensorSpec((3, 5, 6), "f16")])


# A product of two sizes passes 2^31 within one tile: an exception says so, no index wraps around.
@pytest.mark.parametrize("stride, is_right", [(2**25 - 8, True), (2**25, False), (2**30, False)])
def test_b51_rows_that_lie_far_apart(stride, is_right):
    artifact, _ = lowered(integers((128, 64)), integers((64, 128), seed=1))
    (rule,) = artifact.plan.launches[0].rules
    symbols = {"m": 128, "n": 128, "k": 64}
    functions = {
        "stride": lambda name, axis: stride if name == "a" else 128,
        "address": lambda name: 0,
    }
    failed = [text for test, text in rule.requires if not evaluate(test, symbols, functions)]
    refusal = "operand 'a': 64 rows must span fewer than 2**31 elements"
    assert failed == ([] if is_right else [refusal])


# The grid lies along the first axis, whose limit is 2^31 - 1; along the others it would be 65535.
def test_b52_more_tiles_than_the_smaller_grid_limits(executor):
    a, b = integers((1, 16)), integers((16, 16 * 65536), seed=1)
    c = run_fused(executor, a, b, schedule=asdict(GEMM_SCHEDULES["one_wave_2x4"]), out_dtype="f16")
    np.testing.assert_array_equal(c, product(a, b))


@pytest.mark.parametrize("k", [24, 33])
def test_rows_that_are_one_row(executor, k):
    """A row stride of 0: every row of a, and every stored row of b, is the same memory."""
    a = np.broadcast_to(integers((1, k)), (40, k))
    b = np.broadcast_to(integers((1, k), seed=1), (20, k))
    artifact, _ = lowered(a, b, transpose_b=True)
    c = testing.guarded_empty((40, 20), np.float32)
    tessera.runtime.launch(artifact, a, b, out=c.array, executor=executor)
    c.check("c")
    np.testing.assert_array_equal(c.array, product(a, b, False, True))


def test_bytes_within_wider_matrices(executor):
    """Column blocks on odd addresses, and a result between columns that stay as they are."""
    random = np.random.default_rng(5)
    wide_a = random.integers(-128, 128, (33, 71)).astype(np.int8)
    wide_b = random.integers(0, 256, (50, 41)).astype(np.uint8)
    a, b = wide_a[:, 3:53], wide_b[:, 7:28]
    artifact, _ = lowered(a, b)
    wide_c = np.full((33, 30), 7, np.int32)
    tessera.runtime.launch(artifact, a, b, out=wide_c[:, 5:26], executor=executor)
    np.testing.assert_array_equal(wide_c[:, 5:26], product(a, b))
    assert (np.delete(wide_c, slice(5, 26), axis=1) == 7).all()
