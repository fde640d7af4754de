"""Functions of several operations: one code object, unique kernel names, one launch plan."""

import numpy as np
import pytest
from kernel_runs import CHIP, DTYPES, HALF

import tessera
from tessera import ops, reference, testing
from tessera.testing import random_tensor


@tessera.jit(target=CHIP)
def two_layers(x, w1, w2):
    """[rows, model] -> [rows, model] through a hidden layer with relu."""
    hidden = ops.relu(ops.matmul(x, w1))
    return ops.matmul(ops.cast(hidden, "f16"), w2)


def two_layers_float64(x, w1, w2):
    hidden = reference.relu(reference.matmul(x, w1))
    return reference.matmul(reference.cast(hidden, np.float16), w2)


def mlp_operands(rows):
    return (
        random_tensor((rows, 48), np.float16, 1),
        random_tensor((48, 80), np.float16, 2, deviation=48**-0.5),
        random_tensor((80, 33), np.float16, 3, deviation=80**-0.5),
    )


@pytest.mark.parametrize("rows", [1, 17, 64])
def test_two_layer_perceptron(executor, rows):
    operands = mlp_operands(rows)
    artifact = two_layers.lower(*operands)
    result = tessera.runtime.launch(artifact, *operands, executor=executor)
    expected = two_layers_float64(*operands)
    # One rounding of the hidden layer (f16, of values below 8) carried through the second matrix.
    hidden = reference.relu(reference.matmul(*operands[:2]))
    carried = (2.0**-11 * np.abs(hidden) + 1e-5) @ np.abs(operands[2].astype(float))
    testing.check(result, expected, carried + 1e-5)


def test_every_kernel_has_its_own_name():
    artifact = two_layers.lower(*mlp_operands(17))
    names = [kernel.name for kernel in artifact.kernels]
    # The activation and the rounding are part of the first matmul's kernel.
    assert len(names) == 2
    assert len(set(names)) == len(names)
    for name in names:
        assert name.encode() in artifact.hsaco


def test_target_ir_of_a_plain_matmul_without_a_call():
    @tessera.jit(target="rocm")
    def product(a, b):
        return ops.matmul(a, b)

    text = product.target_ir
    for part in ("tessera_rocm.wmma_gemm", "tessera_rocm.mfma", "tessera_rocm.async_copy",
                 "tessera_rocm.wait", "m = 16", "n = 16", "k = 16", "mt = ", "nt = ",
                 'dtype = "f16"', 'name = "'):  # fmt: skip
        assert part in text, f"no {part!r} in the target IR"
    assert product.hsaco[:4] == b"\x7fELF"


def attention_block(heads, head_dim):
    @tessera.jit(target=CHIP)
    def block(x, wq, wk, wv):
        """[seq, model] -> [1, heads, seq, head_dim]: projections followed by attention."""
        q, k, v = (split_heads(ops.matmul(x, w, out_dtype="f16")) for w in (wq, wk, wv))
        return ops.flash_attn(q, k, v, causal=True)

    def split_heads(projected):
        return projected.reshape(1, -1, heads, head_dim).transpose(0, 2, 1, 3)

    return block


def rounded(x, dtype):
    return np.asarray(x).astype(dtype)


@pytest.mark.parametrize("seq", [17, 64])
def test_projections_followed_by_attention(executor, seq):
    heads, head_dim, model = 2, 40, 48
    x = random_tensor((seq, model), np.float16, 1)
    weights = [
        random_tensor((model, heads * head_dim), np.float16, s, model**-0.5) for s in (2, 3, 4)
    ]
    artifact = attention_block(heads, head_dim).lower(x, *weights)
    o = tessera.runtime.launch(artifact, x, *weights, executor=executor)

    def split_heads(projected):
        return projected.reshape(1, seq, heads, head_dim).transpose(0, 2, 1, 3)

    q, k, v = (split_heads(rounded(reference.matmul(x, w), np.float16)) for w in weights)
    expected, _ = reference.flash_attn(q, k, v, True)
    o_bound, _ = testing.attention_bound(q, k, v, True)
    # A float32 sum may round to the other neighbour in f16: one unit of each of q, k and v.
    slack = 8 * 2.0**-11 * max(float(np.abs(z).max()) for z in (q, k, v))
    testing.check(o, expected, o_bound + slack)
    names = [kernel.name for kernel in artifact.kernels]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("function", ["relu", "gelu", "silu", "add", "mul", "cast"])
def test_elementwise(executor, function, dtype):
    x = random_tensor((5, 67), DTYPES[dtype], 1, deviation=3.0)
    y = random_tensor((67,), DTYPES[dtype], 2)
    binary = function in ("add", "mul")

    @tessera.jit(target=CHIP)
    def apply(x, y):
        if function == "cast":
            return ops.cast(x, "f32")
        one = getattr(ops, function)
        return one(x, y) if binary else one(x)

    result = tessera.runtime.launch(apply.lower(x, y), x, y, executor=executor)
    if function == "cast":
        expected = x.astype(np.float64)
    else:
        one = getattr(reference, function)
        expected = one(x, y) if binary else one(x)
    assert result.dtype == (np.float32 if function == "cast" else DTYPES[dtype])
    # One rounding of the result and a few float32 roundings of what leads to it.
    bound = testing.rounding_bound(expected, result.dtype) * 1.01 + 2e-6
    testing.check(result, expected, bound)


@pytest.mark.parametrize("form", ["none", "tanh"])
def test_gelu_forms_differ(executor, form):
    x = np.array([[3.0, 1.0, -1.0, 0.0]], np.float16)

    @tessera.jit(target=CHIP)
    def apply(x):
        return ops.cast(ops.gelu(ops.cast(x, "f32"), approximate=form), "f32")

    result = tessera.runtime.launch(apply.lower(x), x, executor=executor)
    at_three = {"none": 2.99595031, "tanh": 2.99636261}[form]
    at_one = {"none": 0.84134475, "tanh": 0.84119199}[form]
    expected = [[at_three, at_one, at_one - 1.0, 0.0]]
    testing.check(result, np.array(expected), 2e-6)


def test_calling_gives_what_launching_gives():
    operands = mlp_operands(17)
    called = two_layers(*operands)
    launched = tessera.runtime.launch(two_layers.lower(*operands), *operands, executor="auto")
    assert isinstance(called, np.ndarray)
    np.testing.assert_array_equal(called, launched)


def test_torch_tensors_in_torch_tensors_out(executor):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float16, torch.bfloat16):
        a = torch.randn(17, 33, generator=torch.Generator().manual_seed(0)).to(dtype)
        b = torch.randn(33, 16, generator=torch.Generator().manual_seed(1)).to(dtype)

        @tessera.jit(target=CHIP)
        def product(a, b):
            return ops.matmul(a, b)

        result = tessera.runtime.launch(product.lower(a, b), a, b, executor=executor)
        assert isinstance(result, torch.Tensor)
        assert result.dtype == torch.float32
        error = (result.double() - a.double() @ b.double()).abs().max()
        assert error < 1e-4
