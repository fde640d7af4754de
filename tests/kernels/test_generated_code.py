"""Faults that lie in the generated code: resources, hazards, barriers, floating-point flags."""

import re

import numpy as np
import pytest
from kernel_runs import (
    CHIP,
    DTYPES,
    HALF,
    attention_function,
    check_attention,
    check_matmul,
    frozen,
    matmul_function,
    run_attention,
    run_matmul,
)

import tessera
from tessera import testing
from tessera.errors import ResourceError, ShapeError
from tessera.testing import HEAD_DIMS, random_attention, random_tensor

LDS_LIMIT = 65536


def attention_artifact(head_dim, dtype="f16", causal=True, seq=64):
    operands = random_attention(seq, seq, head_dim, DTYPES[dtype])
    return attention_function(causal).lower(*operands)


def matmul_artifact(dtype="f16", out_dtype="f32", size=64):
    operand = random_tensor((size, size), DTYPES[dtype], 0)
    return matmul_function(out_dtype).lower(operand, operand)


# More LDS than a workgroup has: the launch fails, or the result stays what it was.
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_b41_lds_within_the_limit(head_dim):
    for kernel in attention_artifact(head_dim).kernels:
        assert kernel.lds_bytes <= LDS_LIMIT
        assert kernel.vgprs <= 256


def test_b41_lds_beyond_the_limit_is_refused():
    operands = random_attention(64, 64, 256, np.float16)
    with pytest.raises(ResourceError, match=rf"(?s)\d{{6}}.*{LDS_LIMIT}"):
        attention_function(schedule=frozen({"keys_per_step": 256})).lower(*operands)


def test_b41_head_dim_beyond_the_limit_is_refused():
    operands = random_attention(16, 16, 512, np.float16)
    with pytest.raises(ShapeError, match=r"head_dim = 512.*supported: 1 to 256"):
        attention_function().lower(*operands)


# The schedules for few and for many queries, on 16-byte boundaries and on others.
@pytest.mark.parametrize("dtype, causal", [("f16", True), ("f16", False), ("bf16", True)])
@pytest.mark.parametrize("seq, offset", [(64, 0), (64, 1), (512, 0), (512, 1)])
@pytest.mark.parametrize("head_dim", [head_dim for head_dim in HEAD_DIMS if head_dim <= 128])
def test_no_spills_up_to_head_dim_128(head_dim, seq, offset, dtype, causal):
    operands = random_attention(seq, seq, head_dim, DTYPES[dtype])
    views = [testing.guarded(operand, offset=offset).array for operand in operands]
    for kernel in attention_function(causal).lower(*views).kernels:
        assert kernel.scratch_bytes == 0, f"{kernel.name} spills {kernel.scratch_bytes} bytes"


def test_no_spills_in_matmul():
    for dtype, out_dtype in (("f16", "f32"), ("bf16", "bf16"), ("f16", "f16")):
        for kernel in matmul_artifact(dtype, out_dtype, 256).kernels:
            assert kernel.scratch_bytes == 0


WMMA = re.compile(
    r"v_wmma_\w+ v\[(\d+):(\d+)\], v\[(\d+):(\d+)\], v\[(\d+):(\d+)\], (?:v\[(\d+):(\d+)\]|\S+)"
)


def instructions(assembly):
    for line in assembly.splitlines():
        text = line.split(";")[0].strip()
        if line.startswith("\t") and text and not text.startswith("."):
            yield text


# A matrix instruction that reads as A or B what the one right before it wrote needs another vector
# instruction in between on this chip family.
@pytest.mark.parametrize("case", ["matmul", "attention 64", "attention 80", "attention 128"])
def test_b46_no_back_to_back_dependent_matrix_instructions(case):
    head_dim = int(case.split()[1]) if " " in case else None
    artifact = attention_artifact(head_dim) if head_dim else matmul_artifact()
    found, written = 0, range(0)
    for text in instructions(artifact.text("asm")):
        match = WMMA.match(text)
        if not match:
            # s_delay_alu and waits fill no slot of the matrix pipeline.
            if text.startswith("v_"):
                written = range(0)
            continue
        found += 1
        numbers = [int(number) for number in match.groups()[:6]]
        for first, last in (numbers[2:4], numbers[4:6]):
            overlap = set(range(first, last + 1)) & set(written)
            assert not overlap, f"{text}: reads {sorted(overlap)} written right before"
        written = range(numbers[0], numbers[1] + 1)
    assert found > 0


# A compiler fault gave NaN in lse for this shape, in about half of the runs.
@pytest.mark.parametrize("dtype", HALF)
def test_b46_same_bits_and_no_nan(executor, dtype):
    q, k, v = random_attention(256, 32, 80, DTYPES[dtype], batch=1, heads=2)
    runs = 200 if executor == "hip" else 2
    o, lse = run_attention(executor, q, k, v, causal=True)
    assert not np.isnan(o.astype(np.float32)).any()
    assert not np.isnan(lse).any()
    check_attention(o, lse, q, k, v, True)
    for _ in range(runs - 1):
        again = run_attention(executor, q, k, v, causal=True)
        assert [x.tobytes() for x in again] == [o.tobytes(), lse.tobytes()]


# The shape of the report itself: batch 3, heads 5.
@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALF)
def test_b46_reported_shape(executor, dtype):
    q, k, v = random_attention(256, 32, 80, DTYPES[dtype], batch=3, heads=5)
    check_attention(*run_attention(executor, q, k, v, causal=True), q, k, v, True)


# Shared memory is written again before every wave has read it, or waves without queries leave
# before a barrier.
@pytest.mark.parametrize("waves", [1, 2, 4])
def test_b47_idle_waves_and_lds_reuse(executor, waves):
    q, k, v = random_attention(17, 129, 64, np.float16)
    schedule = {"waves": waves}
    o, lse = run_attention(executor, q, k, v, schedule=schedule)
    check_attention(o, lse, q, k, v)
    runs = 200 if executor == "hip" else 2
    for _ in range(runs - 1):
        again = run_attention(executor, q, k, v, schedule=schedule)
        assert [x.tobytes() for x in again] == [o.tobytes(), lse.tobytes()]


# Flags that let the optimizer assume no NaN and no infinity remove the tests for empty rows.
@pytest.mark.parametrize("head_dim", [16, 64])
def test_b61_no_finite_math_flags(head_dim):
    text = attention_artifact(head_dim).text("llvm")
    assert re.search(r"exp2|llvm\.amdgcn\.exp2", text), "no exponential in the kernel"
    flagged = re.findall(r"^.*\b(?:nnan|ninf|fast)\b.*$", text, re.MULTILINE)
    assert not flagged, flagged[0]
    assert "no-nans-fp-math" not in text
    assert "no-infs-fp-math" not in text


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
def test_b61_empty_rows_at_every_optimization_level(executor, opt_level):
    q = np.ones((1, 1, 5, 16), np.float16)
    k, v = (np.ones((1, 1, 2, 16), np.float16) for _ in range(2))
    k[:, :, 1] = -1
    v[:, :, 1] = 3
    text = attention_function("bottom_right").lower(q, k, v).text("target")
    artifact = tessera.compile(text, target=CHIP, opt_level=opt_level)
    o, lse = tessera.runtime.launch(artifact, q, k, v, executor=executor)
    expected_o, expected_lse = tessera.reference.flash_attn(q, k, v, "bottom_right")
    testing.check(o, expected_o, testing.rounding_bound(expected_o, np.float16))
    testing.check(lse, expected_lse, np.where(np.isinf(expected_lse), 0.0, 1e-5))


@pytest.mark.parametrize("opt_level", [0, 1, 2])
def test_b61_matmul_at_every_optimization_level(executor, opt_level):
    a = random_tensor((33, 17), np.float16, 1)
    b = random_tensor((17, 47), np.float16, 2)
    text = matmul_function().lower(a, b).text("target")
    artifact = tessera.compile(text, target=CHIP, opt_level=opt_level)
    check_matmul(tessera.runtime.launch(artifact, a, b, executor=executor), a, b)


# One kernel serves every size: sizes are run-time arguments.
def test_sizes_are_run_time_arguments():
    small, large = matmul_artifact(size=64), matmul_artifact(size=128)
    assert [k.name for k in small.kernels] == [k.name for k in large.kernels]
    assert small.hsaco == large.hsaco


# With macro tiles each fragment feeds several products: fewer loads for the same work.
def test_macro_tiles_reuse_fragments(executor):
    a = random_tensor((64, 64), np.float16, 1)
    single = run_matmul(executor, a, a, schedule={"mt": 1, "nt": 1}).copy()
    blocked = run_matmul(executor, a, a, schedule={"mt": 2, "nt": 2})
    check_matmul(single, a, a)
    check_matmul(blocked, a, a)

    def products_per_load(tiles):
        text = matmul_function(schedule=frozen(tiles)).lower(a, a).text("asm")
        lines = list(instructions(text))
        loads = sum(line.startswith(("global_load", "ds_load", "buffer_load")) for line in lines)
        return sum(line.startswith("v_wmma") for line in lines) / loads

    assert products_per_load({"mt": 2, "nt": 2}) > products_per_load({"mt": 1, "nt": 1})
