"""`tessera-opt`: modules of any level, read as text, to the same after some passes, as text."""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
import time
from collections.abc import Sequence
from typing import TextIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass, PassPipeline
from xdsl.printer import Printer
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.exceptions import (
    ArgSpecParseError,
    ParseError,
    PassFailedException,
    VerifyException,
)

from tessera.dialects.spec import make_context
from tessera.errors import OptionError, TesseraError, supported
from tessera.targets import resolve_target
from tessera.transforms import PASSES, PIPELINES

SEPARATOR = "// -----"
"""Line between the modules of one file under --split-input-file."""

Refused = (TesseraError, ParseError, VerifyException, PassFailedException)
"""What a module can be refused with; each becomes one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when every module went through, else 1 after one line on stderr."""
    options = _argument_parser().parse_args(arguments)
    if options.list_passes:
        _list_passes(sys.stdout)
        return 0
    try:
        text = _read(options.input)
        passes = passes_of(options.passes, options.target)
    except (OSError, UnicodeDecodeError, TesseraError) as error:
        print(f"tessera-opt: error: {error}", file=sys.stderr)
        return 1
    name = "<stdin>" if options.input == "-" else options.input
    status, results = 0, []
    for module_text in _modules(text) if options.split_input_file else [text]:
        try:
            results.append(_process(module_text, name, passes, options))
        except Refused as error:
            message = one_line(error)
            if options.verify_diagnostics:
                results.append(f"error: {message}\n")
            else:
                print(f"tessera-opt: error: {message}", file=sys.stderr)
                status = 1
    text = "".join(f"{SEPARATOR}\n" * bool(index) + one for index, one in enumerate(results))
    try:
        _write(text, options)
    except OSError as error:
        print(f"tessera-opt: error: {error}", file=sys.stderr)
        return 1
    return status


def passes_of(text: str, target: str) -> tuple[ModulePass, ...]:
    """The passes that `-p text` names, pipelines expanded, for chip `target` where they ask for it.

    Raises OptionError for an unknown pass, pipeline or pass option, TargetError for the chip.
    """
    resolve_target(target)
    try:
        specs = list(parse_pipeline(text))
    except ArgSpecParseError as error:
        raise OptionError(f"-p {text!r} is no list of passes like 'a,b{{option=value}}'") from error
    passes: list[ModulePass] = []
    for spec in specs:
        if spec.name in PIPELINES:
            passes += [_make(ArgSpec(name, {}), target) for name in PIPELINES[spec.name]]
        else:
            passes.append(_make(spec, target))
    return tuple(passes)


def one_line(error: Exception) -> str:
    """The message of an error on one line; a parse error is `file:line:column: message`."""
    if isinstance(error, ParseError):
        place = error.span.get_location()
        return f"{place.file}:{place.line}:{place.col}: {error.msg}"
    text = str(error)
    # The verifier prints the whole operation above the reason, which stands last.
    reasons = re.findall(r"^\s*\^*-*\|?\s*(?:Operation does not verify: )(.*)$", text, re.MULTILINE)
    return " ".join((reasons[-1] if reasons else text).split())


def _argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tessera-opt", description=__doc__)
    parser.add_argument("input", nargs="?", default="-", help="file of a module; - for stdin")
    parser.add_argument("-o", "--output", help="file to write instead of stdout")
    parser.add_argument(
        "-p", "--passes", default="", help="passes and pipelines: 'a,b{option=value}'"
    )
    parser.add_argument("--target", default="rocm", help="chip that the passes lower for")
    parser.add_argument("--list-passes", action="store_true", help="name passes and pipelines")
    parser.add_argument(
        "--split-input-file", action="store_true", help=f"modules are separated by {SEPARATOR!r}"
    )
    parser.add_argument(
        "--verify-diagnostics", action="store_true", help="print an error in a module's place"
    )
    parser.add_argument("--print-between-passes", action="store_true", help="on stderr")
    parser.add_argument("--print-op-generic", action="store_true", help="generic form of all ops")
    parser.add_argument("--time-passes", action="store_true", help="on stderr")
    return parser


def _make(spec: ArgSpec, target: str) -> ModulePass:
    if spec.name not in PASSES:
        raise OptionError(f"unknown pass {spec.name!r}; " + supported([*PASSES, *PIPELINES]))
    pass_class = PASSES[spec.name]()
    names = [field.name for field in dataclasses.fields(pass_class)]
    if "target" in names and "target" not in spec.parameters:
        spec = ArgSpec(spec.name, spec.parameters | {"target": (resolve_target(target).chip,)})
    try:
        return pass_class.from_pass_spec(spec)
    except Exception as error:
        raise OptionError(f"pass {spec.name!r}: {one_line(error)}; {supported(names)}") from error


def _process(
    text: str, name: str, passes: tuple[ModulePass, ...], options: argparse.Namespace
) -> str:
    """The text of one module after the passes; raises what `Refused` lists."""
    context = make_context()
    module = Parser(context, text, name).parse_module()
    PassPipeline(passes, _Between(options)).apply(context, module)
    return _text(module, options.print_op_generic)


class _Between:
    """What happens before, between and after passes: verification, printing, timing."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._started = 0.0

    def __call__(
        self, previous: ModulePass | None, module: ModuleOp, following: ModulePass | None
    ) -> None:
        if previous is not None and self._options.time_passes:
            seconds = time.perf_counter() - self._started
            print(f"{previous.name}: {seconds * 1e3:.2f} ms", file=sys.stderr)
        try:
            module.verify()
        except VerifyException as error:
            after = f"after {previous.name}: " if previous is not None else ""
            raise VerifyException(after + one_line(error)) from error
        if previous is not None and self._options.print_between_passes:
            print(f"// after {previous.name}\n{_text(module)}", file=sys.stderr)
        self._started = time.perf_counter()


def _text(module: ModuleOp, generic: bool = False) -> str:
    from io import StringIO

    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue() + "\n"


def _modules(text: str) -> list[str]:
    """The modules of a file, each after as many empty lines as stand above it in the file."""
    parts = text.split(SEPARATOR)
    above = 0
    placed: list[str] = []
    for part in parts:
        placed.append("\n" * above + part)
        above += part.count("\n")
    return placed


def _read(path: str) -> str:
    if path == "-":
        return sys.stdin.read()
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(text: str, options: argparse.Namespace) -> None:
    if options.output is None:
        sys.stdout.write(text)
        return
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(text)


def _list_passes(stream: TextIO) -> None:
    print("passes:", file=stream)
    for name, factory in PASSES.items():
        print(f"  {name:34} {_summary(factory())}", file=stream)
    print("pipelines:", file=stream)
    for name, passes in PIPELINES.items():
        print(f"  {name:34} {','.join(passes)}", file=stream)


def _summary(pass_class: type[ModulePass]) -> str:
    """What a pass turns into what: the first line of its module's docstring."""
    module = sys.modules[pass_class.__module__]
    text = (module.__doc__ or f"xDSL's own pass {pass_class.name}.").strip()
    return text.partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
