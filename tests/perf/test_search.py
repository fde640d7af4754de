"""The search: only schedules that fit are tried, and the best right one is kept for the chip."""

from __future__ import annotations

import pytest

from tessera.kernels.schedules import AttentionSchedule, GemmSchedule
from tessera.perf import search
from tessera.perf.ladder import SEARCH, Setting, run_ladder
from tessera.perf.problems import AttentionProblem, GemmProblem
from tessera.perf.rungs import Rung
from tessera.tools.cli import run

SETTING = Setting("gfx1151", "model", 2.9)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TESSERA_CACHE_DIR", str(tmp_path))


def sizes(problem) -> list[dict[str, int]]:
    return [dict(rung.schedule or {}) for rung in search.candidates(problem)]


def test_candidates_fit_into_lds_and_registers():
    for schedule in sizes(GemmProblem(4096, 4096, 4096)):
        assert GemmSchedule(**schedule).lds_bytes() <= 65536
        assert 8 * schedule["mt"] * schedule["nt"] < 256
    wide = sizes(AttentionProblem(1, 1, 4096, 128))
    assert all(AttentionSchedule(**s).lds_bytes(128, 128) <= 65536 for s in wide)
    # Two columns of 128 channels alone are 256 registers.
    assert {s["queries_per_wave"] for s in wide} == {16}
    assert {s["queries_per_wave"] for s in sizes(AttentionProblem(1, 1, 4096, 64))} == {16, 32}


def test_shipped_tiles_are_among_the_candidates():
    tiles = [(s["mt"], s["nt"], s["waves_m"], s["waves_n"]) for s in sizes(GemmProblem(8, 8, 8))]
    assert (4, 4, 2, 2) in tiles
    assert len(set(tiles)) == len(tiles)
    assert {"waves": 8, "rows_per_step": 32} in sizes(AttentionProblem(1, 1, 64, 64, backward=True))


def row(name, seconds, spills=0, status="ok"):
    return {
        "shape": {"m": 1}, "dtype": "f16", "status": status, "seconds": seconds, "spills": spills,
        "schedule": {"name": name, "sizes": {"mt": int(seconds)}}, "share_of_peak": 0.5,
    }  # fmt: skip


def test_the_fastest_right_schedule_without_spills_is_kept():
    rows = [row("a", 3.0), row("b", 2.0), row("c", 1.0, spills=4), row("triton x", 0.5)]
    rows.append({"shape": {"m": 1}, "dtype": "f16", "status": "wrong", "schedule": {"name": "d"}})
    notes = search.keep_best(rows, SETTING)
    assert "mt=2" in notes[0]
    picks = search.load_picks("gfx1151")
    assert [pick["schedule"] for pick in picks.values()] == [{"mt": 2}]
    search.keep_best([row("e", 1.0)], SETTING)
    assert [pick["schedule"] for pick in search.load_picks("gfx1151").values()] == [{"mt": 1}]


def test_a_damaged_file_of_picks_is_as_none():
    search.picks_file("gfx1151").parent.mkdir(parents=True)
    search.picks_file("gfx1151").write_text("{")
    assert search.load_picks("gfx1151") == {}


def test_candidates_that_spill_are_not_timed():
    schedule = {"waves": 8, "queries_per_wave": 32, "keys_per_step": 64}
    spilling = Rung(SEARCH + "wide", "", schedule)
    problem = AttentionProblem(1, 1, 256, 128)
    only = run_ladder("flash_attn", [(problem, spilling)], SETTING)["rows"][0]
    assert only["status"] == "refused"
    assert only["why"].startswith("spills ")
    assert "seconds" not in only


def test_the_command_searches(monkeypatch, capsys):
    chosen = [Rung(SEARCH + "one", "", {"mt": 2, "nt": 2, "waves_m": 2, "waves_n": 2})]
    monkeypatch.setattr(search, "candidates", lambda problem: chosen)
    status = run(["ladder", "gemm", "--m", "128", "--schedules", "2x2", "--device", "model",
                  "--search"])  # fmt: skip
    assert status == 0
    assert "search: best for k=128" in capsys.readouterr().out
    assert len(search.load_picks("gfx1151")) == 1
