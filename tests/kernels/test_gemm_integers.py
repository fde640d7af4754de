"""Integer matmul, exact against int64: bytes of either sign, and 4-bit numbers two per byte."""

from dataclasses import asdict, replace

import ml_dtypes
import numpy as np
import pytest
from gemm_runs import expected_fused, lowered, run_fused

import tessera
from tessera import testing
from tessera.errors import DtypeError, OptionError, ShapeError
from tessera.kernels.schedules import GEMM_SCHEDULES
from tessera.reference import integer_matmul, pack_int4, unpack_int4

BYTES = {"i8": (np.int8, -128, 128), "u8": (np.uint8, 0, 256)}
SHAPES = [
    (1, 1, 1), (16, 16, 16), (17, 33, 3), (15, 64, 63), (33, 17, 64), (64, 48, 65), (130, 70, 129),
]  # fmt: skip
LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]


def bytes_of(shape, dtype, seed):
    kind, low, high = BYTES[dtype]
    return np.random.default_rng(seed).integers(low, high, shape).astype(kind)


def stored(matrix, is_transposed):
    return np.ascontiguousarray(matrix.T) if is_transposed else matrix


@pytest.mark.parametrize("signs", [("i8", "i8"), ("u8", "u8"), ("i8", "u8"), ("u8", "i8")], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bytes_are_multiplied_exactly(executor, shape, signs):
    m, n, k = shape
    a, b = bytes_of((m, k), signs[0], 1), bytes_of((k, n), signs[1], 2)
    c = run_fused(executor, a, b)
    assert c.dtype == np.int32
    np.testing.assert_array_equal(c, integer_matmul(a, b))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("shape", [(15, 7, 11), (64, 80, 96), (128, 128, 128)], ids=str)
def test_bytes_in_every_layout(executor, shape, layout):
    m, n, k = shape
    a, b = bytes_of((m, k), "i8", 3), bytes_of((k, n), "u8", 4)
    c = run_fused(
        executor, stored(a, layout[0]), stored(b, layout[1]),
        transpose_a=layout[0], transpose_b=layout[1],
    )  # fmt: skip
    np.testing.assert_array_equal(c, integer_matmul(a, b))


# Unsigned flags on the instruction, or unsigned unpacking; -128 times -128 does not tell.
def test_b26_signs(executor):
    one = np.ones((16, 16))
    stripes = np.broadcast_to(np.where(np.arange(16) % 2, -1, 1), (16, 16))
    cases = [
        (-one, one, -16, 4080), (-one, -one, 16, 1040400),
        (-128 * one, -128 * one, 262144, 262144), (stripes, one, 0, 2048),
    ]  # fmt: skip
    for a, b, signed, unsigned in cases:
        a, b = a.astype(np.int8), b.astype(np.int8)
        np.testing.assert_array_equal(run_fused(executor, a, b), signed)
        c = run_fused(executor, a.view(np.uint8), b.view(np.uint8))
        np.testing.assert_array_equal(c, unsigned)


# The tail of K is dropped, doubled, or filled with what follows the row: here 127.
@pytest.mark.parametrize("k", [1, 3, 17, 33, 133])
def test_b10_odd_k(executor, k):
    a = testing.guarded(np.full((17, 160), 127, np.int8))
    b = testing.guarded(np.full((17, 160), 127, np.int8))
    a.array[:, :k] = 1
    b.array[:, :k] = 1
    c = run_fused(executor, a.array[:, :k], b.array[:, :k], transpose_b=True)
    np.testing.assert_array_equal(c, k)


# No saturation: sums wrap around at 2^32, as the oracle does.
@pytest.mark.parametrize("k, expected", [(131056, 2147221504), (131072, -2147483648)])
def test_b29_sums_wrap_around(executor, k, expected):
    a, b = np.full((16, k), -128, np.int8), np.full((16, k), -128, np.int8)
    c = run_fused(executor, a, b, transpose_b=True)
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_array_equal(integer_matmul(a, b.T), expected)


# A schedule predicate leaves int8 out, no kernel runs, and the result stays what it was.
@pytest.mark.parametrize("name", GEMM_SCHEDULES)
def test_b59_every_schedule_takes_bytes(executor, name):
    schedule = asdict(GEMM_SCHEDULES[name].for_bits(8))
    out = testing.guarded(np.full((16, 16), 0x5A5A5A5A, np.int32))
    one = np.ones((16, 16), np.int8)
    np.testing.assert_array_equal(run_fused(executor, one, one, out=out, schedule=schedule), 16)


@pytest.mark.parametrize("name", GEMM_SCHEDULES)
@pytest.mark.parametrize("size", [17, 64, 129, 250])
def test_b65_schedules_agree_on_bytes(executor, size, name):
    a, b = bytes_of((size, size), "i8", 5), bytes_of((size, size), "i8", 6)
    schedule = asdict(GEMM_SCHEDULES[name].for_bits(8))
    c = run_fused(executor, a, b, transpose_b=True, schedule=schedule)
    np.testing.assert_array_equal(c, integer_matmul(a, b.T))


def packed_pair(m, n, k, signs, seed=0):
    random = np.random.default_rng(seed)
    limits = {"i4": (-8, 8), "u4": (0, 16)}
    a, b = (random.integers(*limits[s], (rows, k)) for s, rows in zip(signs, (m, n)))
    return a, b, pack_int4(a, signs[0]), pack_int4(b, signs[1])


def run_packed(executor, a, b, k, signs=("i4", "i4"), **options):
    return run_fused(
        executor, a, b, packed=signs, inner_size=k if k % 2 else None, transpose_b=True, **options
    )


@pytest.mark.parametrize("signs", [("i4", "i4"), ("u4", "u4"), ("i4", "u4"), ("u4", "i4")], ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (32, 32, 256), (40, 24, 384)], ids=str)
def test_packed_numbers_are_multiplied_exactly(executor, shape, signs):
    m, n, k = shape
    a, b, packed_a, packed_b = packed_pair(m, n, k, signs)
    c = run_packed(executor, packed_a, packed_b, k, signs)
    np.testing.assert_array_equal(c, a @ b.T)
    np.testing.assert_array_equal(
        expected_fused(packed_a, packed_b, packed=signs, inner_size=k, transpose_b=True), a @ b.T
    )


# Missing sign extension, swapped halves, byte offsets from counts of numbers, odd tails.
@pytest.mark.parametrize("a, b, signed, unsigned", [
    ([-1], [-1], 16, 3600), ([-8], [7], -896, 896), ([1, 2], [1, 0], 8, 8),
])  # fmt: skip
def test_b27_signs_and_order_of_packed_numbers(executor, a, b, signed, unsigned):
    rows = [np.resize(np.array(x), (16, 16)) for x in (a, b)]
    left, right = (pack_int4(x) for x in rows)
    np.testing.assert_array_equal(run_packed(executor, left, right, 16), signed)
    c = run_packed(executor, left, right, 16, ("u4", "u4"))
    np.testing.assert_array_equal(c, unsigned)


@pytest.mark.parametrize("k", [17, 33])
def test_b27_the_unused_half_of_an_odd_row(executor, k):
    one = np.ones((16, k), np.int64)
    a, b = pack_int4(one), pack_int4(one[:3])
    a[:, -1] |= 0x70
    b[:, -1] |= 0x70
    np.testing.assert_array_equal(run_packed(executor, a, b, k), k)


def test_b27_unpacking_keeps_each_number():
    weights = np.array([[-6, 2, 3, -2]])
    np.testing.assert_array_equal(unpack_int4(pack_int4(weights)), weights)
    np.testing.assert_array_equal(pack_int4(np.array([[1, 2]])), [[0x21]])


@pytest.mark.parametrize("name", [n for n, s in GEMM_SCHEDULES.items() if s.block_k])
@pytest.mark.parametrize("size", [17, 64, 129, 250])
def test_b65_schedules_agree_on_packed_numbers(executor, size, name):
    a, b, packed_a, packed_b = packed_pair(size, size, size, ("i4", "u4"), seed=7)
    schedule = asdict(GEMM_SCHEDULES[name].for_bits(4))
    c = run_packed(executor, packed_a, packed_b, size, ("i4", "u4"), schedule=schedule)
    np.testing.assert_array_equal(c, a @ b.T)


@pytest.mark.parametrize("split_k", [2, 5])
def test_integers_over_split_k(executor, split_k):
    schedule = asdict(replace(GEMM_SCHEDULES["32x32"].for_bits(8), split_k=split_k))
    a, b = bytes_of((20, 300), "i8", 8), bytes_of((36, 300), "i8", 9)
    c = run_fused(executor, a, b, transpose_b=True, schedule=schedule)
    np.testing.assert_array_equal(c, integer_matmul(a, b.T))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "int4", "int16"])
def test_other_dtypes_raise_by_name(dtype):
    x = np.zeros((16, 16)).astype(getattr(ml_dtypes, dtype, None) or dtype)
    name = {"int16": "i16"}.get(dtype, dtype)
    with pytest.raises(DtypeError, match=f"operand 'a' has dtype {name}"):
        lowered(x, x)


@pytest.mark.parametrize("options, error", [
    ({"packed": "i4"}, OptionError),
    ({"packed": "i2", "transpose_b": True}, OptionError),
    ({"alpha": 2.0}, OptionError),
    ({"out_dtype": "i64"}, DtypeError),
])  # fmt: skip
def test_what_is_not_built_raises_by_name(executor, options, error):
    x = np.zeros((16, 16), np.uint8)
    with pytest.raises(error, match="matmul"):
        run_fused(executor, x, x, **options)


@pytest.mark.parametrize("inner_size", [29, 30, 33])
def test_inner_size_must_fill_the_bytes(executor, inner_size):
    x = np.zeros((16, 16), np.uint8)
    with pytest.raises(ShapeError, match=f"inner_size = {inner_size}"):
        run_fused(executor, x, x, packed="i4", transpose_b=True, inner_size=inner_size)


# Per matrix instruction of one K slice: as f16 is held to, so are the narrower numbers.
@pytest.mark.parametrize("dtype, transposes", [
    ("i8", (False, True)), ("i8", (False, False)), ("i8", (True, True)), ("i4", (False, True)),
], ids=str)  # fmt: skip
def test_the_main_loop_leaves_the_issue_slots_to_the_matrix_core(dtype, transposes):
    schedule = GEMM_SCHEDULES["128x128"].for_bits({"i8": 8, "i4": 4}[dtype])
    classes = []
    for slices in (4, 6):
        k = slices * schedule.block_k // (2 if dtype == "i4" else 1)
        shapes = [(schedule.tile_m, k), (k, schedule.tile_n)]
        kind = np.uint8 if dtype == "i4" else np.int8
        a, b = (np.zeros(s[::-1] if t else s, kind) for s, t in zip(shapes, transposes))
        options = dict(zip(("transpose_a", "transpose_b"), transposes))
        packed = dtype if dtype == "i4" else None
        run_fused("emulator", a, b, packed=packed, schedule=asdict(schedule), **options)
        (report,) = tessera.runtime.last_launch().reports
        classes.append(report.by_class)
        assert report.scratch_bytes == 0
    fewer, more = classes
    matrix = more["wmma"] - fewer["wmma"]
    is_contiguous = transposes == (False, True)
    assert (more["valu"] - fewer["valu"]) / matrix <= (1.5 if is_contiguous else 2.2)
    assert (more["lds"] - fewer["lds"]) / matrix <= (1.25 if is_contiguous else 1.75)


@pytest.mark.parametrize("seed", range(6))
def test_any_schedule_gives_the_same_sums(executor, seed):
    """What a search may try: right, whatever the sizes, or refused when it is compiled."""
    random = np.random.default_rng(seed)
    m, n, k = (int(size) for size in random.integers(1, 160, 3))
    schedule = {name: int(random.integers(1, 4)) for name in ("mt", "nt", "waves_m", "waves_n")}
    schedule |= {
        "block_k": int(random.choice([16, 32, 48, 64])), "group_m": int(random.integers(0, 3)),
        "split_k": int(random.integers(1, 4)),
    }  # fmt: skip
    a, b = bytes_of((m, k), "i8", seed), bytes_of((k, n), "u8", seed + 1)
    layout = LAYOUTS[seed % 4]
    c = run_fused(
        executor, stored(a, layout[0]), stored(b, layout[1]), schedule=schedule,
        transpose_a=layout[0], transpose_b=layout[1],
    )  # fmt: skip
    np.testing.assert_array_equal(c, integer_matmul(a, b))
