"""Shipped schedules to instructions per matrix instruction of their main loops, as a table.

    python benchmarks/instruction_counts.py [gemm] [attention]

Counts are the emulator's, of executed wave-instructions: the difference between a longer and a
shorter run of the same code object leaves the main loop alone. `share` is what the issue slots of
a SIMD allow of its peak, by a law that was measured on this family: a matrix instruction takes 34
cycles, any other vector instruction 1, an access to local memory 3, and to global memory 2. It is
an upper limit by counting, not a measurement of speed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

import tessera
from tessera import ops
from tessera.kernels.schedules import ATTENTION_SCHEDULES, GEMM_SCHEDULES
from tessera.targets import resolve_target

CHIP = "gfx1151"
LAYOUTS = {"A B^T": (False, True), "A B": (False, False), "A^T B": (True, False)}
COLUMNS = (
    "schedule", "matrix", "vector", "LDS", "memory", "VGPRs", "LDS bytes", "scratch",
    "waves/SIMD by VGPRs", "share",
)  # fmt: skip


def gemm_rows() -> Iterator[str]:
    """One line per schedule and layout of f16 matmul, two K slices against four."""
    for name, schedule in GEMM_SCHEDULES.items():
        for layout, (transpose_a, transpose_b) in LAYOUTS.items():

            @tessera.jit(target=CHIP)
            def matmul(a, b, chosen=schedule, ta=transpose_a, tb=transpose_b):
                return ops.matmul(a, b, transpose_a=ta, transpose_b=tb, schedule=asdict(chosen))

            def operands(k: int, chosen=schedule, ta=transpose_a, tb=transpose_b):
                a, b = (chosen.tile_m, k), (k, chosen.tile_n)
                return [
                    np.zeros(shape[::-1] if is_transposed else shape, np.float16)
                    for shape, is_transposed in ((a, ta), (b, tb))
                ]

            slice_k = schedule.block_k or 16
            yield row(f"{name}, {layout}", matmul, operands(4 * slice_k), operands(6 * slice_k))


def attention_rows() -> Iterator[str]:
    """One line per head size and schedule of f16 attention without a mask."""
    for choice in ATTENTION_SCHEDULES:
        head_dim = choice.largest_head_dim
        for kind in ("wide", "small"):
            schedule = getattr(choice, kind)

            @tessera.jit(target=CHIP)
            def attention(q, k, v, chosen=schedule):
                return ops.flash_attn(q, k, v, schedule=asdict(chosen))

            def operands(keys: int, rows=schedule.queries, channels=head_dim):
                sizes = (rows, keys, keys)
                return [np.zeros((1, 1, size, channels), np.float16) for size in sizes]

            step = schedule.keys_per_step
            yield row(f"head_dim {head_dim}, {kind}", attention, operands(4 * step),
                      operands(6 * step))  # fmt: skip


def row(name: str, function: Any, shorter: list[Any], longer: list[Any]) -> str:
    """The table's line for one function: counts per matrix instruction, resources, share."""
    counts = []
    for operands in (shorter, longer):
        artifact = function.lower(*operands)
        tessera.runtime.launch(artifact, *operands, executor="emulator")
        (report,) = tessera.runtime.last_launch().reports
        counts.append(report.by_class)
    matrix = counts[1]["wmma"] - counts[0]["wmma"]
    vector, lds, memory = (
        (counts[1].get(kind, 0) - counts[0].get(kind, 0)) / matrix
        for kind in ("valu", "lds", "vmem")
    )
    kernel = artifact.kernels[0]
    facts = resolve_target(CHIP).facts
    share = 32 / (34 + vector + 3 * lds + 2 * memory)
    return (
        f"| {name} | {matrix} | {vector:.2f} | {lds:.2f} | {memory:.2f} | {kernel.vgprs} | "
        f"{kernel.lds_bytes} | {kernel.scratch_bytes} | {facts.waves_per_simd(kernel.vgprs)} | "
        f"{share:.2f} |"
    )


TABLES: dict[str, Callable[[], Iterator[str]]] = {"gemm": gemm_rows, "attention": attention_rows}


def main() -> None:
    """Print the tables that were asked for, or all."""
    for name in sys.argv[1:] or TABLES:
        print(f"\n{name}\n\n| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
        for line in TABLES[name]():
            print(line, flush=True)


if __name__ == "__main__":
    main()
