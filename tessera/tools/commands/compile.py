"""`tessera compile`: a module, LLVM text or Python function to a code object or a level's text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tessera.compiler import LEVELS
from tessera.errors import OptionError, supported
from tessera.options import CompileOptions
from tessera.tools.commands.source import Source, parse_specs, read_source, traced_by_command

if TYPE_CHECKING:
    from tessera.artifact import Artifact


def command(
    file: Annotated[str, typer.Argument(help="FILE.mlir, FILE.ll or FILE.py:function")],
    target: Annotated[
        str, typer.Option(help="chip, or rocm for the attached one; with --save several, as a,b")
    ] = "rocm",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="file to write; - is standard output")
    ] = None,
    emit: Annotated[str, typer.Option(help=f"level to write: {', '.join(LEVELS)}")] = "hsaco",
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", help="a tensor argument, as f16[128,64]; once per argument"),
    ] = None,
    opt_level: Annotated[int, typer.Option(help="LLVM's -O level")] = 3,
    alignment: Annotated[int | None, typer.Option(help="most bytes of row alignment")] = None,
    save: Annotated[Path | None, typer.Option(help="folder for code object and sidecar")] = None,
) -> None:
    """Compile FILE and write one of its levels."""
    if emit not in LEVELS:
        raise OptionError(f"unknown level {emit!r}; " + supported(LEVELS))
    options = CompileOptions(opt_level=opt_level, alignment=alignment)
    if "," in target:
        from tessera.compiler import attached_target

        if save is None:
            raise OptionError("several targets go with --save, into one folder")
        targets = [attached_target(one.strip()).chip for one in target.split(",")]
        for one in targets:
            command(file, one, output, emit, inputs, opt_level, alignment, save)
        return
    source = read_source(file, target)
    if inputs and source.function is None:
        raise OptionError("--input goes with FILE.py:function; a module states its own types")
    if emit != "hsaco" and save is None:
        _write(_level(source, emit, target, options, inputs or ()).encode(), output)
        return
    artifact = _artifact(source, target, options, inputs or ())
    if save is not None:
        print(f"saved {artifact.save(save)}", file=sys.stderr)
    else:
        _write(artifact.hsaco, output or Path(f"{source.stem}.hsaco"))
    _summarize(artifact)


def _artifact(
    source: Source, target: str, options: CompileOptions, inputs: list[str] | tuple[()]
) -> Artifact:
    from tessera.compiler import attached_target, compile_llvm_text, compile_module

    if source.function is not None:
        specs = parse_specs(inputs)
        with traced_by_command(source.function, specs):
            return source.function.lower(*specs, **options.to_dict())
    if source.llvm is not None:
        return compile_llvm_text(source.llvm, attached_target(target), options)
    assert source.module is not None
    return compile_module(source.module, attached_target(target), options)


def _level(
    source: Source, level: str, target: str, options: CompileOptions, inputs: list[str] | tuple[()]
) -> str:
    from tessera.compiler import attached_target, level_text

    module = source.module
    if source.function is not None:
        specs = parse_specs(inputs)
        with traced_by_command(source.function, specs):
            module = source.function.trace(*specs)
    if module is None:
        return _artifact(source, target, options, inputs).text(level)
    return level_text(module, level, attached_target(target), options)


def _write(content: bytes, output: Path | None) -> None:
    if output is None or str(output) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    output.write_bytes(content)
    print(f"wrote {output} ({len(content)} bytes)", file=sys.stderr)


def _summarize(artifact: Artifact) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("kernel", "block", "VGPRs", "SGPRs", "LDS bytes", "scratch bytes", "spills")
    for kernel in artifact.kernels:
        table.add_row(
            kernel.name,
            "x".join(str(size) for size in kernel.block),
            str(kernel.vgprs),
            str(kernel.sgprs),
            str(kernel.lds_bytes),
            str(kernel.scratch_bytes),
            str(kernel.vgpr_spills + kernel.sgpr_spills),
        )
    Console(stderr=True).print(table)
