"""Batch strides past 2^31 bytes: offsets of 32 bits would wrap around."""

import numpy as np
import pytest
from kernel_runs import attention_function, matmul_function
from numpy.lib.stride_tricks import as_strided

import tessera

BATCH_STRIDE = 2**30
"""In elements: 2 GiB of f16."""


@pytest.fixture(scope="module")
def storage():
    """Two batch entries of 1s and 2s, 2 GiB apart."""
    values = np.zeros(BATCH_STRIDE + 4096, np.float16)
    values[:4096], values[BATCH_STRIDE:] = 1, 2
    return values


# An element or byte offset passes 2^31, and the later batch entries come out wrong.
@pytest.mark.slow
def test_b51_attention_batches_far_apart(executor, storage):
    k = as_strided(storage, (2, 1, 1, 16), (2 * BATCH_STRIDE, 32, 32, 2))
    q = np.ones((2, 1, 1, 16), np.float16)
    artifact = attention_function().lower(q, k, k)
    o, _ = tessera.runtime.launch(artifact, q, k, k, executor=executor)
    np.testing.assert_array_equal(o[:, 0, 0, 0], [1, 2])


@pytest.mark.slow
def test_b51_matmul_batches_far_apart(executor, storage):
    a = as_strided(storage, (2, 16, 16), (2 * BATCH_STRIDE, 32, 2))
    b = np.ones((2, 16, 16), np.float16)
    c = tessera.runtime.launch(matmul_function().lower(a, b), a, b, executor=executor)
    np.testing.assert_array_equal(c[:, 0, 0], [16, 32])
