"""Named cases to seconds and bytes: cold compile, a repeated call, emulated attention.

Each case runs in a process of its own, so that nothing is warm and the peak memory is its own:
`python benchmarks/compile_time.py CASE` prints one JSON object of named figures.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable

import numpy as np

Figures = dict[str, float]


def compile_attention() -> Figures:
    """Seconds to compile causal f16 attention of head_dim 64, first and again in one process."""
    from tessera.testing import random_attention

    operands = random_attention(256, 256, 64, np.float16)
    return _first_and_next_compile(_attention(causal=True), _attention(causal="top_left"), operands)


def compile_attention_128() -> Figures:
    """The same at head_dim 128."""
    from tessera.testing import random_attention

    operands = random_attention(256, 256, 128, np.float16)
    return _first_and_next_compile(_attention(causal=True), _attention(causal="top_left"), operands)


def compile_matmul() -> Figures:
    """Seconds to compile an f16 matmul, first and again in one process."""
    from tessera.testing import random_tensor

    a = random_tensor((512, 512), np.float16, 0)
    return _first_and_next_compile(_matmul("f32"), _matmul("f16"), (a, a))


def repeated_call() -> Figures:
    """Seconds of Python between a call of a known specialization and its first kernel launch."""
    from tessera.testing import random_tensor

    a = random_tensor((16, 16), np.float16, 0)
    function = _matmul("f32")
    return {"python_before_launch_s": _time_to_launch(function, (a, a))}


def emulated_attention() -> Figures:
    """Seconds and peak memory of attention on the emulator: batch 1, heads 4, seq 256, dim 64."""
    import tessera
    from tessera import reference, testing

    q, k, v = testing.random_attention(256, 256, 64, np.float16, heads=4)
    artifact = _attention(causal=False).lower(q, k, v)
    _ = artifact.hsaco
    started, worked = time.perf_counter(), _processor_seconds()
    o, _ = tessera.runtime.launch(artifact, q, k, v, executor="emulator")
    seconds = time.perf_counter() - started
    processor = _processor_seconds() - worked
    # Read before the float64 check, whose memory is not the emulator's.
    peak = _peak_memory()
    expected, _ = reference.flash_attn(q, k, v)
    error = testing.check(o, expected, testing.attention_bound(q, k, v)[0])
    return {
        "emulate_s": seconds,
        "emulate_processor_s": processor,
        "peak_memory_bytes": peak,
        "error_multiple": error,
    }


CASES: dict[str, Callable[[], Figures]] = {
    "compile_attention": compile_attention,
    "compile_attention_128": compile_attention_128,
    "compile_matmul": compile_matmul,
    "repeated_call": repeated_call,
    "emulated_attention": emulated_attention,
}


def _attention(causal):
    import tessera
    from tessera import ops

    @tessera.jit(target="gfx1151")
    def attention(q, k, v):
        return ops.flash_attn(q, k, v, causal=causal, return_lse=True)

    return attention


def _matmul(out_dtype):
    import tessera
    from tessera import ops

    @tessera.jit(target="gfx1151")
    def matmul(a, b):
        return ops.matmul(a, b, out_dtype=out_dtype)

    return matmul


def _first_and_next_compile(first, following, operands) -> Figures:
    """The first includes importing the compiler; the next is what one more kernel costs."""
    figures: Figures = {}
    for name, function in (("first", first), ("next", following)):
        started, worked = time.perf_counter(), _processor_seconds()
        artifact = function.lower(*operands)
        _ = artifact.hsaco
        figures[f"{name}_s"] = time.perf_counter() - started
        figures[f"{name}_processor_s"] = _processor_seconds() - worked
    return {**figures, "peak_memory_bytes": _peak_memory()}


def _time_to_launch(function, operands, calls: int = 50) -> float:
    """Median seconds from the call to the moment the first kernel is handed to the emulator."""
    import tessera.emulator as emulator

    entered: list[float] = []
    original = emulator.run

    def record(*arguments, **options):
        entered.append(time.perf_counter())
        return original(*arguments, **options)

    emulator.run = record
    try:
        function(*operands)
        waits = []
        for _ in range(calls):
            entered.clear()
            started = time.perf_counter()
            function(*operands)
            waits.append(entered[0] - started)
    finally:
        emulator.run = original
    return float(np.median(waits))


def _processor_seconds() -> float:
    """Processor time of this process and of its children so far: what other load cannot stretch."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _peak_memory() -> int:
    """Largest resident size of this process in bytes (ru_maxrss counts KiB on Linux)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]]()))
