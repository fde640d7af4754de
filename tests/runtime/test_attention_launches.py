"""Attention's launches: workspaces, optional operands and strides on the device and elsewhere."""

import numpy as np
import pytest

import tessera
from tessera import ops, reference, runtime
from tessera.errors import LaunchError, OptionError
from tessera.runtime.device_array import DeviceArray
from tessera.testing import random_attention, random_tensor

Q, K, V = random_attention(20, 33, 16, np.float16, heads=2)
DO = random_tensor(Q.shape, np.float16, 7)
BIAS = random_tensor((1, 1, 33), np.float32, 8)
SLOPES = np.array([0.5, 0.1], np.float32)
STARTS_Q, STARTS_K = np.array([0, 9, 20], np.int32), np.array([0, 30, 33], np.int32)


@tessera.jit()
def both(q, k, v, do, bias, slopes):
    options = {"causal": True, "bias": bias, "alibi_slopes": slopes}
    o, lse = ops.flash_attn(q, k, v, return_lse=True, **options)
    return ops.flash_attn_bwd(q, k, v, o, lse, do, bias_gradient=True, **options)


@tessera.jit()
def packed(q, k, v, starts_q, starts_k):
    return ops.flash_attn(q, k, v, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k)


def check(gradients):
    exact = reference.flash_attn_bwd(
        Q, K, V, None, None, DO, causal=True, bias=BIAS, alibi_slopes=SLOPES
    )
    for gradient, expected in zip(gradients, exact, strict=True):
        error = np.linalg.norm(np.asarray(gradient, np.float64) - expected)
        assert error < 1e-3 * np.linalg.norm(expected)


@pytest.mark.usefixtures("hip_runtime")
def test_gradients_on_a_device():
    arrays = [DeviceArray.from_host(one) for one in (Q, K, V, DO, BIAS, SLOPES)]
    artifact = both.lower(Q, K, V, DO, BIAS, SLOPES)
    results = runtime.launch(artifact, *arrays, executor="hip")
    check([one.to_host() for one in results])
    forward, *backward = runtime.last_launch().kernels
    assert forward == "flash_attn_0"
    endings = [name.removeprefix("flash_attn_bwd_0_") for name in backward]
    assert endings == ["pre", "dkdv", "dq", "dbias", "dbias_sum"]


@pytest.mark.parametrize("executor", ["emulator", "reference"])
def test_gradients_elsewhere(executor):
    artifact = both.lower(Q, K, V, DO, BIAS, SLOPES)
    check(runtime.launch(artifact, Q, K, V, DO, BIAS, SLOPES, executor=executor))


# A bias whose last axis is not contiguous is read as it is, other operands are refused.
def test_strides_of_the_bias_are_free():
    wide = np.zeros((1, 1, 66), np.float32)[:, :, ::2]
    wide[...] = BIAS
    artifact = both.lower(Q, K, V, DO, BIAS, SLOPES)
    check(runtime.launch(artifact, Q, K, V, DO, wide, SLOPES, executor="emulator"))
    slopes = np.zeros(4, np.float32)[::2]
    with pytest.raises(LaunchError, match="'alibi_slopes' has stride 2 on its last axis"):
        runtime.launch(artifact, Q, K, V, DO, BIAS, slopes, executor="emulator")


# The gradient of a bias is written as one block.
def test_a_strided_gradient_of_the_bias_is_refused():
    out = [None, None, None, np.zeros((1, 1, 66), np.float32)[:, :, ::2]]
    artifact = both.lower(Q, K, V, DO, BIAS, SLOPES)
    with pytest.raises(LaunchError, match="'dbias'"):
        runtime.launch(artifact, Q, K, V, DO, BIAS, SLOPES, executor="emulator", out=out)


@pytest.mark.parametrize("executor", ["emulator", "reference"])
def test_starts_are_checked_in_every_call(executor):
    artifact = packed.lower(Q, K, V, STARTS_Q, STARTS_K)
    starts = STARTS_Q.copy()
    runtime.launch(artifact, Q, K, V, starts, STARTS_K, executor=executor)
    starts[1] = 21
    with pytest.raises(OptionError, match=r"cu_seqlens_q = \[0, 21, 20\] must ascend from 0 to 20"):
        runtime.launch(artifact, Q, K, V, starts, STARTS_K, executor=executor)


@pytest.mark.parametrize("executor", ["emulator", "reference"])
@pytest.mark.parametrize("seq_q, seq_k", [(0, 33), (20, 0)])
def test_gradients_without_rows_are_written(executor, seq_q, seq_k):
    @tessera.jit(executor=executor)
    def gradients(q, k, v, do):
        o, lse = ops.flash_attn(q, k, v, return_lse=True)
        return ops.flash_attn_bwd(q, k, v, o, lse, do)

    results = gradients(Q[:, :, :seq_q], K[:, :, :seq_k], V[:, :, :seq_k], DO[:, :, :seq_q])
    assert not any(one.any() for one in results)


def test_an_empty_batch_launches_nothing():
    @tessera.jit(executor="emulator")
    def gradients(q, k, v, do):
        o, lse = ops.flash_attn(q, k, v, return_lse=True)
        return ops.flash_attn_bwd(q, k, v, o, lse, do)

    results = gradients(Q[:0], K[:0], V[:0], DO[:0])
    assert [one.shape for one in results] == [(0, *one.shape[1:]) for one in (Q, K, V)]
    assert runtime.last_launch().kernels == ()
