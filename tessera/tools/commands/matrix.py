"""`tessera matrix`: the execution matrix as documented, or held against the tests that prove it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tessera.errors import ArtifactError, OptionError, supported
from tessera.runtime import matrix

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = ROOT / "docs"
ROWS = ROOT / "tests/execution_rows.py"
DRIFTED = 1


def command(
    op: Annotated[str, typer.Argument(help="show this operation only")] = "",
    check: Annotated[
        bool, typer.Option("--check", help="fail where documents and tests differ")
    ] = False,
    update: Annotated[
        bool, typer.Option("--update", help="write the documents from test results")
    ] = False,
    results: Annotated[
        list[Path] | None,
        typer.Option(help="JUnit report of a test run (pytest --junitxml); without any, run them"),
    ] = None,
) -> int:
    """Show what runs where, or compare it with the tests (in a checkout)."""
    if check and update:
        raise OptionError("--check and --update do not go together")
    if not check and not update:
        _show_operation(op)
        return 0
    if op:
        raise OptionError(f"{op!r}: --check and --update are about all operations")
    rows = _rows()
    outcomes: dict[str, str] = {}
    for report in results or ():
        outcomes |= matrix.read_results(report)
    claims, problems = matrix.judge(rows, outcomes if results else _run(rows))
    documented = matrix.read(DOCUMENTS) if (DOCUMENTS / "execution_matrix.json").exists() else []
    if update and not problems:
        claims = matrix.keep_device_claims(documented, claims)
        matrix.write(DOCUMENTS, claims)
        print(f"wrote {len(claims)} claims to {DOCUMENTS / 'execution_matrix.md'}")
        return 0
    if not problems:
        problems = matrix.compare(documented, claims)
        if (DOCUMENTS / "execution_matrix.md").read_text() != matrix.markdown(documented):
            problems.append("execution_matrix.md is not what its JSON gives; run --update")
    for problem in problems:
        print(problem)
    print(f"{len(claims)} claims proven, {len(problems)} problems")
    return DRIFTED if problems else 0


def _rows() -> list[matrix.Row]:
    if not ROWS.is_file():
        raise ArtifactError(f"{ROWS} is not there: --check and --update need a checkout")
    spec = importlib.util.spec_from_file_location("execution_rows", ROWS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.rows()


def _run(rows: list[matrix.Row]) -> dict[str, str]:
    """Run the test functions that the rows name."""
    functions = sorted({tests.function for row in rows for _, tests in row.proofs})
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *functions], cwd=ROOT
        )
        return matrix.read_results(report)


def _show_operation(op: str) -> None:
    claims = matrix.read(DOCUMENTS)
    known = sorted({claim.op for claim in claims})
    if op and op not in known:
        raise OptionError(f"unknown operation {op!r}; " + supported(known))
    _show([claim for claim in claims if op in ("", claim.op)])


def _show(claims: list[matrix.Claim]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("operation", "dtype", "direction", "option", "chip", "executor", "state")
    for claim in claims:
        table.add_row(*claim.name, claim.state)
    Console().print(table)
