"""A problem and a schedule to the timeline of one workgroup, as a file for Perfetto."""

from __future__ import annotations

import json
from pathlib import Path

from tessera.emulator.timing import PARAMETERS, chrome_trace
from tessera.perf.ladder import Setting
from tessera.perf.launches import time_artifact
from tessera.perf.problems import Problem
from tessera.perf.rungs import Rung


def write_timeline(problem: Problem, rung: Rung, setting: Setting, path: Path) -> None:
    """Model the longest kernel and write its first workgroup in Chrome's trace format."""
    inputs = problem.inputs()
    artifact = problem.function(setting.chip, rung.schedule).lower(*inputs)
    p = PARAMETERS.with_values(clock_ghz=setting.clock_ghz)
    timings = time_artifact(artifact, inputs, p, timeline=True)
    longest = max(timings, key=lambda timing: timing.seconds)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(chrome_trace(longest)), encoding="utf-8")
