"""The checker's own test: what it must reject, what it must accept, and what it reports."""

import ml_dtypes
import numpy as np
import pytest

from tessera import reference, testing

DTYPES = [np.float16, ml_dtypes.bfloat16]


def wrong_results(o):
    """The kinds of wrong answer that weak checkers let through."""
    poisoned = o.copy()
    poisoned[0, 0, 3, 5] = np.nan
    last = o.copy()
    last[0, -1, -1, -1] += 0.25
    permuted = o.copy()
    permuted[0, 0, [3, 4]] = o[0, 0, [4, 3]]
    infinite = o.copy()
    infinite[0, 1, 0, 0] = np.inf
    return {
        "one NaN": poisoned,
        "all NaN": np.full_like(o, np.nan),
        "zeros": np.zeros_like(o),
        "permuted rows": permuted,
        "last element": last,
        "other head": o[:, ::-1],
        "infinity": infinite,
        "missing row": o[:, :, :-1],
        "other layout": np.swapaxes(o, 1, 2),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fault", wrong_results(np.zeros((1, 2, 17, 16))))
def test_b62_wrong_attention_results_are_rejected(fault, dtype):
    q, k, v = testing.random_attention(17, 33, 16, dtype, heads=2)
    expected, _ = reference.flash_attn(q, k, v)
    o_bound, _ = testing.attention_bound(q, k, v)
    right, _ = testing.same_dtype_attention(q, k, v)
    assert testing.check(right, expected, o_bound) <= 1.0
    with pytest.raises(AssertionError, match="shape|beyond the bound"):
        testing.check(wrong_results(right.astype(np.float64))[fault], expected, o_bound)


@pytest.mark.parametrize("dtype", DTYPES)
def test_b62_wrong_matmul_results_are_rejected(dtype):
    a = testing.random_tensor((17, 33), dtype, 0)
    b = testing.random_tensor((33, 19), dtype, 1)
    expected = reference.matmul(a, b)
    bound = testing.matmul_bound(a, b, np.float32)
    right = testing.same_dtype_matmul(a, b)
    assert testing.check(right, expected, bound) <= 1.0
    permuted = right.copy()
    permuted[[0, 1]] = right[[1, 0]]
    dropped = testing.same_dtype_matmul(a[:, :32], b[:32])
    last = right.copy()
    last[-1, -1] *= 1.001
    for wrong in (permuted, dropped, last, right * np.nan, np.zeros_like(right), right.T):
        with pytest.raises(AssertionError):
            testing.check(wrong, expected, bound)


def test_message_names_the_worst_element():
    with pytest.raises(AssertionError, match=r"o: 2 of 4 .* worst at \(1, 0\).*within 0\.1"):
        testing.check([[1, 2], [3.5, 4.2]], [[1, 2], [3, 4]], 0.1, name="o")


def test_worst_error_is_a_multiple_of_the_bound():
    assert testing.check([1.0, 2.05], [1.0, 2.0], 0.1) == pytest.approx(0.5)
    assert testing.check([1.0, 2.0], [1.0, 2.0], 0.0) == 0.0
    assert testing.check(np.zeros((0, 3)), np.zeros((0, 3)), 0.0) == 0.0
    assert testing.worst_error([1.0, np.nan], [1.0, 2.0]) == np.inf
    assert testing.worst_error([1.0, -2.0], [1.0, 2.0]) == 4.0


def test_special_values_must_be_met_by_the_same():
    assert testing.check([-np.inf, np.nan], [-np.inf, np.nan], 1.0) == 0.0
    for actual in (np.inf, 0.0, np.nan, -1e30):
        with pytest.raises(AssertionError):
            testing.check([actual], [-np.inf], 1e9)


def test_b62_a_bound_that_cannot_reject_is_refused():
    for bound in (np.nan, -1.0):
        with pytest.raises(ValueError, match="bound"):
            testing.check([1.0], [1.0], bound)
    with pytest.raises(AssertionError):
        testing.check([np.nan], [1.0], np.inf)
