"""HIP kernels whose control flow leaves registers without a value, to the results of a model."""

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.hip_kernels import compile_hip, find_clang
from emulator_witness.llvm_kernels import MISSING

from tessera import emulator

pytestmark = pytest.mark.skipif(
    bool(MISSING) or find_clang() is None,
    reason="no clang with HIP support for gfx1151 (or no linker) is installed",
)
levels = pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
COUNT = 128


def run(source, level, x):
    out = np.zeros(COUNT, np.int32)
    arguments = [x, emulator.uninitialized(out)]
    report = emulator.run(compile_hip(source, level), "k", COUNT // 64, 64, arguments)
    assert report.findings == []
    return out


RECURSION = """
__device__ int g(int depth, int v) {
  if (depth <= 0) return v;
  switch (v % 5) {
    case 0: return g(depth - 1, v + 3);
    case 1: return g(depth - 2, v * 2);
    case 2: return v ^ depth;
    case 3: return g(depth - 1, v - 1);
    default: return g(depth - 3, v / 2);
  }
}
extern "C" __global__ void k(const int *x, int *o) {
  int i = gid * 64 + tid;
  o[i] = g(9, x[i]);
}
"""


def recursion(depth, v):
    if depth <= 0:
        return v
    case = v % 5
    if case == 2:
        return v ^ depth
    down, value = {0: (1, v + 3), 1: (2, v * 2), 3: (1, v - 1)}.get(case, (3, v // 2))
    return recursion(depth - down, value)


@levels
def test_recursion_has_a_stack(level):
    x = np.arange(COUNT, dtype=np.int32) * 7 % 1000
    assert run(RECURSION, level, x).tolist() == [recursion(9, int(v)) for v in x]


LOOPS = """
extern "C" __global__ void k(const int *x, int *o) {
  int i = gid * 64 + tid, v = x[i], s = 0;
  for (int a = 0; a < v % 7; a++) {
    if ((a ^ tid) & 1) continue;
    for (int b = tid % 5; b < 20; b += 3) {
      if (b * a > 33) break;
      int w = a * b + v;
      while (w > 3) { s += w; w = w % 2 ? w - 3 : w / 2; }
    }
  }
  o[i] = s;
}
"""


def loops(lane, v):
    s = 0
    for a in range(v % 7):
        if (a ^ lane) & 1:
            continue
        for b in range(lane % 5, 20, 3):
            if b * a > 33:
                break
            w = a * b + v
            while w > 3:
                s += w
                w = w - 3 if w % 2 else w // 2
    return s


@levels
def test_lanes_leave_nested_loops_at_their_own_time(level):
    x = np.arange(COUNT, dtype=np.int32) * 13 % 256
    assert run(LOOPS, level, x).tolist() == [loops(i % 64, int(v)) for i, v in enumerate(x)]
