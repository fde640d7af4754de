"""All benchmark cases to a table of figures beside their limits; `--check` fails beyond a limit.

    python benchmarks/run.py [--check] [--repeat 3] [--json FILE] [CASE ...]

Every figure is the best of the repeats: on a shared machine the least disturbed run says most.
The compile cache is off. They are times of this CPU. Nothing here measures a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from compile_time import CASES

SCRIPT = Path(__file__).with_name("compile_time.py")
MEBIBYTE = 1 << 20
# (case, figure) -> the largest value that is accepted, in seconds, bytes or multiples of the bound.
LIMITS = {
    ("compile_attention", "first_s"): 1.5,
    ("compile_matmul", "first_s"): 1.0,
    ("repeated_call", "python_before_launch_s"): 1e-3,
    ("emulated_attention", "emulate_s"): 5.0,
    ("emulated_attention", "peak_memory_bytes"): 1024 * MEBIBYTE,
    ("emulated_attention", "error_multiple"): 1.0,
}


def main() -> int:
    """Run the cases that were asked for, print the table, and return the exit status."""
    options = parse_arguments()
    figures = {case: best_figures(case, options.repeat) for case in options.cases or CASES}
    beyond = print_table(figures)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "figures": figures}, indent=2))
    return 1 if options.check and beyond else 0


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--check", action="store_true", help="fail beyond a limit")
    parser.add_argument("--repeat", type=int, default=3, help="processes per case")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    unknown = [case for case in options.cases if case not in CASES]
    if unknown:
        parser.error(f"unknown case {unknown[0]!r}; supported: {', '.join(CASES)}")
    return options


def best_figures(case: str, repeat: int) -> dict[str, float]:
    """The smallest value of each figure over `repeat` fresh processes on one thread."""
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "TESSERA_CACHE": "off",
    }
    runs = []
    for _ in range(repeat):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), case],
            check=True, capture_output=True, text=True, env=environment,
        )  # fmt: skip
        runs.append(json.loads(done.stdout))
    return {name: min(run[name] for run in runs) for name in runs[0]}


def print_table(figures: dict[str, dict[str, float]]) -> int:
    """Print one line per figure; returns how many are beyond their limits."""
    beyond = 0
    print(f"{machine()}\n")
    for case, values in figures.items():
        for name, value in values.items():
            limit = LIMITS.get((case, name))
            verdict = ""
            if limit is not None:
                verdict = f"limit {readable(name, limit)}"
                if value > limit:
                    verdict += "  BEYOND"
                    beyond += 1
            print(f"{case:24s}{name:26s}{readable(name, value):>12s}  {verdict}")
    return beyond


def readable(name: str, value: float) -> str:
    """The figure with its unit, which the end of its name tells."""
    if name.endswith("_bytes"):
        return f"{value / MEBIBYTE:.0f} MiB"
    if name.endswith("_s"):
        return f"{value * 1e3:.2f} ms" if value < 0.1 else f"{value:.2f} s"
    return f"{value:.2f}"


def machine() -> str:
    """The CPU and Python that the figures belong to."""
    cpu = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [
            line.partition(":")[2].strip()
            for line in information.read_text().splitlines()
            if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    return f"{cpu}, {os.cpu_count()} logical cores, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main())
