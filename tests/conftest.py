"""Settings of the whole suite: a compile cache of its own, skipped tests summed up by reason."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every run and every machine, however slow or busy.
settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

CACHE_SWITCH = "TESSERA_CACHE_DIR"
_own_cache = ""


def pytest_configure(config: pytest.Config) -> None:
    """Compile into a folder of this run, which its worker processes inherit and share."""
    global _own_cache
    if CACHE_SWITCH not in os.environ:
        _own_cache = os.environ[CACHE_SWITCH] = tempfile.mkdtemp(prefix="tessera-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove that folder, in the process that made it."""
    if _own_cache:
        shutil.rmtree(_own_cache, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per reason, so that a thousand device tests do not hide what else was skipped."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        reasons[str(reason).removeprefix("Skipped: ")] += 1
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}")
