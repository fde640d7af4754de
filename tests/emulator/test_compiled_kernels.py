"""Kernels compiled by LLVM at -O0 and -O3 against numpy: control flow, calls, scratch, atomics.

-O0 keeps values in scratch and calls real, so that both ends of the compiler are covered.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.llvm_kernels import MISSING, compile_kernels

from tessera import emulator

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

INDEX = """
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %w = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = mul i32 %w, 64
  %i = add i32 %base, %t
"""
COUNT = 192  # three workgroups of 64


def elementwise(kind, body, result=None, extra=""):
    """A kernel that maps x[i] (type `kind`) to out[i] (type `result`) by `body`: %v to %r."""
    result = result or kind
    return f"""{extra}
define amdgpu_kernel void @map(ptr addrspace(1) %x, ptr addrspace(1) %out) #0 {{{INDEX}
  %p = getelementptr {kind}, ptr addrspace(1) %x, i32 %i
  %v = load {kind}, ptr addrspace(1) %p
{body}
  %q = getelementptr {result}, ptr addrspace(1) %out, i32 %i
  store {result} %r, ptr addrspace(1) %q
  ret void
}}
"""


def run(text, kernel, args, level, grid=3, block=64, **options):
    report = emulator.run(compile_kernels(text, level), kernel, grid, block, args, **options)
    assert report.findings == []
    return report


def mapped(text, x, dtype, level):
    out = np.zeros(len(x), dtype)
    run(text, "map", [x, emulator.uninitialized(out)], level)
    return out


levels = pytest.mark.parametrize("level", [0, 3])


@levels
def test_a_loop_that_each_lane_leaves_at_its_own_time(level):
    body = """
  br label %loop
loop:
  %n = phi i32 [ %v, %0 ], [ %m, %loop ]
  %steps = phi i32 [ 0, %0 ], [ %next, %loop ]
  %odd = and i32 %n, 1
  %is_odd = icmp eq i32 %odd, 1
  %half = lshr i32 %n, 1
  %triple = mul i32 %n, 3
  %up = add i32 %triple, 1
  %m = select i1 %is_odd, i32 %up, i32 %half
  %next = add i32 %steps, 1
  %more = icmp ugt i32 %m, 1
  br i1 %more, label %loop, label %end
end:
  %r = phi i32 [ %next, %loop ]"""
    x = np.arange(2, COUNT + 2, dtype=np.uint32)

    def steps(n):
        count = 0
        while n > 1:
            n, count = (3 * n + 1 if n & 1 else n >> 1), count + 1
        return count

    assert list(mapped(elementwise("i32", body), x, np.uint32, level)) == [steps(n) for n in x]


@levels
def test_calls_and_scratch(level):
    """A called function fills an array in scratch and reads it back at a computed index."""
    function = """
define internal i32 @lookup(i32 %seed) noinline {
  %a = alloca [16 x i32], align 4, addrspace(5)
  br label %fill
fill:
  %k = phi i32 [ 0, %0 ], [ %next, %fill ]
  %value = mul i32 %k, %seed
  %p = getelementptr [16 x i32], ptr addrspace(5) %a, i32 0, i32 %k
  store i32 %value, ptr addrspace(5) %p
  %next = add i32 %k, 1
  %done = icmp eq i32 %next, 16
  br i1 %done, label %read, label %fill
read:
  %index = and i32 %seed, 15
  %q = getelementptr [16 x i32], ptr addrspace(5) %a, i32 0, i32 %index
  %r = load i32, ptr addrspace(5) %q
  ret i32 %r
}
"""
    body = """
  %one = call i32 @lookup(i32 %v)
  %plus = add i32 %v, 5
  %two = call i32 @lookup(i32 %plus)
  %r = add i32 %one, %two"""
    x = np.arange(COUNT, dtype=np.uint32) * 7
    expected = x * (x & 15) + (x + 5) * ((x + 5) & 15)
    assert np.array_equal(mapped(elementwise("i32", body, extra=function), x, np.uint32, level),
                          expected)  # fmt: skip


@levels
def test_a_call_through_a_pointer(level):
    """The target differs between lanes: the compiler loops over the distinct ones."""
    functions = "".join(
        f"define internal i32 @f{k}(i32 %x) noinline {{\n  %r = {operation}\n  ret i32 %r\n}}\n"
        for k, operation in enumerate(("add i32 %x, 1", "mul i32 %x, 3", "xor i32 %x, 255"))
    )
    body = """
  %small = urem i32 %v, 3
  %is0 = icmp eq i32 %small, 0
  %is1 = icmp eq i32 %small, 1
  %f01 = select i1 %is1, ptr @f1, ptr @f2
  %f = select i1 %is0, ptr @f0, ptr %f01
  %r = call i32 %f(i32 %v)"""
    x = np.arange(COUNT, dtype=np.uint32)
    expected = np.choose(x % 3, [x + 1, x * 3, x ^ 255])
    text = elementwise("i32", body, extra=functions)
    assert np.array_equal(mapped(text, x, np.uint32, level), expected)


@levels
def test_a_switch_over_many_cases(level):
    cases = "\n".join(f"    i32 {k}, label %case{k}" for k in range(12))
    blocks = "\n".join(f"case{k}:\n  br label %end" for k in range(12))
    values = ", ".join(f"[ {k * k * 1000 + 7}, %case{k} ]" for k in range(12))
    body = f"""
  switch i32 %v, label %other [
{cases}
  ]
{blocks}
other:
  br label %end
end:
  %r = phi i32 {values}, [ -1, %other ]"""
    x = (np.arange(COUNT, dtype=np.uint32) * 5) % 17
    expected = np.where(x < 12, x * x * 1000 + 7, 2**32 - 1).astype(np.uint32)
    assert np.array_equal(mapped(elementwise("i32", body), x, np.uint32, level), expected)


@levels
@pytest.mark.parametrize("operation", ["udiv", "urem", "sdiv", "srem", "mul"])
@pytest.mark.parametrize("bits", [32, 64])
def test_integer_arithmetic(level, operation, bits):
    divisor = 1000003
    rng = np.random.default_rng(bits)
    x = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), COUNT, dtype=f"i{bits // 8}")
    x[:3] = 0, -1, -(2 ** (bits - 1))
    body = f"""
  %d0 = or i{bits} %v, 1
  %d = and i{bits} %d0, {divisor}
  %r = {operation} i{bits} %v, %d"""
    got = mapped(elementwise(f"i{bits}", body), x, x.dtype, level)
    for value, result in zip(x.tolist(), got.tolist()):
        d = (value | 1) & divisor
        n = value % 2**bits if operation[0] == "u" else value
        quotient = abs(n) // d * (1 if n >= 0 else -1)
        exact = {"div": quotient, "rem": n - quotient * d, "mul": value * d}[operation[-3:]]
        assert result % 2**bits == exact % 2**bits, (value, d)


@levels
@pytest.mark.parametrize("kind, dtype", [("float", np.float32), ("double", np.float64)])
def test_division_and_root_are_correctly_rounded(level, kind, dtype):
    """The sequences around v_div_scale, v_div_fmas and v_div_fixup give IEEE's quotient."""
    rng = np.random.default_rng(3)
    x = (rng.standard_normal(COUNT) * 10.0 ** rng.integers(-30, 30, COUNT)).astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    x[:8] = 0.0, -0.0, np.inf, -np.inf, np.nan, tiny, np.finfo(dtype).max, -tiny
    body = f"""
  %r = fdiv {kind} 3.0, %v"""
    with np.errstate(all="ignore"):
        expected = dtype(3.0) / x
    got = mapped(elementwise(kind, body), x, dtype, level)
    assert np.array_equal(got, expected, equal_nan=True)
    assert np.array_equal(np.signbit(got[:4]), np.signbit(expected[:4]))
    suffix = "f32" if kind == "float" else "f64"
    extra = f"declare {kind} @llvm.sqrt.{suffix}({kind})"
    text = elementwise(kind, f"  %r = call {kind} @llvm.sqrt.{suffix}({kind} %v)", extra=extra)
    with np.errstate(all="ignore"):
        expected = np.sqrt(x)
    assert np.array_equal(mapped(text, x, dtype, level), expected, equal_nan=True)


@levels
def test_conversions_between_widths(level):
    body = """
  %h = fptrunc float %v to half
  %twice = fadd half %h, %h
  %wide = fpext half %twice to float
  %d = fpext float %wide to double
  %scaled = fmul double %d, 3.0
  %r = fptosi double %scaled to i32"""
    x = np.linspace(-1000, 1000, COUNT).astype(np.float32)
    half = x.astype(np.float16)
    expected = ((half + half).astype(np.float64) * 3.0).astype(np.int32)
    assert np.array_equal(mapped(elementwise("float", body, "i32"), x, np.int32, level), expected)


@levels
def test_bytes_and_halfwords(level):
    body = """
  %wide = sext i8 %v to i16
  %r = mul i16 %wide, 300"""
    x = np.arange(COUNT).astype(np.int8)
    got = mapped(elementwise("i8", body, "i16"), x, np.int16, level)
    assert np.array_equal(got, x.astype(np.int16) * np.int16(300))


ATOMICS = {
    "add": lambda old, x: (old + int(x.sum())) % 2**32,
    "sub": lambda old, x: (old - int(x.sum())) % 2**32,
    "umax": lambda old, x: max(old, int(x.max())),
    "umin": lambda old, x: min(old, int(x.min())),
    "and": lambda old, x: old & int(np.bitwise_and.reduce(x)),
    "or": lambda old, x: old | int(np.bitwise_or.reduce(x)),
    "xor": lambda old, x: old ^ int(np.bitwise_xor.reduce(x)),
}


@levels
@pytest.mark.parametrize("operation", ATOMICS)
def test_global_atomics_on_one_address(level, operation):
    """All lanes of all waves meet at one word."""
    text = f"""
define amdgpu_kernel void @all(ptr addrspace(1) %x, ptr addrspace(1) %cell) #0 {{{INDEX}
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
  %v = load i32, ptr addrspace(1) %p
  %old = atomicrmw {operation} ptr addrspace(1) %cell, i32 %v syncscope("agent") monotonic
  ret void
}}
"""
    x = np.random.default_rng(1).integers(0, 2**32, COUNT, dtype=np.uint32)
    cell = np.array([0x12345678], np.uint32)
    run(text, "all", [x, cell], level)
    assert int(cell[0]) == ATOMICS[operation](0x12345678, x)


@levels
@pytest.mark.parametrize("bits", [32, 64])
def test_tickets(level, bits):
    """Returned old values of an atomic add are a permutation: each lane gets its own."""
    text = f"""
define amdgpu_kernel void @tickets(ptr addrspace(1) %cell, ptr addrspace(1) %out) #0 {{{INDEX}
  %old = atomicrmw add ptr addrspace(1) %cell, i{bits} 1 syncscope("agent") monotonic
  %p = getelementptr i{bits}, ptr addrspace(1) %out, i32 %i
  store i{bits} %old, ptr addrspace(1) %p
  ret void
}}
"""
    cell, out = np.zeros(1, f"u{bits // 8}"), np.zeros(COUNT, f"u{bits // 8}")
    run(text, "tickets", [cell, out], level)
    assert sorted(out) == list(range(COUNT))
    assert cell[0] == COUNT


@levels
def test_compare_and_swap_loop(level):
    """A float maximum built from cmpxchg: lanes that lose the race try again."""
    text = f"""
define amdgpu_kernel void @largest(ptr addrspace(1) %x, ptr addrspace(1) %cell) #0 {{{INDEX}
  %p = getelementptr float, ptr addrspace(1) %x, i32 %i
  %v = load float, ptr addrspace(1) %p
  %bits = bitcast float %v to i32
  %first = load atomic i32, ptr addrspace(1) %cell syncscope("agent") monotonic, align 4
  br label %try
try:
  %old = phi i32 [ %first, %0 ], [ %seen, %try ]
  %oldf = bitcast i32 %old to float
  %more = fcmp ogt float %v, %oldf
  %new = select i1 %more, i32 %bits, i32 %old
  %pair = cmpxchg ptr addrspace(1) %cell, i32 %old, i32 %new syncscope("agent") monotonic monotonic
  %seen = extractvalue {{ i32, i1 }} %pair, 0
  %ok = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %ok, label %end, label %try
end:
  ret void
}}
"""
    x = np.random.default_rng(2).standard_normal(COUNT).astype(np.float32)
    cell = np.array([-np.inf], np.float32)
    run(text, "largest", [x, cell], level)
    assert cell[0] == x.max()


@levels
def test_tree_reduction_through_lds(level):
    text = f"""
@buffer = internal addrspace(3) global [64 x float] poison, align 16
define amdgpu_kernel void @sum(ptr addrspace(1) %x, ptr addrspace(1) %out) #0 {{{INDEX}
  %p = getelementptr float, ptr addrspace(1) %x, i32 %i
  %v = load float, ptr addrspace(1) %p
  %slot = getelementptr [64 x float], ptr addrspace(3) @buffer, i32 0, i32 %t
  store float %v, ptr addrspace(3) %slot
  br label %loop
loop:
  %width = phi i32 [ 32, %0 ], [ %half, %join ]
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %on = icmp ult i32 %t, %width
  br i1 %on, label %fold, label %join
fold:
  %k = add i32 %t, %width
  %other = getelementptr [64 x float], ptr addrspace(3) @buffer, i32 0, i32 %k
  %a = load float, ptr addrspace(3) %slot
  %b = load float, ptr addrspace(3) %other
  %c = fadd float %a, %b
  store float %c, ptr addrspace(3) %slot
  br label %join
join:
  %half = lshr i32 %width, 1
  %more = icmp ne i32 %half, 0
  br i1 %more, label %loop, label %end
end:
  %first = icmp eq i32 %t, 0
  br i1 %first, label %write, label %leave
write:
  %total = load float, ptr addrspace(3) @buffer
  %q = getelementptr float, ptr addrspace(1) %out, i32 %w
  store float %total, ptr addrspace(1) %q
  br label %leave
leave:
  ret void
}}
"""
    x = np.arange(COUNT, dtype=np.float32)
    out = np.zeros(3, np.float32)
    run(text, "sum", [x, out], level)
    assert np.array_equal(out, x.reshape(3, 64).sum(axis=1))


@levels
def test_lane_intrinsics(level):
    """Ballot, first lane, backward permute and half swap in one kernel."""
    extra = """
declare i32 @llvm.amdgcn.ballot.i32(i1)
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare i32 @llvm.amdgcn.permlanex16.i32(i32, i32, i32, i32, i1, i1)
"""
    body = """
  %big = icmp ugt i32 %v, 1000
  %mask = call i32 @llvm.amdgcn.ballot.i32(i1 %big)
  %first = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %v)
  %lane4 = mul i32 %t, 4
  %reversed = sub i32 124, %lane4
  %other = call i32 @llvm.amdgcn.ds.bpermute(i32 %reversed, i32 %v)
  %swap = call i32 @llvm.amdgcn.permlanex16.i32(i32 %v, i32 %v, i32 1985229328, i32 -19088744, i1 0, i1 0)
  %a = add i32 %mask, %first
  %b = xor i32 %a, %other
  %r = add i32 %b, %swap"""  # noqa: E501
    x = np.random.default_rng(4).integers(0, 2000, COUNT, dtype=np.uint32)
    waves = x.reshape(-1, 32)
    masks = ((waves > 1000) << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
    swapped = np.roll(waves, 16, axis=1)
    expected = ((masks[:, None] + waves[:, :1]) ^ waves[:, ::-1]) + swapped
    text = elementwise("i32", body, extra=extra)
    assert np.array_equal(mapped(text, x, np.uint32, level).reshape(-1, 32), expected)
