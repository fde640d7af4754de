"""The float64 matrix product and elementwise oracles against hand-computed values."""

import math

import ml_dtypes
import numpy as np
import pytest

from tessera import reference
from tessera.errors import DtypeError, OptionError, ShapeError


def test_matmul_in_all_four_layouts():
    x = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float16)
    y = np.array([[1, 0, 0], [0, 1, 0]], dtype=np.float16)
    np.testing.assert_array_equal(reference.matmul(x, y, transpose_b=True), [[1, 2], [4, 5]])
    ones = np.ones((2, 2), dtype=np.float16)
    expected = [[5, 5], [7, 7], [9, 9]]
    np.testing.assert_array_equal(reference.matmul(x, ones, transpose_a=True), expected)
    both = reference.matmul(x, y, transpose_a=True, transpose_b=False)
    np.testing.assert_array_equal(both, x.T.astype(float) @ y.astype(float))
    np.testing.assert_array_equal(
        reference.matmul(x, x.T.copy().T, transpose_a=True, transpose_b=False), x.T @ x
    )


def test_b64_matmul_of_bfloat16_is_computed_in_float64():
    # 1 + 3 * 2**-8 needs ten bits: bf16 or a bf16-rounded sum would lose it.
    a = np.array([[1, 1]], dtype=ml_dtypes.bfloat16)
    b = np.array([[1], [3 * 2.0**-8]], dtype=ml_dtypes.bfloat16)
    assert reference.matmul(a, b)[0, 0] == 1.01171875


def test_matmul_over_no_terms_is_zero():
    a, b = np.zeros((3, 0), np.float16), np.zeros((0, 2), np.float16)
    np.testing.assert_array_equal(reference.matmul(a, b), np.zeros((3, 2)))


def test_matmul_names_the_operand_it_refuses():
    with pytest.raises(ShapeError, match="operand b has rank 1"):
        reference.matmul(np.ones((2, 2)), np.ones(2))
    with pytest.raises(ShapeError, match="k is 3 in a and 4 in b"):
        reference.matmul(np.ones((2, 3)), np.ones((4, 2)))
    with pytest.raises(DtypeError, match="a: element type complex128"):
        reference.matmul(np.ones((2, 2), complex), np.ones((2, 2)))


def test_gelu_forms_differ_where_they_should():
    assert reference.gelu(3.0) == pytest.approx(2.99595031, abs=5e-9)
    assert reference.gelu(3.0, "tanh") == pytest.approx(2.99636261, abs=5e-9)
    assert reference.gelu(1.0) == pytest.approx(0.84134475, abs=5e-9)
    assert reference.gelu(1.0, "tanh") == pytest.approx(0.84119199, abs=5e-9)
    with pytest.raises(OptionError, match="'erf' is unknown; supported: none, tanh"):
        reference.gelu(1.0, "erf")


def test_relu_silu_add_mul():
    np.testing.assert_array_equal(reference.relu([-1.0, 0.0, 3.0]), [0, 0, 3])
    assert np.isnan(reference.relu(np.nan))
    assert reference.silu(1.0) == pytest.approx(1 / (1 + math.exp(-1)), rel=1e-14)
    assert reference.silu(-1000.0) == 0.0
    np.testing.assert_array_equal(reference.add([[1], [2]], [10, 20]), [[11, 21], [12, 22]])
    np.testing.assert_array_equal(reference.mul([[1], [2]], [10, 20]), [[10, 20], [20, 40]])


def test_cast_rounds_to_nearest_even():
    values = [1.01171875, 1.00390625, 1e10]
    np.testing.assert_array_equal(
        reference.cast(values, ml_dtypes.bfloat16), [1.015625, 1.0, 9999220736.0]
    )
    assert np.isinf(reference.cast(1e10, np.float16))
