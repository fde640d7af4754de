"""Causal flash attention: a Python function to a gfx1151 code object, run and checked here.

Run it with `make demo`. No GPU is needed: the emulator executes the machine code.
"""

from __future__ import annotations

import os
import re
import textwrap
import time
from collections import Counter

import numpy as np

# Off, so that the compile time below is that of compiling. The cache is read when first needed.
os.environ["TESSERA_CACHE"] = "off"

import tessera
from tessera import ops, reference, testing

BATCH, HEADS, SEQ, HEAD_DIM = 1, 2, 128, 64
LEVELS = {
    "graph": "what is computed",
    "tile": "one operation per kernel launch, with its tiling",
    "target": "directives for one chip family; the module is the launch plan",
    "kernel": "what one wave does on matrix fragments",
    "llvm": "LLVM IR",
    "asm": "machine code as text",
}
LINES_SHOWN = 4
WIDTH = 100
CLASSES = {
    "matrix (WMMA)": ("v_wmma",),
    "local memory (LDS)": ("ds_",),
    "global memory": ("global_", "buffer_", "flat_", "scratch_"),
    "waits and barriers": ("s_waitcnt", "s_barrier", "s_delay_alu", "s_nop"),
    "vector": ("v_",),
    "scalar": ("s_",),
}


@tessera.jit(target="gfx1151")
def attention(q, k, v):
    """o [batch, heads, seq, head_dim] and its log-sum-exp."""
    return ops.flash_attn(q, k, v, causal=True, return_lse=True)


def main() -> None:
    """Compile, show each level, run on the emulator, and compare with float64."""
    q, k, v = testing.random_attention(SEQ, SEQ, HEAD_DIM, np.float16, BATCH, HEADS)
    started = time.perf_counter()
    artifact = attention.lower(q, k, v)
    _ = artifact.hsaco
    compiled_in = time.perf_counter() - started

    print(f"Causal flash attention, f16, head_dim {HEAD_DIM}, for gfx1151")
    for level, meaning in LEVELS.items():
        show(level, meaning, artifact.text(level))
    show_resources(artifact, compiled_in)

    started = time.perf_counter()
    o, lse = tessera.runtime.launch(artifact, q, k, v, executor="emulator")
    ran_in = time.perf_counter() - started
    print(f"\nRan the machine code on the emulator: batch {BATCH}, heads {HEADS}, seq {SEQ}")
    print(f"  {ran_in:.1f} s on this CPU; this says nothing about the speed of a GPU")

    expected_o, expected_lse = reference.flash_attn(q, k, v, causal=True)
    o_bound, lse_bound = testing.attention_bound(q, k, v, causal=True)
    print("\nAgainst float64, as a multiple of the bound that the number formats excuse:")
    print(f"  o    {testing.check(o, expected_o, o_bound):.2f}", end="")
    print(f"   largest error {testing.worst_error(o, expected_o):.1e}")
    print(f"  lse  {testing.check(lse, expected_lse, lse_bound):.2f}", end="")
    print(f"   largest error {testing.worst_error(lse, expected_lse):.1e}")
    print("\nWhere to look next")
    print("  README.md              your first own kernel, and what is verified where")
    print("  docs/architecture.md   the levels, the folders, and how to add to them")
    print("  docs/attention.md      what the attention kernel computes, and how")


# What to show of each level: from the first line that holds one of these.
TELLING = {
    "graph": "tessera.flash_attn",
    "tile": "tile.flash_attn",
    "target": "tessera_rocm.mfma",
    "kernel": "wave.mma",
    "llvm": " call <8 x float> @llvm.amdgcn.wmma",
    "asm": "v_wmma",
}
TYPES = re.compile(r" : (?:\(tensor|!wave).*$")


def show(level: str, meaning: str, text: str) -> None:
    """Print a few telling lines of one level, without the types behind them."""
    lines = [line for line in text.splitlines() if line.strip(" {}")]
    start = next((i for i, line in enumerate(lines) if TELLING[level] in line), 0)
    print(f"\n[{level}] {meaning}: {len(lines)} lines, among them")
    shown = lines[start : start + LINES_SHOWN]
    if level == "target":
        shown = [line for line in lines if "tessera_rocm." in line]
    for line in shown:
        line = TYPES.sub("", line).strip().expandtabs(1)
        print(textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent="      "))


def show_resources(artifact, compiled_in: float) -> None:
    """Print registers, local memory and instruction counts of each kernel."""
    print(f"\n[hsaco] {len(artifact.hsaco)} bytes, compiled in {compiled_in:.2f} s")
    for kernel in artifact.kernels:
        print(
            f"  {kernel.name}: {kernel.vgprs} vector and {kernel.sgprs} scalar registers, "
            f"{kernel.lds_bytes} bytes of LDS, {kernel.scratch_bytes} of scratch, "
            f"{kernel.block[0]} threads per workgroup"
        )
    mix = instruction_mix(artifact.text("asm"))
    print("  instructions: " + ", ".join(f"{count} {name}" for name, count in mix.items()))


def instruction_mix(assembly: str) -> dict[str, int]:
    """Instructions of a program in text form, counted by the unit that runs them."""
    counts: Counter[str] = Counter()
    for line in assembly.splitlines():
        text = line.split(";")[0].strip()
        if line.startswith("\t") and text and not text.startswith("."):
            for name, prefixes in CLASSES.items():
                if text.startswith(prefixes):
                    counts[name] += 1
                    break
    return {name: counts[name] for name in CLASSES}


if __name__ == "__main__":
    main()
