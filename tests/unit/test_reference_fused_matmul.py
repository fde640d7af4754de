"""The oracle of matmul with integers, packed numbers, batches and epilogues, by other means."""

import ml_dtypes
import numpy as np
import pytest

from tessera.errors import DtypeError, ShapeError
from tessera.reference.fused_matmul import fused_matmul, integer_matmul
from tessera.reference.packed import pack_int4, unpack_int4


def test_the_first_number_lies_in_the_low_half():
    assert pack_int4([1, 2, -1]).tolist() == [0x21, 0x0F]
    assert pack_int4([1, 2, 15], "u4").tolist() == [0x21, 0x0F]
    assert unpack_int4(np.array([0x21, 0x0F], np.uint8), "i4", 3).tolist() == [1, 2, -1]
    assert unpack_int4(np.array([0x21, 0x0F], np.uint8), "u4", 3).tolist() == [1, 2, 15]


@pytest.mark.parametrize("dtype, low, high", [("i4", -8, 7), ("u4", 0, 15)])
@pytest.mark.parametrize("count", [0, 1, 2, 17])
def test_unpacking_is_the_inverse_of_packing(dtype, low, high, count):
    values = np.random.default_rng(count).integers(low, high + 1, (3, count))
    packed = pack_int4(values, dtype)
    assert packed.shape == (3, (count + 1) // 2)
    np.testing.assert_array_equal(unpack_int4(packed, dtype, count), values)


def test_four_bit_arrays_are_taken():
    values = np.array([-8, 7, -1], ml_dtypes.int4)
    np.testing.assert_array_equal(unpack_int4(pack_int4(values), "i4", 3), [-8, 7, -1])


def test_values_out_of_range_are_refused():
    with pytest.raises(ShapeError, match="-8 to 7"):
        pack_int4([8])
    with pytest.raises(DtypeError, match="i2.*supported: i4, u4"):
        pack_int4([1], "i2")


def test_integers_are_exact_and_wrap_around():
    a = np.array([[-128, 127, 5]], np.int8)
    b = np.array([[-128], [127], [255]], np.int16).astype(np.uint8)
    assert integer_matmul(a, b).tolist() == [[-128 * 128 + 127 * 127 + 5 * 255]]
    assert integer_matmul(np.full((1, 2), 2**15), np.full((2, 1), 2**15)).tolist() == [[-(2**31)]]


def test_packed_operands_are_those_unpacked():
    random = np.random.default_rng(0)
    a, b = random.integers(-8, 8, (5, 7)), random.integers(-8, 8, (3, 7))
    result = fused_matmul(
        pack_int4(a), pack_int4(b), packed_a="i4", packed_b="i4", transpose_b=True, inner_size=7
    )
    np.testing.assert_array_equal(result, a @ b.T)


def test_order_of_the_epilogue():
    a, b = np.ones((1, 2)), np.array([[1.0], [-4.0]])
    result = fused_matmul(
        a, b, alpha=2.0, addend=np.full((1, 1), 10.0), beta=0.5, bias=np.array([2.0]),
        activation="relu", gate=np.full((1, 1), 3.0), residual=np.full((1, 1), -1.0),
    )  # fmt: skip
    # relu(2 * (1 - 4) + 0.5 * 10 + 2) * 3 - 1
    assert result.tolist() == [[2.0]]
    assert fused_matmul(a, b, bias=np.array([2.0]), activation="relu").tolist() == [[0.0]]


def test_bias_runs_along_rows_or_columns():
    a, b = np.zeros((2, 1)), np.zeros((1, 3))
    per_column = fused_matmul(a, b, bias=np.array([1, 2, 3]))
    assert per_column.tolist() == [[1, 2, 3], [1, 2, 3]]
    assert fused_matmul(a, b, bias=np.array([1, 2]), bias_axis="row").tolist() == [[1] * 3, [2] * 3]


def test_batches_broadcast():
    random = np.random.default_rng(1)
    a, b = random.standard_normal((3, 4, 5)), random.standard_normal((1, 5, 2))
    np.testing.assert_allclose(fused_matmul(a, b), a @ b)
    np.testing.assert_allclose(
        fused_matmul(a.swapaxes(1, 2), b.swapaxes(1, 2), transpose_a=True, transpose_b=True), a @ b
    )
