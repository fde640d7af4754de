"""Guarded buffers: poison around the tensor, and writes outside it noticed."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

from tessera import testing

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8, np.int32]


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_kept_and_the_surroundings_are_poison(dtype):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    buffer = testing.guarded(values, capacity=(4, 8), offset=1)
    np.testing.assert_array_equal(buffer.array.astype(float), values.astype(float))
    assert buffer.array.strides == (8 * np.dtype(dtype).itemsize, np.dtype(dtype).itemsize)
    around = np.lib.stride_tricks.as_strided(buffer.array, (4, 8), buffer.array.strides)
    outside = np.ones((4, 8), bool)
    outside[:2, :3] = False
    if np.dtype(dtype).kind == "i":
        assert set(around[outside].view(np.uint8).tolist()) == {0x5A}
    else:
        assert np.isnan(around[outside].astype(float)).all()
    buffer.check()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [0, 1, 8])
def test_offset_sets_the_alignment(dtype, offset):
    buffer = testing.guarded_empty((3, 16), dtype, offset=offset)
    assert buffer.array.ctypes.data % 256 == offset * np.dtype(dtype).itemsize


def test_an_output_that_is_not_written_stays_poison():
    array = testing.guarded_empty((2, 5), np.float16).array
    assert np.isnan(array).all()
    assert testing.guarded_empty((2,), np.int32).array.tolist() == [0x5A5A5A5A] * 2


@pytest.mark.parametrize("where", [-1, 3, 5 * 4])
def test_a_write_outside_is_named_by_its_distance(where):
    buffer = testing.guarded(np.zeros((5, 3), np.float16), capacity=(5, 4))
    memory = (ctypes.c_uint16 * 1).from_address(buffer.array.ctypes.data + 2 * where)
    memory[0] = 0
    with pytest.raises(AssertionError, match=rf"o: 1 elements .* at element {where} from"):
        buffer.check("o")


def test_empty_tensors_have_guards_too():
    for shape in [(0,), (0, 16), (3, 0)]:
        buffer = testing.guarded_empty(shape, np.float16)
        assert buffer.array.shape == shape
        buffer.check()


def test_capacity_must_hold_the_shape():
    with pytest.raises(ValueError, match=r"capacity \(2, 2\) does not hold shape \(2, 3\)"):
        testing.guarded_empty((2, 3), np.float16, capacity=(2, 2))
