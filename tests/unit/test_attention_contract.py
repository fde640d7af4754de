"""Attention's contract: optional operands and results, broadcasting, packed sequences, refusals."""

import pytest

import tessera
from tessera import ops
from tessera.contracts import TensorSpec, bind
from tessera.errors import DtypeError, OptionError, ShapeError


def spec(dtype, *shape):
    return TensorSpec(shape, dtype)


Q, K = spec("f16", 2, 4, 10, 16), spec("f16", 2, 2, 12, 16)
LSE = spec("f32", 2, 4, 10)


def forward(*extra, **options):
    return bind("flash_attn", [Q, K, K, *extra], options)


def backward(*extra, **options):
    return bind("flash_attn_bwd", [Q, K, K, Q, LSE, Q, *extra], options)


def test_gradients_have_the_shapes_of_their_operands():
    results = backward().results
    assert results == {"dq": Q, "dk": K, "dv": K}


def test_lse_is_absent_where_it_is_computed():
    results = bind("flash_attn_bwd", [Q, K, K, Q, Q], {"compute_lse": True}).results
    assert list(results) == ["dq", "dk", "dv"]
    with pytest.raises(ShapeError, match=r"takes 5 operands \(q, k, v, o, do\), got 6"):
        backward(compute_lse=True)


@pytest.mark.parametrize(
    "shape", [(2, 4, 10, 12), (1, 1, 1, 1), (4, 1, 12), (10, 1), (12,), (), (2, 1, 1, 12)]
)
def test_bias_broadcasts_and_its_gradient_has_its_shape(shape):
    bias = spec("bf16", *shape)
    assert forward(bias, bias_dtype="bf16").operands["bias"] == bias
    results = backward(bias, bias_dtype="bf16", bias_gradient=True).results
    assert results["dbias"] == bias


@pytest.mark.parametrize("shape", [(3, 4, 10, 12), (10, 11), (9, 12), (2, 1, 1), (1, 2, 4, 10, 12)])
def test_bias_that_does_not_broadcast(shape):
    with pytest.raises(ShapeError, match="operand 'bias'"):
        forward(spec("f32", *shape), bias_dtype="f32")


def test_bias_of_unknown_sizes():
    bias = spec("f32", None, 1, None, None)
    assert forward(bias, bias_dtype="f32").operands["bias"] == bias


@pytest.mark.parametrize("shape", [(4,), (2, 4), (1, 4)])
def test_slopes_for_heads_or_for_batch_and_heads(shape):
    assert forward(spec("f32", *shape), alibi=True).symbols["heads"] == 4


@pytest.mark.parametrize("shape", [(1,), (2, 1), (3, 4), (), (1, 2, 4)])
def test_slopes_do_not_broadcast_over_heads(shape):
    with pytest.raises(ShapeError, match="operand 'alibi_slopes'"):
        forward(spec("f32", *shape), alibi=True)


def test_packed_sequences_are_counted():
    q, k, starts = spec("f16", 1, 4, 10, 16), spec("f16", 1, 4, 12, 16), spec("i32", 4)
    options = {"variable_lengths": True}
    assert bind("flash_attn", [q, k, k, starts, starts], options).symbols["sequences"] == 3
    with pytest.raises(ShapeError, match="'cu_seqlens_k' .* = 3, expected 4"):
        bind("flash_attn", [q, k, k, starts, spec("i32", 3)], options)
    with pytest.raises(ShapeError, match="batch = 2, expected 1"):
        forward(starts, starts, **options)
    with pytest.raises(ShapeError, match="cu_seqlens_q is empty"):
        bind("flash_attn", [q, k, k, spec("i32", 0), spec("i32", 0)], options)
    with pytest.raises(DtypeError, match="'cu_seqlens_q' has dtype i64; supported: i32"):
        bind("flash_attn", [q, k, k, spec("i64", 4), starts], options)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"causal": "left"}, "causal = 'left'"),
        ({"window_left": -1}, "window_left = -1"),
        ({"window_right": 2**31}, "window_right"),
        ({"softcap": 0.0}, "softcap = 0.0"),
        ({"softcap": float("inf")}, "softcap"),
        ({"softcap": 1e-60}, "softcap = 1e-60 is not supported; supported: 1e-10 to 1e\\+20"),
        ({"scale": -1e39}, "scale = -1e\\+39 is not supported; supported: -1e\\+20 to 1e\\+20"),
        ({"bias_gradient": True}, "bias_gradient without a bias"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(OptionError, match=message):
        backward(**options)


def test_bias_dtype_must_be_that_of_the_operand():
    with pytest.raises(DtypeError, match="bias_dtype = f32, but operand 'bias' is f16"):
        forward(spec("f16", 10, 12), bias_dtype="f32")


# Tracing.


def test_options_become_attributes():
    @tessera.jit()
    def traced(q, k, v, bias, slopes):
        return ops.flash_attn(
            q, k, v, causal=True, window=(3, -1), softcap=2, bias=bias, alibi_slopes=slopes
        )

    text = str(traced.trace())
    assert 'causal = "bottom_right"' in text
    assert "window_left = 3" in text
    assert "window_right" not in text
    assert "softcap = 2.0" in text
    assert 'bias_dtype = "f16"' in text
    assert "alibi = true" in text


def test_tracing_without_arguments_gives_statistics_and_starts_their_dtypes():
    @tessera.jit()
    def traced(q, k, v, o, lse, do, starts_q, starts_k):
        return ops.flash_attn_bwd(q, k, v, o, lse, do, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k)

    text = str(traced.trace())
    assert "%lse: tensor<?x?x?xf32>" in text
    assert "%starts_q: tensor<?xi32>" in text
    assert "%do: tensor<?x?x?x64xf16>" in text


@pytest.mark.parametrize(
    "options, message",
    [
        ({"window": 3}, "window = 3 must be a pair"),
        ({"window": (True, 1)}, "must hold integers"),
        ({"window": (-2, 1)}, "at least 0"),
        ({"softcap": True}, "softcap"),
        ({"bias_gradient": 1}, "bias_gradient"),
        ({"schedule": {"queries_per_wave": 16}}, "queries_per_wave"),
    ],
)
def test_options_are_checked_while_tracing(options, message):
    @tessera.jit()
    def traced(q, k, v, o, lse, do):
        return ops.flash_attn_bwd(q, k, v, o, lse, do, **options)

    with pytest.raises(OptionError, match=message):
        traced.trace()


def test_option_tensors_must_be_traced():
    @tessera.jit()
    def traced(q, k, v):
        return ops.flash_attn(q, k, v, bias=[1.0])  # pyright: ignore

    with pytest.raises(DtypeError, match="operand 'bias' must be a traced tensor, got list"):
        traced.trace()
