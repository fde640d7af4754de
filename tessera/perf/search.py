"""A problem to the schedules worth trying, and their rows to the best one, kept per chip.

Candidates that no compute unit can hold are left out before anything is compiled, those that spill
registers before anything is timed. The judge is the model, or the device where that is asked for.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tessera.errors import OptionError
from tessera.kernels.schedules import AttentionSchedule, BackwardSchedule, GemmSchedule
from tessera.perf.ladder import SEARCH, Row, Setting
from tessera.perf.problems import GemmProblem, Problem
from tessera.perf.rungs import Rung
from tessera.runtime import cache

LDS_BYTES = 65536
REGISTERS = 256
RESERVED_REGISTERS = 40
"""Of a wave's vector registers, what addresses, staged tiles and statistics take at least."""
FEWEST_ACCUMULATORS = 8
"""Of a matmul: smaller tiles read more fragments than the LDS delivers."""


def candidates(problem: Problem) -> list[Rung]:
    """Schedules that registers and LDS of a workgroup admit, as rungs named by their sizes."""
    found = []
    for schedule in _schedules(problem):
        name = ",".join(f"{key}={value}" for key, value in schedule.items())
        found.append(Rung(SEARCH + name, "a candidate of the search", schedule))
    return found


def _schedules(problem: Problem) -> Iterator[Mapping[str, int]]:
    if isinstance(problem, GemmProblem):
        yield from _gemm_schedules(problem)
        return
    head_dim = problem.head_dim
    if problem.backward:
        for waves, rows in itertools.product((2, 4, 8), (16, 32, 64)):
            sizes = {"waves": waves, "rows_per_step": rows}
            if _fits(lambda s=sizes: BackwardSchedule(**s).lds_bytes(head_dim, head_dim)):
                yield sizes
    else:
        for waves, queries, keys in itertools.product((2, 4, 8), (16, 32), (16, 32, 64)):
            sizes = {"waves": waves, "queries_per_wave": queries, "keys_per_step": keys}
            if _attention_registers(head_dim, queries, keys) <= REGISTERS and _fits(
                lambda s=sizes: AttentionSchedule(**s).lds_bytes(head_dim, head_dim)
            ):
                yield sizes


def _attention_registers(head_dim: int, queries: int, keys: int) -> int:
    """Accumulators of the output, scores of a step, queries, and one fragment."""
    columns = queries // 16
    output, operand = columns * head_dim // 2, columns * head_dim // 2
    return output + operand + columns * keys // 2 + 8 + RESERVED_REGISTERS


def _gemm_schedules(problem: GemmProblem) -> Iterator[Mapping[str, int]]:
    tiles, waves = (2, 3, 4), ((2, 2), (4, 1), (4, 2), (2, 4))
    fragment = {8: 4, 4: 2}.get(problem.matrix_bits, 8)
    for mt, nt, (waves_m, waves_n) in itertools.product(tiles, tiles, waves):
        registers = 8 * mt * nt + fragment * (mt + nt) + RESERVED_REGISTERS
        depth = 32 * 16 // problem.matrix_bits
        sizes = {"mt": mt, "nt": nt, "waves_m": waves_m, "waves_n": waves_n, "block_k": depth}
        if mt * nt < FEWEST_ACCUMULATORS or registers > REGISTERS:
            continue
        if _fits(lambda s=sizes: GemmSchedule(**s).lds_bytes(problem.matrix_bits)):
            yield sizes


def _fits(lds_bytes: Any) -> bool:
    try:
        return lds_bytes() <= LDS_BYTES
    except OptionError:
        return False


def best(rows: list[Row]) -> Row | None:
    """The fastest right row of one problem that spills no registers."""
    timed = [row for row in rows if row["status"] == "ok" and not row["spills"]]
    return min(timed, key=lambda row: row["seconds"], default=None)


def keep_best(rows: list[Row], setting: Setting) -> list[str]:
    """Keep the best schedule of each problem among rows, and say which it is."""
    by_problem: dict[str, list[Row]] = {}
    for row in rows:
        if not row["schedule"]["name"].startswith("triton"):
            by_problem.setdefault(_key(row["shape"], row["dtype"], ""), []).append(row)
    notes = []
    for key, several in by_problem.items():
        row = best(several)
        if row is None:
            notes.append(f"search: nothing fits {key}")
            continue
        remember(row, setting)
        sizes = " ".join(f"{name}={value}" for name, value in row["schedule"]["sizes"].items())
        notes.append(f"search: best for {key}: {sizes}, {row['share_of_peak']:.1%} of peak")
    return [*notes, f"search: kept in {picks_file(setting.chip)}"]


def picks_file(chip: str) -> Path:
    """Where the picks of a chip are kept."""
    return cache.folder() / "search" / f"{chip}.json"


def remember(row: Row, setting: Setting) -> None:
    """Keep a pick, over an older one for the same problem and time source."""
    path = picks_file(setting.chip)
    picks = load_picks(setting.chip)
    picks[_key(row["shape"], row["dtype"], setting.time_source)] = {
        "shape": row["shape"], "dtype": row["dtype"], "time_source": setting.time_source,
        "schedule": row["schedule"]["sizes"], "seconds": row["seconds"],
        "share_of_peak": row["share_of_peak"],
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{hashlib.sha256(repr(row).encode()).hexdigest()[:8]}.tmp")
    temporary.write_text(json.dumps(picks, indent=1, sort_keys=True), encoding="utf-8")
    temporary.replace(path)


def load_picks(chip: str) -> dict[str, Any]:
    """All picks of a chip by problem; empty when there are none, or the file is damaged."""
    try:
        picks = json.loads(picks_file(chip).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return picks if isinstance(picks, dict) else {}


def _key(shape: Mapping[str, Any], dtype: str, time_source: str) -> str:
    sizes = " ".join(f"{name}={value}" for name, value in sorted(shape.items()))
    return f"{sizes} {dtype} {time_source}"
