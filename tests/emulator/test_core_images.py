"""Tables of addresses, global variables and structures by value, as other compilers emit them."""

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.llvm_kernels import MISSING, compile_kernels

from tessera import emulator

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

TABLE = """
@one = addrspace(1) constant [2 x i32] [i32 10, i32 11]
@two = addrspace(1) constant [2 x i32] [i32 20, i32 21]
@table = addrspace(1) constant [2 x ptr addrspace(1)] [ptr addrspace(1) @one, ptr addrspace(1) @two]
define amdgpu_kernel void @look(ptr addrspace(1) %out, i32 %i) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr [2 x ptr addrspace(1)], ptr addrspace(1) @table, i32 0, i32 %i
  %q = load volatile ptr addrspace(1), ptr addrspace(1) %p
  %r = getelementptr [2 x i32], ptr addrspace(1) %q, i32 0, i32 %t
  %v = load i32, ptr addrspace(1) %r
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %v, ptr addrspace(1) %o
  ret void
}
"""


@pytest.mark.parametrize("level", [0, 3])
def test_a_table_of_addresses_is_relocated(level):
    for i, expected in enumerate([[10, 11], [20, 21]]):
        out = np.zeros(2, np.int32)
        emulator.run(compile_kernels(TABLE, level), "look", 1, 2, [emulator.uninitialized(out), i])
        assert out.tolist() == expected


VARIABLE = """
@counter = addrspace(1) externally_initialized global i32 5
@fixed = addrspace(1) constant i32 7
define amdgpu_kernel void @count(ptr addrspace(1) %out) #0 {
  %v = load i32, ptr addrspace(1) @counter
  %n = add i32 %v, 1
  store i32 %n, ptr addrspace(1) @counter
  %m = load volatile i32, ptr addrspace(1) @counter
  store i32 %m, ptr addrspace(1) %out
  ret void
}
define amdgpu_kernel void @spoil() #0 {
  store volatile i32 1, ptr addrspace(1) @fixed
  ret void
}
"""


def test_a_global_variable_can_be_written_and_a_constant_cannot():
    out = np.zeros(1, np.int32)
    emulator.run(compile_kernels(VARIABLE), "count", 1, 1, [out])
    assert out[0] == 6
    with pytest.raises(emulator.MemoryAccessError, match="read-only buffer 'code'"):
        emulator.run(compile_kernels(VARIABLE), "spoil", 1, 1, [])


STRUCTURE = """
define amdgpu_kernel void @sum(ptr addrspace(1) %out, { i32, i32, i32 } %x) #0 {
  %a = extractvalue { i32, i32, i32 } %x, 0
  %b = extractvalue { i32, i32, i32 } %x, 1
  %c = extractvalue { i32, i32, i32 } %x, 2
  %d = add i32 %a, %b
  %e = add i32 %d, %c
  store i32 %e, ptr addrspace(1) %out
  ret void
}
"""


@pytest.mark.parametrize(
    "value", [np.array([1, 2, 4], np.int32), np.array([1, 2, 4], np.int32).tobytes()]
)
def test_a_structure_is_passed_by_value(value):
    out = np.zeros(1, np.int32)
    emulator.run(compile_kernels(STRUCTURE), "sum", 1, 1, [out, value])
    assert out[0] == 7
