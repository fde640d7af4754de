"""The timing model's parts on inputs whose cycles can be worked out by hand."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from tessera.emulator.timing import PARAMETERS, ROWS, LoopCounts, Parameters
from tessera.emulator.timing import operations as kinds
from tessera.emulator.timing.accesses import count_phases
from tessera.emulator.timing.loops import MARK, Stream, loop_counts, loop_starts, shorten
from tessera.emulator.timing.memory import LINE_BYTES, Memory, Sharing
from tessera.emulator.timing.occupancy import Occupancy, makespan
from tessera.emulator.timing.operations import NO_LIMIT, Operation
from tessera.emulator.timing.replay import Replay
from tessera.emulator.timing.trace import WaveTrace

LANES = np.arange(32, dtype=np.int64)
END = Operation(kinds.END, 0, "s_endpgm", 0, 0, (), ())
BARRIER = Operation(kinds.BARRIER, 0, "s_barrier", 0, 0, (), ())


def stream(*operations, data=None):
    every = [*operations, END]
    return Stream(every, data or [None] * len(every), 0, 0, len(every))


def valu(slot=1.0, latency=5.0, reads=(), writes=()):
    return Operation(kinds.VALU, 0, "v_add", slot, latency, reads, writes)


def replayed(*workgroups, **parameters):
    p = PARAMETERS.with_values(wave_launch=0, **parameters)
    return Replay(p, Sharing(), 1, list(workgroups)).run()


def test_every_parameter_has_one_row_with_a_source():
    assert [row.name for row in ROWS] == [field.name for field in fields(Parameters)]
    assert {row.kind for row in ROWS} == {"documented", "measured", "fitted", "assumed"}
    assert all(row.source for row in ROWS)


def test_peak_is_the_published_one():
    assert PARAMETERS.peak_flops() == pytest.approx(59.39e12, rel=1e-3)
    assert PARAMETERS.peak_flops(4) == 2 * PARAMETERS.peak_flops(8)


@pytest.mark.parametrize(
    "vgprs, waves",
    [(96, 16), (97, 12), (120, 12), (144, 10), (168, 9), (192, 8), (240, 6), (256, 5)],
)  # fmt: skip
def test_waves_per_simd_are_those_of_the_compiler(vgprs, waves):
    assert PARAMETERS.waves_per_simd(vgprs) == waves


@pytest.mark.parametrize(
    "stride, size, phases",
    [
        (4, 4, 1), (8, 4, 2), (128, 4, 32), (8, 8, 2), (16, 16, 4),
        # 64 bytes: every other lane of a phase in the same banks. 48 bytes is the padding that
        # published kernels found best.
        (64, 16, 16), (48, 16, 4), (128, 16, 32),
    ],
)  # fmt: skip
def test_bank_conflicts_of_strided_accesses(stride, size, phases):
    assert count_phases(LANES * stride, size) == phases


def test_lanes_that_read_the_same_word_share_it_and_inactive_ones_cost_nothing():
    assert count_phases(LANES * 0, 4) == 1
    only_first = LANES == 0
    assert count_phases(LANES * 128, 4, only_first) == 1


def test_dependent_instructions_wait_for_the_latency_and_independent_ones_do_not():
    dependent = [valu(reads=(300,), writes=(300,)) for _ in range(10)]
    assert replayed([stream(*dependent)]).ends == [pytest.approx(9 * 5 + 1)]
    independent = [valu(writes=(300 + i,)) for i in range(10)]
    assert replayed([stream(*independent)]).ends == [pytest.approx(10)]


def test_waves_of_one_simd_share_its_slot_and_the_oldest_goes_first():
    work = stream(*[valu() for _ in range(100)])
    ends = replayed([work, stream(), work]).ends
    assert ends[0] == pytest.approx(100)
    assert ends[2] == pytest.approx(200)


def test_waves_on_two_simds_do_not_share_a_slot():
    work = stream(*[valu() for _ in range(100)])
    assert replayed([work, work]).ends == [pytest.approx(100)] * 2


def test_matrix_instructions_block_the_vector_unit():
    matrix = Operation(kinds.WMMA, 0, "v_wmma", 32.0, 32.0, (), ())
    ends = replayed([stream(matrix, valu(), matrix, valu())], matrix_switch=1.0).ends
    assert ends == [pytest.approx(2 * 32 + 2 + 1, abs=1)]


def test_a_wait_lasts_until_enough_accesses_are_done():
    load = Operation(kinds.LDS, 0, "ds_load", 1.0, 0.0, (), (), counter="lgkm")
    none_left = Operation(kinds.WAIT, 0, "s_waitcnt", 0, 0, (), (), wait=(NO_LIMIT, NO_LIMIT, 0))
    one_left = replace(none_left, wait=(NO_LIMIT, NO_LIMIT, 1))
    data = [4, 4, None, None]
    latency = dict(lds_latency=30, lds_phases_per_cycle=1.0)
    both = replayed([stream(load, load, none_left, data=data)], **latency).ends[0]
    first = replayed([stream(load, load, one_left, data=data)], **latency).ends[0]
    # The second access queues behind the first one's four cycles.
    assert first == pytest.approx(1 + 4 + 30 + 1)
    assert both == pytest.approx(first + 4)


def test_a_barrier_holds_the_early_wave():
    slow = stream(*[valu() for _ in range(50)], BARRIER)
    ends = replayed([stream(BARRIER), slow], barrier_release=15).ends
    assert ends == [pytest.approx(50 + 15)] * 2


def test_a_wave_that_has_ended_is_not_waited_for():
    ends = replayed([stream(), stream(BARRIER)], barrier_release=15).ends
    assert ends[1] == pytest.approx(15)


def test_cached_lines_are_served_sooner_and_the_oldest_line_leaves_first():
    p = PARAMETERS.with_values(l0_bytes=4 * LINE_BYTES)
    memory = Memory(p, Sharing(0.0, 0.0), 1)
    cold = memory.access(0, 0.0, (1,), 128)
    warm = memory.access(0, 1000.0, (1,), 128) - 1000.0
    assert cold > p.l2_latency > p.l0_latency
    assert warm == pytest.approx(p.l0_latency + p.vmem_address_cycles)
    memory.access(0, 2000.0, (2, 3, 4, 5), 512)
    again = memory.access(0, 3000.0, (1,), 128) - 3000.0
    assert again > p.l2_latency


def test_misses_of_the_l2_take_the_bandwidth_behind_it():
    p = PARAMETERS
    near, far = Memory(p, Sharing(0.0, 0.0), 1), Memory(p, Sharing(1.0, 1.0), 1)
    for line in range(1000):
        near.access(0, 0.0, (line,), 128)
        far.access(0, 0.0, (line,), 128)
    per_line = LINE_BYTES / (p.dram_gigabytes_per_second / p.clock_ghz / p.compute_units)
    assert near.busy[2] == 0
    assert far.busy[2] == pytest.approx(1000 * per_line)


def loop_trace(iterations, wave=0):
    """Two operations before a loop of three, one behind it."""
    body = [
        Operation(kinds.WMMA, 8, "v_wmma", 32, 32, (), (), law_class="wmma"),
        replace(valu(), pc=12, law_class="valu"),
        Operation(kinds.BRANCH, 16, "s_cbranch", 0, 0, (), (), law_class="control", target=8),
    ]
    before = [replace(valu(), pc=0), replace(valu(), pc=4)]
    return WaveTrace(0, wave, [*before, *body * iterations, replace(END, pc=20)])


def test_the_main_loop_is_found_and_its_middle_left_out():
    trace = loop_trace(40)
    # The first iteration is entered from above, so the jumps mark the other 39.
    assert len(loop_starts(trace)) == 39
    assert loop_counts(trace).counts == {"wmma": 1.0, "valu": 1.0, "control": 1.0}
    short = shorten([trace], 8)[0]
    assert short.dropped == 38 - 8 - 2
    assert sum(one is MARK for one in short.operations) == 39 - short.dropped
    taken = [d for o, d in zip(short.operations, short.data) if o.kind == kinds.BRANCH]
    assert taken == [1] * (len(taken) - 1) + [0]
    assert short.executed == len(trace.operations)


def test_a_short_program_is_kept_whole():
    trace = loop_trace(4)
    assert loop_starts(trace) == []
    assert shorten([trace], 8)[0].dropped == 0


def test_the_issue_law():
    counts = LoopCounts({"wmma": 32, "valu": 322, "lds": 37, "vmem": 5, "salu": 30})
    assert counts.share == pytest.approx(32 * 32 / (34 * 32 + 322 + 3 * 37 + 2 * 5))


def test_the_tail_of_a_grid():
    where = Occupancy(2, 4, 2, 8, 4.0, "LDS")
    speed = {1: 1.0, 2: 0.5}
    # Two at once are no faster than one after the other: eight fill four groups for 200 cycles.
    assert makespan([100.0] * 8, where, speed) == pytest.approx(200, rel=0.02)
    assert makespan([100.0] * 4, where, speed) == pytest.approx(100, rel=0.02)
    # A ninth runs beside nothing else once the others have ended.
    assert makespan([100.0] * 9, where, speed) == pytest.approx(300, rel=0.03)
