"""Integer matmul, 8 bits and packed 4 bits: exact against int64, with the faults seen in public.

The number in a test's name is that of the kind of fault; the comment says what the fault is.
"""

from functools import cache
from itertools import product

import numpy as np
import pytest
from kernel_runs import CHIP, launch

import tessera
from tessera import ops, reference, testing
from tessera.errors import DtypeError
from tessera.reference.fused_matmul import integer_matmul
from tessera.reference.packed import pack_int4

TYPES = {"i8": np.int8, "u8": np.uint8}
RANGES = {"i8": (-128, 127), "u8": (0, 255), "i4": (-8, 7), "u4": (0, 15)}


@cache
def function(transpose_a=False, transpose_b=False, packed=None, inner_size=None):
    @tessera.jit(target=CHIP)
    def matmul(a, b):
        return ops.matmul(
            a, b, transpose_a=transpose_a, transpose_b=transpose_b, packed=packed,
            inner_size=inner_size,
        )  # fmt: skip

    return matmul


def run(executor, a, b, m, n, **options):
    """c of guarded operands; behind every integer operand lie bytes of 0x5A."""
    left, right = testing.guarded(a), testing.guarded(b)
    c = testing.guarded_empty((m, n), np.int32)
    artifact = function(**options).lower(left.array, right.array)
    launch(artifact, (left, right), (c,), executor)
    return c.array


def run_bytes(executor, a, b, **options):
    m = a.shape[1] if options.get("transpose_a") else a.shape[0]
    n = b.shape[0] if options.get("transpose_b") else b.shape[1]
    return run(executor, a, b, m, n, **options)


def run_packed(executor, a, b, dtype):
    """c of integers a [m, k] and b [k, n], each packed along k."""
    left, right = pack_int4(a, dtype), pack_int4(b.T, dtype)
    k = a.shape[1]
    return run(
        executor, left, right, a.shape[0], b.shape[1],
        transpose_b=True, packed=dtype, inner_size=k if k % 2 else None,
    )  # fmt: skip


def random_integers(shape, kind, seed):
    low, high = RANGES[kind]
    return np.random.default_rng(seed).integers(low, high + 1, shape)


# Unsigned flags on the instruction, or bytes widened without their sign.
@pytest.mark.parametrize("case", ["signed", "unsigned"])
def test_b26_signedness(executor, case):
    alternating = np.where(np.arange(16) % 2, -1, 1)
    cases = [
        (-1, 1, -16, 4080),
        (-1, -1, 16, 1040400),
        (-128, -128, 262144, 262144),
        (alternating, 1, 0, 2048),
    ]
    for a, b, signed, unsigned in cases:
        left = np.broadcast_to(np.asarray(a), (16, 16)).astype(np.int8)
        right = np.broadcast_to(np.asarray(b), (16, 16)).astype(np.int8)
        if case == "unsigned":
            left, right = left.view(np.uint8), right.view(np.uint8)
        c = run_bytes(executor, left, right)
        np.testing.assert_array_equal(c, signed if case == "signed" else unsigned)


# Each operand has a sign of its own.
@pytest.mark.parametrize("kind_a, kind_b", list(product(TYPES, TYPES)))
@pytest.mark.parametrize("shape", [(1, 1, 1), (17, 33, 15), (33, 16, 129), (64, 64, 64)], ids=str)
def test_b26_random_bytes_are_exact(executor, shape, kind_a, kind_b):
    m, n, k = shape
    a = random_integers((m, k), kind_a, 1).astype(TYPES[kind_a])
    b = random_integers((k, n), kind_b, 2).astype(TYPES[kind_b])
    c = run_bytes(executor, a, b)
    assert c.dtype == np.int32
    np.testing.assert_array_equal(c, integer_matmul(a, b))


@pytest.mark.parametrize("transpose_a, transpose_b", list(product([False, True], repeat=2)))
@pytest.mark.parametrize("shape", [(15, 7, 11), (33, 64, 17), (16, 48, 64)], ids=str)
def test_bytes_in_all_four_layouts(executor, shape, transpose_a, transpose_b):
    m, n, k = shape
    a = random_integers((m, k), "i8", 3).astype(np.int8)
    b = random_integers((k, n), "i8", 4).astype(np.int8)
    c = run_bytes(
        executor,
        np.ascontiguousarray(a.T) if transpose_a else a,
        np.ascontiguousarray(b.T) if transpose_b else b,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )
    np.testing.assert_array_equal(c, integer_matmul(a, b))


# A tail of K that is dropped, counted twice, or filled with what follows.
@pytest.mark.parametrize("k", [1, 3, 17, 33, 133])
def test_b10_odd_k_of_bytes(executor, k):
    ones = np.ones((17, k), np.int8)
    np.testing.assert_array_equal(run_bytes(executor, ones, ones.T.copy()), np.full((17, 17), k))


# Missing sign extension, swapped halves of a byte, a byte offset taken for an element count.
@pytest.mark.parametrize(
    "a, b, signed, unsigned",
    [
        (-1, -1, 16, 3600),
        (-8, 7, -896, 896),
        ([1, 2], [1, 0], 8, 8),
        ([-6, 2, 3, -2], 1, -12, None),
    ],
    ids=["ones", "ends", "halves", "weights"],
)
def test_b27_packed_signs_and_order(executor, a, b, signed, unsigned):
    pattern_a = np.resize(np.asarray(a), 16)
    pattern_b = np.resize(np.asarray(b), 16)
    left = np.broadcast_to(pattern_a, (16, 16))
    right = np.broadcast_to(pattern_b[:, None], (16, 16))
    c = run_packed(executor, left, right, "i4")
    np.testing.assert_array_equal(c, np.full((16, 16), signed))
    if unsigned is not None:
        c = run_packed(executor, left & 15, right & 15, "u4")
        np.testing.assert_array_equal(c, np.full((16, 16), unsigned))


# The unused high half of the last byte of an odd row holds anything.
@pytest.mark.parametrize("k", [1, 17, 33])
def test_b27_odd_rows_of_packed_integers(executor, k):
    packed = pack_int4(np.ones((16, k), np.int64))
    packed[:, -1] |= 0x70
    right = pack_int4(np.ones((3, k), np.int64))
    right[:, -1] |= 0x70
    c = run(executor, packed, right, 16, 3, transpose_b=True, packed="i4", inner_size=k)
    np.testing.assert_array_equal(c, np.full((16, 3), k))


@pytest.mark.parametrize("dtype", ["i4", "u4"])
@pytest.mark.parametrize("shape", [(1, 1, 2), (17, 33, 16), (33, 17, 130), (64, 48, 63)], ids=str)
def test_random_packed_integers_are_exact(executor, shape, dtype):
    m, n, k = shape
    a, b = random_integers((m, k), dtype, 5), random_integers((k, n), dtype, 6)
    np.testing.assert_array_equal(run_packed(executor, a, b, dtype), integer_matmul(a, b))


# A clamp flag that changes sums at the end of the range: here they wrap around at 2^32.
@pytest.mark.slow
@pytest.mark.parametrize("k, expected", [(131056, 2147221504), (131072, -2147483648)])
def test_b29_sums_at_the_end_of_the_range(executor, k, expected):
    a = np.full((16, k), -128, np.int8)
    c = run_bytes(executor, a, np.full((k, 16), -128, np.int8))
    np.testing.assert_array_equal(c, np.full((16, 16), expected))


# A dtype predicate that excludes int8: no kernel runs, the result stays zero, the status is good.
@pytest.mark.parametrize("kind", TYPES)
def test_b59_bytes_take_a_path(executor, kind):
    ones = np.ones((16, 16), TYPES[kind])
    np.testing.assert_array_equal(run_bytes(executor, ones, ones), np.full((16, 16), 16))


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64, np.bool_])
def test_b59_other_integers_raise(dtype):
    ones = np.ones((16, 16), dtype)
    with pytest.raises(DtypeError, match=r"'a'.*supported: .*i8"):
        function().lower(ones, ones)


def test_integer_oracle_wraps_around():
    a, b = np.full((1, 131072), -128, np.int8), np.full((131072, 1), -128, np.int8)
    assert integer_matmul(a, b).tolist() == [[-(2**31)]]
    assert reference.matmul(a, b).tolist() == [[2.0**31]]
