"""FILE arguments of commands to modules, LLVM text or jitted functions; specs to tensors."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tessera.contracts import DTYPE_BYTES, TensorSpec
from tessera.errors import OptionError, TesseraError, supported

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tessera.frontend.jit import JittedFunction

_SPEC = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[\d,x\s]*)\]")


@dataclass(frozen=True)
class Source:
    """What a FILE argument named: exactly one of the three is set. `stem` names outputs."""

    stem: str
    module: ModuleOp | None = None
    llvm: str | None = None
    function: JittedFunction | None = None


def read_source(argument: str, target: str) -> Source:
    """Read FILE.mlir, FILE.ll or FILE.py:function; OptionError for anything else."""
    path, _, name = argument.partition(".py:")
    if name:
        return Source(name, function=_function(Path(path + ".py"), name, target))
    file = Path(argument)
    if file.suffix == ".mlir":
        from tessera.compiler import parse_module

        return Source(file.stem, module=parse_module(_text(file), str(file)))
    if file.suffix == ".ll":
        return Source(file.stem, llvm=_text(file))
    raise OptionError(
        f"{argument!r}: unknown kind of file; "
        + supported(["FILE.mlir", "FILE.ll", "FILE.py:NAME"])
    )


def parse_specs(texts: Sequence[str]) -> tuple[TensorSpec, ...]:
    """Tensor specs from texts like "f16[128,64]" or "f16[128x64]"; OptionError for others."""
    specs = []
    for text in texts:
        found = _SPEC.fullmatch(text.strip())
        if found is None or found["dtype"] not in DTYPE_BYTES:
            raise OptionError(
                f"input {text!r} is no tensor like f16[128,64]; dtypes {supported(DTYPE_BYTES)}"
            )
        specs.append(
            TensorSpec(tuple(int(n) for n in re.findall(r"\d+", found["shape"])), found["dtype"])
        )
    return tuple(specs)


@contextmanager
def traced_by_command(function: JittedFunction, specs: Sequence[TensorSpec]) -> Iterator[None]:
    """Make what a user's function raises while it is traced an OptionError with file and line."""
    if specs:
        try:
            inspect.signature(function.function).bind(*specs)
        except TypeError as error:
            raise OptionError(f"{function.name}: --input: {error}") from error
    try:
        yield
    except (TesseraError, OSError):
        raise
    except Exception as error:
        file = getattr(getattr(function.function, "__code__", None), "co_filename", None)
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == file]
        if not lines:
            raise
        raise OptionError(f"{file}:{lines[-1]}: {type(error).__name__}: {error}") from error


def _text(file: Path) -> str:
    if not file.is_file():
        raise OptionError(f"{str(file)!r} is no file")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise OptionError(f"{str(file)!r} is no text: {error}") from error


def _function(path: Path, name: str, target: str) -> Any:
    from tessera.frontend.jit import JittedFunction, jit

    function: Any = _import(path)
    for part in name.split("."):
        if not hasattr(function, part):
            raise OptionError(f"{path}: no function {name!r}")
        function = getattr(function, part)
    if isinstance(function, JittedFunction):
        function = function.function
    if not callable(function):
        raise OptionError(f"{path}: {name!r} is a {type(function).__name__}, not a function")
    return jit(target=target)(function)


def _import(path: Path) -> ModuleType:
    if not path.is_file():
        raise OptionError(f"{str(path)!r} is no file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # The file may import its neighbours, as when it is run as a script.
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise OptionError(f"{path}: importing it gave {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module
