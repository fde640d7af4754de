"""The generated page of instructions: current, and telling the truth about what is missing."""

from __future__ import annotations

import pytest

pytest.importorskip("tinygrad")

from tessera.emulator import coverage, matrix
from tessera.emulator.decode import plain_name
from tessera.emulator.semantics import SCALAR_OPS, VECTOR_OPS


def test_the_stored_page_is_current():
    assert coverage.main(["--check"]) == 0, "run python -m tessera.emulator.coverage --write"


def test_a_stale_page_is_noticed(tmp_path, monkeypatch, capsys):
    stale = tmp_path / "emulator_coverage.md"
    monkeypatch.setattr(coverage, "PAGE", stale)
    assert coverage.main(["--check"]) == 1
    stale.write_text("old")
    assert coverage.main(["--check"]) == 1
    assert "--write" in capsys.readouterr().out
    assert coverage.main(["--write"]) == 0
    assert coverage.main(["--check"]) == 0


def test_every_function_of_the_tables_is_reachable():
    """No semantics is written for an instruction that the tables do not have."""
    names = set()
    for family in ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P", "SOP1", "SOP2", "SOPC"):
        result = coverage.examine(family)
        names |= {plain_name(name).replace("V_CMPX", "V_CMP") for name in result.implemented}
    # The bfloat16 accumulating dot product exists only as half of a VOPD pair.
    unreachable = (set(VECTOR_OPS) | set(SCALAR_OPS) | set(matrix.WMMA_KINDS)) - names
    assert unreachable == {"V_DOT2ACC_F32_BF16"}


def test_graphics_encodings_are_listed_as_missing():
    for family in coverage.GRAPHICS:
        result = coverage.examine(family)
        assert not result.implemented
        assert result.missing
