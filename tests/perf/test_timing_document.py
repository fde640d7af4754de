"""docs/timing_model.md against the code: its parameter table and its calibration figures."""

from __future__ import annotations

from pathlib import Path

from tessera.emulator.timing import ROWS
from tessera.perf import calibration
from tessera.tools.commands import ladder

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "timing_model.md"


def parameter_table() -> str:
    """The table between the document's two comments."""
    lines = ["| parameter | value | unit | kind | source |", "|---|---|---|---|---|"]
    lines += [
        f"| `{row.name}` | {row.value:g} | {row.unit} | {row.kind} | {row.source} |" for row in ROWS
    ]
    return "\n".join(lines)


def test_the_parameter_table_is_the_code_s():
    text = DOCUMENT.read_text()
    between = text.split("<!-- parameters -->")[1].split("<!-- end of parameters -->")[0]
    assert between.strip() == parameter_table()


def test_the_calibration_figures_are_what_the_model_gives():
    text = DOCUMENT.read_text()
    result = calibration.calibrate()
    for part, label in ((calibration.FIT, "fitted to"), (calibration.HELD, "held out")):
        count = sum(point.part == part for point in calibration.POINTS)
        median, worst = result.errors(part)
        row = f"| {label} | {count} | {median * 100:.1f} % | {worst * 100:.1f} % |"
        assert row in text
        assert f"| {result.concordance(part):.0%} |".replace("%", " %") in text


def test_every_subcommand_is_shown():
    text = DOCUMENT.read_text()
    for command in ladder.app.registered_commands:
        assert f"tessera ladder {command.name}" in text
