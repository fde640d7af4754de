"""What the last launch of this thread ran on, as data."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from tessera.errors import LaunchError


@dataclass(frozen=True)
class LaunchRecord:
    """Which executor and chip ran which kernels.

    `time_source` says what `seconds` measures: "hip events", "host clock of the emulator" or
    "none" (then `seconds` is None). `reports` are the emulator's, one per kernel.
    """

    executor: str
    chip: str
    kernels: tuple[str, ...]
    time_source: str = "none"
    seconds: float | None = None
    reports: tuple[Any, ...] = field(default=(), repr=False)


class _Last(threading.local):
    record: LaunchRecord | None = None


_last = _Last()


def remember(record: LaunchRecord) -> None:
    """Make `record` the last launch of this thread."""
    _last.record = record


def last_launch() -> LaunchRecord:
    """The record of this thread's last launch; LaunchError when there was none."""
    if _last.record is None:
        raise LaunchError("nothing has been launched in this thread")
    return _last.record
