"""Lengths of all workgroups from a few traced ones, against what the emulator executes."""

from __future__ import annotations

import numpy as np
import pytest

from tessera.emulator.code_object import load
from tessera.emulator.launch import Launch
from tessera.emulator.timing import PARAMETERS
from tessera.emulator.timing.lengths import lengths
from tessera.emulator.timing.trace import trace
from tessera.perf.launches import time_artifact
from tessera.perf.problems import AttentionProblem
from tessera.runtime.host_buffers import flat, numpy_dtype
from tessera.runtime.prepare import prepare
from tessera.runtime.prepared import INPUT
from tessera.runtime.tensors import kind_of

PROBLEM = AttentionProblem(1, 2, 512, 32, "bottom_right")
SCHEDULE = {"waves": 1, "queries_per_wave": 16, "keys_per_step": 16}


@pytest.fixture(scope="module")
def launch():
    """The launch of a causal attention kernel with 64 workgroups of one wave."""
    inputs = PROBLEM.inputs()
    artifact = PROBLEM.function("gfx1151", SCHEDULE).lower(*inputs)
    described = [kind_of(one, "").describe(one, "") for one in inputs]
    prepared = prepare(artifact.plan, described, None)
    buffers = [
        flat(inputs[slot.index], slot) if slot.role == INPUT
        else np.zeros(slot.elements, numpy_dtype(slot.dtype))
        for slot in prepared.slots
    ]  # fmt: skip
    kernel = prepared.kernels[0]
    loaded = load(artifact.hsaco)
    made = Launch(loaded, loaded.kernel(kernel.kernel), kernel.grid, kernel.block, 0, raises=True)
    made.map_arguments([buffers[a] if isinstance(a, int) else a.value for a in kernel.arguments])
    return made


def test_the_lengths_of_all_workgroups_follow_from_a_few(launch):
    total = launch.grid[0] * launch.grid[1]
    every = trace(launch, range(total), PARAMETERS)
    true = np.array([len(waves[0].operations) for waves in every])
    assert true.max() > 8 * true.min()
    few = [every[i] for i in (0, 5, 13, 31, 40, 63)]
    predicted = lengths(launch, few, total, PARAMETERS)
    # Masked iterations are a little longer than the others, which no single register says.
    assert np.abs(predicted / true - 1).max() < 0.1
    assert predicted.sum() == pytest.approx(true.sum(), rel=0.02)


def test_without_a_predicting_register_lengths_are_interpolated(launch, monkeypatch):
    monkeypatch.setattr("tessera.emulator.timing.lengths.MOST_WAVES", 0)
    few = trace(launch, [0, 63], PARAMETERS)
    ends = [len(waves[0].operations) for waves in few]
    predicted = lengths(launch, few, 64, PARAMETERS)
    assert predicted[0] == ends[0]
    assert predicted[-1] == ends[1]
    assert predicted[21] == pytest.approx(ends[0] + (ends[1] - ends[0]) / 3)


def test_causal_work_is_counted_as_executed():
    inputs = PROBLEM.inputs()
    artifact = PROBLEM.function("gfx1151", SCHEDULE).lower(*inputs)
    timing = time_artifact(artifact, inputs)[0]
    from tessera import runtime

    runtime.launch(artifact, *inputs, executor="emulator")
    executed = runtime.last_launch().reports[0]
    assert timing.instructions == pytest.approx(executed.instructions, rel=0.05)
    assert timing.matrix_instructions == pytest.approx(executed.by_class["wmma"], rel=0.05)
