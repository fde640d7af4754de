"""Every matmul schedule that is offered: one answer from all of them, and what their loops cost."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from kernel_runs import DTYPES, check_matmul, run_matmul

import tessera
from tessera import testing
from tessera.kernels.schedules import GEMM_SCHEDULES, gemm_schedule
from tessera.targets import resolve_target

SIZES = [17, 64, 129, 250]


def integers(shape, dtype, seed):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(DTYPES[dtype])


# Software pipelining goes wrong for some tile sizes only: all must give the same exact sums.
@pytest.mark.parametrize("name", GEMM_SCHEDULES)
@pytest.mark.parametrize("size", SIZES)
def test_b65_schedules_agree(executor, size, name):
    a, b = integers((size, size), "f16", 1), integers((size, size), "f16", 2)
    expected = a.astype(np.int64) @ b.astype(np.int64)
    schedule = asdict(GEMM_SCHEDULES[name])
    first = run_matmul(executor, a, b, schedule=schedule).copy()
    testing.check(first, expected, 0.0 * expected, f"c of {name}")
    assert run_matmul(executor, a, b, schedule=schedule).tobytes() == first.tobytes()


@pytest.mark.parametrize("transposes", [(False, True), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize("name", GEMM_SCHEDULES)
def test_schedules_agree_on_other_layouts(executor, name, transposes):
    size = 72
    options = dict(zip(("transpose_a", "transpose_b"), transposes))
    a, b = integers((size, size), "bf16", 1), integers((size, size), "bf16", 2)
    c = run_matmul(executor, a, b, schedule=asdict(GEMM_SCHEDULES[name]), **options)
    check_matmul(c, a, b, **options)


@pytest.mark.parametrize("group_m", [1, 2, 3])
def test_bands_of_workgroups_cover_every_tile(executor, group_m):
    a, b = integers((160, 48), "f16", 3), integers((48, 96), "f16", 4)
    schedule = asdict(replace(GEMM_SCHEDULES["32x32"], group_m=group_m))
    c = run_matmul(executor, a, b, schedule=schedule)
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("split_k", [2, 3, 7])
@pytest.mark.parametrize("k", [0, 17, 64, 129, 250])
def test_split_k_sums_up_every_part_once(executor, k, split_k):
    a, b = integers((33, k), "f16", 5), integers((k, 40), "f16", 6)
    schedule = asdict(replace(GEMM_SCHEDULES["32x32"], split_k=split_k))
    c = run_matmul(executor, a, b, schedule=schedule)
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))
    assert len(tessera.runtime.last_launch().kernels) == 2


# Instructions beside the matrix core cost issue slots of the same SIMD: cycles = 34 WMMA + VALU
# + 3 LDS. Whole tiles only, so that what is counted is what large matrices do.
@pytest.mark.parametrize(
    "transposes, vector, lds",
    [((False, True), 1.5, 1.25), ((False, False), 2.2, 1.75), ((True, True), 2.2, 1.75)],
    ids=str,
)
def test_the_main_loop_leaves_the_issue_slots_to_the_matrix_core(transposes, vector, lds):
    counts = loop_counts(GEMM_SCHEDULES["128x128"], transposes)
    assert counts["valu"] <= vector, counts
    assert counts["lds"] <= lds, counts


def loop_counts(schedule, transposes, **options):
    """Instructions of each class per matrix instruction of one K slice, by the dynamic count."""
    reports = []
    for slices in (4, 6):
        k = slices * schedule.block_k
        shapes = [(schedule.tile_m, k), (k, schedule.tile_n)]
        a, b = (
            np.zeros(shape[::-1] if is_transposed else shape, np.float16)
            for shape, is_transposed in zip(shapes, transposes)
        )
        run_matmul(
            "emulator", a, b, schedule=asdict(schedule),
            transpose_a=transposes[0], transpose_b=transposes[1], **options,
        )  # fmt: skip
        (report,) = tessera.runtime.last_launch().reports
        reports.append(report.by_class)
    fewer, more = reports
    matrix = more["wmma"] - fewer["wmma"]
    return {name: (more[name] - fewer.get(name, 0)) / matrix for name in more}


@pytest.mark.parametrize("k", [1, 16, 17, 33, 64, 129])
@pytest.mark.parametrize("split_k", [1, 2])
def test_two_stages_of_any_number_of_slices(executor, k, split_k):
    """One slice, two, an odd number, the last one cut off: each is written before it is read."""
    a, b = integers((40, k), "f16", 7), integers((k, 33), "f16", 8)
    schedule = asdict(replace(GEMM_SCHEDULES["32x32"], block_k=16, stages=2, split_k=split_k))
    c = run_matmul(executor, a, b, schedule=schedule)
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))
    assert tessera.runtime.last_launch().reports[0].lds_bytes == 2 * 64 * 48


def test_two_stages_halve_the_barriers():
    for stages in (1, 2):
        schedule = replace(GEMM_SCHEDULES["32x32"], stages=stages)
        counts = loop_counts(schedule, (False, True))
        # Per slice of 32, each wave multiplies twice.
        assert counts["barrier"] == (1.0, 0.5)[stages - 1], counts


CHOSEN = {
    (4096, 4096, 4096): ("256x128", 8, 1),
    (1024, 1024, 1024): ("128x128", 8, 1),
    (512, 512, 4096): ("64x64", 8, 1),
    (256, 256, 16384): ("64x64", 0, 2),
    (64, 64, 65536): ("64x64", 0, 16),
    (16, 4096, 4096): ("32x128", 0, 1),
    (4096, 1, 64): ("128x32", 0, 1),
    (16, 16, 131072): ("32x32", 0, 16),
    (0, 4, 4): ("32x32", 0, 1),
    (None, None, None): ("128x128", 8, 1),
}


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "u4"])
@pytest.mark.parametrize("sizes", CHOSEN, ids=str)
def test_the_schedule_follows_from_sizes_and_dtype(sizes, dtype):
    name, group_m, split_k = CHOSEN[sizes]
    bits = {"f16": 16, "bf16": 16, "i8": 8, "u4": 4}[dtype]
    if split_k > 1 and sizes[2]:
        # Slices hold as many bytes for every dtype, so that narrower numbers have fewer of them.
        split_k = min(split_k, sizes[2] // (8 * 32 * 16 // bits))
    expected = replace(
        GEMM_SCHEDULES[name].for_bits(bits), group_m=group_m, split_k=max(1, split_k)
    )
    assert gemm_schedule(resolve_target("gfx1151"), dtype, *sizes) == expected


def test_unaligned_operands_get_tiles_that_leave_registers_for_their_fetches():
    target = resolve_target("gfx1151")
    for dtype, name in (("f16", "128x64"), ("i8", "64x64")):
        chosen = gemm_schedule(target, dtype, 4096, 4096, 4095, alignment=1)
        assert (chosen.tile_m, chosen.tile_n) == tuple(map(int, name.split("x")))
