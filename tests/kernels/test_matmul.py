"""Matmul over every tile edge, dtype, layout and alignment, against float64 and derived bounds."""

from itertools import product

import numpy as np
import pytest
from kernel_runs import DTYPES, HALF, check_matmul, matmul_function, run_matmul

from tessera import testing
from tessera.testing import MATMUL_SIZES, random_tensor

SHAPES = list(product(MATMUL_SIZES, repeat=3))
# Every pair of sizes occurs on every pair of axes in the whole set; the sample keeps the tails
# of each axis, alone and together, and each zero.
SAMPLE = [
    (0, 17, 33), (17, 0, 16), (17, 33, 0), (0, 0, 0), (1, 1, 1), (1, 129, 64), (129, 1, 17),
    (15, 16, 17), (16, 16, 16), (17, 15, 33), (33, 64, 1), (33, 129, 15), (64, 33, 129),
    (64, 64, 64), (129, 17, 64), (129, 129, 33),
]  # fmt: skip
SCHEDULES = {
    # The simplest one: one wave, one instruction tile, operands straight from global memory.
    "1x1": {"mt": 1, "nt": 1, "waves_m": 1, "waves_n": 1, "block_k": 0},
    "default": None,
}


def operands(shape, dtype, transpose_a=False, transpose_b=False, seed=0):
    m, n, k = shape
    a = random_tensor((k, m) if transpose_a else (m, k), DTYPES[dtype], seed)
    b = random_tensor((n, k) if transpose_b else (k, n), DTYPES[dtype], seed + 1)
    return a, b


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("shape", SAMPLE, ids=str)
def test_matmul_sizes(executor, shape, dtype, schedule):
    a, b = operands(shape, dtype)
    c = run_matmul(executor, a, b, schedule=SCHEDULES[schedule])
    check_matmul(c, a, b)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("m", MATMUL_SIZES)
def test_matmul_all_sizes(executor, m, dtype, schedule):
    for n, k in product(MATMUL_SIZES, repeat=2):
        a, b = operands((m, n, k), dtype, seed=n + k)
        c = run_matmul(executor, a, b, schedule=SCHEDULES[schedule])
        check_matmul(c, a, b)


@pytest.mark.parametrize("out_dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("shape", [(17, 33, 64), (64, 16, 17)], ids=str)
def test_matmul_result_dtypes(executor, shape, dtype, out_dtype):
    a, b = operands(shape, dtype)
    c = run_matmul(executor, a, b, out_dtype=out_dtype)
    assert c.dtype == DTYPES[out_dtype]
    check_matmul(c, a, b)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("shape", [(15, 7, 11), (33, 64, 17)], ids=str)
def test_matmul_transposed_operands(executor, shape, dtype, transpose_a, transpose_b):
    options = dict(transpose_a=transpose_a, transpose_b=transpose_b)
    a, b = operands(shape, dtype, **options)
    c = run_matmul(executor, a, b, **options)
    check_matmul(c, a, b, **options)


@pytest.mark.parametrize("leading", [(0, 0, 0), (1, 1, 1), (8, 24, 4), (7, 0, 3)], ids=str)
@pytest.mark.parametrize("dtype", HALF)
def test_matmul_leading_dimensions(executor, dtype, leading):
    """Rows may be further apart than they are long; what lies between is poison."""
    m, n, k = 17, 33, 40
    more_a, more_b, more_c = leading
    a, b = operands((m, n, k), dtype)
    c = run_matmul(
        executor,
        testing.guarded(a, capacity=(m + 1, k + more_a)),
        testing.guarded(b, capacity=(k + 1, n + more_b)),
        out=testing.guarded_empty((m, n), np.float32, capacity=(m + 1, n + more_c)),
    )
    check_matmul(c, a, b)


@pytest.mark.parametrize("out_dtype", ["f32", "f16"])
def test_matmul_of_matrix_slices(executor, out_dtype):
    """A column block in the middle of a wider matrix, in both operands and in the result."""
    dtype = DTYPES["f16"]
    a, b = operands((33, 17, 31), "f16")
    wide_a = testing.guarded(np.full((33, 64), np.nan, dtype))
    wide_a.array[:, 5:36] = a
    wide_b = testing.guarded(np.full((31, 40), np.nan, dtype))
    wide_b.array[:, 3:20] = b
    artifact = matmul_function(out_dtype).lower(wide_a.array[:, 5:36], wide_b.array[:, 3:20])
    wide_c = np.full((33, 32), 7.0, DTYPES[out_dtype])
    from tessera import runtime

    runtime.launch(
        artifact, wide_a.array[:, 5:36], wide_b.array[:, 3:20],
        out=wide_c[:, 9:26], executor=executor,
    )  # fmt: skip
    check_matmul(wide_c[:, 9:26], a, b)
    untouched = np.delete(wide_c, slice(9, 26), axis=1)
    assert (untouched == 7.0).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_matmul_gives_the_same_bits_twice(executor, schedule):
    a, b = operands((65, 47, 129), "f16")
    first = run_matmul(executor, a, b, schedule=SCHEDULES[schedule]).copy()
    second = run_matmul(executor, a, b, schedule=SCHEDULES[schedule])
    assert first.tobytes() == second.tobytes()
