"""WMMA instructions against float64 and integer products of matrices packed as the guide says."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.assembler import isa, v
from emulator_witness.harness import EXEC, LANES, SCALARS, Case, run_batch
from emulator_witness.matrix_cases import pack_accumulator, pack_operand, unpack_accumulator

OPERATIONS = isa.VOP3POp
FLOATS = {
    "V_WMMA_F32_16X16X16_F16": (np.float16, np.float32),
    "V_WMMA_F32_16X16X16_BF16": (ml_dtypes.bfloat16, np.float32),
    "V_WMMA_F16_16X16X16_F16": (np.float16, np.float16),
    "V_WMMA_BF16_16X16X16_BF16": (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
}
ROUNDOFF = {np.float32: 2.0**-24, np.float16: 2.0**-11, ml_dtypes.bfloat16: 2.0**-8}
TINY = {np.float32: 2.0**-126, np.float16: 2.0**-24, ml_dtypes.bfloat16: 2.0**-126}
K = 16


def bits_of(matrix, dtype):
    matrix = matrix.astype(dtype)
    return matrix.view(np.uint32 if matrix.dtype.itemsize == 4 else np.uint16).astype(np.uint32)


def values_of(bits, dtype):
    if np.dtype(dtype).itemsize == 4:
        return bits.astype(np.uint32).view(dtype).astype(np.float64)
    return (bits & 0xFFFF).astype(np.uint16).view(dtype).astype(np.float64)


def case_of(name, a, b, c, old=None, execute=0xFFFFFFFF, c_operand=None, **modifiers):
    """A in v0-v7, B in v8-v15, C in v16-v23, D in v24-v31; fewer registers for 8 and 4 bits."""
    vectors = np.zeros((1, LANES, 32), np.uint32)
    vectors[0, :, : a.shape[1]] = a
    vectors[0, :, 8 : 8 + b.shape[1]] = b
    vectors[0, :, 16:24] = c
    vectors[0, :, 24:32] = 0xDEADBEEF if old is None else old
    scalars = np.zeros((1, SCALARS), np.uint32)
    scalars[0, EXEC] = execute
    count = a.shape[1]
    instruction = isa.VOP3P(
        OPERATIONS[name],
        vdst=v[24:31],
        src0=v[0 : count - 1],
        src1=v[8 : 8 + count - 1],
        src2=v[16:23] if c_operand is None else c_operand,
        **modifiers,
    )
    return Case(name, [instruction], vectors, scalars)


def result_of(outcome):
    return unpack_accumulator(outcome.vectors[0, :, 24:32])


def float_operands(name, seed, scale=1.0) -> Any:
    """Rounded A, B, C with their registers; columns of B become rows for packing."""
    operand, result = FLOATS[name]
    rng = np.random.default_rng(seed)
    a, b, c = (
        (rng.standard_normal((16, 16)) * scale).astype(t) for t in (operand, operand, result)
    )
    registers = (
        pack_operand(bits_of(a, operand), 16),
        pack_operand(bits_of(b.T, operand), 16),
        pack_accumulator(bits_of(c, result)),
    )
    return [x.astype(np.float64) for x in (a, b, c)], registers


def assert_close(got, matrices, dtype):
    """K products and the accumulator in float32 in any order, then one rounding of the result."""
    a, b, c = matrices
    exact = a @ b + c
    accumulated = 2.0 * (K + 1) * 2.0**-24 * (np.abs(a) @ np.abs(b) + np.abs(c))
    bound = accumulated + ROUNDOFF[dtype] * (np.abs(exact) + accumulated) + TINY[dtype]
    error = np.abs(got - exact)
    assert np.isfinite(got).all()
    assert (error <= bound).all(), f"off by {error.max():.3g}, bound {bound.min():.3g}"


@pytest.mark.parametrize("name", FLOATS)
def test_random_matrices(name):
    """Half of the lanes may be off: the matrix core does not look at EXEC."""
    _, dtype = FLOATS[name]
    operands = [float_operands(name, seed) for seed in range(4)]
    cases = [case_of(name, *r, execute=m) for (_, r), m in zip(operands, (-1 & 2**32 - 1, 0, 5, 9))]
    for (matrices, _), outcome in zip(operands, run_batch(cases, registers=32)):
        assert_close(values_of(result_of(outcome), dtype), matrices, dtype)


@pytest.mark.parametrize("name", FLOATS)
def test_layout_is_exact_on_one_hot_matrices(name):
    """One product per element: an exact answer that any wrong lane map would change."""
    operand, result = FLOATS[name]
    zeros = pack_accumulator(np.zeros((16, 16), np.uint32))
    cases, expected = [], []
    for k in (0, 3, 7, 8, 15):
        a, b = np.zeros((16, 16)), np.zeros((16, 16))
        a[:, k] = np.arange(16) + 1
        b[k, :] = 2.0 ** -(np.arange(16) % 5)
        expected.append(np.outer(a[:, k], b[k, :]))
        packed: Any = [pack_operand(bits_of(x, operand), 16) for x in (a, b.T)]
        cases.append(case_of(name, packed[0], packed[1], zeros))
    for exact, outcome in zip(expected, run_batch(cases, registers=32)):
        assert np.array_equal(values_of(result_of(outcome), result), exact)


@pytest.mark.parametrize("name", FLOATS)
def test_neg_and_abs(name):
    """NEG flips the even k, NEG_HI the odd k of A and B; on C they mean negate and absolute."""
    _, dtype = FLOATS[name]
    matrices, registers = float_operands(name, 11)
    cases, choices = [], [(1, 0), (0, 1), (2, 0), (3, 3), (4, 0), (0, 4), (4, 4), (7, 5)]
    for neg, neg_hi in choices:
        cases.append(case_of(name, *registers, neg=neg, neg_hi=neg_hi))
    for (neg, neg_hi), outcome in zip(choices, run_batch(cases, registers=32)):
        a, b, c = (x.copy() for x in matrices)
        for index, matrix in ((0, a.T), (1, b)):
            matrix[0::2] *= -1.0 if neg >> index & 1 else 1.0
            matrix[1::2] *= -1.0 if neg_hi >> index & 1 else 1.0
        c = np.abs(c) if neg_hi & 4 else c
        c = -c if neg & 4 else c
        assert_close(values_of(result_of(outcome), dtype), (a, b, c), dtype)


@pytest.mark.parametrize("name", ["V_WMMA_F16_16X16X16_F16", "V_WMMA_BF16_16X16X16_BF16"])
@pytest.mark.parametrize("high", [False, True])
def test_sixteen_bit_results_keep_the_other_half(name, high):
    """OPSEL[2] chooses the half of C and of D; what D held in the other half stays."""
    _, dtype = FLOATS[name]
    matrices, (a, b, c) = float_operands(name, 12)
    c = c << np.uint32(16) if high else c
    opsel = 4 if high else 0
    (outcome,) = run_batch([case_of(name, a, b, c, opsel=opsel)], registers=32)
    bits = result_of(outcome)
    result, kept = (bits >> 16, bits & 0xFFFF) if high else (bits & 0xFFFF, bits >> 16)
    assert (kept == (0xBEEF if high else 0xDEAD)).all()
    assert_close(values_of(result, dtype), matrices, dtype)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("constant", [0, 1.0, -2.0])
def test_inline_constant_accumulator(name, constant):
    _, dtype = FLOATS[name]
    (a, b, _), registers = float_operands(name, 13)
    (outcome,) = run_batch([case_of(name, *registers, c_operand=constant)], registers=32)
    c = np.full((16, 16), float(constant))
    assert_close(values_of(result_of(outcome), dtype), (a, b, c), dtype)


@pytest.mark.parametrize("name", FLOATS)
def test_infinities_and_nans_stay_in_their_row_and_column(name):
    operand, result = FLOATS[name]
    (a, b, c), _ = float_operands(name, 14)
    a[3, 5], b[7, 9] = np.inf, np.nan
    packed: Any = [pack_operand(bits_of(x, operand), 16) for x in (a, b.T)]
    case = case_of(name, packed[0], packed[1], pack_accumulator(bits_of(c, result)))
    (outcome,) = run_batch([case], registers=32)
    got = values_of(result_of(outcome), result)
    assert np.isnan(got[:, 9]).all()
    others = [column for column in range(16) if column != 9]
    assert np.array_equal(got[3, others], np.sign(b[5, others]) * np.inf)
    rows = [row for row in range(16) if row != 3]
    assert np.isfinite(got[np.ix_(rows, others)]).all()


def integer_operands(seed, bits):
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, 1 << bits, (2, 16, 16)).astype(np.uint32)
    c = rng.integers(-(2**31), 2**31, (16, 16)).astype(np.int64)
    return patterns[0], patterns[1], c


def signed(patterns, bits):
    values = patterns.astype(np.int64)
    return values - ((values >> (bits - 1)) << bits)


@pytest.mark.parametrize("name, bits", [("IU8", 8), ("IU4", 4)])
@pytest.mark.parametrize("neg", [0, 1, 2, 3])
def test_integers_are_exact(name, bits, neg):
    """NEG says which operand is signed; the accumulator wraps around."""
    cases, expected = [], []
    for seed in range(3):
        a, b, c = integer_operands(seed, bits)
        left = signed(a, bits) if neg & 1 else a.astype(np.int64)
        right = signed(b, bits) if neg & 2 else b.astype(np.int64)
        expected.append((left @ right + c) % 2**32)
        packed = pack_operand(a, bits), pack_operand(b.T, bits), pack_accumulator(c)
        cases.append(case_of(f"V_WMMA_I32_16X16X16_{name}", *packed, neg=neg, execute=3))
    for exact, outcome in zip(expected, run_batch(cases, registers=32)):
        assert np.array_equal(result_of(outcome).astype(np.int64), exact)


@pytest.mark.parametrize("name, bits", [("IU8", 8), ("IU4", 4)])
def test_clamp_saturates_the_signed_sum(name, bits):
    a = np.full((16, 16), (1 << (bits - 1)) - 1, np.uint32)
    c = np.full((16, 16), 2**31 - 5, np.int64)
    packed = pack_operand(a, bits), pack_operand(a, bits), pack_accumulator(c)
    case = case_of(f"V_WMMA_I32_16X16X16_{name}", *packed, neg=3, clmp=1)
    (outcome,) = run_batch([case], registers=32)
    assert (result_of(outcome) == 2**31 - 1).all()
