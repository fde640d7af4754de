"""Options of attention beyond the plain form, on inputs whose exact answers are known."""

from functools import cache

import numpy as np
import pytest
from kernel_runs import CHIP, DTYPES, HALF, assert_lse, assert_rounded, launch

import tessera
from tessera import ops, reference, testing
from tessera.testing import random_attention, uniform_weights

TENSORS = ("bias", "alibi_slopes", "cu_seqlens_q", "cu_seqlens_k")


@cache
def function(names=(), causal=False, window=None, softcap=None):
    """A jitted (o, lse) that takes the named option tensors behind q, k and v."""

    @tessera.jit(target=CHIP)
    def attention(q, k, v, *extra):
        return ops.flash_attn(
            q, k, v, causal=causal, window=window, softcap=softcap, return_lse=True,
            **dict(zip(names, extra)),
        )  # fmt: skip

    return attention


def run(executor, q, k, v, **options):
    tensors = {name: options.pop(name) for name in TENSORS if name in options}
    operands = tuple(testing.guarded(x) for x in (q, k, v, *tensors.values()))
    o = testing.guarded_empty((*q.shape[:3], v.shape[3]), q.dtype)
    lse = testing.guarded_empty(q.shape[:3], np.float32)
    artifact = function(tuple(tensors), **options).lower(*(x.array for x in operands))
    launch(artifact, operands, (o, lse), executor)
    return o.array, lse.array


def check(o, lse, q, k, v, **options):
    expected_o, expected_lse = reference.flash_attn(q, k, v, **options)
    o_bound, lse_bound = testing.attention_bound(q, k, v, **options)
    testing.check(o, expected_o, o_bound, "o")
    testing.check(lse, expected_lse, lse_bound + 2e-6, "lse")


def column(o):
    return o[0, 0, :, 0].astype(float)


# An option that is accepted and does nothing.
def test_b33_softcap_value(executor):
    q = np.full((1, 1, 1, 16), 2.0, np.float16)
    k = np.zeros((1, 1, 2, 16), np.float16)
    k[:, :, 0] = 0.125
    v = np.ones((1, 1, 2, 16), np.float16)
    v[:, :, 1] = 3
    o, lse = run(executor, q, k, v, softcap=1.0)
    assert_rounded(o, np.full(o.shape, 1.63660052))
    assert_lse(lse, 1.14476013)
    o, _ = run(executor, q, k, v)
    assert_rounded(o, np.full(o.shape, 1.53788284))


# 1 - 2 / (1 + e^2u) has no digits left where u is small: a large cap must change nothing.
@pytest.mark.parametrize("softcap", [300.0, 1e6, 1e20])
def test_b33_softcap_above_all_logits(executor, softcap):
    q, k, v = random_attention(7, 9, 16, np.float16, heads=2)
    check(*run(executor, q, k, v, softcap=softcap), q, k, v, softcap=softcap)


# The window counts its own position, and moves with seq_k - seq_q.
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(
    "window, seq_q, expected",
    [
        ((2, 0), 8, [0, 0.5, 1, 2, 3, 4, 5, 6]),
        ((2, 0), 2, [5, 6]),
        ((1, 1), 8, [0.5, 1, 2, 3, 4, 5, 6, 6.5]),
    ],
)
def test_b35_sliding_window(executor, window, seq_q, expected, dtype):
    q, k, v = uniform_weights(seq_q, 8, 16, DTYPES[dtype])
    o, _ = run(executor, q, k, v, window=window)
    bound = 2 * testing.rounding_bound(expected, DTYPES[dtype])
    testing.check(column(o), expected, bound)


# Over many key tiles, most of which no query of a workgroup sees.
def test_b35_window_across_tiles(executor):
    q, k, v = uniform_weights(150, 400, 16, np.float16, np.ones(400))
    o, lse = run(executor, q, k, v, window=(20, 4))
    assert_rounded(o, np.ones(o.shape))
    last = np.minimum(np.arange(150) + 250 + 4, 399)
    assert_lse(lse, np.log(last - (np.arange(150) + 250 - 20) + 1)[None, None])


# position + right beyond 2^31: the largest windows hide nothing.
@pytest.mark.parametrize("keys", [2**31 - 1, 2**31 - 100, 2**30, 2**30 - 1])
@pytest.mark.parametrize("seq_q, seq_k", [(1, 150), (150, 1)])
def test_b35_window_wider_than_any_sequence(executor, keys, seq_q, seq_k):
    q, k, v = uniform_weights(seq_q, seq_k, 16, np.float16, np.ones(seq_k))
    o, lse = run(executor, q, k, v, window=(keys, keys))
    assert_rounded(o, np.ones(o.shape))
    assert_lse(lse, np.full(lse.shape, np.log(seq_k)))


# Distance without the shift seq_k - seq_q, or with the wrong sign.
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("seq_q, expected", [(3, [0.67984333, 1, 1.32015667]), (1, [1.32015667])])
def test_b36_alibi_position(executor, seq_q, expected, dtype):
    q, k, v = uniform_weights(seq_q, 3, 16, DTYPES[dtype])
    o, _ = run(executor, q, k, v, alibi_slopes=np.array([0.5], np.float32))
    bound = 2 * testing.rounding_bound(expected, DTYPES[dtype])
    testing.check(column(o), expected, bound)


# Query heads spread over key heads by remainder instead of division.
@pytest.mark.parametrize("heads, heads_k", [(6, 2), (4, 2), (8, 1)])
def test_b13_head_map(executor, heads, heads_k):
    q = np.ones((1, heads, 1, 16), np.float16)
    k = np.ones((1, heads_k, 1, 16), np.float16)
    v = np.ones((1, heads_k, 1, 16), np.float16) * np.arange(1, heads_k + 1)[None, :, None, None]
    o, _ = run(executor, q, k, v.astype(np.float16))
    expected = np.repeat(np.arange(1, heads_k + 1), heads // heads_k)
    np.testing.assert_array_equal(o[0, :, 0, 0].astype(float), expected)


# A sequence without queries among packed ones.
def test_b24_packed_sequences(executor):
    q = np.zeros((1, 1, 3, 16), np.float16)
    k = np.zeros((1, 1, 4, 16), np.float16)
    v = np.ones((1, 1, 4, 16), np.float16) * np.array([1, 3, 5, 9], np.float16)[:, None]
    starts = dict(
        cu_seqlens_q=np.array([0, 0, 3], np.int32), cu_seqlens_k=np.array([0, 2, 4], np.int32)
    )
    o, lse = run(executor, q, k, v, **starts)
    np.testing.assert_array_equal(column(o), [7, 7, 7])
    assert_lse(lse, np.log(2))


@pytest.mark.parametrize("causal", [False, "top_left", "bottom_right"])
def test_b24_many_packed_sequences(executor, causal):
    lengths_q, lengths_k = [3, 0, 33, 1, 64, 17], [5, 9, 0, 47, 65, 17]
    starts_q = np.concatenate([[0], np.cumsum(lengths_q)]).astype(np.int32)
    starts_k = np.concatenate([[0], np.cumsum(lengths_k)]).astype(np.int32)
    q, k, v = random_attention(starts_q[-1], starts_k[-1], 40, np.float16, heads=2)
    o, lse = run(executor, q, k, v, causal=causal, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k)
    for index in range(len(lengths_q)):
        rows = slice(starts_q[index], starts_q[index + 1])
        keys = slice(starts_k[index], starts_k[index + 1])
        part = [q[:, :, rows], k[:, :, keys], v[:, :, keys]]
        check(o[:, :, rows], lse[:, :, rows], *part, causal=causal)
