"""LLVM IR text to host machine code for the few loops that numpy cannot do in one pass.

The functions work on the register file's own memory: rows of [waves, 32] uint32, `stride` bytes
apart. Each is compiled when it is first needed; without llvmlite the callers stay with numpy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

# All arguments are 64-bit integers: addresses, counts, offsets. The names are those of the texts.
Native = Callable[..., int]


@lru_cache(maxsize=32)
def matrix_function(element: str, signed_a: bool, signed_b: bool) -> Native | None:
    """The WMMA of every wave; see `native_text.matrix_text`. None without llvmlite.

    On an x86 processor without F16C the conversion from f16 would be a call that is not there.
    """
    if element == "f16" and not _converts_f16():
        return None
    from tessera.emulator.native_text import MATRIX_ARGUMENTS, matrix_text

    name = f"wmma_{element}_{int(signed_a)}{int(signed_b)}"
    text = matrix_text(name, element, signed_a, signed_b)
    return _function(name, text, len(MATRIX_ARGUMENTS))


@lru_cache(maxsize=32)
def memory_function(words: int, is_store: bool) -> Native | None:
    """Loads or stores of every active lane; see `native_text.memory_text`."""
    from tessera.emulator.native_text import MEMORY_ARGUMENTS, memory_text

    name = f"{'store' if is_store else 'load'}_{words}"
    return _function(name, memory_text(name, words, is_store), len(MEMORY_ARGUMENTS))


@lru_cache(maxsize=2)
def check_function(is_write: bool) -> Native | None:
    """The LDS race check of an access; see `native_checks.check_text`."""
    from tessera.emulator.native_checks import CHECK_ARGUMENTS, check_text

    name = f"lds_{'write' if is_write else 'read'}"
    return _function(name, check_text(name, is_write), len(CHECK_ARGUMENTS))


def _converts_f16() -> bool:
    try:
        import llvmlite.binding as llvm
    except ImportError:
        return False
    if not llvm.get_process_triple().startswith(("x86_64", "i686")):
        return True
    return bool(llvm.get_host_cpu_features().get("f16c"))


# Engines own the machine code: they live as long as the process.
_ENGINES: list[Any] = []


def _function(name: str, text: str, arguments: int) -> Native | None:
    machine = _target_machine()
    if machine is None:
        return None
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _ENGINES.append(engine)
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
    return prototype(engine.get_function_address(name))


def _target_machine() -> Any | None:
    """A new target machine for this processor (an engine takes it over); None without llvmlite."""
    try:
        import llvmlite.binding as llvm
    except ImportError:
        return None
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2)
