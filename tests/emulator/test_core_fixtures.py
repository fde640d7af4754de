"""Third-party code objects (Triton) to the results that were computed in float64 beside them."""

import json
from pathlib import Path

import numpy as np
import pytest

from tessera import emulator

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "third_party"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))
DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16, "i8": np.int8, "i32": np.int32}


def launch(name, **options):
    """(report, [(expected, got, description)]) of one fixture."""
    description = json.loads((FIXTURES / f"{name}.json").read_text())
    arrays = np.load(FIXTURES / f"{name}.npz")
    arguments, outputs = [], []
    for argument in description["args"]:
        if argument["kind"] == "scalar":
            arguments.append(argument["value"])
        elif argument["direction"] == "in":
            arguments.append(arrays[f"in_{argument['name']}"].copy())
        else:
            expected = arrays[f"out_{argument['name']}"]
            got = np.zeros(expected.shape, DTYPES[argument["dtype"]])
            arguments.append(emulator.uninitialized(got))
            outputs.append((expected, got))
    arguments += [None, None]  # Triton's scratch pointers
    report = emulator.run(
        (FIXTURES / f"{name}.hsaco").read_bytes(),
        description["kernel"],
        description["grid"],
        description["block"],
        arguments,
        dynamic_lds=description["dynamic_lds_bytes"],
        **options,
    )
    return report, outputs, description["tolerance"]


@pytest.mark.parametrize("sanitize", [False, True], ids=["fast", "sanitized"])
@pytest.mark.parametrize("name", NAMES)
def test_fixture_matches_float64(name, sanitize):
    report, outputs, tolerance = launch(name, sanitize=sanitize)
    assert outputs
    for expected, got in outputs:
        np.testing.assert_allclose(
            got.astype(np.float64), expected, rtol=tolerance["rtol"], atol=tolerance["atol"]
        )
    assert report.findings == []
    assert report.executor == "emulator"
    assert report.chip == "gfx1151"
    assert sum(report.by_class.values()) == report.instructions


def test_profile_counts_every_instruction_and_trace_shows_the_first_wave():
    lines = []
    report, _, _ = launch("vector_add", profile=True, trace=lines.append)
    assert sum(report.by_pc.values()) == report.instructions
    assert len(lines) == report.instructions // report.waves
    assert lines[-1].split()[1] == "s_endpgm"
    assert "vector_add" in str(report)
