"""Waves that part, meet, wait and end at different times to the results of a plain Python model."""

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.llvm_kernels import MISSING, compile_kernels

from tessera import emulator

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

# Every round: a wave spins up to four times, writes to LDS, meets the others at a barrier and
# reads its neighbour's word; a second barrier closes the round.
ROUNDS = """
@shared = internal addrspace(3) global [256 x i32] undef
define amdgpu_kernel void @rounds(ptr addrspace(1) %out, i32 %rounds) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %w = lshr i32 %t, 5
  %u = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %w)
  %mine = getelementptr [256 x i32], ptr addrspace(3) @shared, i32 0, i32 %t
  %n1 = add i32 %t, 32
  %n2 = and i32 %n1, 127
  %next = getelementptr [256 x i32], ptr addrspace(3) @shared, i32 0, i32 %n2
  br label %round
round:
  %r = phi i32 [ 0, %entry ], [ %r1, %close ]
  %v = phi i32 [ %t, %entry ], [ %v3, %close ]
  %u3 = mul i32 %u, 3
  %s0 = add i32 %u3, %r
  %s1 = add i32 %s0, %g
  %spins = urem i32 %s1, 5
  br label %spin
spin:
  %i = phi i32 [ 0, %round ], [ %i1, %body ]
  %v1 = phi i32 [ %v, %round ], [ %v2, %body ]
  %more = icmp ult i32 %i, %spins
  br i1 %more, label %body, label %meet
body:
  %m = mul i32 %v1, 1664525
  %v2 = add i32 %m, 1013904223
  %i1 = add i32 %i, 1
  br label %spin
meet:
  store i32 %v1, ptr addrspace(3) %mine
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %o = load i32, ptr addrspace(3) %next
  %v3 = xor i32 %v1, %o
  br label %close
close:
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %r1 = add i32 %r, 1
  %again = icmp ult i32 %r1, %rounds
  br i1 %again, label %round, label %end
end:
  %b = mul i32 %g, 128
  %k = add i32 %b, %t
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %k
  store i32 %v3, ptr addrspace(1) %p
  ret void
}
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
"""


def model(group, rounds):
    values = np.arange(128, dtype=np.uint32)
    for number in range(rounds):
        for wave in range(4):
            lanes = slice(32 * wave, 32 * wave + 32)
            for _ in range((3 * wave + number + group) % 5):
                values[lanes] = values[lanes] * np.uint32(1664525) + np.uint32(1013904223)
        values = values ^ np.roll(values, -32)
    return values


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("groups", [1, 7])
def test_waves_that_spin_differently_and_meet_at_barriers(groups, level):
    out = np.zeros((groups, 128), np.uint32)
    arguments = [emulator.uninitialized(out), 6]
    report = emulator.run(compile_kernels(ROUNDS, level), "rounds", groups, 128, arguments)
    for group in range(groups):
        np.testing.assert_array_equal(out[group], model(group, 6))
    assert report.findings == []


def test_more_workgroups_than_are_resident():
    """300 workgroups of four waves run in several batches."""
    out = np.zeros((300, 128), np.uint32)
    code = compile_kernels(ROUNDS)
    report = emulator.run(code, "rounds", 300, 128, [out, 2], sanitize=False)
    assert report.waves == 1200
    for group in (0, 1, 63, 64, 255, 299):
        np.testing.assert_array_equal(out[group], model(group, 2))


# Wave 0 waits for a flag that the other waves raise: they must get their turn.
SPIN = """
define amdgpu_kernel void @spin(ptr addrspace(1) %flag, ptr addrspace(1) %out) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %w = lshr i32 %t, 5
  %u = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %w)
  %first = icmp eq i32 %u, 0
  br i1 %first, label %wait, label %raise
wait:
  %seen = load atomic i32, ptr addrspace(1) %flag syncscope("workgroup") acquire, align 4
  %done = icmp eq i32 %seen, 96
  br i1 %done, label %end, label %wait
raise:
  %old = atomicrmw add ptr addrspace(1) %flag, i32 1 syncscope("workgroup") release
  br label %end
end:
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 7, ptr addrspace(1) %p
  ret void
}
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
"""


def test_a_wave_that_waits_for_others_lets_them_run():
    flag, out = np.zeros(1, np.uint32), np.zeros(128, np.uint32)
    emulator.run(compile_kernels(SPIN), "spin", 1, 128, [flag, out])
    assert flag[0] == 96
    assert (out == 7).all()


def test_a_wave_that_waits_for_nobody_is_stopped():
    flag, out = np.zeros(1, np.uint32), np.zeros(32, np.uint32)
    with pytest.raises(emulator.InstructionLimitError, match="infinite loop") as caught:
        emulator.run(compile_kernels(SPIN), "spin", 1, 32, [flag, out], max_instructions=20_000)
    assert caught.value.finding.kind == "instruction_limit"


def test_arguments_that_share_memory_see_each_other():
    """Two views of one array are one buffer: what one argument writes, the other reads."""
    text = """
define amdgpu_kernel void @shift(ptr addrspace(1) %x, ptr addrspace(1) %y) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %t
  %v = load i32, ptr addrspace(1) %p
  %n = add i32 %v, 1
  %q = getelementptr i32, ptr addrspace(1) %y, i32 %t
  store i32 %n, ptr addrspace(1) %q
  ret void
}
"""
    both = np.arange(48, dtype=np.uint32)
    emulator.run(compile_kernels(text), "shift", 1, 32, [both[:32], both[16:]])
    expected = np.arange(48, dtype=np.uint32)
    expected[16:] = np.arange(32) + 1
    np.testing.assert_array_equal(both, expected)


def test_a_read_only_array_is_not_written():
    text = """
define amdgpu_kernel void @fill(ptr addrspace(1) %x) #0 {
  store i32 1, ptr addrspace(1) %x
  ret void
}
"""
    x = np.zeros(4, np.uint32)
    x.setflags(write=False)
    with pytest.raises(emulator.MemoryAccessError, match="read-only buffer"):
        emulator.run(compile_kernels(text), "fill", 1, 1, [x])
    assert not x.any()
