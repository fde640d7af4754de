"""Contracts against NumPy: dimensions, dtypes, broadcast and reshaped strides, and refusals."""

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.contracts import (
    CONTRACTS,
    ELEMENTWISE_FUNCTIONS,
    TensorSpec,
    bind,
    broadcast_shapes,
    broadcast_strides,
    reshape_strides,
)
from tessera.errors import DtypeError, OptionError, ShapeError


def f16(*shape):
    return TensorSpec(shape, "f16")


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_matmul_binds_sizes_under_transposes(transpose_a, transpose_b):
    a, b = (3, 5), (5, 7)
    operands = [f16(*a[:: -1 if transpose_a else 1]), f16(*b[:: -1 if transpose_b else 1])]
    options = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    binding = bind("matmul", operands, options)
    assert binding.symbols == {"m": 3, "k": 5, "n": 7}
    assert binding.results == {"c": TensorSpec((3, 7), "f32")}


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_matmul_result_dtype(dtype):
    binding = bind("matmul", [f16(3, 5), f16(5, 7)], {"out_dtype": dtype})
    assert binding.results["c"].dtype == dtype


def test_unknown_sizes_bind_to_what_the_other_operand_says():
    binding = bind("matmul", [f16(None, None), f16(5, None)])
    assert binding.symbols == {"m": None, "k": 5, "n": None}
    assert binding.results["c"].shape == (None, None)


@pytest.mark.parametrize(
    "shapes, empty",
    [(((0, 4), (4, 5)), True), (((3, 4), (4, 0)), True), (((3, 0), (0, 5)), False)],
)
def test_a_matmul_without_result_elements_is_empty(shapes, empty):
    assert bind("matmul", [f16(*shape) for shape in shapes]).empty is empty


def test_attention_with_grouped_heads_and_other_value_size():
    binding = bind("flash_attn", [f16(2, 8, 10, 64), f16(2, 2, 12, 64), f16(2, 2, 12, 32)])
    assert binding.results == {
        "o": TensorSpec((2, 8, 10, 32), "f16"),
        "lse": TensorSpec((2, 8, 10), "f32"),
    }
    assert binding.symbols["heads_k"] == 2


@pytest.mark.parametrize("heads, heads_k", [(3, 2), (33, 2), (4, 0)])
def test_heads_that_do_not_divide(heads, heads_k):
    operands = [f16(1, heads, 4, 16), f16(1, heads_k, 4, 16), f16(1, heads_k, 4, 16)]
    with pytest.raises(ShapeError, match=f"heads = {heads} .* heads_k = {heads_k}"):
        bind("flash_attn", operands)


def test_no_heads_at_all_is_empty():
    operands = [f16(1, 0, 4, 16), f16(1, 0, 4, 16), f16(1, 0, 4, 16)]
    assert bind("flash_attn", operands).empty


@pytest.mark.parametrize("size", [0, 257])
@pytest.mark.parametrize("symbol", ["head_dim", "head_dim_v"])
def test_head_sizes_beyond_the_limit(symbol, size):
    sizes = {"head_dim": 64, "head_dim_v": 64, symbol: size}
    shape = (1, 1, 4)
    operands = [
        f16(*shape, sizes["head_dim"]),
        f16(*shape, sizes["head_dim"]),
        f16(*shape, sizes["head_dim_v"]),
    ]
    with pytest.raises(ShapeError, match=f"{symbol} = {size} .* 1 to 256"):
        bind("flash_attn", operands)


REFUSALS = {
    "rank": (ShapeError, "matmul", [f16(3), f16(3, 4)], "'a' must have rank 2 .* rank 1"),
    "count": (ShapeError, "matmul", [f16(3, 4)], r"takes 2 operands \(a, b\), got 1"),
    "size": (ShapeError, "matmul", [f16(3, 4), f16(5, 6)], "'b'.*'k' .* = 5, expected 4.*'a'"),
    "dtype": (
        DtypeError, "matmul", [TensorSpec((3, 4), "f64"), f16(4, 5)], "'a' .* f64; .*f16, bf16",
    ),
    "two dtypes": (
        DtypeError, "matmul", [f16(3, 4), TensorSpec((4, 5), "bf16")], "share one dtype",
    ),
    "operation": (OptionError, "conv", [], "unknown operation 'conv'.*matmul"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_name_operation_operand_and_sizes(case):
    error, op, operands, message = REFUSALS[case]
    with pytest.raises(error, match=message):
        bind(op, operands)


def test_unknown_result_dtype_lists_the_known():
    with pytest.raises(DtypeError, match="out_dtype = 'i8' .* f16, bf16, f32"):
        bind("matmul", [f16(3, 4), f16(4, 5)], {"out_dtype": "i8"})


@pytest.mark.parametrize("function, count", ELEMENTWISE_FUNCTIONS.items())
def test_elementwise_takes_its_number_of_operands(function, count):
    operands = [f16(3, 4)] * count
    assert bind("elementwise", operands, {"function": function}).results["out"] == f16(3, 4)
    with pytest.raises(ShapeError, match=f"{function}: number of operands must be {count}"):
        bind("elementwise", [*operands, f16(3, 4)], {"function": function})
    options = {"function": function, "scalar": 2.0}
    if count == 2:
        assert bind("elementwise", [f16(3, 4)], options).results["out"] == f16(3, 4)
    else:
        with pytest.raises(OptionError, match=f"{function}: .* no scalar"):
            bind("elementwise", operands, options)


def test_elementwise_symbols_are_the_broadcast_sizes():
    binding = bind("elementwise", [f16(3, 1), f16(4)], {"function": "mul"})
    assert binding.symbols == {"size0": 1, "size1": 1, "size2": 3, "size3": 4}


@pytest.mark.parametrize(
    "operands, options, error, message",
    [
        ([f16(1, 1, 1, 1, 2)], {"function": "relu"}, ShapeError, "x0 has rank 5.*ranks 0 to 4"),
        ([TensorSpec((2,), "i8")], {"function": "relu"}, DtypeError, "x0 has dtype i8"),
        ([f16(2), TensorSpec((2,), "f32")], {"function": "add"}, DtypeError, "one dtype"),
        ([f16(2)], {"function": "cast", "out_dtype": "f8"}, DtypeError, "out_dtype = 'f8'"),
        ([f16(2)], {"function": "tan"}, OptionError, "unknown function 'tan'.*relu"),
    ],
)
def test_elementwise_refusals(operands, options, error, message):
    with pytest.raises(error, match=message):
        bind("elementwise", operands, options)


shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@given(shapes, shapes)
def test_broadcast_agrees_with_numpy(left, right):
    try:
        expected = np.broadcast_shapes(left, right)
    except ValueError:
        with pytest.raises(ShapeError, match="does not broadcast"):
            broadcast_shapes("add", [f16(*left), f16(*right)])
    else:
        assert broadcast_shapes("add", [f16(*left), f16(*right)]) == expected


@given(shapes, shapes, st.data())
def test_broadcast_with_unknown_sizes_is_never_more_certain(left, right, data):
    """Hiding sizes leaves the result as it is, or unknown; 1 beside unknown stays open."""
    try:
        expected = np.broadcast_shapes(left, right)
    except ValueError:
        return
    hidden = [
        f16(*(None if data.draw(st.booleans()) else size for size in shape))
        for shape in (left, right)
    ]
    found = broadcast_shapes("add", hidden)
    assert len(found) == len(expected)
    for one, size in zip(found, expected, strict=True):
        assert one in (None, size)


@given(shapes, st.data())
def test_broadcast_strides_agree_with_numpy(shape, data):
    wanted = tuple(
        data.draw(st.integers(1, 4)) if size == 1 else size
        for size in (1,) * (4 - len(shape)) + shape
    )
    array = np.zeros(shape, np.int8)
    found = broadcast_strides(shape, array.strides, wanted)
    view = np.broadcast_to(array, wanted)
    for size, stride, expected in zip(wanted, found, view.strides, strict=True):
        assert size <= 1 or stride == expected


@st.composite
def strided_arrays(draw):
    """A view of an array with permuted, sliced and single axes."""
    shape = draw(st.lists(st.integers(1, 4), max_size=4))
    array = np.arange(prod(shape)).reshape(shape)
    array = array.transpose(draw(st.permutations(range(len(shape)))))
    steps = tuple(slice(None, None, draw(st.integers(1, 2))) for _ in array.shape)
    return array[steps]


@settings(max_examples=400)
@given(strided_arrays(), st.data())
def test_reshape_strides_show_the_same_elements_or_none(array, data):
    rest, sizes = array.size, []
    while rest > 1:
        divisor = data.draw(st.sampled_from([d for d in range(2, rest + 1) if rest % d == 0]))
        sizes.append(divisor)
        rest //= divisor
    for _ in range(data.draw(st.integers(0, 2))):
        sizes.insert(data.draw(st.integers(0, len(sizes))), 1)
    strides = reshape_strides(array.shape, array.strides, sizes)
    if strides is None:
        with pytest.raises(ValueError):
            np.reshape(array, sizes, copy=False)
        return
    view = np.lib.stride_tricks.as_strided(array, sizes, strides)
    np.testing.assert_array_equal(view, array.reshape(sizes))


def test_reshape_strides_of_nothing_and_of_one_element():
    assert reshape_strides((0, 4), (4, 1), (2, 0)) == (0, 0)
    assert len(reshape_strides((), (), (1, 1)) or ()) == 2


def test_every_contract_names_only_its_own_dimensions():
    for contract in CONTRACTS.values():
        dims = {dim for operand in contract.operands for dim in operand.dims}
        names = {operand.name for operand in contract.operands}
        assert {dim for result in contract.results for dim in result.dims} <= dims
        assert {symbol for symbol, _, _ in contract.limits} <= dims
        assert {symbol for pair in contract.multiples for symbol in pair} <= dims
        assert set(contract.same_dtype) <= names
