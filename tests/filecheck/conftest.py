"""RUN lines of .mlir files to pytest items that run them in this process, at a few ms each.

The same files run under real `lit` (lit.cfg.py); a test here holds that up with a few of them.
"""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

MARKER = "// RUN: "


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Every .mlir file below this folder is a file of tests."""
    if file_path.suffix == ".mlir":
        return MlirFile.from_parent(parent, path=file_path)
    return None


class MlirFile(pytest.File):
    """One .mlir file; each RUN line is one test."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item per RUN line; a file without one is an error."""
        commands = [
            line.removeprefix(MARKER).strip()
            for line in self.path.read_text().splitlines()
            if line.startswith(MARKER)
        ]
        if not commands:
            raise pytest.Collector.CollectError(f"{self.path}: no line starts with {MARKER!r}")
        for number, command in enumerate(commands):
            yield RunLine.from_parent(self, name=f"run{number}", command=command)


class RunLine(pytest.Item):
    """One pipe of `tessera-opt` commands that ends in `filecheck`."""

    def __init__(self, command: str, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.command = command

    def runtest(self) -> None:
        """Run the pipe; a command that fails or a check that does not match fails the test."""
        text = ""
        for part in self.command.split(" | "):
            program, *arguments = (word.replace("%s", str(self.path)) for word in shlex.split(part))
            if program == "filecheck":
                check(arguments, text)
                return
            assert program == "tessera-opt", f"no such program in a RUN line: {program}"
            text = run_opt(arguments, text)
        raise AssertionError("the RUN line does not end in filecheck")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None):
        """The command and what went wrong, without this file's frames for a plain mismatch."""
        if isinstance(excinfo.value, AssertionError):
            return f"{self.command}\n{excinfo.value}"
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the test stands."""
        return self.path, 0, self.command


def run_opt(arguments: list[str], text: str) -> str:
    """stdout of `tessera-opt arguments` with `text` on stdin; AssertionError when it fails."""
    from tessera.tools.opt import main

    output, errors, stdin = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(text)
    try:
        with redirect_stdout(output), redirect_stderr(errors):
            status = main(arguments)
    finally:
        sys.stdin = stdin
    assert status == 0, errors.getvalue()
    return output.getvalue()


def check(arguments: list[str], text: str) -> None:
    """Hold `text` against the CHECK lines; AssertionError with filecheck's own report."""
    options = parse_argv_options(["filecheck", *arguments])
    report = io.StringIO()
    with redirect_stderr(report):
        status = Matcher(options, FInput("<output>", text), Parser.from_opts(options)).run()
    assert status == 0, f"{report.getvalue()}\nwhole output:\n{text}"
