"""Triton's kernels in the ladder: right on the emulator, timed by the model; skipped without it."""

from __future__ import annotations

import pytest

from tessera.errors import OptionError
from tessera.perf import documents, tables
from tessera.perf.ladder import Setting, document, run_ladder
from tessera.perf.peers import triton_peers
from tessera.perf.problems import AttentionProblem, GemmProblem
from tessera.perf.rungs import choose

SETTING = Setting("gfx1151", "model", 2.9)
SMALL = GemmProblem(256, 128, 64)


def needs_triton():
    if reason := triton_peers.unavailable_reason():
        pytest.skip(reason)


@pytest.mark.parametrize("problem, why", [
    (GemmProblem(64, 64, 64, layout="tn"), "layout nn"),
    (GemmProblem(64, 64, 64, "i8"), "f16 and bf16"),
])  # fmt: skip
def test_problems_without_a_peer_say_so(problem, why):
    needs_triton()
    with pytest.raises(OptionError, match=why):
        triton_peers.peer_rows([problem], SETTING, print)


def test_without_triton_the_reason_is_given(monkeypatch):
    monkeypatch.setattr(triton_peers, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match="triton is not installed"):
        triton_peers.peer_rows([SMALL], SETTING, print)


def test_peers_of_a_device_s_ladder_are_refused():
    with pytest.raises(OptionError, match="timed by the model"):
        triton_peers.peer_rows([SMALL], Setting("gfx1151", "hip_event", 2.9), print)


@pytest.mark.parametrize("problem", [
    SMALL, AttentionProblem(1, 1, 256, 32), AttentionProblem(1, 1, 256, 32, "bottom_right"),
    AttentionProblem(1, 1, 128, 32, backward=True),
    AttentionProblem(1, 1, 128, 32, "bottom_right", backward=True),
])  # fmt: skip
def test_rows_of_peers_are_right_and_stand_beside_ours(problem, monkeypatch):
    needs_triton()
    tiles = {problem.kind: triton_peers.TILES[problem.kind][:1]}
    monkeypatch.setattr(triton_peers, "TILES", tiles)
    rows = triton_peers.peer_rows([problem], SETTING, lambda text: None)
    assert [row["status"] for row in rows] == ["ok"]
    assert rows[0]["error_multiple"] <= 1
    ours = run_ladder(problem.kind, [(problem, choose(problem.kind, ["shipped"])[0])], SETTING)
    both = document(problem.kind, SETTING, [*ours["rows"], *rows])
    documents.validate(both)
    assert any("against Triton" in note for note in tables.notes(both))
