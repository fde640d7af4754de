"""Grouped matmul: several problems of one shape of weights in one launch, found on the device."""

from functools import cache

import numpy as np
import pytest
from kernel_runs import CHIP, as_guarded, launch

import tessera
from tessera import ops, testing
from tessera.errors import OptionError, ShapeError


@cache
def function_of(has_bias, options, schedule):
    @tessera.jit(target=CHIP)
    def grouped(a, b, starts, extra):
        bias = extra[0] if has_bias else None
        return ops.grouped_matmul(
            a, b, starts, bias=bias, schedule=dict(schedule) or None, **dict(options)
        )

    return grouped


def run(executor, a, b, starts, bias=None, schedule=(), out_dtype=None, **options):
    extra = () if bias is None else (bias,)
    guards = [as_guarded(x) for x in (a, b, starts, *extra)]
    arrays = [guard.array for guard in guards]
    settings = tuple(sorted({**options, "out_dtype": out_dtype}.items()))
    function = function_of(bias is not None, settings, schedule)
    artifact = function.lower(*arrays[:3], tuple(arrays[3:]))
    n = b.shape[1] if options.get("transpose_b") else b.shape[2]
    dtype = np.int32 if a.dtype.kind == "i" else np.float32
    dtype = np.float16 if out_dtype == "f16" else dtype
    c = testing.guarded_empty((a.shape[0], n), dtype)
    launch(artifact, tuple(guards), (c,), executor)
    if executor != "reference":
        assert len(tessera.runtime.last_launch().kernels) == 1
    return c.array


def integers(shape, dtype, seed):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


STARTS = {
    "one": [0, 100],
    "even": [0, 32, 64, 100],
    "uneven": [0, 1, 1, 50, 83, 83, 100],
    "all in the last": [0, 0, 0, 0, 100],
}


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.int8])
@pytest.mark.parametrize("name", STARTS)
def test_each_group_has_its_matrix(executor, name, dtype, transpose_b):
    starts = np.array(STARTS[name], np.int32)
    groups, k, n = len(starts) - 1, 40, 33
    a, b = integers((100, k), dtype, 1), integers((groups, k, n), dtype, 2)
    stored = np.ascontiguousarray(np.swapaxes(b, 1, 2)) if transpose_b else b
    c = run(executor, a, stored, starts, transpose_b=transpose_b)
    of_row = np.repeat(np.arange(groups), np.diff(starts))
    expected = np.einsum("mk,mkn->mn", a.astype(np.int64), b.astype(np.int64)[of_row])
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("schedule", [
    (("block_k", 0), ("mt", 1), ("nt", 1), ("waves_m", 1), ("waves_n", 1)),
    (("mt", 2), ("nt", 2), ("waves_m", 2), ("waves_n", 2)),
], ids=["from memory", "64x64"])  # fmt: skip
def test_groups_in_other_schedules(executor, schedule):
    starts = np.array(STARTS["uneven"], np.int32)
    a, b = integers((100, 70), np.float16, 1), integers((6, 70, 24), np.float16, 2)
    c = run(executor, a, b, starts, schedule=schedule)
    expected = tessera.reference.fused_matmul(a, b, starts=starts)
    np.testing.assert_array_equal(c, expected)


def test_rows_of_no_group_are_not_written(executor):
    """Starts may lie within m, and the same program takes other starts."""
    a, b = integers((64, 16), np.float16, 1), integers((2, 16, 16), np.float16, 2)
    for starts in ([3, 20, 40], [0, 64, 64], [5, 5, 5]):
        c = run(executor, a, b, np.array(starts, np.int32))
        expected = tessera.reference.fused_matmul(a, b, starts=np.array(starts))
        inside = np.arange(64)[starts[0] : starts[-1]]
        np.testing.assert_array_equal(c[inside], expected[inside])
        outside = np.delete(c, inside, axis=0)
        assert np.isnan(outside).all(), "the poison of the result is gone"


@pytest.mark.parametrize("starts", [[-1, 3, 8], [0, 5, 3], [0, 3, 9], [2, 1, 8]])
def test_starts_outside_of_the_rows_are_refused(executor, starts):
    a, b = np.zeros((8, 16), np.float16), np.zeros((2, 16, 8), np.float16)
    with pytest.raises(OptionError, match=r"starts = .* must ascend within 0 to 8, .* rows of a"):
        run(executor, a, b, np.array(starts, np.int32))


def test_the_epilogue_of_groups(executor):
    starts = np.array(STARTS["uneven"], np.int32)
    a = testing.random_tensor((100, 24), np.float16, 1)
    b = testing.random_tensor((6, 24, 20), np.float16, 2)
    bias = testing.random_tensor((20,), np.float32, 3)
    c = run(executor, a, b, starts, bias=bias, activation="relu", out_dtype="f16")
    expected = tessera.reference.fused_matmul(a, b, starts=starts, bias=bias, activation="relu")
    testing.check(c, expected, testing.rounding_bound(expected, np.float16) + 1e-5, "c")


def test_the_reference_executor_gives_the_same():
    starts = np.array(STARTS["uneven"], np.int32)
    a, b = integers((100, 24), np.float16, 1), integers((6, 24, 20), np.float16, 2)
    expected = run("emulator", a, b, starts)
    np.testing.assert_array_equal(run("reference", a, b, starts), expected)


@pytest.mark.parametrize("change, error, message", [
    ({"starts": 3}, ShapeError, "'starts' has 3 entries, expected 5"),
    ({"split_k": 2}, OptionError, "grouped needs group_m 0, split_k 1"),
])  # fmt: skip
def test_what_does_not_fit_raises_by_name(change, error, message):
    a, b = np.zeros((8, 64), np.float16), np.zeros((4, 64, 8), np.float16)
    starts = np.zeros(change.get("starts", 5), np.int32)
    schedule = (("split_k", change["split_k"]),) if "split_k" in change else ()
    with pytest.raises(error, match=message):
        function_of(False, (), schedule).lower(a, b, starts, ())
