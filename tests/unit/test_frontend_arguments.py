"""Arguments of a call: dtype names, alignment classes, keys, and what is a tensor or an option."""

import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tessera.contracts import TensorSpec
from tessera.frontend.arguments import (
    Call,
    alignment_of_argument,
    argument_key,
    dtype_name,
    is_tensor,
    spec_of_argument,
)


def aligned(shape, dtype: Any = np.float16, offset=0):
    """An array whose first element stands `offset` elements behind a multiple of 64 bytes."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape)) + offset
    raw = np.zeros(count * dtype.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    flat = raw[start : start + count * dtype.itemsize].view(dtype)
    return flat[offset:].reshape(shape)


@pytest.mark.parametrize(
    "dtype, name",
    [
        (np.float16, "f16"),
        (np.dtype("float16"), "f16"),
        (ml_dtypes.bfloat16, "bf16"),
        (np.dtype(ml_dtypes.bfloat16), "bf16"),
        (np.float32, "f32"),
        ("f16", "f16"),
        ("bfloat16", "bf16"),
        (np.float64, "f64"),
        (np.int8, "i8"),
        (np.uint8, "u8"),
        (np.complex64, "complex64"),
        (ml_dtypes.float8_e4m3fn, "float8_e4m3fn"),
    ],
)
def test_dtype_names(dtype, name):
    assert dtype_name(dtype) == name


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(4, 24, dtype=torch.bfloat16)
    assert is_tensor(tensor)
    assert spec_of_argument(tensor) == TensorSpec((4, 24), "bf16")
    assert dtype_name(torch.float16) == "f16"
    assert dtype_name(torch.float64) == "f64"
    assert alignment_of_argument(tensor) == 16
    assert alignment_of_argument(tensor[:, 1:]) == 2
    assert alignment_of_argument(tensor[:, :20]) == 16
    assert alignment_of_argument(torch.zeros(4, 25, dtype=torch.float16)) == 2
    assert argument_key(tensor) == argument_key(torch.ones(4, 24, dtype=torch.bfloat16))
    assert argument_key(tensor) != argument_key(tensor.half())


@pytest.mark.parametrize(
    "array, alignment",
    [
        (aligned((4, 8)), 16),
        (aligned((4, 8), offset=8), 16),
        (aligned((4, 8), offset=1), 2),
        (aligned((4, 7)), 2),
        (aligned((4, 8))[:, :5], 16),
        (aligned((8, 4))[::2], 16),
        (aligned((1, 7)), 16),
        (aligned((7,)), 16),
        (aligned((2, 3, 8)).transpose(1, 0, 2), 16),
        (aligned((2, 3, 4)).transpose(1, 0, 2), 2),
        (aligned((4, 4), np.float32), 16),
        (aligned((4, 5), np.float32), 4),
        (aligned((0, 7)), 16),
        (TensorSpec((4, 8), "f16"), 2),
        (TensorSpec((4, 8), "f32"), 4),
    ],
)
def test_alignment_of_rows(array, alignment):
    assert alignment_of_argument(array) == alignment


def test_keys_tell_apart_what_needs_another_specialization():
    base = aligned((4, 8))
    same = aligned((4, 8))
    others = [
        aligned((8, 4)),
        aligned((4, 8), ml_dtypes.bfloat16),
        aligned((4, 8), np.float32),
        aligned((4, 8), offset=1),
        aligned((4, 8, 1)),
    ]
    assert argument_key(base) == argument_key(same)
    assert len({argument_key(one) for one in [base, *others]}) == 1 + len(others)


def test_keys_of_options_tell_types_apart():
    values = [1, 1.0, True, "1", None, (1,), (1.0,), (True,), ((1,),)]
    assert len({argument_key(value) for value in values}) == len(values)
    assert argument_key({"a": 1}) != argument_key({"a": True})


def call_of(function, *args, **kwargs):
    return Call(inspect.signature(function).bind(*args, **kwargs))


def test_tensors_are_found_in_order_and_replaced():
    def function(x, sizes, *rest, flag=True, **more):
        return x, sizes, rest, flag, more

    x, y, z, w = (aligned((n + 1,)) for n in range(4))
    call = call_of(function, x, (y, 3), z, 4, flag=False, extra=w)
    assert [(name, id(value)) for name, value in call.tensors] == [
        ("x", id(x)), ("sizes_0", id(y)), ("rest_0", id(z)), ("more_extra", id(w)),
    ]  # fmt: skip
    result = call.run(function, ["X", "Y", "Z", "W"])
    assert result == ("X", ("Y", 3), ("Z", 4), False, {"extra": "W"})


def test_a_call_by_keyword_has_the_key_of_a_call_by_position():
    def function(a, b, option=1):
        return a, b, option

    a, b = aligned((2,)), aligned((3,))
    assert call_of(function, a, b, 2).key == call_of(function, b=b, a=a, option=2).key
    assert call_of(function, a, b, 2).key != call_of(function, a, b, 3).key
    assert call_of(function, a, b, 2).key != call_of(function, b, a, 2).key
