"""The kept results: valid documents by the model, rows of ours right, each with its command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tessera.perf import documents

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
FILES = sorted(FOLDER.glob("*.json"))


def test_every_result_is_listed():
    text = (FOLDER / "README.md").read_text()
    listed = {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")}
    assert {path.stem for path in FILES} == listed - {"file"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_results_are_valid_and_right(path):
    document = documents.load(path)
    assert document["time_source"] == "model"
    for row in document["rows"]:
        assert row["status"] != "wrong", row
        if row["schedule"]["name"] == "shipped":
            assert row["status"] == "ok", row["why"]
            assert row["spills"] == 0
