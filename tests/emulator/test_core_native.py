"""Native loops against the numpy paths that they stand in for."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tessera.emulator import matrix
from tessera.emulator.access import Storage
from tessera.emulator.native import matrix_function, memory_function

WAVES = 5
STRIDE = WAVES * 128
rng = np.random.default_rng(7)


def registers(count):
    return rng.integers(0, 2**32, (count, WAVES, 32), dtype=np.uint32)


def floats(count, dtype):
    values = rng.standard_normal((count, WAVES, 64)).astype(dtype)
    return values.view(np.uint32).reshape(count, WAVES, 32)


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_float_product_agrees_to_rounding(element):
    file = np.empty((32, WAVES, 32), np.uint32)
    if element == "f16":
        file[:16] = floats(16, np.float16)
    else:
        file[:16] = (floats(16, np.float16) & 0x3FFF3FFF) | 0x30003000
    file[16:24] = rng.standard_normal((8, WAVES, 32)).astype(np.float32).view(np.uint32)
    file[24:] = 0
    name = f"V_WMMA_F32_16X16X16_{element.upper()}"
    expected = matrix.wmma(name, file[:8], file[8:16], file[16:24], file[24:], 0, 0, 0, False)
    start = file.ctypes.data
    function = matrix_function(element, False, False)
    assert function is not None
    places = [start + r * STRIDE for r in (0, 8, 16, 24)]
    function(*places, WAVES, STRIDE, STRIDE, 128)
    np.testing.assert_allclose(
        file[24:].view(np.float32), expected.view(np.float32), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("element, count", [("iu8", 4), ("iu4", 2)])
@pytest.mark.parametrize("signed_a", [False, True])
@pytest.mark.parametrize("signed_b", [False, True])
def test_integer_product_is_the_same_in_place(element, count, signed_a, signed_b):
    """D overwrites C, and C wraps around."""
    file = registers(16)
    neg = signed_a | signed_b << 1
    name = f"V_WMMA_I32_16X16X16_{element.upper()}"
    a, b = file[:count], file[4 : 4 + count]
    expected = matrix.wmma(name, a, b, file[8:], file[8:], neg, 0, 0, False)
    start = file.ctypes.data
    function = matrix_function(element, signed_a, signed_b)
    assert function is not None
    places = [start + r * STRIDE for r in (0, 4, 8, 8)]
    function(*places, WAVES, STRIDE, STRIDE, 128)
    np.testing.assert_array_equal(file[8:], expected)


@pytest.mark.parametrize("words", [1, 2, 3, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_loads_and_stores(words, masked):
    storage = Storage(4096)
    storage.words[:] = np.arange(len(storage.words))
    file = registers(12)
    limit = 4096 - 4 * words
    file[0] = rng.integers(0, 200, (WAVES, 32)) * 4 * words
    base = np.arange(WAVES, dtype=np.int64) * 64
    mask = rng.integers(0, 2, (WAVES, 32)).astype(bool) if masked else np.ones((WAVES, 32), bool)
    before = file.copy()
    pointer = mask.ctypes.data if masked else 0
    start = file.ctypes.data
    load, store = memory_function(words, False), memory_function(words, True)
    assert load is not None
    assert store is not None

    def call(function, data, most=limit, outer=-1):
        return function(
            start, 0, base.ctypes.data, 0, most, outer, 0, storage.address, pointer,
            start + data * STRIDE, STRIDE, WAVES,
        )  # fmt: skip

    assert call(load, 4) == 0
    places = file[0].astype(np.int64) + base[:, None]
    for k in range(words):
        expected = np.where(mask, places // 4 + k, before[4 + k])
        np.testing.assert_array_equal(file[4 + k], expected)
    storage.words[:] = 0
    assert call(store, 4) == 0
    for k in range(words):
        np.testing.assert_array_equal(storage.words[places // 4 + k][mask], file[4 + k][mask])
    lowest = int(places[mask].min())
    refused = call(load, 8, lowest)
    assert refused == np.count_nonzero(places[mask] > lowest) > 0
    np.testing.assert_array_equal(file[8:12], before[8:12])
    assert call(load, 8, lowest, lowest) == 0
    for k in range(words):
        inside = places <= lowest
        expected = np.where(
            mask, np.where(inside, storage.words[places // 4 + k], 0), before[8 + k]
        )
        np.testing.assert_array_equal(file[8 + k], expected)
