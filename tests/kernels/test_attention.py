"""Flash attention over head sizes, lengths and causal modes, against float64 and its bounds."""

from itertools import product

import numpy as np
import pytest
from kernel_runs import (
    CAUSAL,
    CHIP,
    DTYPES,
    HALF,
    attention_function,
    check_attention,
    launch_attention,
    run_attention,
)

import tessera
from tessera import testing
from tessera.contracts import TensorSpec
from tessera.kernels.schedules import attention_schedule
from tessera.targets import resolve_target
from tessera.testing import (
    FORWARD_GATE,
    HEAD_DIMS,
    guarded,
    random_attention,
    random_tensor,
    worst_error,
)

LENGTHS = (0, 1, 2, 15, 16, 17, 31, 33, 47, 64, 65, 129)


def sample():
    """Per head size and causal mode one case of many queries, and one whose lengths rotate.

    Over all of them every length occurs as seq_q and as seq_k, and 129 queries are enough for the
    schedule that the many get.
    """
    lengths_q = [64, 1, 17, 33, 2, 65, 15, 47, 16, 31, 0, 129]
    lengths_k = [65, 33, 17, 129, 0, 47, 31, 64, 16, 2, 15, 1]
    for index, (head_dim, causal) in enumerate(product(HEAD_DIMS, CAUSAL)):
        dtypes = HALF if index % 2 else HALF[::-1]
        yield head_dim, 129, lengths_k[index % 12], causal, dtypes[0]
        seq_k = lengths_k[(index + index // 12 + 3) % 12]
        yield head_dim, lengths_q[index % 12], seq_k, causal, dtypes[1]


def check_case(executor, head_dim, seq_q, seq_k, causal, dtype, seed=0):
    q, k, v = random_attention(seq_q, seq_k, head_dim, DTYPES[dtype], heads=2, seed=seed)
    o, lse = run_attention(executor, q, k, v, causal=causal)
    check_attention(o, lse, q, k, v, causal)
    exact, _ = tessera.reference.flash_attn(q, k, v, causal)
    assert worst_error(o, exact) < FORWARD_GATE


@pytest.mark.parametrize("head_dim, seq_q, seq_k, causal, dtype", list(sample()))
def test_attention_sample(executor, head_dim, seq_q, seq_k, causal, dtype):
    check_case(executor, head_dim, seq_q, seq_k, causal, dtype)


# One kernel per schedule serves all lengths, as it does for callers without known shapes.
@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("causal", CAUSAL)
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("seq_q", LENGTHS)
def test_attention_all(executor, seq_q, head_dim, causal, dtype):
    schedule = attention_schedule(resolve_target(CHIP), dtype, head_dim, head_dim, seq_q)
    names = ("waves", "queries_per_wave", "keys_per_step")
    chosen = frozenset((name, getattr(schedule, name)) for name in names)
    unknown = TensorSpec((None, None, None, head_dim), dtype)
    artifact = attention_function(causal, None, chosen).lower(unknown, unknown, unknown)
    for seq_k in LENGTHS:
        q, k, v = random_attention(seq_q, seq_k, head_dim, DTYPES[dtype], heads=2, seed=seq_k)
        o, lse = launch_attention(artifact, executor, q, k, v)
        check_attention(o, lse, q, k, v, causal)


# Every size from 1 to 256 is allowed, not only multiples of a fragment.
@pytest.mark.parametrize("head_dim", [1, 2, 3, 17, 31, 111, 113, 255])
def test_attention_odd_head_dims(executor, head_dim):
    check_case(executor, head_dim, 33, 47, "bottom_right", HALF[head_dim % 3 % 2])


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("head_dim, head_dim_v", [(64, 16), (16, 64), (40, 72), (72, 1), (1, 33)])
def test_attention_with_another_size_of_values(executor, head_dim, head_dim_v, dtype):
    q, k, _ = random_attention(17, 33, head_dim, DTYPES[dtype])
    v = random_tensor((1, 1, 33, head_dim_v), DTYPES[dtype], 5)
    o, lse = run_attention(executor, q, k, v, causal=True)
    check_attention(o, lse, q, k, v, True)


@pytest.mark.parametrize("scale", [1.0, 0.05, 3.0, -0.25, 0.0])
def test_attention_scale(executor, scale):
    q, k, v = random_attention(17, 47, 40, np.float16)
    o, lse = run_attention(executor, q, k, v, scale=scale)
    check_attention(o, lse, q, k, v, scale=scale)


# The scale comes from the true head size, not from the padded one.
@pytest.mark.parametrize("head_dim", [40, 72])
def test_default_scale_is_that_of_the_true_head_dim(executor, head_dim):
    q, k, v = random_attention(16, 32, head_dim, np.float16)
    default = run_attention(executor, q, k, v)
    given = run_attention(executor, q, k, v, scale=head_dim**-0.5)
    np.testing.assert_array_equal(default[0], given[0])
    np.testing.assert_array_equal(default[1], given[1])


@pytest.mark.parametrize("batch, heads", [(1, 1), (2, 3), (3, 1), (1, 5)])
def test_attention_batches_and_heads(executor, batch, heads):
    q, k, v = random_attention(17, 33, 40, np.float16, batch=batch, heads=heads)
    o, lse = run_attention(executor, q, k, v, causal=True)
    check_attention(o, lse, q, k, v, True)


# [batch, seq, heads, head_dim] in memory, seen as [batch, heads, seq, head_dim].
@pytest.mark.parametrize("dtype", HALF)
def test_attention_of_sequence_major_memory(executor, dtype):
    q, k, v = random_attention(33, 17, 40, DTYPES[dtype], batch=2, heads=3)
    views = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for x in (q, k, v)]
    o, lse = tessera.runtime.launch(lower_attention(views), *views, executor=executor)
    check_attention(o, lse, q, k, v)


# q, k and v as slices of one projection [batch, seq, 3, heads, head_dim].
def test_attention_of_packed_projections(executor):
    packed = random_tensor((2, 17, 3, 2, 64), np.float16, 3)
    views = [packed[:, :, index].transpose(0, 2, 1, 3) for index in range(3)]
    o, lse = tessera.runtime.launch(lower_attention(views), *views, executor=executor)
    q, k, v = (np.ascontiguousarray(view) for view in views)
    check_attention(o, lse, q, k, v)


def lower_attention(operands):
    return attention_function().lower(*operands)


# One cached key sequence for several queries: stride 0 along batch and heads.
def test_attention_of_broadcast_keys(executor):
    q, k, v = random_attention(5, 33, 64, np.float16, batch=2, heads=2)
    k, v = (np.broadcast_to(x[:1, :1], x.shape) for x in (k, v))
    o, lse = tessera.runtime.launch(lower_attention([q, k, v]), q, k, v, executor=executor)
    check_attention(o, lse, q, np.ascontiguousarray(k), np.ascontiguousarray(v))


@pytest.mark.parametrize("dtype", HALF)
def test_attention_in_larger_blocks(executor, dtype):
    """Rows, heads and batches further apart than they are large, with poison in between."""
    q, k, v = random_attention(17, 33, 40, DTYPES[dtype], batch=2, heads=2)
    blocks = [guarded(x, capacity=(2, 3, x.shape[2] + 5, 48)) for x in (q, k, v)]
    o, lse = run_attention(executor, *blocks, causal=True)
    check_attention(o, lse, q, k, v, True)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("causal", CAUSAL)
def test_attention_with_large_logits(executor, causal, dtype):
    q, k, v = testing.large_logits(33, 65, 64, DTYPES[dtype])
    o, lse = run_attention(executor, q, k, v, causal=causal)
    check_attention(o, lse, q, k, v, causal)


# Grouped heads: several query heads read one key head.
@pytest.mark.parametrize("heads, heads_k", [(6, 2), (4, 1)])
def test_attention_grouped_heads(executor, heads, heads_k):
    q = random_tensor((1, heads, 17, 16), np.float16, 1)
    k = random_tensor((1, heads_k, 33, 16), np.float16, 2)
    v = random_tensor((1, heads_k, 33, 16), np.float16, 3)
    o, lse = run_attention(executor, q, k, v)
    check_attention(o, lse, q, k, v)
