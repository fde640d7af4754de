"""What the semantic functions do beyond the pseudo-code: notes of the guide, CLAMP, lanes."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.function_cases import as_array, bits_of

from tessera.emulator.semantics import VECTOR_OPS

COUNT = 256


def run(name, *operands):
    with np.errstate(all="ignore"):
        return VECTOR_OPS[name].function(*operands)


def f32(*values):
    return np.array([values], np.float32)


def bits(array):
    return np.ascontiguousarray(array).view(f"uint{array.dtype.itemsize * 8}").ravel().tolist()


DENORMAL = np.array([[0x00000001, 0x807FFFFF]], np.uint32).view(np.float32)


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("V_RCP_F32", [0x7F800000, 0xFF800000]),
        ("V_RSQ_F32", [0x7F800000, 0xFF800000]),
        ("V_SQRT_F32", [0x00000000, 0x80000000]),
        ("V_LOG_F32", [0xFF800000, 0xFF800000]),
        ("V_EXP_F32", [0x3F800000, 0x3F800000]),
    ],
)
def test_denormal_operands_are_zeros(name, wanted):
    assert bits(run(name, DENORMAL)) == wanted


def test_denormal_results_are_zeros():
    assert bits(run("V_EXP_F32", f32(-127, -140, -126))) == [0, 0, 0x00800000]
    assert bits(run("V_RCP_F32", f32(2.0**127, -(2.0**127), 2.0**126))) == [
        0,
        0x80000000,
        0x00800000,
    ]


@pytest.mark.parametrize(
    "name, operand, wanted",
    [
        ("V_EXP_F32", 0xFF800000, 0x00000000),
        ("V_EXP_F32", 0x80000000, 0x3F800000),
        ("V_EXP_F32", 0x7F800000, 0x7F800000),
        ("V_LOG_F32", 0xFF800000, 0xFFC00000),
        ("V_LOG_F32", 0x80000000, 0xFF800000),
        ("V_LOG_F32", 0x3F800000, 0x00000000),
        ("V_RCP_F32", 0xFF800000, 0x80000000),
        ("V_RCP_F32", 0x80000000, 0xFF800000),
        ("V_RSQ_F32", 0x80000000, 0xFF800000),
        ("V_RSQ_F32", 0x40800000, 0x3F000000),
        ("V_SQRT_F32", 0x80000000, 0x80000000),
        ("V_SIN_F32", 0xFF800000, 0xFFC00000),
        ("V_SIN_F32", 0xFF7FFFFF, 0x00000000),
        ("V_SIN_F32", 0x80000000, 0x80000000),
        ("V_SIN_F32", 0x3E800000, 0x3F800000),
        ("V_COS_F32", 0xFF7FFFFF, 0x3F800000),
        ("V_COS_F32", 0x80000000, 0x3F800000),
        ("V_COS_F32", 0x3E800000, 0x00000000),
    ],
)
def test_functional_examples_of_the_guide(name, operand, wanted):
    result = run(name, np.array([[operand]], np.uint32).view(np.float32))
    if wanted & 0x7F800000 == 0x7F800000 and wanted & 0x7FFFFF:
        assert np.isnan(result).all()
    else:
        assert bits(result) == [wanted]


def test_sine_and_cosine_take_revolutions():
    rng = np.random.default_rng(0)
    for kind, suffix, unit in ((np.float32, "F32", 2.0**-24), (np.float16, "F16", 2.0**-11)):
        x = (rng.standard_normal((8, 32)) * 100).astype(kind)
        turn = np.fmod(x.astype(np.float64), 1.0) * 2 * math.pi
        for name, function in (("SIN", np.sin), ("COS", np.cos)):
            result = run(f"V_{name}_{suffix}", x).astype(np.float64)
            assert np.abs(result - function(turn)).max() <= unit


def bf16_value(word):
    return float(np.array([word << 16], np.uint32).view(np.float32)[0])


@pytest.mark.parametrize("name", ["V_DOT2_F32_BF16", "V_DOT2ACC_F32_BF16"])
def test_dot_product_of_bfloat16_pairs(name):
    rng = random.Random(5)
    a, b = ([rng.uniform(-4, 4) for _ in range(2)] for _ in range(2))
    left, right = (
        [int(np.array([x], np.float32).view(np.uint32)[0]) >> 16 for x in pair] for pair in (a, b)
    )
    words = [np.array([[pair[0] | pair[1] << 16]], np.uint32) for pair in (left, right)]
    exact = 0.5 + sum(bf16_value(x) * bf16_value(y) for x, y in zip(left, right))
    assert run(name, *words, f32(0.5)) == pytest.approx(exact, rel=2**-22)


def test_bfloat16_dot_product_rounds_and_flushes():
    one, tiny = 0x3F80, 0x0001
    pair = np.array([[one | tiny << 16]], np.uint32)
    c = np.array([[0x3B80]], np.uint16)  # 2 ** -8, half a unit of 1
    assert run("V_DOT2_BF16_BF16", pair, pair, c).tolist() == [[0x3F80]]
    only_tiny = np.array([[tiny]], np.uint32)
    assert run("V_DOT2_BF16_BF16", only_tiny, pair, c * 0).tolist() == [[0]]


def test_lane_counts():
    every = np.full((1, 1), 0xFFFFFFFF, np.uint32)
    five = np.full((1, 1), 5, np.uint32)
    low = run("V_MBCNT_LO_U32_B32", every, five)
    assert low.tolist() == [[5 + lane for lane in range(32)]]
    assert np.broadcast_to(run("V_MBCNT_HI_U32_B32", every, low), (1, 32)).tolist() == low.tolist()


def test_masked_sums_of_absolute_differences():
    wide = np.array([[0x0706050403020100]], np.uint64)
    reference = np.array([[0x00FF0001]], np.uint32)  # bytes 1, 0, 255, 0: zeros are left out
    addends = tuple(np.array([[k]], np.uint32) for k in range(4))
    sums = run("V_MQSAD_U32_U8", wide, reference, addends)
    wanted = [abs(k - 1) + abs(k + 2 - 255) + k for k in range(4)]
    assert [int(x[0, 0]) for x in sums] == wanted


def test_fraction_stays_below_one():
    assert bits(run("V_FRACT_F32", f32(-1e-10, 1.25, -1.25))) == [
        0x3F7FFFFF,
        0x3E800000,
        0x3F400000,
    ]
    assert bits(run("V_FRACT_F16", np.array([[-1e-7]], np.float16))) == [0x3BFF]


RESULT_RANGE = {"u": lambda width: (0, (1 << width) - 1),
                "i": lambda width: (-(1 << width - 1), (1 << width - 1) - 1)}  # fmt: skip


def number(value, kind):
    """The Python number of an operand's bits."""
    if kind in ("u24", "i24"):
        value &= 0xFFFFFF
        return value - (1 << 24) if kind == "i24" and value >> 23 else value
    width = int(kind[1:])
    return value - (1 << width) if kind[0] == "i" and value >> (width - 1) else value


def exact(name, x):
    if name.startswith("V_SUBREV"):
        return x[1] - x[0]
    if "_SUB_" in name:
        return x[0] - x[1]
    if "_ADD_" in name:
        return x[0] + x[1]
    if "_MUL_" in name:
        return x[0] * x[1]
    return x[0] * x[1] + x[2]


SATURATING = [name for name, operation in VECTOR_OPS.items() if operation.clamped is not None]


@pytest.mark.parametrize("name", [name for name in SATURATING if "DOT" not in name])
def test_clamp_saturates_integers(name):
    operation = VECTOR_OPS[name]
    rng = random.Random(name)
    kinds, result = list(operation.sources), operation.results[0]
    columns = [[bits_of(rng, kind) for _ in range(COUNT)] for kind in kinds]
    arrays = [as_array(c, k) for c, k in zip(columns, kinds)]
    assert operation.clamped is not None
    got = bits(operation.clamped(*arrays))
    packed = result.startswith("pk_")
    element = result[3:] if packed else result
    width = int(element[1:])
    low, high = RESULT_RANGE[element[0]](width)
    for index, row in enumerate(zip(*columns)):
        for shift in (0, 16) if packed else (0,):
            mask = (1 << width) - 1
            x = [number(b >> shift & mask if packed else b, element if packed else k)
                 for b, k in zip(row, kinds)]  # fmt: skip
            wanted = max(low, min(high, exact(name, x)))
            assert got[index] >> shift & mask == wanted & mask, [hex(b) for b in row]


@pytest.mark.parametrize("name", [name for name in SATURATING if "DOT" in name])
def test_clamp_saturates_dot_products(name):
    operation = VECTOR_OPS[name]
    ones = np.full((1, 1), 0x77777777, np.uint32)
    signed = operation.takes_neg
    assert operation.clamped is not None
    kind, largest = (np.int32, 0x7FFFFFFF) if signed else (np.uint32, 0xFFFFFFFF)
    top = np.array([[largest]], kind)
    keywords = {"neg": (True, True, False)} if signed else {}
    with np.errstate(all="ignore"):
        assert operation.clamped(ones, ones, top, **keywords).tolist() == top.tolist()
        zero = top * 0
        plain = operation.function(ones, ones, zero, **keywords)
        assert operation.clamped(ones, ones, zero, **keywords).tolist() == plain.tolist()
        assert plain.tolist() == [[8 * 49 if "8_" in name else 4 * 0x77 * 0x77]]
