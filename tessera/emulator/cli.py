"""Command-line words to an emulated launch: `tessera emulate kernel.hsaco --kernel NAME ...`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tessera.emulator.cli_arguments import ArgumentWord, parse_argument, values_for
from tessera.emulator.code_object import CodeObject, load
from tessera.emulator.errors import EmulatorError, LaunchArgumentError
from tessera.emulator.launch import run
from tessera.emulator.report import Report

EXIT_FINDING, EXIT_USAGE = 1, 2
DESCRIPTION = "Run a kernel of an RDNA 3.5 code object without the chip."
ARGUMENT_HELP = (
    "an argument: x=in.npy, out=zeros:f32:1000 (also empty, ones, random; sizes as 4x256), "
    "n=i32:7, eps=f32:1e-5, n=7, p=null. Named as in the metadata, or arg0, arg1, ...; a word "
    "without a name takes the next place"
)


def emulate_main(argv: Sequence[str]) -> int:
    """Run the command with the words behind `tessera emulate`.

    Returns 0; 1 when the sanitizers found something; 2 when the code object, the kernel or an
    argument is wrong. Errors are one line on stderr, never a traceback.
    """
    try:
        options = _parser().parse_args(list(argv))
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        return _emulate(options)
    except EmulatorError as error:
        finding = getattr(error, "finding", None)
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FINDING if finding is not None else EXIT_USAGE
    except BrokenPipeError:
        # The reader has left (`| head`): what is buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"error: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return EXIT_USAGE
    except MemoryError:
        print("error: out of memory", file=sys.stderr)
        return EXIT_USAGE


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        print(f"error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(EXIT_USAGE)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="tessera emulate", description=DESCRIPTION)
    parser.add_argument("code_object", help="a linked AMDGPU code object (.hsaco)")
    parser.add_argument("--kernel", help="the kernel's name; may be left out if there is one")
    parser.add_argument("--grid", default="1", help="workgroups, as 4 or 4,2,1")
    parser.add_argument("--block", default="32", help="threads per workgroup, as 128 or 16,16,1")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE", help=ARGUMENT_HELP
    )
    parser.add_argument("--dynamic-lds", type=int, default=0, metavar="BYTES")
    parser.add_argument("--max-instructions", type=int, metavar="N")
    parser.add_argument("--save", metavar="DIR", help="write every buffer as DIR/NAME.npy")
    parser.add_argument("--trace", action="store_true", help="print what the first wave executes")
    parser.add_argument("--profile", action="store_true", help="print a count per instruction")
    parser.add_argument("--no-sanitize", action="store_true", help="only check bounds")
    parser.add_argument("--list", action="store_true", help="list the kernels and stop")
    return parser


def _emulate(options: argparse.Namespace) -> int:
    path = Path(options.code_object)
    code = path.read_bytes()
    loaded = load(code)
    if options.list:
        _print_kernels(loaded)
        return 0
    name = options.kernel or _only_kernel(loaded)
    kernel = loaded.kernel(name)
    words = [parse_argument(word) for word in options.arg]
    values = values_for(kernel, words)
    trace: Callable[[str], None] | None = print if options.trace else None
    report = run(
        code,
        name,
        _sizes("--grid", options.grid),
        _sizes("--block", options.block),
        list(values.values()),
        dynamic_lds=options.dynamic_lds,
        sanitize=not options.no_sanitize,
        max_instructions=options.max_instructions,
        on_finding="collect",
        trace=trace,
        profile=options.profile,
    )
    _print_report(report, options.profile)
    _print_outputs(values, words)
    if options.save:
        _save(Path(options.save), values)
    return EXIT_FINDING if report.findings else 0


def _only_kernel(loaded: CodeObject) -> str:
    names = sorted(loaded.kernels)
    if len(names) != 1:
        known = ", ".join(names) or "none"
        raise LaunchArgumentError(f"choose a kernel with --kernel; the code object holds: {known}")
    return names[0]


def _sizes(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.replace("x", ",").split(",")]
    except ValueError:
        raise LaunchArgumentError(
            f"{option} {text!r}: give one to three integers, as 4,2,1"
        ) from None


def _print_kernels(loaded: CodeObject) -> None:
    for kernel in loaded.kernels.values():
        arguments = ", ".join(f"{a.name}:{a.size}" for a in kernel.explicit_arguments)
        print(
            f"{kernel.name}({arguments}) vgprs {kernel.vgprs} sgprs {kernel.sgprs} "
            f"lds {kernel.lds_bytes} scratch {kernel.scratch_bytes} max block {kernel.max_block}"
        )


def _print_report(report: Report, profile: bool) -> None:
    print(report)
    mix = list(report.by_mnemonic.items())[:12]
    print("most executed: " + ", ".join(f"{name} {count}" for name, count in mix))
    if not report.findings:
        print("findings: none")
    if profile:
        for pc, count in report.by_pc.items():
            print(f"{count:>10}  {pc:#06x}  {report.text_by_pc[pc]}")


def _print_outputs(values: dict[str, Any], words: Sequence[ArgumentWord]) -> None:
    made = {word.name for word in words if word.is_output}
    for name, value in values.items():
        array = getattr(value, "array", value)
        if name in made and isinstance(array, np.ndarray) and array.size:
            flat = array.reshape(-1)
            head = ", ".join(str(x) for x in flat[:6])
            more = ", ..." if flat.size > 6 else ""
            print(f"{name} {array.dtype} {array.shape}: {head}{more}")


def _save(directory: Path, values: dict[str, Any]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        array = getattr(value, "array", value)
        if isinstance(array, np.ndarray) and array.ndim:
            np.save(directory / f"{name}.npy", array)
            print(f"saved {directory / name}.npy")
