"""Cached launches of attention through a stand-in HIP library to microseconds of Python per launch.

    python benchmarks/launch_overhead.py [--check] [--rounds 20]

The library accepts launches and drops them, so that what is measured is this package's own way
from four tensors on a device to hipModuleLaunchKernel. The best round counts: on a shared machine
the least disturbed one says most. Nothing here measures a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tessera
from tessera import ops, runtime

SOURCE = Path(__file__).resolve().parents[1] / "tests/runtime/stand_in_hip.c"
LAUNCHES_PER_ROUND = 500
LIMITS_US = {"launch": 15.0, "prepared launcher": 5.0}


def main() -> int:
    """Measure, print one line per way to launch, and return the exit status."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail beyond a limit")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder) / "libamdhip64.so")
        figures = measure(library, options.rounds)
    for name, microseconds in figures.items():
        print(f"{name:20} {microseconds:6.2f} us (limit {LIMITS_US[name]:g} us)")
    beyond = [name for name, value in figures.items() if value > LIMITS_US[name]]
    return 1 if options.check and beyond else 0


def build(path: Path) -> ctypes.CDLL:
    """Compile the stand-in and make it this process's HIP library."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        sys.exit("a C compiler is needed to build the stand-in libamdhip64")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", path, SOURCE], check=True)
    os.environ["TESSERA_HIP"] = str(path)
    return ctypes.CDLL(str(path))


@tessera.jit(target="gfx1151")
def attention(q, k, v):
    """The function that is launched."""
    return ops.flash_attn(q, k, v, causal=True)


def measure(library: ctypes.CDLL, rounds: int) -> dict[str, float]:
    """Microseconds per launch with q, k, v and a result tensor, by way to launch."""
    from tessera.runtime.device_array import DeviceArray

    host = np.ones((1, 4, 256, 64), np.float16)
    artifact = attention.lower(host, host, host)
    q, k, v, out = (DeviceArray.from_host(host) for _ in range(4))
    prepared = runtime.launcher(artifact, q, k, v, out=out)
    ways: dict[str, Callable[[], object]] = {
        "launch": lambda: runtime.launch(artifact, q, k, v, out=out),
        "prepared launcher": lambda: prepared(q, k, v, out=out),
    }
    library.stand_in_discard(1)
    return {name: best_round(way, rounds) for name, way in ways.items()}


def best_round(launch: Callable[[], object], rounds: int) -> float:
    """Microseconds per call in the fastest round."""
    launch()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(LAUNCHES_PER_ROUND):
            launch()
        best = min(best, time.perf_counter() - start)
    return best / LAUNCHES_PER_ROUND * 1e6


if __name__ == "__main__":
    sys.exit(main())
