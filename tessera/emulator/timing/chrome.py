"""Events of a replay to a timeline in Chrome's trace format, which Perfetto shows."""

from __future__ import annotations

from typing import Any

from tessera.emulator.timing.model import Timing


def chrome_trace(timing: Timing) -> dict[str, Any]:
    """The first workgroup's timeline, JSON-ready: a row per wave, cycles as microseconds.

    Categories are the classes of instructions, "wait" and "barrier". Needs a `Timing` that was made
    with `timeline`.
    """
    waves = timing.occupancy.waves_each
    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": f"{timing.kernel} (model)"}}
    ]
    for wave in range(waves):
        label = {"name": f"wave {wave}"}
        rows.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": wave, "args": label})
    for event in timing.events:
        if event.wave < waves:
            rows.append(
                {
                    "ph": "X", "pid": 0, "tid": event.wave, "ts": round(event.start, 2),
                    "dur": round(event.cycles, 2), "name": event.name, "cat": event.category,
                }
            )  # fmt: skip
    facts = {
        "kernel": timing.kernel, "chip": timing.chip, "time_source": timing.time_source,
        "clock_ghz": timing.clock_ghz, "unit": "cycles, written as microseconds",
    }  # fmt: skip
    return {"traceEvents": rows, "otherData": facts}
