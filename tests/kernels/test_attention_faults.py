"""Attention faults seen in public kernels: the smallest input that shows each, its exact answer.

The number in a test's name is that of the kind of fault; the comment says what the fault is.
Unless it says otherwise: batch and heads 1, "v[j] = x" means x in every column of row j.
"""

import math

import numpy as np
import pytest
from kernel_runs import (
    DTYPES,
    HALF,
    assert_lse,
    assert_rounded,
    check_attention,
    run_attention,
)

from tessera import testing
from tessera.testing import guarded, random_attention, uniform_weights

LN = math.log


def columns(values, head_dim, dtype):
    """[1, 1, len(values), head_dim] with values[j] in every column of row j."""
    rows = np.asarray(values, np.float64)[None, None, :, None]
    return np.repeat(rows, head_dim, axis=3).astype(DTYPES[dtype])


def expect(o, lse, expected_o, expected_lse):
    """Every column of o is expected_o, and lse is expected_lse."""
    column = np.asarray(expected_o, np.float64)[None, None, :, None]
    assert_rounded(o, np.broadcast_to(column, o.shape), "o")
    assert_lse(lse, np.asarray(expected_lse, np.float64)[None, None, :])


# The softmax of a row without a visible key is NaN, or the mean of v where the mask is a large
# finite number.
@pytest.mark.parametrize("dtype", HALF)
def test_b01_rows_without_visible_key(executor, dtype):
    q, k, v = (columns(x, 16, dtype) for x in ([1] * 5, [1, -1], [1, 3]))
    o, lse = run_attention(executor, q, k, v, causal="bottom_right")
    expect(o, lse, [0, 0, 0, 1, 1.0006707], [-np.inf, -np.inf, -np.inf, 4, 4.00033541])
    assert (o[0, 0, :3] == 0).all()


# Several key tiles, all of them hidden from some rows of a query tile and not from others.
@pytest.mark.parametrize("dtype", HALF)
def test_b01_empty_rows_beside_long_ones(executor, dtype):
    q, k, v = uniform_weights(150, 100, 16, DTYPES[dtype], np.ones(100))
    o, lse = run_attention(executor, q, k, v, causal="bottom_right")
    visible = np.maximum(np.arange(150) - 49, 0)
    with np.errstate(divide="ignore"):
        expect(o, lse, visible > 0, np.log(visible))


# For seq_q != seq_k the diagonal ends in the last corner or starts in the first.
@pytest.mark.parametrize("dtype", HALF)
def test_b04_causal_alignment(executor, dtype):
    q, k, v = uniform_weights(2, 5, 16, DTYPES[dtype])
    expect(*run_attention(executor, q, k, v, causal="bottom_right"), [1.5, 2], [LN(4), LN(5)])
    expect(*run_attention(executor, q, k, v, causal=True), [1.5, 2], [LN(4), LN(5)])
    expect(*run_attention(executor, q, k, v, causal="top_left"), [0, 0.5], [0, LN(2)])
    q, k, v = uniform_weights(5, 2, 16, DTYPES[dtype], [1, 2])
    o, lse = run_attention(executor, q, k, v, causal="bottom_right")
    expect(o, lse, [0, 0, 0, 1, 1.5], [-np.inf] * 3 + [0, LN(2)])
    o, lse = run_attention(executor, q, k, v, causal="top_left")
    expect(o, lse, [1, 1.5, 1.5, 1.5, 1.5], [0] + [LN(2)] * 4)


@pytest.mark.parametrize("seq_q, seq_k", [(17, 130), (130, 17), (65, 66), (66, 65)])
def test_b04_causal_alignment_across_tiles(executor, seq_q, seq_k):
    q, k, v = uniform_weights(seq_q, seq_k, 16, np.float16)
    for causal, shift in (("bottom_right", seq_k - seq_q), ("top_left", 0)):
        visible = np.clip(np.arange(seq_q) + shift + 1, 0, seq_k)
        o, lse = run_attention(executor, q, k, v, causal=causal)
        with np.errstate(divide="ignore"):
            lse_expected = np.log(visible)
        o_expected = np.maximum(visible - 1, 0) / 2
        assert_lse(lse, lse_expected[None, None])
        # 1 / n is rounded before the product: two roundings of the result's type.
        bound = 2 * testing.rounding_bound(o_expected, np.float16)
        testing.check(o, np.repeat(o_expected[None, None, :, None], 16, 3), bound[:, None])


# Keys that only fill the last tile are not masked: each adds exp(0) to the sum.
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("length", [1, 15, 17, 31, 33, 47, 63, 65])
def test_b05_tail_keys(executor, length, dtype):
    q, k, v = uniform_weights(length, length, 16, DTYPES[dtype], np.ones(length))
    o, lse = run_attention(executor, q, k, v)
    expect(o, lse, [1] * length, [LN(length)] * length)


# lse in base 2, with the wrong sign or without the scale; +inf, 0 or NaN where nothing is visible.
@pytest.mark.parametrize("dtype", HALF)
def test_b15_lse_is_natural(executor, dtype):
    q, k, v = uniform_weights(1, 3, 16, DTYPES[dtype])
    expect(*run_attention(executor, q, k, v), [1], [1.09861229])
    q, k, v = uniform_weights(2, 0, 16, DTYPES[dtype])
    expect(*run_attention(executor, q, k, v), [0, 0], [-np.inf, -np.inf])


# Two halves of the keys, merged by their lse, give the whole.
@pytest.mark.parametrize("dtype", HALF)
def test_b15_merging_two_parts_by_lse(executor, dtype):
    q, k, v = (columns(x, 16, dtype) for x in ([1], [0, 0, 0.5, 0.5], [0, 1, 2, 3]))
    whole = run_attention(executor, q, k, v)
    expect(*whole, [2.26159416], [2.82007519])
    first = run_attention(executor, q, k[:, :, :2].copy(), v[:, :, :2].copy())
    second = run_attention(executor, q, k[:, :, 2:].copy(), v[:, :, 2:].copy())
    empty = run_attention(executor, q, k[:, :, :0].copy(), v[:, :, :0].copy())
    expect(*first, [0.5], [0.69314718])
    expect(*second, [2.5], [2.69314718])
    parts = [first, second, empty]
    lse = np.logaddexp.reduce([part[1].astype(float) for part in parts])
    o = sum(np.exp(part_lse - lse)[..., None] * part_o.astype(float) for part_o, part_lse in parts)
    testing.check(o, whole[0], 4 * testing.rounding_bound(whole[0], DTYPES[dtype]))
    testing.check(lse, whole[1], 1e-5)


# Finite logits beyond the range of f16, or of exp, give infinity minus infinity.
def test_b17_logits_beyond_f16(executor):
    q, k, v = (columns(x, 128, "f16") for x in ([256], [256, 256], [1, 3]))
    o, lse = run_attention(executor, q, k, v)
    expect(o, lse, [2], [741455.8933])


def test_b17_logits_beyond_bf16_and_exp(executor):
    q, k, v = (columns(x, 64, "bf16") for x in ([133120], [133120], [133120]))
    o, lse = run_attention(executor, q, k, v)
    expect(o, lse, [133120], [1.417674752e11])


# Negative logits far below the smallest exponential, alone in their row.
@pytest.mark.parametrize("dtype", HALF)
def test_b17_large_negative_logits(executor, dtype):
    q, k, v = (columns(x, 64, dtype) for x in ([256], [-256, -256], [1, 3]))
    o, lse = run_attention(executor, q, k, v)
    expect(o, lse, [2], [-(2.0**16) * 8 + LN(2)])


# The maximum grows in a later tile and the old sum or the old accumulator is not scaled down.
@pytest.mark.parametrize("dtype", HALF)
def test_b18_rescaling_when_the_maximum_grows(executor, dtype):
    q = columns([1], 16, dtype)
    groups = np.repeat([0.5, 0.25, 0.0], 16)
    v = columns(np.repeat([1, 2, 3], 16), 16, dtype)
    falling = run_attention(executor, q, columns(groups, 16, dtype), v)
    rising = run_attention(executor, q, columns(groups[::-1], 16, dtype), v)
    for (o, lse), expected in ((falling, 1.42478962), (rising, 2.57521038)):
        bound = 2 * testing.rounding_bound(expected, DTYPES[dtype])
        testing.check(o, np.full(o.shape, expected), bound)
        assert_lse(lse, 5.18019468)


@pytest.mark.parametrize("dtype", HALF)
def test_b18_maximum_grows_in_every_tile(executor, dtype):
    q, k, v = testing.growing_maximum(3, 400, 16, DTYPES[dtype], step=2.0)
    check_attention(*run_attention(executor, q, k, v), q, k, v)


# 16-byte loads from an address or with a row length that is aligned to one element only.
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("head_dim", [16, 46, 64])
@pytest.mark.parametrize("offset", [1, 2, 4])
def test_b20_unaligned_bases(executor, offset, head_dim, dtype):
    operands = random_attention(17, 33, head_dim, DTYPES[dtype])
    aligned = run_attention(executor, *operands)
    moved = run_attention(executor, *(guarded(x, offset=offset) for x in operands))
    odd_rows = tuple(guarded(x, capacity=(*x.shape[:3], head_dim + 1)) for x in operands)
    spread = run_attention(executor, *odd_rows)
    check_attention(*aligned, *operands)
    for o, lse in (moved, spread):
        np.testing.assert_array_equal(o.view(np.uint16), aligned[0].view(np.uint16))
        np.testing.assert_array_equal(lse, aligned[1])


# A probability of zero times NaN or infinity that lies behind the last key.
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("padding", [np.nan, np.inf])
def test_b21_padding_that_is_not_finite(executor, padding, dtype):
    q, k, v = uniform_weights(3, 17, 16, DTYPES[dtype], np.ones(17))
    slots = []
    for x in (k, v):
        cache = np.full((1, 1, 32, 16), padding, DTYPES[dtype])
        cache[:, :, :17] = x
        slots.append(cache)
    o, lse = run_attention(
        executor, q, *(guarded_slots(cache, 17) for cache in slots), causal=False
    )
    expect(o, lse, [1] * 3, [LN(17)] * 3)


def guarded_slots(cache, used):
    """The first `used` rows of a cache whose other rows keep what they hold."""
    buffer = guarded(cache)
    return testing.GuardedBuffer(
        buffer.array[:, :, :used], buffer._storage, buffer._outside, buffer._poison
    )


# Keys inside the tensor that causality hides: their logits are dropped, whatever they are.
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("hidden", [np.nan, np.inf])
def test_b21_hidden_keys_that_are_not_finite(executor, hidden, dtype):
    q, k, v = uniform_weights(20, 90, 16, DTYPES[dtype], np.ones(90))
    k[:, :, 20:] = hidden
    o, lse = run_attention(executor, q, k, v, causal="top_left")
    expect(o, lse, [1] * 20, np.log(np.arange(1, 21)))


# Sizes of zero and one: division by a tile count of zero, a launch of no workgroups, or a result
# that is never written.
@pytest.mark.parametrize("dtype", HALF)
def test_b23_no_keys(executor, dtype):
    q, k, v = uniform_weights(3, 0, 16, DTYPES[dtype])
    for causal in (False, "top_left", "bottom_right"):
        o, lse = run_attention(executor, q, k, v, causal=causal)
        expect(o, lse, [0] * 3, [-np.inf] * 3)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("batch, heads, seq_q", [(1, 1, 0), (0, 1, 3), (1, 0, 3)])
def test_b23_no_queries(executor, batch, heads, seq_q, dtype):
    q = np.ones((batch, heads, seq_q, 16), DTYPES[dtype])
    k = v = np.ones((batch, heads, 3, 16), DTYPES[dtype])
    o, lse = run_attention(executor, q, k, v)
    assert o.shape == (batch, heads, seq_q, 16)
    assert lse.shape == (batch, heads, seq_q)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("head_dim", [16, 64])
def test_b23_one_query_one_key(executor, head_dim, dtype):
    q, k, v = (columns(x, head_dim, dtype) for x in ([1], [1], [7]))
    for causal in (False, "top_left", "bottom_right"):
        o, lse = run_attention(executor, q, k, v, causal=causal)
        expect(o, lse, [7], [math.sqrt(head_dim)])


# The accumulator's fragments are counted for another tile: channels are lost or repeated.
@pytest.mark.parametrize("queries_per_wave", [16, 32])
@pytest.mark.parametrize("head_dim", [16, 64, 80, 112, 128, 256])
def test_b66_every_channel_in_its_place(executor, head_dim, queries_per_wave):
    q, k, v = testing.one_hot_values(33, 17, head_dim, np.float16)
    schedule = {"queries_per_wave": queries_per_wave} if head_dim <= 128 else None
    o, lse = run_attention(executor, q, k, v, schedule=schedule)
    # The weights 1/17 are rounded, alike for all keys: at most two roundings of the result.
    expected = np.broadcast_to(np.arange(head_dim), o.shape)
    testing.check(o, expected, 2 * testing.rounding_bound(expected, np.float16))
    assert_lse(lse, LN(17))
