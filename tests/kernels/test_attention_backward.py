"""Gradients of attention against float64: every option, lengths, dtypes, known faults, repeats."""

import numpy as np
import pytest
from attention_options import (
    CASES,
    DIRECTIONS,
    DOCUMENT,
    REFUSALS,
    check_backward,
    check_forward,
    relative_error,
    run_backward,
    run_both,
    run_forward,
    with_table,
)
from kernel_runs import DTYPES, HALF

from tessera import reference, testing
from tessera.errors import TesseraError
from tessera.runtime.host_buffers import TemporaryPool, numpy_dtype
from tessera.testing import GRADIENT_GATE, LENGTHS, random_attention, random_tensor

GATED_CAUSAL = (False, "top_left", "bottom_right")


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("case", CASES)
def test_every_option_in_both_directions(executor, case, dtype):
    options = CASES[case].options
    q, k, v, do = CASES[case].inputs(DTYPES[dtype])
    o, lse, *gradients = run_both(executor, q, k, v, do, **options)
    check_forward(o, lse, q, k, v, **options)
    check_backward(tuple(gradients), q, k, v, do, **options)


def finite(values):
    """The values with 0 for -inf, the lse of rows that see no key."""
    return np.where(np.isneginf(values), 0.0, values.astype(np.float64))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_is_not_built_raises_by_name(refusal, direction):
    q, k, v, do = CASES["plain"].inputs(np.float16)
    options = REFUSALS[refusal].options
    lse = np.zeros(q.shape[:3], np.float32)
    run, rest = (run_forward, ()) if direction == "forward" else (run_backward, (do, lse, do))
    with pytest.raises((TesseraError, TypeError), match=REFUSALS[refusal].names):
        run("emulator", q, k, v, *rest, **options)


def test_the_document_shows_the_table_of_options():
    text = DOCUMENT.read_text()  # docs/attention.md
    assert text == with_table(text), "run tests/kernels/attention_options.py"


# An option that is accepted and does nothing, in one direction only.
@pytest.mark.parametrize("case", [n for n, c in CASES.items() if c.differs_from is not None])
def test_b33_every_option_changes_every_result(executor, case):
    q, k, v, do = CASES[case].inputs(np.float16)
    with_it = run_both(executor, q, k, v, do, **CASES[case].options)
    o, lse = with_it[:2]
    plain = CASES[case].differs_from or {}
    without = run_forward(executor, q, k, v, **plain)
    # The backward kernels get the same o and lse, so that a change comes from them.
    without += run_backward(executor, q, k, v, o, lse, do, **plain)
    for name, one, other in zip(("o", "lse", "dq", "dk", "dv"), with_it, without):
        change = np.abs(finite(one) - finite(other))
        assert change.max() > 1e-3, name


PAIRED = ("window", "softcap", "bias", "alibi", "scale", "top_left", "bottom_right")
PAIRS = [
    (one, other)
    for index, one in enumerate(PAIRED)
    for other in PAIRED[index + 1 :]
    if not set(CASES[one].options) & set(CASES[other].options)
]


@pytest.mark.parametrize("one, other", PAIRS)
def test_two_options_at_once(executor, one, other):
    options = {**CASES[one].options, **CASES[other].options}
    q, k, v, do = CASES["bias"].inputs(np.float16)
    o, lse, *gradients = run_both(executor, q, k, v, do, **options)
    check_forward(o, lse, q, k, v, **options)
    check_backward(tuple(gradients), q, k, v, do, **options)


@pytest.mark.parametrize("causal", GATED_CAUSAL)
def test_all_options_at_once(executor, causal):
    case = CASES["bias"]
    options = {"causal": causal, "scale": 0.2, "window": (12, 6), "softcap": 1.5}
    options |= {
        "bias": case.options["bias"],
        "alibi_slopes": CASES["alibi"].options["alibi_slopes"],
    }
    q, k, v, do = case.inputs(np.float16)
    o, lse, *gradients = run_both(executor, q, k[:, :1], v[:, :1], do, **options)
    check_forward(o, lse, q, k[:, :1], v[:, :1], **options)
    check_backward(tuple(gradients), q, k[:, :1], v[:, :1], do, **options)


BIASES = {
    "full": ((2, 2, 33, 47), np.float32),
    "per key": ((2, 1, 1, 47), np.float16),
    "per query": ((33, 1), np.float32),
    "per head": ((2, 1, 1), DTYPES["bf16"]),
    "one number": ((1,), np.float32),
    "matrix": ((1, 1, 33, 47), DTYPES["bf16"]),
}


@pytest.mark.parametrize("causal", [False, "top_left"])
@pytest.mark.parametrize("bias", BIASES)
def test_gradient_of_the_bias(executor, bias, causal):
    shape, kind = BIASES[bias]
    options = {"bias": random_tensor(shape, kind, 11), "causal": causal}
    q, k, v, do = CASES["bias"].inputs(np.float16)
    o, lse = run_forward(executor, q, k, v, **options)
    *gradients, dbias = run_backward(executor, q, k, v, o, lse, do, bias_gradient=True, **options)
    check_backward(tuple(gradients), q, k, v, do, **options)
    exact = reference.flash_attn_bwd(q, k, v, o, lse, do, **options)[3]
    # Sums of dS in f32: dS is as exact as rowsum(o * do) of the o that the kernel got.
    bound = testing.rounding_bound(exact, kind) + 1e-5 * np.sqrt(2 * 2 * 33 * 47)
    testing.check(dbias, exact, bound, "dbias")


@pytest.mark.parametrize("case", ["plain", "packed_causal", "bias_per_key", "grouped", "softcap"])
def test_lse_computed_again(executor, case):
    options = CASES[case].options
    q, k, v, do = CASES[case].inputs(np.float16)
    o, _ = run_forward(executor, q, k, v, **options)
    gradients = run_backward(executor, q, k, v, o, None, do, **options)
    check_backward(gradients, q, k, v, do, **options)


def gate(executor, seq_q, seq_k, head_dim, causal, heads=1):
    q, k, v = random_attention(seq_q, seq_k, head_dim, np.float16, heads=heads)
    do = random_tensor(q.shape, np.float16, 7)
    _, _, *gradients = run_both(executor, q, k, v, do, causal=causal)
    exact = reference.flash_attn_bwd(q, k, v, None, None, do, causal)
    for name, gradient, expected in zip(("dq", "dk", "dv"), gradients, exact):
        # With one visible key per row dq and dk are 0, and only the derived bound means anything.
        if np.abs(expected).max(initial=0.0) > 1e-6:
            assert relative_error(gradient, expected) < GRADIENT_GATE, name
    check_backward(tuple(gradients), q, k, v, do, causal=causal)


@pytest.mark.parametrize("causal", GATED_CAUSAL)
@pytest.mark.parametrize("seq_q, seq_k", [(64, 64), (65, 47), (17, 129), (1, 33), (33, 1)])
@pytest.mark.parametrize("head_dim", [16, 64])
def test_relative_error_below_the_gate(executor, head_dim, seq_q, seq_k, causal):
    gate(executor, seq_q, seq_k, head_dim, causal)


@pytest.mark.slow
@pytest.mark.parametrize("causal", GATED_CAUSAL)
@pytest.mark.parametrize("seq_k", LENGTHS)
@pytest.mark.parametrize("seq_q", LENGTHS)
def test_relative_error_of_all_lengths(executor, seq_q, seq_k, causal):
    gate(executor, seq_q, seq_k, 16, causal)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(
    "head_dim, head_dim_v",
    [(1, 1), (8, 8), (17, 17), (72, 72), (80, 40), (96, 96), (111, 111), (128, 128), (40, 160),
     (192, 192), (256, 256)],
)  # fmt: skip
def test_head_sizes(executor, head_dim, head_dim_v, dtype):
    kind = DTYPES[dtype]
    q, k = (
        random_tensor((1, 2, 33, head_dim), kind, 0),
        random_tensor((1, 1, 47, head_dim), kind, 1),
    )
    v = random_tensor((1, 1, 47, head_dim_v), kind, 2)
    do = random_tensor((1, 2, 33, head_dim_v), kind, 3)
    _, _, *gradients = run_both(executor, q, k, v, do, causal=True)
    check_backward(tuple(gradients), q, k, v, do, causal=True)


@pytest.mark.parametrize("seq_q, seq_k", [(0, 3), (3, 0), (0, 0), (1, 1), (0, 1), (1, 0)])
@pytest.mark.parametrize("causal", GATED_CAUSAL)
def test_b23_lengths_zero_and_one(executor, seq_q, seq_k, causal):
    q, k, v = random_attention(seq_q, seq_k, 16, np.float16)
    do = random_tensor(q.shape, np.float16, 7)
    o, lse, *gradients = run_both(executor, q, k, v, do, causal=causal)
    check_forward(o, lse, q, k, v, causal=causal)
    check_backward(tuple(gradients), q, k, v, do, causal=causal)


# Workspaces (lse, delta, partial sums of the bias gradient) lie between canaries as operands do.
@pytest.mark.parametrize("size", [(17, 33, 16), (33, 17, 40), (1, 1, 64)], ids=str)
def test_workspaces_between_canaries(monkeypatch, size):
    guards = []

    def guarded_temporaries(pool):
        taken = {}
        for index, slot in pool._temporaries.items():
            guard = testing.guarded_empty((slot.elements,), numpy_dtype(slot.dtype))
            guards.append(guard)
            taken[index] = guard.array
        return taken

    monkeypatch.setattr(TemporaryPool, "take", guarded_temporaries)
    monkeypatch.setattr(TemporaryPool, "give_back", lambda pool, arrays: None)
    seq_q, seq_k, head_dim = size
    q, k, v = random_attention(seq_q, seq_k, head_dim, np.float16, heads=2, seed=3)
    do = random_tensor(q.shape, np.float16, 4)
    options = {"causal": "bottom_right", "bias": random_tensor((2, 1, seq_k), np.float32, 5)}
    o, _ = run_forward("emulator", q, k, v, **options)
    guards.clear()
    gradients = run_backward("emulator", q, k, v, o, None, do, **options, bias_gradient=True)
    assert len(guards) == 3
    for guard in guards:
        guard.check("workspace")
    check_backward(tuple(gradients[:3]), q, k, v, do, **options)
