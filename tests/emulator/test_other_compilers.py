"""Kernels written here and compiled by clang (HIP) or Triton where one of them is installed."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.hip_kernels import compile_hip, find_clang
from emulator_witness.llvm_kernels import MISSING

from tessera import emulator

needs_clang = pytest.mark.skipif(
    bool(MISSING) or find_clang() is None,
    reason="no clang with HIP support for gfx1151 (or no linker) is installed",
)
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)
levels = pytest.mark.parametrize("level", ["-O0", "-O2"])
BLOCK = 64


def run(code_object, kernel, grid, args, block: int | tuple[int, ...] = BLOCK, **options):
    report = emulator.run(code_object, kernel, grid, block, args, **options)
    assert report.findings == []
    return report


PREFIX_SUM = """
extern "C" __global__ void prefix_sum(const float *x, float *y, int n) {
  __shared__ float buffer[2][64];
  int i = gid * 64 + tid, from = 0;
  buffer[0][tid] = i < n ? x[i] : 0.0f;
  for (int step = 1; step < 64; step *= 2) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    float value = buffer[from][tid];
    if (tid >= step) value += buffer[from][tid - step];
    from = 1 - from;
    buffer[from][tid] = value;
  }
  if (i < n) y[i] = buffer[from][tid];
}
"""


@needs_clang
@levels
def test_prefix_sum(level):
    x = np.arange(150, dtype=np.float32) % 7
    y = np.full(150, np.nan, np.float32)
    run(compile_hip(PREFIX_SUM, level), "prefix_sum", 3, [x, y, np.int32(150)])
    blocks = [np.cumsum(x[k : k + 64]) for k in range(0, 150, 64)]
    assert np.array_equal(y, np.concatenate(blocks))


HISTOGRAM = """
extern "C" __global__ void histogram(const unsigned char *x, unsigned *bins, int n) {
  __shared__ unsigned local[16];
  if (tid < 16) local[tid] = 0;
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  for (int i = gid * 64 + tid; i < n; i += 128)
    __scoped_atomic_fetch_add(&local[x[i] >> 4], 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  if (tid < 16)
    __scoped_atomic_fetch_add(&bins[tid], local[tid], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
"""


@needs_clang
@levels
def test_histogram(level):
    x = np.random.default_rng(0).integers(0, 256, 1000).astype(np.uint8)
    bins = np.zeros(16, np.uint32)
    run(compile_hip(HISTOGRAM, level), "histogram", 2, [x, bins, np.int32(1000)])
    assert np.array_equal(bins, np.bincount(x >> 4, minlength=16))


SORT = """
__device__ __attribute__((noinline)) void sift(int *heap, int root, int end) {
  while (2 * root + 1 < end) {
    int child = 2 * root + 1;
    if (child + 1 < end && heap[child] < heap[child + 1]) ++child;
    if (heap[root] >= heap[child]) return;
    int t = heap[root]; heap[root] = heap[child]; heap[child] = t;
    root = child;
  }
}
extern "C" __global__ void heap_sort(int *rows, int count) {
  int heap[24];
  int *row = rows + (gid * 64 + tid) * 24;
  if (gid * 64 + tid >= count) return;
  for (int i = 0; i < 24; ++i) heap[i] = row[i];
  for (int i = 11; i >= 0; --i) sift(heap, i, 24);
  for (int end = 23; end > 0; --end) {
    int t = heap[0]; heap[0] = heap[end]; heap[end] = t;
    sift(heap, 0, end);
  }
  for (int i = 0; i < 24; ++i) row[i] = heap[i];
}
"""


@needs_clang
@levels
def test_heap_sort_in_scratch(level):
    """Calls, scratch, flat pointers to it, and lanes that leave loops at their own time."""
    rows = np.random.default_rng(1).integers(-1000, 1000, (80, 24)).astype(np.int32)
    expected = np.sort(rows, axis=1)
    run(compile_hip(SORT, level), "heap_sort", 2, [rows, np.int32(80)])
    assert np.array_equal(rows, expected)


MATMUL = """
typedef _Float16 half16 __attribute__((ext_vector_type(16)));
typedef float float8 __attribute__((ext_vector_type(8)));
extern "C" __global__ void tile(const _Float16 *a, const _Float16 *b, float *c, int k) {
  int row = tid % 16, half = tid / 16;
  float8 sum = {};
  for (int step = 0; step < k; step += 16) {
    half16 left, right;
    for (int i = 0; i < 16; ++i) {
      left[i] = a[(gid * 16 + row) * k + step + i];
      right[i] = b[(step + i) * 16 + row];
    }
    sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(left, right, sum);
  }
  for (int i = 0; i < 8; ++i) c[(gid * 16 + 2 * i + half) * 16 + row] = sum[i];
}
"""


@needs_clang
@levels
def test_matrix_tiles(level):
    rng = np.random.default_rng(2)
    a = rng.standard_normal((48, 64)).astype(np.float16)
    b = rng.standard_normal((64, 16)).astype(np.float16)
    c = np.full((48, 16), np.nan, np.float32)
    run(compile_hip(MATMUL, level), "tile", 3, [a, b, c, np.int32(64)], block=32)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    bound = 2.0 * 65 * 2.0**-24 * (np.abs(wide_a) @ np.abs(wide_b)) + 2.0**-126
    assert (np.abs(c - wide_a @ wide_b) <= bound).all()


TRANSPOSE = """
extern "C" __global__ void transpose(const unsigned *x, unsigned *y, int rows, int columns) {
  __shared__ unsigned tile[16][17];
  int tx = __builtin_amdgcn_workitem_id_x(), ty = __builtin_amdgcn_workitem_id_y();
  int bx = __builtin_amdgcn_workgroup_id_x(), by = __builtin_amdgcn_workgroup_id_y();
  int column = bx * 16 + tx, row = by * 16 + ty;
  if (row < rows && column < columns) tile[ty][tx] = x[row * columns + column];
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  column = by * 16 + tx, row = bx * 16 + ty;
  if (row < columns && column < rows) y[row * rows + column] = tile[tx][ty];
}
"""


@needs_clang
@levels
def test_transpose_on_a_two_dimensional_grid(level):
    x = np.arange(37 * 50, dtype=np.uint32).reshape(37, 50)
    y = np.zeros((50, 37), np.uint32)
    args = [x, y, np.int32(37), np.int32(50)]
    run(compile_hip(TRANSPOSE, level), "transpose", (4, 3), args, block=(16, 16))
    assert np.array_equal(y, x.T)


@needs_clang
def test_a_race_written_in_hip_is_found():
    """The barriers left out of the prefix sum: the sanitizer names an LDS instruction."""
    racy = PREFIX_SUM.replace("__builtin_amdgcn_s_barrier();", "")
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    with pytest.raises((emulator.LdsRaceError, emulator.UninitializedReadError)) as caught:
        run(compile_hip(racy), "prefix_sum", 1, [x, y, np.int32(64)])
    assert caught.value.finding.instruction.startswith("ds_")


@needs_clang
def test_an_index_error_written_in_hip_is_found():
    short = np.zeros(100, np.float32)
    x = np.ones(150, np.float32)
    with pytest.raises(emulator.MemoryAccessError) as caught:
        run(compile_hip(PREFIX_SUM), "prefix_sum", 3, [x, short, np.int32(150)])
    finding = caught.value.finding
    assert finding.kind == "out_of_bounds"
    assert finding.buffer in ("y", "arg1")  # release builds of clang drop names


@needs_triton
def test_triton_compiles_and_matches(tmp_path):
    """A row-wise log-sum-exp written for Triton, compiled with no GPU present."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = tmp_path / "log_sum_exp.py"
    source.write_text(
        "import triton\n"
        "import triton.language as tl\n\n\n"
        "@triton.jit\n"
        "def log_sum_exp(x, o, columns, BLOCK: tl.constexpr):\n"
        "    row = tl.program_id(0)\n"
        "    i = tl.arange(0, BLOCK)\n"
        "    v = tl.load(x + row * columns + i, mask=i < columns, other=-float('inf'))\n"
        "    top = tl.max(v, 0)\n"
        "    tl.store(o + row, top + tl.log(tl.sum(tl.exp(v - top), 0)))\n"
    )
    specification = importlib.util.spec_from_file_location("log_sum_exp", source)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    kernel = triton.compile(
        ASTSource(
            module.log_sum_exp,
            signature={"x": "*fp32", "o": "*fp32", "columns": "i32", "BLOCK": "constexpr"},
            constexprs={"BLOCK": 128},
        ),
        target=GPUTarget("hip", "gfx1151", 32),
        options={"num_warps": 2},
    )
    code_object = kernel.asm["hsaco"]
    x = np.random.default_rng(3).standard_normal((5, 100)).astype(np.float32)
    o = np.full(5, np.nan, np.float32)
    count = len(emulator.load(code_object).kernels[kernel.metadata.name].arguments)
    arguments = [x, o, np.int32(100)] + [None] * (count - 3)
    run(code_object, kernel.metadata.name, 5, arguments, dynamic_lds=kernel.metadata.shared)
    exact = np.log(np.exp(x.astype(np.float64)).sum(axis=1))
    magnitude = np.abs(x).max(axis=1) + np.abs(exact)
    assert (np.abs(o - exact) <= (100 + 16) * 2.0**-24 * magnitude).all()
