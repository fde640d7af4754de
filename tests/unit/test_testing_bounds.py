"""The bounds: not below what correct programs do, and not far above it either."""

import ml_dtypes
import numpy as np
import pytest

from tessera import reference, testing
from tessera.errors import DtypeError

DTYPES = [np.float16, ml_dtypes.bfloat16]


def test_unit_roundoff_is_half_the_gap_behind_one():
    assert testing.unit_roundoff(np.float16) == float(np.finfo(np.float16).eps) / 2
    assert testing.unit_roundoff(np.float32) == float(np.finfo(np.float32).eps) / 2
    bfloat16 = ml_dtypes.finfo(ml_dtypes.bfloat16)
    assert testing.unit_roundoff(ml_dtypes.bfloat16) == float(bfloat16.eps) / 2
    with pytest.raises(DtypeError, match="int32"):
        testing.unit_roundoff(np.int32)


@pytest.mark.parametrize("dtype", [*DTYPES, np.float32])
def test_rounding_bound_holds_and_is_attained(dtype):
    values = np.random.default_rng(0).standard_normal(20000)
    error = np.abs(reference.cast(values, dtype) - values)
    bound = testing.rounding_bound(values, dtype)
    assert (error <= bound).all()
    assert (error / bound).max() > 0.9


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("out_dtype", [np.float32, *DTYPES])
def test_matmul_bound_holds_for_any_order_of_summation(dtype, out_dtype):
    a = testing.random_tensor((16, 257), dtype, 0)
    b = testing.random_tensor((257, 16), dtype, 1)
    expected = reference.matmul(a, b)
    bound = testing.matmul_bound(a, b, out_dtype)
    sequential = np.zeros((16, 16), np.float32)
    for term in range(257):
        sequential += np.outer(a[:, term].astype(np.float32), b[term].astype(np.float32))
    for result in (testing.same_dtype_matmul(a, b, out_dtype), sequential.astype(out_dtype)):
        assert testing.check(result, expected, bound) <= 1.0


def test_matmul_bound_sees_a_dropped_small_term():
    """A K tail of one product must stand out against the sum of 129 rounding errors."""
    a, b = np.ones((1, 129), np.float16), np.ones((129, 1), np.float16)
    with pytest.raises(AssertionError):
        testing.check([[128.0]], [[129.0]], testing.matmul_bound(a, b, np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, "top_left", "bottom_right"])
@pytest.mark.parametrize("keys_per_step", [16, 32, 64, 1000])
def test_attention_bound_holds_for_any_tile_width(dtype, causal, keys_per_step):
    q, k, v = testing.random_attention(33, 65, 40, dtype, heads=2, seed=5)
    exact_o, exact_lse = reference.flash_attn(q, k, v, causal)
    o_bound, lse_bound = testing.attention_bound(q, k, v, causal)
    o, lse = testing.same_dtype_attention(q, k, v, causal, keys_per_step=keys_per_step)
    assert testing.check(o, exact_o, o_bound) <= 1.0
    assert testing.check(lse, exact_lse, lse_bound) <= 1.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_bound_is_no_wider_than_a_few_roundings(dtype):
    q, k, v = testing.random_attention(64, 64, 64, dtype)
    o_bound, lse_bound = testing.attention_bound(q, k, v)
    assert o_bound.max() < 8 * testing.unit_roundoff(dtype) * np.abs(v.astype(float)).max()
    assert lse_bound.max() < 1e-4


def test_attention_bound_of_empty_rows_is_zero():
    q, k, v = testing.random_attention(5, 2, 16, np.float16)
    o_bound, lse_bound = testing.attention_bound(q, k, v, causal=True)
    np.testing.assert_array_equal(o_bound[0, 0, :3], 0)
    np.testing.assert_array_equal(lse_bound[0, 0, :3], 0)
    assert (o_bound[0, 0, 3:] > 0).all()


@pytest.mark.parametrize("make", [testing.large_logits, testing.growing_maximum])
def test_attention_bound_holds_for_adversarial_logits(make):
    q, k, v = make(17, 129, 64, np.float16)
    exact_o, exact_lse = reference.flash_attn(q, k, v)
    o_bound, lse_bound = testing.attention_bound(q, k, v)
    for keys_per_step in (16, 32):
        o, lse = testing.same_dtype_attention(q, k, v, keys_per_step=keys_per_step)
        assert testing.check(o, exact_o, o_bound) <= 1.0
        assert testing.check(lse, exact_lse, lse_bound) <= 1.0


def test_forgetting_to_rescale_the_accumulator_is_beyond_the_bound():
    q, k, v = testing.growing_maximum(1, 48, 16, np.float16)
    expected, _ = reference.flash_attn(q, k, v)
    o_bound, _ = testing.attention_bound(q, k, v)
    logits = (q @ np.swapaxes(k, -1, -2)).astype(np.float64) / 4
    steps = [np.exp(logits[..., s : s + 16] - logits[..., s : s + 16].max()) for s in (0, 16, 32)]
    total = sum(step.sum(axis=-1, keepdims=True) for step in steps)
    wrong = sum(step @ v[..., 16 * i : 16 * i + 16, :] for i, step in enumerate(steps)) / total
    with pytest.raises(AssertionError):
        testing.check(wrong, expected, o_bound)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (7, 3), "softcap": 5.0}])
def test_gradient_bound_accepts_the_same_dtype_program_and_rejects_wrong_ones(dtype, options):
    q, k, v = testing.random_attention(17, 33, 16, dtype, heads=2)
    do = testing.random_tensor(q.shape, dtype, 9)
    exact = reference.flash_attn_bwd(q, k, v, None, None, do, **options)
    bounds = testing.attention_gradient_bound(q, k, v, do, **options)
    computed = testing.same_dtype_attention_bwd(q, k, v, do, **options)
    for gradient, expected, bound in zip(computed, exact, bounds):
        assert testing.check(gradient, expected, bound) <= 1.0
        with pytest.raises(AssertionError):
            testing.check(gradient[:, ::-1], expected, bound)
        with pytest.raises(AssertionError):
            testing.check(np.zeros_like(gradient), expected, bound)


def test_same_dtype_attention_refuses_options_that_it_does_not_know():
    q, k, v = testing.random_attention(2, 2, 16, np.float16)
    with pytest.raises(TypeError, match="sink"):
        testing.same_dtype_attention(q, k, v, sink=1.0)


@pytest.mark.parametrize("scale", [-0.25, 0.0, 3.0])
def test_attention_bound_of_any_scale(scale):
    q, k, v = testing.random_attention(17, 33, 16, np.float16)
    expected = reference.flash_attn(q, k, v, scale=scale)
    computed = testing.same_dtype_attention(q, k, v, scale=scale)
    for actual, exact, bound in zip(
        computed, expected, testing.attention_bound(q, k, v, scale=scale)
    ):
        assert testing.check(actual, exact, bound) <= 1.0
