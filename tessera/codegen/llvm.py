"""LLVM IR text to an optimized AMDGPU (or other) object file, inside this process by llvmlite."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import llvmlite.binding as llvm

from tessera.errors import CompileError
from tessera.targets.target import Target

# The wheel's LLVM has no AMDGPU assembler: reaching one aborts the whole process.
_INLINE_ASSEMBLY = re.compile(
    r"^[^;\"\n]*\b(?:call|callbr|module)\b[^;\"\n]*(?<![%@\w.])asm\b", re.MULTILINE
)
_POSITION = re.compile(r"<string>:(\d+):(\d+): error: (.*)")


@dataclass(frozen=True)
class CompiledObject:
    """A relocatable object file, and its assembly text where that was asked for."""

    object: bytes
    asm: str | None = None


@lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def llvm_version() -> str:
    """Version of the LLVM inside llvmlite, as in "22.1.0"."""
    return ".".join(str(part) for part in llvm.llvm_version_info)


def compile_llvm(
    text: str, target: Target, opt_level: int = 3, want_asm: bool = False
) -> CompiledObject:
    """Parse, verify, optimize and emit one LLVM module for the target's chip.

    `opt_level` is 0 to 3, as in -O3. Raises CompileError with LLVM's message and the offending
    line of `text`.
    """
    _initialize()
    inline = _INLINE_ASSEMBLY.search(text)
    if inline is not None:
        number = text.count("\n", 0, inline.end()) + 1
        raise CompileError(
            f"LLVM IR line {number}: inline assembly is not supported: {_line(text, number)}"
        )
    module = _parse(text)
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.chip, opt=opt_level
    )
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=opt_level)
    builder = llvm.create_pass_builder(machine, tuning)
    # The pipeline holds the AMDGPU attributor, which drops hidden kernel arguments nobody reads.
    builder.getModulePassManager().run(module, builder)
    # Code generation rewrites the module, so the assembly comes from a copy.
    asm = machine.emit_assembly(module.clone()) if want_asm else None
    return CompiledObject(object=machine.emit_object(module), asm=asm)


def _parse(text: str) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(_explain(text, str(error))) from error
    return module


def _explain(text: str, message: str) -> str:
    """LLVM's message with the line of the text that it is about."""
    position = _POSITION.search(message)
    if position is not None:
        number = int(position[1])
        return f"LLVM IR line {number}, column {position[2]}: {position[3]}: {_line(text, number)}"
    # The verifier prints the offending instruction after its message and gives no line.
    first, *rest = [line.strip() for line in message.strip().splitlines()]
    numbers = [n for n, line in enumerate(text.splitlines(), 1) if line.strip() in rest[-1:]]
    where = f" line {numbers[0]}" if numbers else ""
    return f"LLVM verifier{where}: {' | '.join([first, *rest])}"


def _line(text: str, number: int) -> str:
    lines = text.splitlines()
    return lines[number - 1].strip() if number <= len(lines) else "<end of text>"
