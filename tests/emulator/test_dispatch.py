"""Launches as HIP does them: grids, ids, hidden arguments, argument packing, LDS, several kernels.

The kernels are compiled by LLVM from the text here, independent of the rest of the project.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.llvm_kernels import MISSING, compile_kernels

from tessera import emulator

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

IDS = """
define amdgpu_kernel void @ids(ptr addrspace(1) %out, i32 %gx, i32 %gy, i32 %bx, i32 %by, i32 %bz) #0 {
  %tx = call i32 @llvm.amdgcn.workitem.id.x()
  %ty = call i32 @llvm.amdgcn.workitem.id.y()
  %tz = call i32 @llvm.amdgcn.workitem.id.z()
  %wx = call i32 @llvm.amdgcn.workgroup.id.x()
  %wy = call i32 @llvm.amdgcn.workgroup.id.y()
  %wz = call i32 @llvm.amdgcn.workgroup.id.z()
  %g0 = mul i32 %wz, %gy
  %g1 = add i32 %g0, %wy
  %g2 = mul i32 %g1, %gx
  %g = add i32 %g2, %wx
  %t0 = mul i32 %tz, %by
  %t1 = add i32 %t0, %ty
  %t2 = mul i32 %t1, %bx
  %t = add i32 %t2, %tx
  %n0 = mul i32 %bx, %by
  %n = mul i32 %n0, %bz
  %i0 = mul i32 %g, %n
  %i = add i32 %i0, %t
  %p = getelementptr [6 x i32], ptr addrspace(1) %out, i32 %i
  store i32 %tx, ptr addrspace(1) %p
  %p1 = getelementptr i32, ptr addrspace(1) %p, i32 1
  store i32 %ty, ptr addrspace(1) %p1
  %p2 = getelementptr i32, ptr addrspace(1) %p, i32 2
  store i32 %tz, ptr addrspace(1) %p2
  %p3 = getelementptr i32, ptr addrspace(1) %p, i32 3
  store i32 %wx, ptr addrspace(1) %p3
  %p4 = getelementptr i32, ptr addrspace(1) %p, i32 4
  store i32 %wy, ptr addrspace(1) %p4
  %p5 = getelementptr i32, ptr addrspace(1) %p, i32 5
  store i32 %wz, ptr addrspace(1) %p5
  ret void
}
"""  # noqa: E501


def run(text, kernel, grid, block, args, **options):
    report = emulator.run(compile_kernels(text), kernel, grid, block, args, **options)
    assert report.findings == []
    return report


@pytest.mark.parametrize(
    "grid, block",
    [
        ((1, 1, 1), (1, 1, 1)),
        ((3, 1, 1), (64, 1, 1)),
        ((2, 3, 2), (5, 3, 2)),  # 30 work-items: a partial wave
        ((1, 2, 3), (7, 5, 1)),  # 35: a full and a partial wave
        ((2, 1, 1), (1, 1, 33)),
        ((1, 1, 1), (32, 32, 1)),
    ],
)
def test_work_item_and_workgroup_ids(grid, block):
    threads = int(np.prod(block))
    out = np.full((int(np.prod(grid)) * threads, 6), -1, np.int32)
    scalars = [np.int32(x) for x in (grid[0], grid[1], *block)]
    report = run(IDS, "ids", grid, block, [out, *scalars])
    assert report.waves == int(np.prod(grid)) * -(-threads // 32)
    expected = [
        (tx, ty, tz, wx, wy, wz)
        for wz in range(grid[2])
        for wy in range(grid[1])
        for wx in range(grid[0])
        for tz in range(block[2])
        for ty in range(block[1])
        for tx in range(block[0])
    ]
    assert np.array_equal(out, expected)


def test_grid_and_block_may_be_shorter_than_three():
    out = np.full((6 * 8, 6), -1, np.int32)
    scalars = [np.int32(x) for x in (2, 3, 8, 1, 1)]
    run(IDS, "ids", (2, 3), (8,), [out, *scalars])
    assert out[:, 4].max() == 2


MIXED = """
define amdgpu_kernel void @mixed(ptr addrspace(1) %a, i32 %i, i64 %l, float %f,
                                 ptr addrspace(1) %b, i8 %c, i64 %m, double %d) #0 {
  store i32 %i, ptr addrspace(1) %a
  %a1 = getelementptr i8, ptr addrspace(1) %a, i32 8
  store i64 %l, ptr addrspace(1) %a1
  %a2 = getelementptr i8, ptr addrspace(1) %a, i32 16
  store float %f, ptr addrspace(1) %a2
  store i8 %c, ptr addrspace(1) %b
  %b1 = getelementptr i8, ptr addrspace(1) %b, i32 8
  store i64 %m, ptr addrspace(1) %b1
  %b2 = getelementptr i8, ptr addrspace(1) %b, i32 16
  store double %d, ptr addrspace(1) %b2
  ret void
}
"""


@pytest.mark.parametrize("kind", ["numpy", "python"])
def test_arguments_of_mixed_sizes_are_packed_as_the_metadata_says(kind):
    a, b = np.zeros(24, np.uint8), np.zeros(24, np.uint8)
    values = [-1, 2**40 + 3, 0.5, 7, -(2**41), 0.25]
    types = [np.int32, np.int64, np.float32, np.int8, np.int64, np.float64]
    if kind == "numpy":
        values = [t(x) for t, x in zip(types, values)]
    i, long, f, c, m, d = values
    run(MIXED, "mixed", (1, 1, 1), (1, 1, 1), [a, i, long, f, b, c, m, d])
    assert a[:4].view(np.int32)[0] == -1
    assert a[8:16].view(np.int64)[0] == 2**40 + 3
    assert a[16:20].view(np.float32)[0] == 0.5
    assert b[:1].view(np.int8)[0] == 7
    assert b[8:16].view(np.int64)[0] == -(2**41)
    assert b[16:24].view(np.float64)[0] == 0.25


def test_layout_of_arguments_is_described():
    kernel = emulator.load(compile_kernels(MIXED)).kernels["mixed"]
    explicit = [(a.offset, a.size) for a in kernel.arguments]
    assert explicit == [(0, 8), (8, 4), (16, 8), (24, 4), (32, 8), (40, 1), (48, 8), (56, 8)]


@pytest.mark.parametrize(
    "change, match",
    [
        (lambda a: a[:-1], "8 arguments"),
        (lambda a: [*a, 1], "8 arguments"),
        (lambda a: [1.5, *a[1:]], "0|a"),
        (lambda a: [a[0], a[0], *a[2:]], "1|i"),
        (lambda a: [a[0], 2**40, *a[2:]], "1|i"),
        (lambda a: [a[0], "one", *a[2:]], "1|i"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(change, match):
    buffer = np.zeros(24, np.uint8)
    arguments = [buffer, 1, 2, 0.5, np.zeros(24, np.uint8), 3, 4, 0.25]
    with pytest.raises(emulator.LaunchArgumentError, match=match):
        emulator.run(compile_kernels(MIXED), "mixed", 1, 1, change(arguments))
    assert not buffer.any()


@pytest.mark.parametrize(
    "grid, block", [((0, 1, 1), (1, 1, 1)), ((1,), (0,)), ((1,), (1025,)), ((1, 1, 1, 1), (1,))]
)
def test_wrong_geometry_is_refused(grid, block):
    arguments = [np.zeros(24, np.uint8), 1, 2, 0.5, np.zeros(24, np.uint8), 3, 4, 0.25]
    with pytest.raises(emulator.LaunchArgumentError):
        emulator.run(compile_kernels(MIXED), "mixed", grid, block, arguments)


HIDDEN = """
define amdgpu_kernel void @hidden(ptr addrspace(1) %out) #0 {
  %h = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %words = load <3 x i32>, ptr addrspace(4) %h, align 4
  store <3 x i32> %words, ptr addrspace(1) %out, align 4
  br label %loop
loop:
  %i = phi i32 [ 0, %0 ], [ %next, %loop ]
  %offset0 = mul i32 %i, 2
  %offset = add i32 %offset0, 12
  %p = getelementptr i8, ptr addrspace(4) %h, i32 %offset
  %x = load i16, ptr addrspace(4) %p, align 2
  %wide = zext i16 %x to i32
  %slot = add i32 %i, 3
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %slot
  store i32 %wide, ptr addrspace(1) %q, align 4
  %next = add i32 %i, 1
  %done = icmp eq i32 %next, 6
  br i1 %done, label %end, label %loop
end:
  %d = getelementptr i8, ptr addrspace(4) %h, i32 64
  %dims = load i16, ptr addrspace(4) %d, align 2
  %dw = zext i16 %dims to i32
  %q9 = getelementptr i32, ptr addrspace(1) %out, i32 9
  store i32 %dw, ptr addrspace(1) %q9, align 4
  %go = getelementptr i8, ptr addrspace(4) %h, i32 40
  %g = load i64, ptr addrspace(4) %go, align 8
  %gt = trunc i64 %g to i32
  %q10 = getelementptr i32, ptr addrspace(1) %out, i32 10
  store i32 %gt, ptr addrspace(1) %q10, align 4
  ret void
}
"""


@pytest.mark.parametrize(
    "grid, block, dimensions", [((5, 1, 1), (64, 1, 1), 1), ((2, 3, 4), (4, 5, 2), 3)]
)
def test_hidden_arguments(grid, block, dimensions):
    """Block counts, group sizes, remainders, grid dimensions and a zero global offset."""
    out = np.full(11, -1, np.int32)
    run(HIDDEN, "hidden", grid, block, [out])
    assert list(out[:3]) == list(grid)
    assert list(out[3:6]) == list(block)
    assert list(out[6:9]) == [0, 0, 0]
    assert out[9] == dimensions
    assert out[10] == 0


DISPATCH = """
define amdgpu_kernel void @dispatch(ptr addrspace(1) %out) #0 {
  %d = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %p = getelementptr i8, ptr addrspace(4) %d, i32 4
  %sizes = load <3 x i16>, ptr addrspace(4) %p, align 4
  %wide = zext <3 x i16> %sizes to <3 x i32>
  store <3 x i32> %wide, ptr addrspace(1) %out, align 4
  %q = getelementptr i8, ptr addrspace(4) %d, i32 12
  %grid = load <3 x i32>, ptr addrspace(4) %q, align 4
  %o = getelementptr i32, ptr addrspace(1) %out, i32 3
  store <3 x i32> %grid, ptr addrspace(1) %o, align 4
  ret void
}
"""


def test_dispatch_packet():
    """Older code objects read sizes from the packet: workgroup sizes and grid in work-items."""
    out = np.full(6, -1, np.int32)
    run(DISPATCH, "dispatch", (3, 2, 1), (16, 4, 1), [out])
    assert list(out) == [16, 4, 1, 48, 8, 1]


REVERSE = """
@dynamic = external addrspace(3) global [0 x float], align 16
define amdgpu_kernel void @reverse(ptr addrspace(1) %x, i32 %n) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr float, ptr addrspace(1) %x, i32 %t
  %v = load float, ptr addrspace(1) %p, align 4
  %q = getelementptr float, ptr addrspace(3) @dynamic, i32 %t
  store float %v, ptr addrspace(3) %q, align 4
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %last = sub i32 %n, 1
  %r = sub i32 %last, %t
  %s = getelementptr float, ptr addrspace(3) @dynamic, i32 %r
  %w = load float, ptr addrspace(3) %s, align 4
  store float %w, ptr addrspace(1) %p, align 4
  ret void
}
"""


def test_dynamic_lds():
    x = np.arange(200, dtype=np.float32)
    report = run(REVERSE, "reverse", 1, 200, [x, np.int32(200)], dynamic_lds=800)
    assert np.array_equal(x, np.arange(200)[::-1])
    assert report.lds_bytes >= 800


def test_too_little_dynamic_lds_is_found():
    x = np.arange(200, dtype=np.float32)
    with pytest.raises(emulator.MemoryAccessError, match="LDS"):
        emulator.run(
            compile_kernels(REVERSE), "reverse", 1, 200, [x, np.int32(200)], dynamic_lds=400
        )


def test_more_lds_than_a_workgroup_has_is_refused():
    with pytest.raises(emulator.LaunchArgumentError, match="65536|64 KiB"):
        emulator.run(
            compile_kernels(REVERSE),
            "reverse",
            1,
            32,
            [np.zeros(32, np.float32), np.int32(32)],
            dynamic_lds=65536 + 4,
        )


def test_several_kernels_in_one_object():
    text = "".join(
        f"""
define amdgpu_kernel void @add{k}(ptr addrspace(1) %x) #0 {{
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %t
  %v = load i32, ptr addrspace(1) %p, align 4
  %w = add i32 %v, {10**k}
  store i32 %w, ptr addrspace(1) %p, align 4
  ret void
}}
"""
        for k in range(4)
    )
    assert sorted(emulator.load(compile_kernels(text)).kernels) == ["add0", "add1", "add2", "add3"]
    x = np.arange(40, dtype=np.int32)
    for k in (3, 0, 2):
        run(text, f"add{k}", 1, 40, [x])
    assert np.array_equal(x, np.arange(40) + 1101)
    with pytest.raises(emulator.CodeObjectError, match="add0"):
        emulator.run(compile_kernels(text), "add9", 1, 40, [x])


def test_arrays_of_any_strides_are_updated_in_place():
    text = """
define amdgpu_kernel void @double(ptr addrspace(1) %x) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr float, ptr addrspace(1) %x, i32 %t
  %v = load float, ptr addrspace(1) %p, align 4
  %w = fmul float %v, 2.0
  store float %w, ptr addrspace(1) %p, align 4
  ret void
}
"""
    whole = np.arange(128, dtype=np.float32)
    run(text, "double", 1, 32, [whole[32:64]])
    expected = np.arange(128, dtype=np.float32)
    expected[32:64] *= 2
    assert np.array_equal(whole, expected)


def test_a_wave64_kernel_is_refused_by_name():
    from emulator_witness.assembler import isa
    from emulator_witness.code_object import Kernel, build_code_object

    code_object = build_code_object(Kernel(isa.s_endpgm().to_bytes(), "wide", wavefront_size=64))
    with pytest.raises(emulator.EmulatorError, match="wave64|wavefront"):
        emulator.run(code_object, "wide", 1, 64, [])


@pytest.mark.parametrize("chip", ["gfx1201", "gfx1100", "gfx1030"])
def test_another_chip_is_refused_by_name(chip):
    with pytest.raises(emulator.CodeObjectError, match=chip):
        emulator.run(compile_kernels(MIXED, chip=chip), "mixed", 1, 1, [])


def test_code_for_the_whole_generation_is_loaded():
    x = np.arange(200, dtype=np.float32)
    code_object = compile_kernels(REVERSE, chip="gfx11-generic")
    report = emulator.run(code_object, "reverse", 1, 200, [x, np.int32(200)], dynamic_lds=800)
    assert report.findings == []
    assert np.array_equal(x, np.arange(200)[::-1])
