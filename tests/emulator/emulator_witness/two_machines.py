"""Small LLVM functions to what gfx1151 code gives in the emulator and host code gives on this CPU.

The same function body is compiled twice: as a kernel in which each lane takes one element, and as a
loop for the host. Both read arrays of the operand types and write one array of the result type.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np

BLOCK = 64
TYPES: dict[str, Any] = {
    "i8": np.uint8,
    "i16": np.uint16,
    "i32": np.uint32,
    "i64": np.uint64,
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
    "<2 x i16>": np.uint32,
    "<2 x half>": np.uint32,
}


@dataclass(frozen=True)
class Function:
    """A body that computes %r from %a, %b and %c, of the given LLVM types."""

    name: str
    operands: tuple[str, ...]
    result: str
    body: str
    declarations: str = ""


def _definition(function: Function) -> str:
    arguments = ", ".join(f"{kind} %{name}" for kind, name in zip(function.operands, "abc"))
    return (
        f"define internal {function.result} @body_{function.name}({arguments}) alwaysinline {{\n"
        f"{function.body}\n  ret {function.result} %r\n}}\n"
    )


def _element(function: Function, space: str, index: str) -> str:
    """IR that applies the body to element `index` of the arrays."""
    lines, values = [], []
    for kind, name in zip(function.operands, "abc"):
        lines.append(f"  %p{name} = getelementptr {kind}, ptr{space} %{name}, i64 {index}")
        lines.append(f"  %v{name} = load {kind}, ptr{space} %p{name}")
        values.append(f"{kind} %v{name}")
    result = function.result
    lines.append(f"  %res = call {result} @body_{function.name}({', '.join(values)})")
    lines.append(f"  %pr = getelementptr {result}, ptr{space} %out, i64 {index}")
    lines.append(f"  store {result} %res, ptr{space} %pr")
    return "\n".join(lines)


def _kernel(function: Function) -> str:
    pointers = [f"ptr addrspace(1) %{name}" for _, name in zip(function.operands, "abc")]
    arguments = ", ".join([*pointers, "ptr addrspace(1) %out"])
    return (
        f"define amdgpu_kernel void @{function.name}({arguments}) #0 {{\n"
        "  %lane = call i32 @llvm.amdgcn.workitem.id.x()\n"
        "  %group = call i32 @llvm.amdgcn.workgroup.id.x()\n"
        f"  %start = mul i32 %group, {BLOCK}\n"
        "  %number = add i32 %start, %lane\n"
        "  %i = zext i32 %number to i64\n"
        f"{_element(function, ' addrspace(1)', '%i')}\n  ret void\n}}\n"
    )


def _loop(function: Function) -> str:
    pointers = [f"ptr %{name}" for _, name in zip(function.operands, "abc")]
    arguments = ", ".join([*pointers, "ptr %out", "i64 %count"])
    return (
        f"define void @{function.name}({arguments}) {{\nentry:\n  br label %loop\nloop:\n"
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n"
        f"{_element(function, '', '%i')}\n"
        "  %next = add i64 %i, 1\n  %more = icmp ult i64 %next, %count\n"
        "  br i1 %more, label %loop, label %end\nend:\n  ret void\n}\n"
    )


def _declarations(functions: list[Function]) -> str:
    return "\n".join(sorted({line for f in functions for line in f.declarations.splitlines()}))


def code_object(functions: list[Function]) -> bytes:
    """A linked gfx1151 code object with one kernel per function."""
    from tessera.codegen.link import link
    from tessera.codegen.llvm import compile_llvm
    from tessera.targets import resolve_target

    text = "\n".join(
        [
            "declare i32 @llvm.amdgcn.workitem.id.x()\ndeclare i32 @llvm.amdgcn.workgroup.id.x()",
            _declarations(functions),
            *(_definition(f) + _kernel(f) for f in functions),
            f'attributes #0 = {{ "amdgpu-flat-work-group-size"="{BLOCK},{BLOCK}" '
            '"uniform-work-group-size"="true" }',
        ]
    )
    return link(compile_llvm(text, resolve_target("gfx1151")).object)


class HostCode:
    """The functions compiled for this CPU."""

    def __init__(self, functions: list[Function]) -> None:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        text = "\n".join(
            [_declarations(functions), *(_definition(f) + _loop(f) for f in functions)]
        )
        module = llvm.parse_assembly(text)
        triple = llvm.get_process_triple()
        module.triple = triple
        features = llvm.get_host_cpu_features().flatten()
        machine = llvm.Target.from_triple(triple).create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=features, opt=1
        )
        module.verify()
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()

    def run(self, function: Function, operands: list[np.ndarray]) -> np.ndarray:
        """The result array for contiguous operand arrays of one length."""
        out = np.zeros(len(operands[0]), TYPES[function.result])
        address = self._engine.get_function_address(function.name)
        pointers = [ctypes.c_void_p] * (len(operands) + 1)
        call = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(address)
        call(*[array.ctypes.data for array in operands], out.ctypes.data, len(out))
        return out


def emulated(code: bytes, function: Function, operands: list[np.ndarray]) -> np.ndarray:
    """The result array that the kernel leaves; the length is a multiple of BLOCK."""
    from tessera import emulator

    out = np.zeros(len(operands[0]), TYPES[function.result])
    grid = (len(out) // BLOCK, 1, 1)
    emulator.run(code, function.name, grid, (BLOCK, 1, 1), [*operands, out])
    return out
