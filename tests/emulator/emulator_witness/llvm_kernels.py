"""LLVM IR text to a linked gfx1151 code object, with llvmlite and LLD alone."""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

HEADER = """target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workitem.id.y()
declare i32 @llvm.amdgcn.workitem.id.z()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
declare ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
declare void @llvm.amdgcn.s.barrier()
"""
ATTRIBUTES = """
attributes #0 = { "amdgpu-flat-work-group-size"="1,1024" "uniform-work-group-size"="true" }
"""
MISSING = [n for n in ("llvmlite", "ziglang") if importlib.util.find_spec(n) is None]


@functools.cache
def compile_kernels(body: str, level: int = 3, chip: str = "gfx1151") -> bytes:
    """Compile IR (without the header and the attributes #0) and link it.

    `level` is the optimization level; level 0 keeps memory traffic and calls as written.
    """
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("amdgcn-amd-amdhsa")
    machine = target.create_target_machine(cpu=chip, opt=level)
    module = llvm.parse_assembly(HEADER + body + ATTRIBUTES)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return link(machine.emit_object(module))


def link(relocatable: bytes) -> bytes:
    """A loadable shared object from a relocatable one."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernels.o", Path(folder) / "kernels.hsaco"
        source.write_bytes(relocatable)
        command = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", source, "-o", target]
        subprocess.run(command, check=True, capture_output=True)
        return target.read_bytes()
