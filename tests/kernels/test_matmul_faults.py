"""Matmul faults seen in public kernels: the smallest input that shows each, and its exact answer.

The number in a test's name is that of the kind of fault; the comment says what the fault is.
"""

import numpy as np
import pytest
from kernel_runs import (
    CHIP,
    DTYPES,
    HALF,
    assert_rounded,
    check_matmul,
    launch,
    matmul_function,
    run_matmul,
)

import tessera
from tessera import ops, testing
from tessera.errors import DtypeError

SCHEDULES = [
    None,
    {"mt": 1, "nt": 1},
    {"mt": 1, "nt": 1, "waves_m": 1, "waves_n": 1, "block_k": 0},
]


def assert_sums(c, expected):
    """Sums of small integers; hardware may lose the last bits of float32 within an instruction."""
    testing.check(c, expected, 1e-6 * np.abs(expected) + 1e-5, "c")


# The accumulator of RDNA3 interleaves rows over the two halves of a wave, that of RDNA4 does not;
# with the wrong map rows are permuted, which products of constant matrices do not show.
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("dtype", HALF)
def test_b07_accumulator_rows(executor, dtype, schedule):
    index = np.arange(16)
    rows = np.zeros((16, 16))
    rows[:, 0] = index
    first_row = np.zeros((16, 16))
    first_row[0, :] = 1
    ones_column = np.zeros((16, 16))
    ones_column[:, 0] = 1
    columns = np.zeros((16, 16))
    columns[0, :] = index
    pick_row_3 = np.zeros((16, 16))
    pick_row_3[:, 3] = 1
    numbered = 16 * index[:, None] + index[None, :]
    cases = [
        (rows, first_row, np.broadcast_to(index[:, None], (16, 16))),
        (ones_column, columns, np.broadcast_to(index[None, :], (16, 16))),
        (pick_row_3, numbered, np.broadcast_to(48 + index, (16, 16))),
    ]
    for a, b, expected in cases:
        c = run_matmul(
            executor, a.astype(DTYPES[dtype]), b.astype(DTYPES[dtype]), schedule=schedule
        )
        assert_sums(c, expected)


# RDNA3 wants each operand twice, in both halves of the wave; a kernel for a chip that splits the
# operand over the halves compiles as well and multiplies garbage.
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("dtype", HALF)
def test_b08_operands_in_both_lane_halves(executor, dtype, schedule):
    random = np.random.default_rng(8)
    a = random.integers(-8, 9, (16, 16)).astype(DTYPES[dtype])
    b = random.integers(-8, 9, (16, 16)).astype(DTYPES[dtype])
    c = run_matmul(executor, a, b, schedule=schedule)
    expected = a.astype(np.int64) @ b.astype(np.int64)
    # Products and sums are exact in float32; the inner order of the instruction is not public.
    testing.check(c, expected, 1e-3)


# Right for one instruction only: the K loop, a fragment's base or the launch is wrong beyond it.
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("m, n, k", [(16, 16, 32), (48, 32, 80)])
def test_b09_more_than_one_k_step(executor, m, n, k, dtype, schedule):
    ones = np.ones((k, n), DTYPES[dtype])
    c = run_matmul(executor, np.ones((m, k), DTYPES[dtype]), ones, schedule=schedule)
    assert_sums(c, np.full((m, n), k))
    counting = np.broadcast_to(np.arange(k), (m, k)).astype(DTYPES[dtype])
    c = run_matmul(executor, counting, ones, schedule=schedule)
    assert_sums(c, np.full((m, n), {32: 496, 80: 3160}[k]))


# The tail of K is dropped (16 for 17), read past the row (NaN here) or counted twice (32).
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("k", [1, 3, 17, 33, 133])
def test_b10_odd_k(executor, k, dtype, schedule):
    a = testing.guarded(np.ones((17, k), DTYPES[dtype]), capacity=(18, k + 3))
    b = testing.guarded(np.ones((k, 17), DTYPES[dtype]), capacity=(k + 3, 17))
    c = run_matmul(executor, a, b, schedule=schedule)
    assert_sums(c, np.full((17, 17), k))


# 16-byte loads from an address that is aligned to one element only.
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("offsets", [(1, 0), (0, 1), (1, 1), (3, 5)], ids=str)
@pytest.mark.parametrize("k", [32, 33])
def test_b20_unaligned_bases(executor, k, offsets, dtype):
    a = testing.random_tensor((17, k), DTYPES[dtype], 1)
    b = testing.random_tensor((k, 24), DTYPES[dtype], 2)
    aligned = run_matmul(executor, a, b).copy()
    moved = run_matmul(
        executor,
        testing.guarded(a, offset=offsets[0]),
        testing.guarded(b, offset=offsets[1]),
        out=testing.guarded_empty((17, 24), np.float32, offset=1),
    )
    check_matmul(moved, a, b)
    np.testing.assert_array_equal(moved, aligned)


# A dimension of zero: no launch, or an untouched result where it must be zero.
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("m, n, k", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_b23_empty_dimensions(executor, m, n, k, dtype):
    a, b = np.ones((m, k), DTYPES[dtype]), np.ones((k, n), DTYPES[dtype])
    c = run_matmul(executor, a, b)
    np.testing.assert_array_equal(c, np.zeros((m, n)))
    # A sum of no terms is written by a kernel; a result of no elements needs none.
    assert bool(tessera.runtime.last_launch().kernels) == (m * n > 0)


# bf16 results cut off instead of rounded to nearest even, or a NaN that the rounding trick turned
# into infinity or zero.
def test_b30_rounding_to_bf16(executor):
    bf16 = DTYPES["bf16"]
    a = np.ones((1, 2), bf16)
    b = np.array([[1, 1, 1], [3 * 2.0**-8, 2.0**-8, -3 * 2.0**-8]], bf16)
    c = run_matmul(executor, a, b, out_dtype="bf16")
    # 1.01171875 lies halfway between 1.0078125 and 1.015625; 1.00390625 between 1 and 1.0078125.
    assert c.astype(float).tolist() == [[1.015625, 1.0, 0.98828125]]
    a = np.array([[0x7FFF, 0x3F80]], np.uint16).view(bf16)
    c = run_matmul(executor, a, b, out_dtype="bf16")
    assert np.isnan(c.astype(float)).all()


def test_b30_rounding_to_f16(executor):
    a = np.ones((1, 2), np.float16)
    b = np.array([[1, 1, 1], [3 * 2.0**-11, 2.0**-11, 2.0**-12]], np.float16)
    c = run_matmul(executor, a, b, out_dtype="f16")
    assert c.astype(float).tolist() == [[1 + 2.0**-9, 1.0, 1.0]]
    large = np.full((1, 2), 40000.0, np.float16)
    c = run_matmul(executor, large, np.ones((2, 1), np.float16), out_dtype="f16")
    assert c.astype(float).tolist() == [[np.inf]]


# Two loaded programs export the same symbol and the lookup always finds the first.
def test_b53_same_kernel_name_in_two_programs(executor):
    def program(dtype, n_scale):
        @tessera.jit(target=CHIP)
        def kernel(a, b):
            return ops.matmul(a, b)

        a = np.full((17, 16), 1 + 2.0**-9, np.float32).astype(DTYPES[dtype])
        b = np.full((16, 16 * n_scale), 1.0, np.float32).astype(DTYPES[dtype])
        return kernel.lower(a, b), a, b

    programs = [program("f16", 1), program("bf16", 1), program("f16", 2)]
    names = {tuple(kernel.name for kernel in artifact.kernels) for artifact, _, _ in programs}
    assert len(names) < len(programs), "the names differ, so that this shows nothing"
    for artifact, a, b in [programs[index] for index in (0, 1, 0, 2, 1, 0)]:
        c = testing.guarded_empty((17, b.shape[1]), np.float32)
        launch(artifact, (testing.guarded(a), testing.guarded(b)), (c,), executor)
        # 1 + 2^-9 is a number of f16, and 1 in bf16.
        assert_rounded(c.array, tessera.reference.matmul(a, b))


# A dtype that no path covers gives zeros and no error.
@pytest.mark.parametrize("dtype", [np.int32, np.float64, np.complex64])
def test_b59_dtype_without_a_path_raises(executor, dtype):
    operand = np.ones((16, 16), dtype)
    with pytest.raises(DtypeError, match=r"matmul: operand 'a'.*supported: .*f16.*bf16"):
        tessera.runtime.launch(matmul_function().lower(operand, operand), operand, operand)


# Transposed operands that come out right for square or aligned shapes only.
def test_b49_transposed_operands(executor):
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float16)
    y = np.array([[1, 0, 0], [0, 1, 0]], np.float16)
    ones = np.ones((2, 2), np.float16)
    assert_sums(run_matmul(executor, x, ones, transpose_a=True), [[5, 5], [7, 7], [9, 9]])
    assert_sums(run_matmul(executor, x, y, transpose_b=True), [[1, 2], [4, 5]])


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_b49_every_layout_of_an_odd_shape(executor, transpose_a, transpose_b):
    m, n, k = 15, 7, 11
    a = testing.random_tensor((k, m) if transpose_a else (m, k), np.float16, 1)
    b = testing.random_tensor((n, k) if transpose_b else (k, n), np.float16, 2)
    layout = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    check_matmul(run_matmul(executor, a, b, **layout), a, b, **layout)
