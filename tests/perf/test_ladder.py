"""Ladders from the command line to valid documents, pictures and timelines; wrong ones refused."""

from __future__ import annotations

import copy
import itertools
import json

import numpy as np
import pytest

from tessera.emulator.timing import PARAMETERS, chrome_trace
from tessera.errors import OptionError
from tessera.perf import calibration, documents, ladder, rungs, tables
from tessera.perf.launches import time_artifact
from tessera.perf.problems import AttentionProblem, GemmProblem
from tessera.tools.cli import run

CHIP = "gfx1151"
SETTING = ladder.Setting(CHIP, "model", 2.9)
SMALL = GemmProblem(256, 256, 256)


@pytest.fixture(scope="module")
def document():
    """A ladder of three schedules, one of which no compiler can make."""
    impossible = rungs.Rung("impossible", "more LDS than there is", {"block_k": 1024})
    work = [(SMALL, rungs.choose("gemm", [name])[0]) for name in ("2x2", "64x64")]
    return ladder.run_ladder("gemm", [*work, (SMALL, impossible)], SETTING)


def test_a_document_is_valid_and_says_where_its_times_come_from(document):
    documents.validate(document)
    assert document["time_source"] == "model"
    assert {row["time_source"] for row in document["rows"]} == {"model"}


def test_rows_hold_what_was_compiled_and_modelled(document):
    one_wave, staged, refused = document["rows"]
    assert one_wave["status"] == staged["status"] == "ok"
    assert one_wave["schedule"]["sizes"]["block_k"] == one_wave["lds_bytes"] == 0
    assert staged["schedule"]["sizes"]["waves_m"] == 2
    assert staged["lds_bytes"] > 0
    assert 0 < staged["error_multiple"] <= 1
    assert staged["tflops"] == pytest.approx(2 * 256**3 / staged["seconds"] / 1e12)
    assert 0 < staged["issue_law"] < 1
    assert staged["share_of_peak"] == pytest.approx(staged["tflops"] / 59.392)
    assert refused["status"] == "refused"
    assert refused["why"]


def test_a_wrong_result_is_a_row_without_a_time(monkeypatch):
    def wrong(self, results, inputs):
        raise AssertionError("c: off by 2")

    monkeypatch.setattr(GemmProblem, "check", wrong)
    row = ladder.run_ladder("gemm", [(SMALL, rungs.choose("gemm", ["2x2"])[0])], SETTING)["rows"][0]
    assert row["status"] == "wrong"
    assert "off by 2" in row["why"]
    assert "seconds" not in row


@pytest.mark.parametrize("problem", [
    GemmProblem(40, 24, 48), GemmProblem(40, 24, 48, "i8", "tt"),
    GemmProblem(40, 24, 48, "i4", "nt"), AttentionProblem(1, 1, 40, 32, "bottom_right"),
    AttentionProblem(1, 1, 40, 32, backward=True),
])  # fmt: skip
def test_checks_accept_the_reference_alone(problem):
    from tessera import runtime

    inputs = problem.inputs()
    artifact = problem.function(CHIP, None).lower(*inputs)
    results = runtime.launch(artifact, *inputs, executor="emulator")
    assert problem.check(results, inputs) <= 1
    several = isinstance(results, tuple)
    first = np.array(results[0] if several else results)
    first.flat[-1] += 1 if first.dtype.kind == "i" else 0.5
    spoilt = (first, *results[1:]) if several else first
    with pytest.raises(AssertionError):
        problem.check(spoilt, inputs)


def test_causal_counts_half_the_operations_and_gradients_two_and_a_half_times_as_many():
    plain = AttentionProblem(2, 3, 64, 32)
    assert plain.flops == 4 * 2 * 3 * 64 * 64 * 32
    assert AttentionProblem(2, 3, 64, 32, "top_left").flops == plain.flops / 2
    assert AttentionProblem(2, 3, 64, 32, backward=True).flops == 2.5 * plain.flops


def test_what_moved_between_two_documents(document):
    faster = copy.deepcopy(document)
    faster["rows"][1]["seconds"] /= 2
    ratios = documents.moved(document, faster)
    assert sorted(ratios.values()) == [1.0, 2.0]
    table = tables.table(faster, ratios)
    assert table.row_count == 3
    other = faster | {"time_source": "hip_event"}
    with pytest.raises(OptionError, match="time_source is 'model' there and 'hip_event' here"):
        documents.moved(document, other)


def test_a_damaged_document_is_refused_by_place(document, tmp_path):
    damaged = copy.deepcopy(document)
    damaged["rows"][0]["seconds"] = "fast"
    with pytest.raises(OptionError, match="rows/0/seconds"):
        documents.save(damaged, tmp_path / "damaged.json")
    assert not (tmp_path / "damaged.json").exists()
    del damaged["rows"][0]["seconds"]
    with pytest.raises(OptionError, match="'seconds' is a required property"):
        documents.validate(damaged)


def test_the_command_writes_document_picture_and_timeline(tmp_path, capsys):
    out = tmp_path / "ladder.json"
    status = run(
        ["ladder", "flash_attn", "--heads", "1", "--seq", "256", "--head-dim", "32", "--causal",
         "none", "--schedules", "four_waves", "--device", "model", "--json", str(out), "--plot",
         str(tmp_path / "ladder.svg"), "--timeline", str(tmp_path / "trace.json")]
    )  # fmt: skip
    shown = capsys.readouterr().out
    assert status == 0
    assert "time by model" in shown
    assert "not measured" in shown
    assert documents.load(out)["rows"][0]["schedule"]["name"] == "four_waves"
    assert "<svg" in (tmp_path / "ladder.svg").read_text()
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event.get("cat") for event in events} >= {"wmma", "valu", "lds", "wait", "barrier"}
    assert {event["tid"] for event in events if "tid" in event} == {0, 1, 2, 3}
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")


@pytest.mark.parametrize("arguments, text", [
    (["gemm", "--m", "x"], "no list of integers"),
    (["gemm", "--schedules", "9x9"], "no schedule '9x9'; supported: 1x1"),
    (["gemm", "--dtypes", "f64"], "dtype = 'f64'"),
    (["flash_attn", "--causal", "left"], "causal = 'left'"),
    (["flash_attn", "--chip", "gfx900"], "chip = 'gfx900'; supported: gfx1151"),
    (["flash_attn", "--device", "warp"], "device = 'warp'; supported: auto"),
])  # fmt: skip
def test_wrong_options_name_themselves(arguments, text, capsys):
    assert run(["ladder", *arguments]) == 2
    assert text in capsys.readouterr().err


def test_a_lower_clock_takes_as_many_cycles_where_memory_does_not_limit():
    inputs = SMALL.inputs()
    artifact = SMALL.function(CHIP, dict(mt=2, nt=2, waves_m=1, waves_n=1, block_k=32)).lower(
        *inputs
    )
    fast = time_artifact(artifact, inputs)[0]
    slow = time_artifact(artifact, inputs, PARAMETERS.with_values(clock_ghz=1.45))[0]
    assert slow.seconds > 1.5 * fast.seconds
    assert slow.cycles == pytest.approx(fast.cycles, rel=0.15)


def test_the_model_counts_what_the_emulator_executes():
    inputs = SMALL.inputs()
    artifact = SMALL.function(CHIP, None).lower(*inputs)
    timing = time_artifact(artifact, inputs)[0]
    from tessera import runtime

    runtime.launch(artifact, *inputs, executor="emulator")
    report = runtime.last_launch().reports[0]
    assert timing.matrix_instructions == pytest.approx(report.by_class["wmma"])
    assert 1.0 <= timing.lds_conflicts < 4.0
    assert timing.instructions == pytest.approx(report.instructions, rel=0.02)


def test_a_timeline_never_issues_two_instructions_of_a_simd_at_once():
    inputs = SMALL.inputs()
    artifact = SMALL.function(CHIP, None).lower(*inputs)
    timing = time_artifact(artifact, inputs, timeline=True)[0]
    simds = 2 * timing.occupancy.units
    issued = [e for e in timing.events if e.category not in ("wait", "barrier")]
    for simd in range(simds):
        mine = sorted((e.start, e.cycles) for e in issued if e.wave % simds == simd)
        assert mine
        overlap = [b[0] - (a[0] + a[1]) for a, b in itertools.pairwise(mine)]
        assert min(overlap) > -1e-6
    assert chrome_trace(timing)["otherData"]["time_source"] == "model"


def test_calibration_holds_on_the_points_that_were_not_fitted():
    result = calibration.calibrate()
    median, worst = result.errors(calibration.HELD)
    assert median < 0.15
    assert worst < 0.35
    assert result.concordance(calibration.HELD) > 0.9
    half = len(calibration.POINTS) / 2
    assert sum(point.part == calibration.FIT for point in calibration.POINTS) <= half


def test_a_device_is_timed_by_the_median_after_warming_up(monkeypatch):
    from types import SimpleNamespace

    seconds = iter([9.0, 9.0, 9.0, *[2e-6] * 10, *[4e-6] * 9, 5e-6])
    launched = []

    def launch(artifact, *inputs, executor, is_timed=False):
        launched.append((executor, is_timed))
        return runtime_launch(artifact, *inputs, executor="emulator")

    runtime_launch = ladder.runtime.launch
    monkeypatch.setattr(ladder.runtime, "launch", launch)
    monkeypatch.setattr(
        ladder.runtime, "last_launch", lambda: SimpleNamespace(seconds=next(seconds))
    )
    problem = GemmProblem(16, 16, 16)
    setting = ladder.Setting(CHIP, "hip_event", 2.9)
    made = ladder.run_ladder("gemm", [(problem, rungs.choose("gemm", ["1x1"])[0])], setting)
    documents.validate(made)
    row = made["rows"][0]
    assert row["samples"] == 20
    assert row["seconds"] == pytest.approx(3e-6)
    assert row["spread_seconds"] == pytest.approx(3e-6)
    assert row["time_source"] == "hip_event"
    assert "bound" not in row
    assert launched[1:] == [("hip", True)] * 23


def test_compare_on_the_command_line(document, tmp_path, capsys):
    old = copy.deepcopy(document)
    old["rows"] = [old["rows"][0]]
    old["rows"][0]["seconds"] *= 2
    documents.save(old, tmp_path / "old.json")
    arguments = ["ladder", "gemm", "--m", "256", "--schedules", "2x2", "--device", "model"]
    assert run([*arguments, "--compare", str(tmp_path / "old.json")]) == 0
    assert "2.000x" in capsys.readouterr().out
    assert run([*arguments, "--compare", str(tmp_path / "none.json")]) == 2
    assert "is no ladder document" in capsys.readouterr().err
