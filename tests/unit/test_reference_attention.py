"""The float64 attention oracle against values computed by hand and known fault inputs."""

import numpy as np
import pytest

from tessera import reference
from tessera.errors import OptionError, ShapeError

HEAD_DIM = 16


def rows(values, head_dim=HEAD_DIM):
    """[1, 1, len(values), head_dim] whose row j holds values[j] in every column."""
    column = np.asarray(values, dtype=np.float64)
    return np.repeat(column[None, None, :, None], head_dim, axis=3)


def first_column(o):
    return o[0, 0, :, 0]


def test_rows_with_no_visible_key_are_zero_with_lse_of_minus_infinity():
    o, lse = reference.flash_attn(rows([1] * 5), rows([1, -1]), rows([1, 3]), causal=True)
    np.testing.assert_allclose(first_column(o), [0, 0, 0, 1, 1.0006707], atol=1e-7)
    np.testing.assert_allclose(lse[0, 0], [-np.inf, -np.inf, -np.inf, 4, 4.00033541], atol=1e-8)


@pytest.mark.parametrize(
    "causal, seq_q, seq_k, expected",
    [
        ("bottom_right", 2, 5, [1.5, 2.0]),
        (True, 2, 5, [1.5, 2.0]),
        ("top_left", 2, 5, [0, 0.5]),
        ("bottom_right", 5, 2, [0, 0, 0, 0, 0.5]),
        ("top_left", 5, 2, [0, 0.5, 0.5, 0.5, 0.5]),
        (False, 2, 5, [2, 2]),
        ("none", 2, 5, [2, 2]),
    ],
)
def test_causal_alignment(causal, seq_q, seq_k, expected):
    o, lse = reference.flash_attn(
        rows([0] * seq_q), rows([0] * seq_k), rows(range(seq_k)), causal=causal
    )
    np.testing.assert_allclose(first_column(o), expected, atol=1e-14)
    if (causal, seq_q) == ("bottom_right", 2):
        np.testing.assert_allclose(lse[0, 0], np.log([4, 5]))


def test_large_logits_do_not_overflow():
    ones = np.full((1, 1, 1, 128), 256.0)
    o, lse = reference.flash_attn(ones, np.repeat(ones, 2, axis=2), rows([1, 3], 128))
    assert first_column(o)[0] == 2.0
    assert lse[0, 0, 0] == pytest.approx(741455.8933, abs=1e-4)


def test_maximum_that_grows_over_the_keys():
    k, v = np.repeat([0.5, 0.25, 0.0], 16), np.repeat([1, 2, 3], 16)
    o, lse = reference.flash_attn(rows([1]), rows(k), rows(v))
    assert first_column(o)[0] == pytest.approx(1.42478962, abs=1e-8)
    assert lse[0, 0, 0] == pytest.approx(5.18019468, abs=1e-8)
    o, lse = reference.flash_attn(rows([1]), rows(k[::-1]), rows(v))
    assert first_column(o)[0] == pytest.approx(2.57521038, abs=1e-8)
    assert lse[0, 0, 0] == pytest.approx(5.18019468, abs=1e-8)


def test_lse_lets_two_parts_merge():
    q, k, v = rows([1]), rows([0, 0, 0.5, 0.5]), rows(range(4))
    o, lse = reference.flash_attn(q, k, v)
    assert first_column(o)[0] == pytest.approx(2.26159416, abs=1e-8)
    assert lse[0, 0, 0] == pytest.approx(2.82007519, abs=1e-8)
    parts = [reference.flash_attn(q, k[:, :, s], v[:, :, s]) for s in (slice(0, 2), slice(2, 4))]
    weights = [np.exp(part_lse - lse)[..., None] for _, part_lse in parts]
    merged = sum(w * part_o for w, (part_o, _) in zip(weights, parts))
    np.testing.assert_allclose(merged, o, atol=1e-14)


def test_no_keys_and_no_queries():
    o, lse = reference.flash_attn(rows([1] * 3), rows([]), rows([]))
    np.testing.assert_array_equal(o, np.zeros((1, 1, 3, HEAD_DIM)))
    np.testing.assert_array_equal(lse, np.full((1, 1, 3), -np.inf))
    o, lse = reference.flash_attn(rows([]), rows([1] * 3), rows([1] * 3), causal=True)
    assert o.shape == (1, 1, 0, HEAD_DIM)
    assert lse.shape == (1, 1, 0)


def test_hidden_keys_cannot_spread_nan():
    k, v = rows([0, 0, np.nan]), rows([1, 1, np.inf])
    o, lse = reference.flash_attn(rows([0, 0, 0]), k, v, causal=True)
    np.testing.assert_array_equal(first_column(o)[:2], [1, 1])
    np.testing.assert_allclose(lse[0, 0, :2], np.log([1, 2]))
    assert np.isnan(o[0, 0, 2]).all(), "the row that sees the NaN key must show it"


def test_query_heads_read_their_own_key_head():
    q = np.ones((1, 6, 1, HEAD_DIM))
    k = np.ones((1, 2, 1, HEAD_DIM))
    v = k * np.array([1.0, 2.0])[None, :, None, None]
    o, _ = reference.flash_attn(q, k, v)
    np.testing.assert_array_equal(o[0, :, 0, 0], [1, 1, 1, 2, 2, 2])
    with pytest.raises(ShapeError, match="3 query heads are no multiple of 2 key heads"):
        reference.flash_attn(q[:, :3], k, v)
    with pytest.raises(ShapeError, match="no multiple of 0 key heads"):
        reference.flash_attn(q[:, :3], k[:, :0], v[:, :0])


def test_value_head_dim_may_differ():
    o, _ = reference.flash_attn(rows([0]), rows([0, 0]), rows([1, 3], 40))
    np.testing.assert_array_equal(o, np.full((1, 1, 1, 40), 2.0))


def test_softcap():
    q, k, v = rows([2]), rows([0.125, 0]), rows([1, 3])
    o, lse = reference.flash_attn(q, k, v, softcap=1.0)
    assert first_column(o)[0] == pytest.approx(1.63660052, abs=1e-8)
    assert lse[0, 0, 0] == pytest.approx(1.14476013, abs=1e-8)
    o, _ = reference.flash_attn(q, k, v)
    assert first_column(o)[0] == pytest.approx(1.53788284, abs=1e-8)
    with pytest.raises(OptionError, match="softcap=0"):
        reference.flash_attn(q, k, v, softcap=0)


@pytest.mark.parametrize(
    "window, seq_q, seq_k, expected",
    [
        ((2, 0), 8, 8, [0, 0.5, 1, 2, 3, 4, 5, 6]),
        ((2, 0), 2, 8, [5, 6]),
        ((1, 1), 8, 8, [0.5, 1, 2, 3, 4, 5, 6, 6.5]),
        ((-1, 0), 3, 3, [0, 0.5, 1]),
        ((None, None), 2, 3, [1, 1]),
    ],
)
def test_sliding_window_includes_the_own_position(window, seq_q, seq_k, expected):
    o, _ = reference.flash_attn(
        rows([0] * seq_q), rows([0] * seq_k), rows(range(seq_k)), window=window
    )
    np.testing.assert_allclose(first_column(o), expected, atol=1e-14)


def test_alibi_counts_distance_from_the_aligned_position():
    q, k, v = rows([0, 0, 0]), rows([0, 0, 0]), rows([0, 1, 2])
    o, _ = reference.flash_attn(q, k, v, alibi_slopes=[0.5])
    np.testing.assert_allclose(first_column(o), [0.67984333, 1, 1.32015667], atol=1e-8)
    o, _ = reference.flash_attn(q[:, :, :1], k, v, alibi_slopes=[0.5])
    np.testing.assert_allclose(first_column(o), [1.32015667], atol=1e-8)
    with pytest.raises(ShapeError, match="alibi_slopes has shape"):
        reference.flash_attn(q, k, v, alibi_slopes=[0.5, 0.5])


def test_bias_broadcasts_and_hides_at_minus_infinity():
    q, k, v = rows([0, 0]), rows([0, 0]), rows([1, 3])
    bias = np.array([[0.0, -np.inf], [-np.inf, -np.inf]])
    o, lse = reference.flash_attn(q, k, v, bias=bias)
    np.testing.assert_array_equal(first_column(o), [1, 0])
    np.testing.assert_array_equal(lse[0, 0], [0, -np.inf])


def test_packed_sequences_are_independent():
    rng = np.random.default_rng(3)
    q = rng.standard_normal((1, 2, 8, 4))
    k, v = rng.standard_normal((2, 1, 2, 9, 4))
    starts_q, starts_k = [0, 0, 3, 7], [0, 2, 4, 9]
    o, lse = reference.flash_attn(
        q, k, v, causal=True, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k
    )
    for s in range(3):
        rows_s, keys_s = slice(*starts_q[s : s + 2]), slice(*starts_k[s : s + 2])
        o_s, lse_s = reference.flash_attn(q[:, :, rows_s], k[:, :, keys_s], v[:, :, keys_s], True)
        np.testing.assert_array_equal(o[:, :, rows_s], o_s)
        np.testing.assert_array_equal(lse[:, :, rows_s], lse_s)
    np.testing.assert_array_equal(o[:, :, 7:], 0)
    with pytest.raises(OptionError, match="given together"):
        reference.flash_attn(q, k, v, cu_seqlens_q=starts_q)
    with pytest.raises(OptionError, match="must ascend"):
        reference.flash_attn(q, k, v, cu_seqlens_q=[0, 9], cu_seqlens_k=[0, 9])


def test_unknown_causal_mode_is_named():
    with pytest.raises(OptionError, match="causal='lower' is unknown; supported: .*top_left"):
        reference.flash_attn(rows([0]), rows([0]), rows([0]), causal="lower")


def test_b64_the_oracle_does_not_lose_precision_on_long_rows():
    """Logits of +-700 over 4096 keys: float64 stays within 1e-11 of exact sums of the weights."""
    rng = np.random.default_rng(0)
    k = rng.standard_normal((1, 1, 4096, 128)).astype(np.float16)
    q = np.full((1, 1, 1, 128), 16.0, dtype=np.float16) * np.sign(k[:, :, :1])
    _, lse64 = reference.flash_attn(q, k, k, scale=1.0)
    logits = (k.astype(object) * q.astype(object)).sum(axis=-1)[0, 0]
    largest = max(logits)
    assert largest > 700
    exact = float(largest) + np.log(np.exp([float(x - largest) for x in logits]).sum())
    assert lse64[0, 0, 0] == pytest.approx(exact, rel=1e-14)
