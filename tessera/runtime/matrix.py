"""Claims and test results to the execution matrix: what runs where, and the test that proves it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tessera.errors import ArtifactError

SCHEMA_VERSION = 1
ON_DEVICE, ON_EMULATOR, COMPILES, UNSUPPORTED = (
    "verified on device",
    "verified on emulator",
    "compiles",
    "unsupported",
)
STATES = (ON_DEVICE, ON_EMULATOR, COMPILES, UNSUPPORTED)
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Proof:
    """The tests of one test function whose parameters' names hold all of `fragments`."""

    function: str
    fragments: tuple[str, ...] = ()

    def match(self, node: str) -> bool:
        """Whether a test, as file::function[parameters], is one of these."""
        function, bracket, parameters = node.partition("[")
        parameters = bracket + parameters
        return function == self.function and all(one in parameters for one in self.fragments)


@dataclass(frozen=True)
class Row:
    """One thing that may be claimed, and the tests that prove each state that it can have.

    `proofs` are tried in order: the first state whose tests all passed is the row's.
    """

    op: str
    dtype: str
    direction: str
    option: str
    chip: str
    executor: str
    proofs: tuple[tuple[str, Proof], ...]


@dataclass(frozen=True)
class Claim:
    """One line of the matrix: a state, and the test function and number of tests that prove it."""

    op: str
    dtype: str
    direction: str
    option: str
    chip: str
    executor: str
    state: str
    test: str
    tests: int

    @property
    def name(self) -> tuple[str, ...]:
        """What is claimed, without how it is proven."""
        return (self.op, self.dtype, self.direction, self.option, self.chip, self.executor)


def read_results(report: Path) -> dict[str, str]:
    """Outcomes by test from a JUnit report (`pytest --junitxml`): passed, failed or skipped."""
    try:
        root = ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise ArtifactError(f"{report}: no JUnit report: {error}") from error
    outcomes: dict[str, str] = {}
    for case in root.iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        outcome = PASSED
        if case.find("failure") is not None or case.find("error") is not None:
            outcome = FAILED
        elif case.find("skipped") is not None:
            outcome = SKIPPED
        outcomes[f"{file}::{case.get('name')}"] = outcome
    return outcomes


def judge(rows: Iterable[Row], outcomes: Mapping[str, str]) -> tuple[list[Claim], list[str]]:
    """The claims that the results prove, and what is wrong.

    A test that failed, one that was skipped for a claim with no other proof, and a claim without
    any test are problems. Proof of devices that are skipped leave room for the next proof.
    """
    by_function: dict[str, list[str]] = {}
    for node in outcomes:
        by_function.setdefault(node.partition("[")[0], []).append(node)
    claims, problems = [], []
    for row in rows:
        claim, problem = _judge_row(row, outcomes, by_function)
        if claim is not None:
            claims.append(claim)
        if problem:
            problems.append(problem)
    return claims, problems


def _judge_row(
    row: Row, outcomes: Mapping[str, str], by_function: Mapping[str, Sequence[str]]
) -> tuple[Claim | None, str]:
    what = f"{row.op} {row.dtype} {row.direction} ({row.option}) on {row.chip} by {row.executor}"
    reason = "has no test"
    for state, tests in row.proofs:
        nodes = [node for node in by_function.get(tests.function, ()) if tests.match(node)]
        found = {outcomes[node] for node in nodes}
        if FAILED in found:
            first = next(node for node in nodes if outcomes[node] == FAILED)
            return None, f"{what}: {first} failed"
        if found == {PASSED}:
            names = (row.op, row.dtype, row.direction, row.option, row.chip, row.executor)
            return Claim(*names, state, tests.function, len(nodes)), ""
        if nodes:
            reason = f"{tests.function} was skipped"
        elif reason == "has no test":
            reason = f"no test of {tests.function} matches {', '.join(tests.fragments)}"
    return None, f"{what}: {reason}"


def compare(documented: Sequence[Claim], proven: Sequence[Claim]) -> list[str]:
    """How the documented matrix and the proven one differ, one line each.

    What was verified on a device stays claimed on machines that have none.
    """
    before = {claim.name: claim for claim in documented}
    now = {claim.name: claim for claim in proven}
    lines = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        where = " ".join(name)
        if old is None:
            assert new is not None
            lines.append(f"{where}: {new.state}, but the documents do not have it")
        elif new is None:
            lines.append(f"{where}: documented as {old.state}, but no test proves it")
        elif old.state != new.state and not (old.state == ON_DEVICE and new.state == COMPILES):
            lines.append(f"{where}: documented as {old.state}, proven: {new.state}")
    return lines


def keep_device_claims(documented: Sequence[Claim], proven: Sequence[Claim]) -> list[Claim]:
    """The proven claims, with those kept that another machine verified on its device."""
    on_device = {claim.name: claim for claim in documented if claim.state == ON_DEVICE}
    return [
        on_device.get(claim.name, claim) if claim.state == COMPILES else claim for claim in proven
    ]


# Files.


def write(folder: Path, claims: Sequence[Claim]) -> None:
    """Write execution_matrix.json and execution_matrix.md."""
    content = {"schema_version": SCHEMA_VERSION, "claims": [asdict(claim) for claim in claims]}
    (folder / "execution_matrix.json").write_text(json.dumps(content, indent=1) + "\n")
    (folder / "execution_matrix.md").write_text(markdown(claims))


def read(folder: Path) -> list[Claim]:
    """The claims of execution_matrix.json; ArtifactError when there are none to read."""
    path = folder / "execution_matrix.json"
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        if data["schema_version"] != SCHEMA_VERSION:
            raise ArtifactError(f"{path}: schema version {data['schema_version']}")
        return [Claim(**claim) for claim in data["claims"]]
    except OSError as error:
        raise ArtifactError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{path}: not an execution matrix: {error}") from error


_INTRODUCTION = """\
# Execution matrix

What runs where. Every cell is a claim that tests prove; the table is generated from their results
by `tessera matrix --update` and compared with them by `tessera matrix --check`. The last column
names the tests that ran the binary; `execution_matrix.json` has every claim with its own.

- **emulator**: the code object ran on the emulator and every result was held against float64.
- **device**: the same tests passed on that chip.
- **compiles**: a code object for the chip is made and its metadata reads back; nothing ran it.
- **unsupported**: asking for it raises an error that says so, and a test holds that.
- an empty cell: no test says anything about that option on that chip.
"""

_SHORT = {ON_DEVICE: "device", ON_EMULATOR: "emulator", COMPILES: "compiles",
          UNSUPPORTED: "unsupported"}  # fmt: skip


def markdown(claims: Sequence[Claim]) -> str:
    """The document: one line per operation, dtype, direction and option; one column per chip."""
    chips = sorted({claim.chip for claim in claims})
    best: dict[tuple[str, ...], dict[str, Claim]] = {}
    for claim in claims:
        cells = best.setdefault(claim.name[:4], {})
        shown = cells.get(claim.chip)
        if shown is None or STATES.index(claim.state) < STATES.index(shown.state):
            cells[claim.chip] = claim
    lines = [
        "| operation | dtype | direction | option | " + " | ".join(chips) + " | proven by |",
        "|---" * (5 + len(chips)) + "|",
    ]
    for (op, dtype, direction, option), cells in best.items():
        states = [_SHORT[cells[chip].state] if chip in cells else "" for chip in chips]
        proof = min(cells.values(), key=lambda claim: STATES.index(claim.state))
        test = re.sub(r"^tests/|\.py", "", proof.test)
        lines.append(
            f"| {op} | {dtype} | {direction} | {option} | {' | '.join(states)} | "
            f"`{test}` ({proof.tests}) |"
        )
    return _INTRODUCTION + "\n" + "\n".join(lines) + "\n"
