"""HIP source text to a linked gfx1151 code object with a clang found on this machine."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from emulator_witness.llvm_kernels import link

CHIP = "gfx1151"
CANDIDATES = ("clang", *(f"clang-{version}" for version in range(24, 17, -1)))
PRELUDE = """
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define tid ((int)__builtin_amdgcn_workitem_id_x())
#define gid ((int)__builtin_amdgcn_workgroup_id_x())
"""


@functools.cache
def find_clang() -> str | None:
    """A clang that compiles HIP for the chip, or None."""
    for name in CANDIDATES:
        path = shutil.which(name)
        if path is not None and _assembly(path, 'extern "C" __global__ void f() {}', "-O2"):
            return path
    return None


def _assembly(clang: str, source: str, level: str) -> str:
    """Assembly of a HIP source; an empty text when this clang cannot."""
    command = [clang, "-x", "hip", f"--offload-arch={CHIP}", "--cuda-device-only"]
    command += ["-nogpuinc", "-nogpulib", level, "-S", "-o", "-", "-"]
    done = subprocess.run(
        command, input=PRELUDE + source, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


@functools.cache
def compile_hip(source: str, level: str = "-O2") -> bytes:
    """Compile and link HIP source; a failure shows what clang said."""
    clang = find_clang()
    assert clang is not None
    text = _assembly(clang, source, level)
    assert text, f"{clang} refused the source"
    with tempfile.TemporaryDirectory() as folder:
        assembly, target = Path(folder) / "kernel.s", Path(folder) / "kernel.o"
        assembly.write_text(text)
        command = [clang, "-x", "assembler", "-target", "amdgcn-amd-amdhsa", f"-mcpu={CHIP}"]
        subprocess.run(
            [*command, "-c", str(assembly), "-o", str(target)], check=True, capture_output=True
        )
        return link(target.read_bytes())
