"""The execution matrix: states from test results, drift, skipped proofs, and its documents."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from tessera.errors import ArtifactError
from tessera.runtime import matrix
from tessera.runtime.matrix import (
    COMPILES,
    ON_DEVICE,
    ON_EMULATOR,
    UNSUPPORTED,
    Claim,
    Proof,
    Row,
)
from tessera.tools.commands.matrix import DOCUMENTS, ROWS

RUN, BUILD = "tests/a.py::test_run", "tests/b.py::test_build"
ROW = Row(
    "matmul", "f16", "forward", "none", "gfx1151", "hip",
    ((ON_DEVICE, Proof(RUN, ("[hip", "-f16"))), (COMPILES, Proof(BUILD, ("[f16]",)))),
)  # fmt: skip


def outcomes(run="passed", build="passed"):
    return {
        f"{RUN}[hip-f16]": run,
        f"{RUN}[hip-bf16]": "failed",
        f"{RUN}[emulator-f16]": "failed",
        f"{BUILD}[f16]": build,
    }


def judged(row=ROW, **changes):
    (claims, problems) = matrix.judge([row], outcomes(**changes))
    return [claim.state for claim in claims], problems


def test_first_state_whose_tests_all_passed():
    assert judged() == ([ON_DEVICE], [])
    assert judged(run="skipped") == ([COMPILES], [])


def test_failed_and_skipped_proofs_are_problems():
    states, (problem,) = judged(run="failed")
    assert states == []
    assert "matmul f16 forward (none) on gfx1151 by hip" in problem
    assert f"{RUN}[hip-f16] failed" in problem
    states, (problem,) = judged(run="skipped", build="skipped")
    assert states == []
    assert "was skipped" in problem
    states, (problem,) = judged(run="skipped", build="failed")
    assert states == []


def test_claim_without_a_test_is_a_problem():
    for missing in (Proof(RUN, ("absent",)), Proof("tests/c.py::test_absent")):
        row = replace(ROW, proofs=((ON_EMULATOR, missing),))
        states, (problem,) = judged(row)
        assert states == []
        assert "no test of" in problem


def test_one_failed_test_among_many_is_enough():
    row = replace(ROW, proofs=((ON_DEVICE, Proof(RUN, ("[hip",))),))
    states, problems = judged(row)
    assert states == []
    assert len(problems) == 1


def claim(state, option="none"):
    return Claim("matmul", "f16", "forward", option, "gfx1151", "hip", state, RUN, 1)


def test_drift_in_either_direction_is_told():
    same = [claim(ON_EMULATOR)]
    assert matrix.compare(same, same) == []
    (line,) = matrix.compare(same, [claim(COMPILES)])
    assert "documented as verified on emulator, proven: compiles" in line
    (line,) = matrix.compare(same, [])
    assert "no test proves it" in line
    (line,) = matrix.compare([], same)
    assert "the documents do not have it" in line


def test_what_a_device_verified_stays_on_machines_without():
    documented, here = [claim(ON_DEVICE)], [claim(COMPILES)]
    assert matrix.compare(documented, here) == []
    assert matrix.keep_device_claims(documented, here) == documented
    assert matrix.compare(documented, [claim(UNSUPPORTED)]) != []
    assert matrix.keep_device_claims([claim(COMPILES)], [claim(ON_DEVICE)]) == documented


REPORT = """<testsuites><testsuite>
<testcase classname="tests.kernels.test_matmul" name="test_sizes[emulator-(1, 2)-f16]"/>
<testcase classname="tests.kernels.test_matmul" name="test_sizes[hip-(1, 2)-f16]">
<skipped/></testcase>
<testcase classname="tests.a" name="test_run"><failure/></testcase>
<testcase classname="tests.a" name="test_set_up"><error/></testcase>
</testsuite></testsuites>"""


def test_results_come_from_a_junit_report(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    assert matrix.read_results(tmp_path / "report.xml") == {
        "tests/kernels/test_matmul.py::test_sizes[emulator-(1, 2)-f16]": "passed",
        "tests/kernels/test_matmul.py::test_sizes[hip-(1, 2)-f16]": "skipped",
        "tests/a.py::test_run": "failed",
        "tests/a.py::test_set_up": "failed",
    }
    with pytest.raises(ArtifactError, match="no JUnit report"):
        matrix.read_results(tmp_path / "absent.xml")


def test_documents_go_round(tmp_path):
    claims = [claim(ON_EMULATOR), claim(COMPILES, "transpose_a")]
    matrix.write(tmp_path, claims)
    assert matrix.read(tmp_path) == claims
    text = (tmp_path / "execution_matrix.md").read_text()
    assert "| matmul | f16 | forward | none | emulator | `a::test_run` (1) |" in text
    assert "| matmul | f16 | forward | transpose_a | compiles |" in text
    (tmp_path / "execution_matrix.json").write_text("{}")
    with pytest.raises(ArtifactError, match="not an execution matrix"):
        matrix.read(tmp_path)


def rows():
    spec = importlib.util.spec_from_file_location("execution_rows", ROWS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.rows()


def test_rows_are_unique_and_their_test_functions_exist():
    names = [tuple(vars(row).values())[:6] for row in rows()]
    assert len(names) == len(set(names))
    root = Path(ROWS).parents[1]
    for function in {tests.function for row in rows() for _, tests in row.proofs}:
        file, _, name = function.partition("::")
        assert f"def {name}(" in (root / file).read_text(), function


def test_documents_claim_exactly_the_rows():
    documented = matrix.read(DOCUMENTS)
    assert {claim.name for claim in documented} == {tuple(vars(row).values())[:6] for row in rows()}
    assert (DOCUMENTS / "execution_matrix.md").read_text() == matrix.markdown(documented)
