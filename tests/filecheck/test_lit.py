"""The same files under real `lit`: a few of them always, all of them with `-m slow`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
FILES = sorted(FOLDER.rglob("*.mlir"))


def run_lit(*paths: Path) -> subprocess.CompletedProcess[str]:
    code = "import lit.main; lit.main.main()"
    command = [sys.executable, "-c", code, "--order=lexical", "-j1", "-v", *map(str, paths)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)


def test_lit_runs_a_dialect_and_a_pass():
    chosen = [FOLDER / "dialects/graph.mlir", FOLDER / "transforms/graph_to_tile.mlir"]
    result = run_lit(*chosen)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"Passed: {len(chosen)}" in result.stdout


def test_lit_fails_where_a_check_does_not_match(tmp_path):
    wrong = FOLDER / "dialects/graph.mlir"
    (tmp_path / "lit.cfg.py").write_text((FOLDER / "lit.cfg.py").read_text())
    text = wrong.read_text().replace("CHECK-LABEL: ", "CHECK-LABEL: not there ", 1)
    (tmp_path / "graph.mlir").write_text(text)
    result = run_lit(tmp_path)
    assert result.returncode != 0
    assert "Failed: 1" in result.stdout


@pytest.mark.slow
def test_lit_runs_every_file():
    result = run_lit(FOLDER)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"Passed: {len(FILES)}" in result.stdout
