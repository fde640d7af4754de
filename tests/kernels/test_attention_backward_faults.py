"""Known faults of attention gradients by their values, repeats, addresses, and refusals by name."""

import time

import numpy as np
import pytest
from attention_options import check_backward, check_forward, run_backward, run_both, run_forward
from kernel_runs import DTYPES, HALF, assert_rounded

import tessera
from tessera import ops, reference, testing
from tessera.errors import OptionError, ShapeError, TesseraError
from tessera.testing import random_attention, random_tensor


def ones(*shape, dtype=np.float16, rows=None):
    """Ones, or rows of the given values along the sequence axis."""
    values = np.ones(shape, dtype)
    return values if rows is None else values * np.asarray(rows, dtype)[:, None]


# exp(s - lse) with lse = -inf is NaN.
@pytest.mark.parametrize("dtype", HALF)
def test_b2_gradients_of_rows_without_a_key(executor, dtype):
    kind = DTYPES[dtype]
    q, k = ones(1, 1, 5, 16, dtype=kind), ones(1, 1, 2, 16, dtype=kind, rows=[1, -1])
    v, do = ones(1, 1, 2, 16, dtype=kind, rows=[1, 3]), ones(1, 1, 5, 16, dtype=kind)
    o, lse, dq, dk, dv = run_both(executor, q, k, v, do, causal=True)
    exact = reference.flash_attn_bwd(q, k, v, o, lse, do, causal=True)
    # o is rounded before rowsum(o * do) is taken: of these numbers, all below 0.006, that leaves
    # about one digit. For the o that the kernels got, they are as exact as their format.
    rounding = 0.25 * 16 * testing.unit_roundoff(kind)
    for gradient, stated, expected in (
        (dq[0, 0, :, 0], [0, 0, 0, 0, -0.0053638], exact[0][0, 0, :, 0]),
        (dk[0, 0, :, 0], [-0.0026819, 0.0026819], exact[1][0, 0, :, 0]),
    ):
        testing.check(gradient, stated, rounding)
        testing.check(gradient, expected, 4 * testing.rounding_bound(expected, kind) + 1e-6)
    assert_rounded(dv[0, 0, 0], np.full(16, 1.99966465), "dv")
    testing.check(dv[0, 0, 1], np.full(16, 3.3535013e-4), 2 * testing.unit_roundoff(kind) * 3.4e-4)
    assert not dq[0, 0, :3].any()


# Only the last channels of dq carry anything.
@pytest.mark.parametrize("head_dim", [17, 40, 72, 80, 96, 111])
def test_b11_last_channels(executor, head_dim):
    tail = slice(head_dim - 8, head_dim)
    q, k = np.zeros((1, 1, 1, head_dim), np.float16), np.zeros((1, 1, 2, head_dim), np.float16)
    v = np.zeros_like(k)
    k[0, 0, 0, tail], v[0, 0, 0, 0] = 1, 1
    o, _, dq, _, dv = run_both(executor, q, k, v, ones(*q.shape), scale=1.0)
    assert o[0, 0, 0, 0] == 0.5
    assert not o[..., 1:].any()
    expected = np.zeros(head_dim)
    expected[tail] = 0.25
    np.testing.assert_array_equal(dq[0, 0, 0].astype(float), expected)
    np.testing.assert_array_equal(dv.astype(float), 0.5)


# dk and dv written per query head, or heads spread by remainder instead of division.
@pytest.mark.parametrize(
    "heads, heads_k, o_values, dv_values",
    [(6, 2, [1, 1, 1, 2, 2, 2], [6, 15]), (4, 2, [1, 1, 2, 2], [3, 7]), (8, 1, [1] * 8, [36])],
)
def test_b13_sum_over_the_group(executor, heads, heads_k, o_values, dv_values):
    q, k = ones(1, heads, 1, 16), ones(1, heads_k, 1, 16)
    v = k * np.arange(1, heads_k + 1, dtype=np.float16)[:, None, None]
    do = q * np.arange(1, heads + 1, dtype=np.float16)[:, None, None]
    o, _, _, dk, dv = run_both(executor, q, k, v, do)
    assert o[0, :, 0, 0].tolist() == o_values
    assert dv[0, :, 0, 0].tolist() == dv_values
    assert not dk.any()


@pytest.mark.parametrize("heads, heads_k", [(3, 2), (33, 2), (4, 0)])
def test_b14_heads_that_do_not_divide(heads, heads_k):
    q, k = ones(1, heads, 4, 16), ones(1, heads_k, 4, 16)
    lse = np.zeros((1, heads, 4), np.float32)
    with pytest.raises(ShapeError, match=f"{heads} .* {heads_k}"):
        run_backward("emulator", q, k, k, q, lse, q)


# A sequence without queries leaves garbage in dk and dv, or writes past its end.
def test_b24_sequence_without_queries(executor):
    q, k = np.zeros((1, 1, 3, 16), np.float16), np.zeros((1, 1, 4, 16), np.float16)
    starts = dict(
        cu_seqlens_q=np.array([0, 0, 3], np.int32), cu_seqlens_k=np.array([0, 2, 4], np.int32)
    )
    o, lse, _, dk, dv = run_both(executor, q, k, ones(*k.shape), ones(*q.shape), **starts)
    np.testing.assert_array_equal(o.astype(float), 1)
    np.testing.assert_allclose(lse, np.log(2), rtol=1e-6)
    assert dv[0, 0, :, 0].tolist() == [0, 0, 1.5, 1.5]
    assert not dk.any()


@pytest.mark.parametrize(
    "starts_q, starts_k",
    [([0, 3, 3], [0, 1, 4]), ([0, 0], [0, 4]), ([0, 3], [0, 0]), ([0, 0, 0, 3], [0, 0, 4, 4])],
)
def test_b24_empty_sequences(executor, starts_q, starts_k):
    options = {"cu_seqlens_q": np.array(starts_q, np.int32),
               "cu_seqlens_k": np.array(starts_k, np.int32)}  # fmt: skip
    q, k, v = random_attention(starts_q[-1], starts_k[-1], 16, np.float16)
    do = random_tensor(q.shape, np.float16, 7)
    o, lse, *gradients = run_both(executor, q, k, v, do, **options)
    check_forward(o, lse, q, k, v, **options)
    check_backward(tuple(gradients), q, k, v, do, **options)


# Forward is causal, backward is not.
@pytest.mark.parametrize(
    "causal, expected", [(True, [25 / 12, 13 / 12, 7 / 12, 1 / 4]), (False, [1, 1, 1, 1])]
)
def test_b32_causal_in_backward(executor, causal, expected):
    q = np.zeros((1, 1, 4, 16), np.float16)
    _, _, dq, dk, dv = run_both(executor, q, q, ones(*q.shape), ones(*q.shape), causal=causal)
    # Probabilities are rounded to f16 before their sum is.
    bound = 4 * testing.rounding_bound(expected, np.float16)
    testing.check(dv[0, 0, :, 0], expected, bound)
    assert np.abs(dq).max() < 1e-3
    assert np.abs(dk).max() < 1e-3


@pytest.mark.parametrize("window, seq_q", [((2, 0), 8), ((2, 0), 2), ((1, 1), 8)])
def test_b35_window_in_backward(executor, window, seq_q):
    q, k = np.zeros((1, 1, seq_q, 16), np.float16), np.zeros((1, 1, 8, 16), np.float16)
    _, _, _, _, dv = run_both(executor, q, k, ones(*k.shape), ones(*q.shape), window=window)
    position = np.arange(seq_q)[:, None] + 8 - seq_q
    key = np.arange(8)[None]
    seen = (key >= position - window[0]) & (key <= position + window[1])
    expected = (seen / seen.sum(axis=1, keepdims=True)).sum(axis=0)
    testing.check(dv[0, 0, :, 0], expected, 4 * testing.rounding_bound(expected, np.float16))


@pytest.mark.parametrize("seq_q, weights", [(3, None), (1, [0.18632372, 0.30719589, 0.50648039])])
def test_b36_alibi_position_in_backward(executor, seq_q, weights):
    q, k = np.zeros((1, 1, seq_q, 16), np.float16), np.zeros((1, 1, 3, 16), np.float16)
    slopes = np.array([0.5], np.float32)
    _, _, _, _, dv = run_both(executor, q, k, ones(*k.shape), ones(*q.shape), alibi_slopes=slopes)
    if weights is None:
        distance = np.abs(np.arange(3)[:, None] - np.arange(3))
        rows = np.exp(-0.5 * distance)
        weights = (rows / rows.sum(axis=1, keepdims=True)).sum(axis=0)
    testing.check(dv[0, 0, :, 0], weights, 4 * testing.rounding_bound(weights, np.float16))


# Atomic sums in another order, or a buffer that is not cleared.
def test_b39_same_bits_on_every_run(executor):
    q = random_tensor((1, 4, 65, 64), np.float16, 0)
    k, v = (random_tensor((1, 1, 129, 64), np.float16, seed) for seed in (1, 2))
    do = random_tensor(q.shape, np.float16, 3)
    o, lse = run_forward(executor, q, k, v, causal=True)
    first = run_backward(executor, q, k, v, o, lse, do, causal=True)
    for _ in range(2 if executor == "emulator" else 100):
        again = run_backward(executor, q, k, v, o, lse, do, causal=True)
        assert [one.tobytes() for one in again] == [one.tobytes() for one in first]


# The rows behind the last key, and behind the last query, hold NaN.
def test_b21_poison_behind_the_last_rows(executor):
    def within(values):
        return testing.guarded(values, capacity=(*values.shape[:2], 32, 16))

    q, k = np.zeros((1, 1, 3, 16), np.float16), np.zeros((1, 1, 17, 16), np.float16)
    v, do = ones(*k.shape), ones(*q.shape)
    o, lse = run_forward(executor, *(within(one) for one in (q, k, v)))
    q, k, v, o, do = (within(one) for one in (q, k, v, o, do))
    _, dk, dv = run_backward(executor, q, k, v, o, lse, do)
    bound = 4 * testing.rounding_bound(np.full(dv.shape, 3 / 17), np.float16)
    testing.check(dv, np.full(dv.shape, 3 / 17), bound)
    testing.check(dk, np.zeros(dk.shape), 1e-3)


@pytest.mark.parametrize("offset", [1, 3, 8])
def test_b20_storage_offsets(executor, offset):
    q, k, v = random_attention(33, 47, 40, np.float16)
    do = random_tensor(q.shape, np.float16, 7)
    o, lse = run_forward(executor, q, k, v)
    aligned = run_backward(executor, q, k, v, o, lse, do)
    moved = [testing.guarded(one, offset=offset) for one in (q, k, v, o, lse, do)]
    shifted = run_backward(executor, *moved)
    for one, other in zip(aligned, shifted):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(softcap=0.0), "softcap"),
        (dict(softcap=-1.0), "softcap"),
        (dict(softcap=float("nan")), "softcap"),
        (dict(window=(1, 2, 3)), "window"),
        (dict(window=(-2, 0)), "window"),
        (dict(window=(1.5, 0)), "window"),
        (dict(causal="left"), "causal"),
        (dict(scale=float("inf")), "scale"),
        (dict(bias=np.zeros((3, 4), np.float16)), "bias"),
        (dict(bias=np.zeros((1, 1, 1, 4, 4), np.float16)), "bias"),
        (dict(bias=np.zeros((4, 4), np.int8)), "bias"),
        (dict(alibi_slopes=np.zeros(3, np.float32)), "alibi_slopes"),
        (dict(alibi_slopes=np.zeros(2, np.float16)), "alibi_slopes"),
        (dict(cu_seqlens_q=np.array([0, 4], np.int32)), "cu_seqlens_k"),
        (dict(bias_gradient=True), "bias"),
    ],
)
def test_what_is_wrong_or_not_built_raises_by_name(options, message):
    q = ones(1, 2, 4, 16)
    lse = np.zeros((1, 2, 4), np.float32)
    with pytest.raises(TesseraError, match=message):
        run_backward("emulator", q, q, q, q, lse, q, **options)


STARTS_THAT_FAIL = ([0, 3], [1, 4], [0, 3, 2, 4], [0, 5])


@pytest.mark.parametrize("starts", STARTS_THAT_FAIL)
@pytest.mark.parametrize("which", ["cu_seqlens_q", "cu_seqlens_k"])
def test_starts_that_do_not_part_the_rows(which, starts):
    q = ones(1, 2, 4, 16)
    lse = np.zeros((1, 2, 4), np.float32)
    good = np.linspace(0, 4, len(starts)).astype(np.int32)
    options = {"cu_seqlens_q": good, "cu_seqlens_k": good, which: np.array(starts, np.int32)}
    with pytest.raises(OptionError, match=which):
        run_backward("emulator", q, q, q, q, lse, q, **options)


def test_packed_sequences_need_batch_one():
    q = ones(2, 2, 4, 16)
    starts = np.array([0, 4], np.int32)
    with pytest.raises(ShapeError, match="batch = 2"):
        run_forward("emulator", q, q, q, cu_seqlens_q=starts, cu_seqlens_k=starts)


def test_unknown_options_are_refused():
    @tessera.jit(target="gfx1151")
    def attention(q):
        return ops.flash_attn(q, q, q, dropout_p=0.5)  # pyright: ignore

    with pytest.raises(TypeError, match="dropout_p"):
        attention(ones(1, 1, 4, 16))


def test_emulated_backward_is_quick_enough():
    q, k, v = random_attention(128, 128, 64, np.float16, heads=2)
    o, lse = run_forward("emulator", q, k, v)
    run_backward("emulator", q, k, v, o, lse, q)
    start = time.perf_counter()
    run_backward("emulator", q, k, v, o, lse, q)
    assert time.perf_counter() - start < 10
