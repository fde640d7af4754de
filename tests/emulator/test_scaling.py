"""Cost of a launch: linear in the executed instructions, memory independent of their number."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.assembler import isa, s, v
from emulator_witness.kernels import run
from emulator_witness.sanitized import OUT, buffers, store


def counting(iterations):
    """A loop with vector, scalar and LDS work, then one store."""
    loop = [
        isa.v_add_nc_u32_e32(v[3], 1, v[3]),
        isa.ds_store_b32(addr=v[1], data0=v[3]),
        isa.ds_load_b32(vdst=v[3], addr=v[1]),
        isa.s_waitcnt(simm16=0),
        isa.s_sub_u32(s[20], s[20], 1),
        isa.s_cmp_lg_u32(s[20], 0),
    ]
    words = sum(len(instruction.to_bytes()) for instruction in loop) // 4 + 1
    return [
        isa.s_mov_b32(s[20], iterations),
        isa.v_mov_b32_e32(v[3], 0),
        *loop,
        isa.s_cbranch_scc1(simm16=-words & 0xFFFF),
        store(3, base=OUT),
    ]


def launch(iterations, sanitize, grid=4):
    arrays = buffers()
    options = {"sanitize": sanitize}
    report = run(counting(iterations), arrays, grid=grid, lds_bytes=128, run_options=options)
    assert report.findings == []
    assert (arrays["out"].view(np.uint32) == iterations).all()
    return report


@pytest.mark.parametrize("sanitize", [True, False])
def test_memory_does_not_grow_with_steps(sanitize):
    launch(10, sanitize)
    peaks = []
    for iterations in (100, 1500):
        tracemalloc.start()
        launch(iterations, sanitize)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100_000, peaks


@pytest.mark.parametrize("sanitize", [True, False])
def test_time_grows_linearly_with_steps(sanitize):
    launch(10, sanitize)
    seconds = []
    for iterations in (1000, 4000):
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            launch(iterations, sanitize)
            best = min(best, time.process_time() - start)
        seconds.append(best)
    assert seconds[1] < 8 * seconds[0], seconds


def test_waves_share_the_cost_of_an_instruction():
    """Sixty-four times the waves may cost more, but far less than sixty-four times."""
    launch(10, False)
    seconds = []
    for grid in (1, 64):
        start = time.process_time()
        report = launch(1000, False, grid)
        seconds.append(time.process_time() - start)
        assert report.waves == grid
    assert seconds[1] < 16 * seconds[0], seconds
