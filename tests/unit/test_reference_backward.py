"""The float64 backward oracle against finite differences, torch autograd, and known values."""

import itertools

import numpy as np
import pytest

from tessera import reference

OPTIONS = [
    {},
    {"causal": "top_left"},
    {"causal": "bottom_right"},
    {"window": (2, 1)},
    {"causal": True, "window": (1, 5)},
    {"softcap": 0.7},
    {"alibi_slopes": [0.5, 0.25]},
    {"bias": (1, 2, 1, 7)},
    {"bias": (5, 7), "causal": "top_left", "softcap": 2.0},
    {"scale": 0.3, "bias": (2, 1, 5, 7), "window": (3, None), "alibi_slopes": [[0.1, 0.2]] * 2},
]


def name_of(options):
    return "-".join(options) or "plain"


def problem(options, batch=2, heads=2, heads_k=1, seq_q=5, seq_k=7, head_dim=3, head_dim_v=4):
    """Random (arrays by name, keyword options) with the option's bias made of random numbers."""
    rng = np.random.default_rng(11)
    arrays = {
        "q": rng.standard_normal((batch, heads, seq_q, head_dim)),
        "k": rng.standard_normal((batch, heads_k, seq_k, head_dim)),
        "v": rng.standard_normal((batch, heads_k, seq_k, head_dim_v)),
    }
    do = rng.standard_normal((batch, heads, seq_q, head_dim_v))
    options = dict(options)
    if "bias" in options:
        arrays["bias"] = rng.standard_normal(options.pop("bias"))
    return arrays, do, options


def gradients(arrays, do, options, o=None, lse=None):
    values = reference.flash_attn_bwd(
        arrays["q"], arrays["k"], arrays["v"], o, lse, do, bias=arrays.get("bias"), **options
    )
    return dict(zip(arrays, values))


def objective(arrays, do, options):
    o, _ = reference.flash_attn(**arrays, **options)
    return float((o * do).sum())


@pytest.mark.parametrize("options", OPTIONS, ids=name_of)
def test_gradients_agree_with_central_differences(options):
    arrays, do, options = problem(options)
    step = 1e-6
    for name, gradient in gradients(arrays, do, options).items():
        assert gradient.shape == arrays[name].shape
        array = arrays[name]
        numeric = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            kept = array[index]
            array[index] = kept + step
            above = objective(arrays, do, options)
            array[index] = kept - step
            below = objective(arrays, do, options)
            array[index] = kept
            numeric[index] = (above - below) / (2 * step)
        np.testing.assert_allclose(gradient, numeric, atol=2e-8, err_msg=f"d{name}")


@pytest.mark.parametrize("options", OPTIONS, ids=name_of)
def test_gradients_agree_with_torch_autograd(options):
    torch = pytest.importorskip("torch")
    arrays, do, options = problem(options)
    tensors = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}
    q, k, v = (tensors[name] for name in "qkv")
    seq_q, seq_k = q.shape[2], k.shape[2]
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    logits = options.get("scale", q.shape[3] ** -0.5) * (q @ k.transpose(-1, -2))
    if "softcap" in options:
        logits = options["softcap"] * torch.tanh(logits / options["softcap"])
    if "bias" in tensors:
        logits = logits + tensors["bias"]
    causal = options.get("causal", False)
    offset = 0 if causal == "top_left" else seq_k - seq_q
    ahead = torch.arange(seq_k)[None, :] - (torch.arange(seq_q)[:, None] + offset)
    if "alibi_slopes" in options:
        slopes = torch.tensor(options["alibi_slopes"], dtype=torch.float64)
        logits = logits - slopes.reshape(-1, q.shape[1], 1, 1) * ahead.abs()
    hidden = (ahead > 0) if causal else torch.zeros_like(ahead, dtype=torch.bool)
    left, right = options.get("window", (None, None))
    if left is not None:
        hidden = hidden | (ahead < -left)
    if right is not None:
        hidden = hidden | (ahead > right)
    assert not hidden.all(dim=1).any(), "torch's softmax has no value for empty rows"
    weights = torch.softmax(logits.masked_fill(hidden, -torch.inf), dim=-1)
    (weights @ v).backward(torch.tensor(do))
    for name, gradient in gradients(arrays, do, options).items():
        expected = tensors[name].grad
        assert expected is not None
        np.testing.assert_allclose(gradient, expected.numpy(), atol=1e-13, err_msg=f"d{name}")


def column(values, head_dim=16):
    return np.repeat(np.asarray(values, float)[None, None, :, None], head_dim, axis=3)


def test_rows_with_no_visible_key_have_no_gradient():
    q, k, v = column([1] * 5), column([1, -1]), column([1, 3])
    dq, dk, dv = reference.flash_attn_bwd(q, k, v, None, None, np.ones_like(q), causal=True)
    np.testing.assert_allclose(dq[0, 0, :, 0], [0, 0, 0, 0, -0.0053638], atol=1e-7)
    np.testing.assert_allclose(dk[0, 0, :, 0], [-0.0026819, 0.0026819], atol=1e-7)
    np.testing.assert_allclose(dv[0, 0, :, 0], [1.99966465, 3.3535013e-4], atol=1e-8)


@pytest.mark.parametrize(
    "causal, expected", [(True, [25 / 12, 13 / 12, 7 / 12, 1 / 4]), (False, [1, 1, 1, 1])]
)
def test_causal_mask_reaches_the_gradient(causal, expected):
    zeros, ones = column([0] * 4), column([1] * 4)
    _, _, dv = reference.flash_attn_bwd(zeros, zeros, ones, None, None, ones, causal=causal)
    np.testing.assert_allclose(dv[0, 0, :, 0], expected)


def test_key_head_gradients_are_summed_over_the_query_heads():
    q = np.ones((1, 6, 1, 16))
    k = np.ones((1, 2, 1, 16))
    v = k * np.array([1.0, 2.0])[None, :, None, None]
    do = q * np.arange(1, 7)[None, :, None, None]
    _, _, dv = reference.flash_attn_bwd(q, k, v, None, None, do)
    np.testing.assert_array_equal(dv[0, :, 0, 0], [6, 15])


def test_one_hot_key_dims_reach_the_query_gradient():
    k = np.zeros((1, 1, 2, 72))
    k[0, 0, 0, 64:] = 1
    v = np.zeros((1, 1, 2, 72))
    v[0, 0, 0, 0] = 1
    q = np.zeros((1, 1, 1, 72))
    dq, _, dv = reference.flash_attn_bwd(q, k, v, None, None, np.ones_like(q), scale=1.0)
    np.testing.assert_array_equal(dq[0, 0, 0], [0.0] * 64 + [0.25] * 8)
    np.testing.assert_array_equal(dv, np.full_like(v, 0.5))


def test_packed_sequences_without_queries_give_zero_gradients():
    zeros_q, zeros_k = column([0] * 3), column([0] * 4)
    ones = column([1] * 4)
    dq, dk, dv = reference.flash_attn_bwd(
        zeros_q, zeros_k, ones, None, None, np.ones_like(zeros_q),
        cu_seqlens_q=[0, 0, 3], cu_seqlens_k=[0, 2, 4],
    )  # fmt: skip
    np.testing.assert_array_equal(dv[0, 0, :, 0], [0, 0, 1.5, 1.5])
    np.testing.assert_array_equal(dk, 0)
    np.testing.assert_array_equal(dq, 0)


@pytest.mark.parametrize("seq_q, seq_k", list(itertools.product([0, 1], repeat=2)))
def test_lengths_of_zero_and_one(seq_q, seq_k):
    q, k, v = column([1] * seq_q), column([1] * seq_k), column([7] * seq_k)
    dq, dk, dv = reference.flash_attn_bwd(q, k, v, None, None, np.ones_like(q))
    np.testing.assert_array_equal(dq, np.zeros_like(q))
    np.testing.assert_array_equal(dk, np.zeros_like(k))
    np.testing.assert_array_equal(dv, np.full_like(v, float(seq_q)))


def test_given_lse_and_output_are_used():
    arrays, do, options = problem({"causal": True})
    o, lse = reference.flash_attn(arrays["q"], arrays["k"], arrays["v"], causal=True)
    expected = gradients(arrays, do, options)
    given = gradients(arrays, do, options, o, lse)
    for name in arrays:
        np.testing.assert_array_equal(given[name], expected[name])
    shifted = gradients(arrays, do, options, o, lse + 1)
    assert not np.allclose(shifted["v"], expected["v"])
