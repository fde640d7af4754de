"""The training example: its losses on the emulator follow those in float64; its plot appears."""

import importlib.util
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_transformer.py"


def example():
    specification = importlib.util.spec_from_file_location("train_transformer", EXAMPLE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_losses_follow_float64(tmp_path):
    numbers = tmp_path / "losses.json"
    assert example().main(["--steps", "3", "--json", str(numbers)]) < 1e-3
    curves = json.loads(numbers.read_text())
    assert [len(losses) for losses in curves.values()] == [3, 3]


def test_plot(tmp_path):
    pytest.importorskip("matplotlib")
    example().plot({"one": [3.0, 2.0], "other": [3.0, 2.1]}, tmp_path / "losses.png")
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")
