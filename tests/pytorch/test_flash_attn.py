"""The PyTorch ops: schemas, fake kernels, gradients, compilation, executors, refusals."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tessera import pytorch as tessera_torch  # noqa: E402
from tessera import reference  # noqa: E402
from tessera.errors import DtypeError, OptionError, ShapeError  # noqa: E402
from tessera.pytorch import operators  # noqa: E402
from tessera.pytorch.attention import CAUSAL  # noqa: E402

SLOPES = torch.tensor([0.5, 0.125], dtype=torch.float64)
STARTS = {
    "cu_seqlens_q": torch.tensor([0, 2, 2, 5], dtype=torch.int32),
    "cu_seqlens_k": torch.tensor([0, 4, 5, 6], dtype=torch.int32),
}
OPTIONS = {
    "plain": {},
    "top_left": {"causal": "top_left"},
    "bottom_right": {"causal": True},
    "scale": {"scale": -0.4},
    "window": {"window": (2, 1)},
    "window_left": {"window": (1, None), "causal": True},
    "softcap": {"softcap": 0.7},
    "alibi": {"alibi_slopes": SLOPES},
    "packed": STARTS,
}


def tensors(dtype=torch.float64, heads_k=1, seed=0, head_dim_v=4):
    """q, k, v that need gradients: two heads, 5 queries, 6 keys."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((1, 2, 5, 3), (1, heads_k, 6, 3), (1, heads_k, 6, head_dim_v))
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [one.to(dtype).requires_grad_() for one in drawn]


def arguments(q, k, v, executor="reference", bias=None, **options):
    """The op's positional arguments."""
    causal = CAUSAL[options.get("causal", False)]
    left, right = operators.window_sides(options.get("window"))
    return (
        q, k, v, bias, options.get("alibi_slopes"), options.get("cu_seqlens_q"),
        options.get("cu_seqlens_k"), causal, options.get("scale"), left, right,
        options.get("softcap"), executor,
    )  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
def test_forward_op_passes_opcheck(option):
    torch.library.opcheck(operators.FLASH_ATTN, arguments(*tensors(), **OPTIONS[option]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_forward_op_passes_opcheck_in_every_dtype(dtype):
    bias = torch.randn(5, 6, dtype=dtype, requires_grad=True)
    torch.library.opcheck(operators.FLASH_ATTN, arguments(*tensors(dtype), bias=bias))


@pytest.mark.parametrize("bias_gradient", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_backward_op_passes_opcheck(dtype, bias_gradient):
    q, k, v = (one.detach() for one in tensors(dtype))
    bias = torch.randn(1, 1, 5, 6, dtype=dtype)
    call = arguments(q, k, v, bias=bias, causal=True)
    o, lse = operators.FLASH_ATTN(*call)
    call = (*call[:3], o, lse, torch.randn_like(o), *call[3:-1], bias_gradient, call[-1])
    torch.library.opcheck(operators.FLASH_ATTN_BWD, call)


@pytest.mark.parametrize("option", OPTIONS)
def test_gradcheck_through_the_reference(option):
    def function(q, k, v):
        return tessera_torch.flash_attn(q, k, v, executor="reference", **OPTIONS[option])

    assert torch.autograd.gradcheck(function, tensors())


@pytest.mark.parametrize("shape", [(1, 2, 5, 6), (5, 6), (2, 1, 1), (1, 1, 1, 6)])
def test_gradcheck_of_the_bias(shape):
    bias = torch.randn(shape, dtype=torch.float64, requires_grad=True)

    def function(q, k, v, bias):
        return tessera_torch.flash_attn(q, k, v, bias=bias, executor="reference")

    assert torch.autograd.gradcheck(function, (*tensors(), bias))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("option", ["plain", "window_left", "alibi", "packed"])
def test_compiles_without_graph_breaks(option, dynamic):
    def loss(q, k, v):
        o = tessera_torch.flash_attn(q * 2, k, v, executor="reference", **OPTIONS[option])
        return (o.square() + 1).sum()

    eager, compiled = tensors(), tensors()
    expected = loss(*eager)
    found = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend="aot_eager")(*compiled)
    torch.testing.assert_close(found, expected)
    expected.backward()
    found.backward()
    for one, other in zip(eager, compiled):
        torch.testing.assert_close(one.grad, other.grad)


def layouts(dtype, heads_k):
    """(q, k, v) as [batch, heads, seq, head_dim], and the same with seq before heads in memory."""
    made = torch.randn(2, 4, 9, 16), torch.randn(2, heads_k, 7, 16), torch.randn(2, heads_k, 7, 16)
    straight = [one.to(dtype) for one in made]
    yield straight
    yield [one.transpose(1, 2).contiguous().transpose(1, 2) for one in straight]


# Fake kernels that promise other strides or dtypes than the real ones give.
@pytest.mark.parametrize("heads_k", [4, 2, 1])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("executor", ["emulator", "reference"])
def test_b67_fake_results_are_as_the_real_ones(executor, dtype, heads_k):
    from torch._subclasses.fake_tensor import FakeTensorMode

    for q, k, v in layouts(dtype, heads_k):
        call = arguments(q, k, v, executor)
        real = operators.FLASH_ATTN(*call)
        rest = (*call[3:-1], False, executor)
        real_backward = operators.FLASH_ATTN_BWD(q, k, v, *real, real[0], *rest)
        with FakeTensorMode() as mode:
            fake = [mode.from_tensor(one) for one in (q, k, v, *real, real[0])]
            promised = operators.FLASH_ATTN(*fake[:3], *call[3:])
            promised_backward = operators.FLASH_ATTN_BWD(*fake, *rest)
        pairs = zip((*real, *real_backward), (*promised, *promised_backward), strict=True)
        for one, other in pairs:
            assert one.shape == other.shape
            assert one.stride() == other.stride()
            assert one.dtype == other.dtype
            assert one.device == other.device


@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 1e-3), (torch.bfloat16, 8e-3)])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"softcap": 1.0, "window": (3, 2)}])
def test_gradients_of_the_kernels(options, dtype, tolerance):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, 9, 16).to(dtype).requires_grad_() for heads in (4, 2, 2))
    # A gradient that is one number, repeated by stride 0.
    tessera_torch.flash_attn(q, k, v, executor="emulator", **options).sum().backward()
    q1, k1, v1 = (one.detach().double().numpy() for one in (q, k, v))
    exact = reference.flash_attn_bwd(q1, k1, v1, None, None, np.ones((1, 4, 9, 16)), **options)
    for tensor, expected in zip((q, k, v), exact):
        error = np.linalg.norm(tensor.grad.double().numpy() - expected)
        assert error <= tolerance * max(np.linalg.norm(expected), 1.0)
        assert tensor.grad.dtype == dtype


def test_tensors_whose_rows_are_not_contiguous():
    q = torch.randn(1, 2, 16, 5, dtype=torch.float64).half().transpose(2, 3)
    o = tessera_torch.flash_attn(q, q, q, executor="emulator")
    again = tessera_torch.flash_attn(*[q.contiguous()] * 3, executor="emulator")
    assert torch.equal(o, again)


def test_lse_comes_beside_o_and_has_no_gradient():
    q, k, v = tensors()
    o, lse = tessera_torch.flash_attn(q, k, v, return_lse=True, executor="reference")
    assert o.requires_grad
    assert not lse.requires_grad
    expected = torch.logsumexp(q @ k.transpose(-1, -2) * 3**-0.5, -1)
    torch.testing.assert_close(lse, expected.detach())


def test_tensors_in_host_memory_need_a_named_executor(monkeypatch):
    q, k, v = tensors(torch.float16)
    monkeypatch.delenv("TESSERA_EXECUTOR", raising=False)
    with pytest.raises(OptionError, match="name the executor.*emulator, reference"):
        tessera_torch.flash_attn(q, k, v)
    with pytest.raises(OptionError, match="'hip'"):
        tessera_torch.flash_attn(q, k, v, executor="hip")
    monkeypatch.setenv("TESSERA_EXECUTOR", "reference")
    assert tessera_torch.flash_attn(q, k, v).shape == (1, 2, 5, 4)


@pytest.mark.parametrize("executor", ["emulator", "reference"])
@pytest.mark.parametrize("heads, heads_k", [(3, 2), (33, 2)])
def test_b14_heads_that_do_not_divide(executor, heads, heads_k):
    q, k = torch.zeros(1, heads, 4, 16).half(), torch.zeros(1, heads_k, 4, 16).half()
    with pytest.raises(ShapeError, match=f"{heads} .* {heads_k}"):
        tessera_torch.flash_attn(q, k, k, executor=executor)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"causal": "left"}, "causal"),
        ({"window": (1, 2, 3)}, "window"),
        ({"window": (-2, 0)}, "window"),
        ({"softcap": -1.0}, "softcap"),
        ({"executor": "cuda"}, "executor"),
        ({"cu_seqlens_q": STARTS["cu_seqlens_q"]}, "cu_seqlens_k"),
    ],
)
@pytest.mark.parametrize("executor", ["emulator", "reference"])
def test_options_that_are_wrong_raise_by_name(executor, options, message):
    q, k, v = tensors(torch.float16)
    with pytest.raises(OptionError, match=message):
        tessera_torch.flash_attn(q, k, v, **{"executor": executor, **options})


def test_kernels_take_no_other_dtypes():
    q, k, v = tensors(torch.float32)
    with pytest.raises(DtypeError, match=r"'q' has dtype f32; supported: f16, bf16"):
        tessera_torch.flash_attn(q, k, v, executor="emulator")


def test_gradient_of_the_slopes_is_refused():
    slopes = SLOPES.clone().requires_grad_()
    o = tessera_torch.flash_attn(*tensors(), alibi_slopes=slopes, executor="reference")
    with pytest.raises(OptionError, match="gradient of alibi_slopes"):
        o.sum().backward()


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="dropout_p"):
        tessera_torch.flash_attn(*tensors(), executor="reference", dropout_p=0.5)  # pyright: ignore


def test_second_derivatives_are_refused():
    q, k, v = tensors()
    o = tessera_torch.flash_attn(q, k, v, executor="reference")
    (gradient,) = torch.autograd.grad(o.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="flash_attn_bwd"):
        gradient.sum().backward()


def test_tensors_on_several_devices_are_refused():
    q = torch.zeros(1, 1, 4, 16, dtype=torch.float16)
    for k, v, name in ((q.to("meta"), q, "k"), (q, q.to("meta"), "v")):
        with pytest.raises(OptionError, match=f"operand '{name}' lies on meta, q on cpu"):
            tessera_torch.flash_attn(q, k, v, executor="emulator")
