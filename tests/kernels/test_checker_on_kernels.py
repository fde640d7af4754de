"""The checker against results of real kernels: damaged in the smallest ways, they are rejected."""

import numpy as np
import pytest
from kernel_runs import check_attention, check_matmul, run_attention, run_matmul

from tessera import testing
from tessera.testing import random_attention, random_tensor

OPERANDS = random_attention(17, 33, 16, np.float16, heads=2)


def damaged(o):
    not_a_number, last, permuted = o.copy(), o.copy(), o.copy()
    not_a_number[0, 1, 16, 15] = np.nan
    last[0, 1, 16, 15] += np.float16(0.05)
    permuted[0, 0, [3, 4]] = o[0, 0, [4, 3]]
    return {
        "NaN": not_a_number,
        "zeros": np.zeros_like(o),
        "permuted row": permuted,
        "other head": o[:, ::-1],
        "last element": last,
    }


# Comparisons that NaN passes, tolerances that zeros pass, inputs that hide a permutation.
@pytest.mark.parametrize("fault", damaged(np.zeros((1, 2, 17, 16), np.float16)))
def test_b62_damaged_attention_is_rejected(executor, fault):
    o, lse = run_attention(executor, *OPERANDS)
    check_attention(o, lse, *OPERANDS)
    with pytest.raises(AssertionError, match="beyond the bound"):
        check_attention(damaged(o)[fault], lse, *OPERANDS)


def test_b62_damaged_lse_is_rejected(executor):
    o, lse = run_attention(executor, *OPERANDS)
    for wrong in (lse / np.log(2), -lse, lse + 1e-3, lse[:, ::-1]):
        with pytest.raises(AssertionError, match="beyond the bound"):
            check_attention(o, wrong, *OPERANDS)


def test_b62_damaged_matmul_is_rejected(executor):
    a, b = random_tensor((17, 33), np.float16, 1), random_tensor((33, 17), np.float16, 2)
    c = run_matmul(executor, a, b)
    check_matmul(c, a, b)
    last = c.copy()
    last[-1, -1] += 1e-2
    for wrong in (c.T, last, np.zeros_like(c), c * np.nan, c[[1, 0, *range(2, 17)]]):
        with pytest.raises(AssertionError, match="beyond the bound"):
            check_matmul(wrong, a, b)


# An oracle in the kernel's own precision shares its faults: inputs are rounded to the storage
# type first and widened after, and the oracle is then exact to far below the kernel's error.
def test_b64_oracle_is_far_more_exact_than_the_kernel(executor):
    from tessera import reference

    q, k, v = OPERANDS
    o, _ = run_attention(executor, q, k, v)
    exact, _ = reference.flash_attn(q, k, v)
    assert exact.dtype == np.float64
    wide = [x.astype(np.longdouble) for x in (q, k, v)]
    logits = wide[0] @ np.swapaxes(wide[1], -1, -2) / 4
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    longest = weights @ wide[2] / weights.sum(axis=-1, keepdims=True)
    oracle_error = float(np.abs(exact - longest).max())
    assert oracle_error < 1e-6 * testing.worst_error(o, exact)
