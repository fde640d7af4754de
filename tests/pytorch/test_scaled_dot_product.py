"""The drop-in against PyTorch's own scaled_dot_product_attention, values and gradients."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn.functional import scaled_dot_product_attention as expected_attention  # noqa: E402

from tessera.errors import OptionError, ShapeError  # noqa: E402
from tessera.pytorch import scaled_dot_product_attention  # noqa: E402


def normal(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def compare(shapes, executor="reference", dtype=torch.float64, tolerance=1e-12, **options):
    """Values and gradients of both, from the same tensors."""
    ours = [normal(*shape, seed=i, dtype=dtype).requires_grad_() for i, shape in enumerate(shapes)]
    theirs = [one.detach().double().requires_grad_() for one in ours]
    found = scaled_dot_product_attention(*ours, executor=executor, **options)
    if (
        isinstance(options.get("attn_mask"), torch.Tensor)
        and options["attn_mask"].is_floating_point()
    ):
        options["attn_mask"] = options["attn_mask"].double()
    expected = expected_attention(*theirs, **options)
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)
    weights = normal(*expected.shape, seed=9, dtype=dtype)
    (found * weights).sum().backward()
    (expected * weights.double()).sum().backward()
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=tolerance, atol=tolerance)


FOUR = ((2, 4, 5, 3), (2, 4, 6, 3), (2, 4, 6, 7))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": normal(5, 6, seed=3)},
        {"attn_mask": normal(2, 1, 5, 6, seed=3)},
        {"attn_mask": normal(5, 6, seed=3) > -1.0},
        {"attn_mask": torch.arange(6)[None] < 4},
    ],
)
def test_values_and_gradients(options):
    compare(FOUR, **options)


@pytest.mark.parametrize(
    "shapes",
    [
        ((5, 3), (6, 3), (6, 3)),
        ((4, 5, 3), (4, 6, 3), (4, 6, 3)),
        ((3, 2, 4, 5, 3), (3, 2, 4, 6, 3), (3, 2, 4, 6, 3)),
    ],
)
def test_other_ranks(shapes):
    compare(shapes)
    compare(shapes, attn_mask=normal(5, 6, seed=3))


def test_mask_of_five_axes():
    shapes = ((3, 2, 4, 5, 3), (3, 2, 4, 6, 3), (3, 2, 4, 6, 3))
    compare(shapes, attn_mask=normal(3, 1, 4, 5, 6, seed=3))
    compare(shapes, attn_mask=normal(2, 1, 5, 6, seed=3))


def test_grouped_heads():
    compare(((2, 6, 5, 3), (2, 2, 6, 3), (2, 2, 6, 3)), enable_gqa=True, is_causal=True)


# Top-left for lengths that differ, on the kernels; f16 on both sides of the comparison.
@pytest.mark.parametrize("seq_q, seq_k", [(2, 5), (5, 2), (20, 33)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_kernels(is_causal, seq_q, seq_k):
    shapes = ((1, 2, seq_q, 16), (1, 2, seq_k, 16), (1, 2, seq_k, 16))
    compare(shapes, "emulator", torch.float16, 8e-3, is_causal=is_causal)


@pytest.mark.parametrize(
    "mask",
    [normal(20, 33, seed=3) > -1.0, torch.arange(33)[None] < 20, normal(2, 1, 33, seed=3).half()],
)
def test_masks_on_the_kernels(mask):
    shapes = ((1, 2, 20, 16), (1, 2, 33, 16), (1, 2, 33, 16))
    compare(shapes, "emulator", torch.float16, 8e-3, attn_mask=mask)


@pytest.mark.parametrize("executor", ["emulator", "reference"])
def test_a_row_without_a_key_is_zero(executor):
    q = normal(1, 1, 3, 16, dtype=torch.float16).requires_grad_()
    mask = torch.ones(3, 3, dtype=torch.bool)
    mask[1] = False
    o = scaled_dot_product_attention(q, q, q, attn_mask=mask, executor=executor)
    assert not o[0, 0, 1].any()
    o.sum().backward()
    assert q.grad.isfinite().all()


# Dropout is not offered: it must not be ignored.
def test_b68_dropout_raises():
    q = normal(1, 1, 4, 4)
    with pytest.raises(OptionError, match=r"dropout_p = 0\.5 is not built"):
        scaled_dot_product_attention(q, q, q, dropout_p=0.5, executor="reference")


def test_what_is_not_defined_raises_by_name():
    q = normal(1, 2, 4, 4)
    mask = torch.ones(4, 4, dtype=torch.bool)
    with pytest.raises(OptionError, match="attn_mask together with is_causal"):
        scaled_dot_product_attention(q, q, q, mask, is_causal=True, executor="reference")
    with pytest.raises(ShapeError, match="2 heads and key has 1; enable_gqa"):
        scaled_dot_product_attention(q, q[:, :1], q[:, :1], executor="reference")
    with pytest.raises(ShapeError, match="key has rank 1"):
        scaled_dot_product_attention(q, q[0, 0, 0], q, executor="reference")


def test_compiles_without_graph_breaks():
    q = normal(1, 2, 4, 4).requires_grad_()

    def loss(q):
        return scaled_dot_product_attention(q, q, q, is_causal=True, executor="reference").sum()

    expected = loss(q)
    torch.testing.assert_close(
        torch.compile(loss, fullgraph=True, backend="aot_eager")(q), expected
    )


@pytest.mark.parametrize("shape", [(20, 33), (2, 1, 33), (1, 2, 1, 1)])
def test_gradient_of_the_mask_on_the_kernels(shape):
    made = (normal(1, 2, seq, 16, seed=seq, dtype=torch.float16) for seq in (20, 33, 33))
    q, k, v = (one.requires_grad_() for one in made)
    mask = normal(*shape, seed=3, dtype=torch.float16).requires_grad_()
    exact_mask = mask.detach().double().requires_grad_()
    weights = normal(1, 2, 20, 16, seed=9)
    o = scaled_dot_product_attention(q, k, v, attn_mask=mask, executor="emulator")
    (o * weights.half()).sum().backward()
    wide = [one.detach().double() for one in (q, k, v)]
    (expected_attention(*wide, attn_mask=exact_mask) * weights.half().double()).sum().backward()
    assert mask.grad is not None
    assert exact_mask.grad is not None
    assert mask.grad.dtype == torch.float16
    torch.testing.assert_close(mask.grad.double(), exact_mask.grad, rtol=8e-3, atol=8e-3)
