"""`tessera run`: a function and tensor shapes to a launch on random inputs, held to float64."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from tessera.contracts import TensorSpec
from tessera.errors import OptionError
from tessera.tools.commands.source import parse_specs, read_source, traced_by_command


def command(
    file: Annotated[str, typer.Argument(help="FILE.py:function, or a folder of a saved artifact")],
    inputs: Annotated[
        list[str], typer.Option("--input", "-i", help="a tensor argument, as f16[128,64]")
    ],
    target: Annotated[str, typer.Option(help="chip, or rocm for the attached one")] = "rocm",
    executor: Annotated[str, typer.Option(help="auto, hip, emulator or reference")] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="of the normally distributed inputs")] = 0,
) -> None:
    """Compile a function, run it on random tensors and compare with float64."""
    from rich.console import Console
    from rich.table import Table

    from tessera import runtime

    artifact = _artifact(file, target, parse_specs(inputs))
    generator = np.random.default_rng(seed)
    tensors = [_random(spec, generator) for spec in parse_specs(inputs)]
    results = _tuple(runtime.launch(artifact, *tensors, executor=executor))
    record = runtime.last_launch()
    expected = _tuple(runtime.launch(artifact, *tensors, executor="reference"))
    console = Console()
    console.print(
        f"executor {record.executor}, chip {record.chip}, kernels {', '.join(record.kernels)}"
    )
    if record.seconds is not None:
        console.print(f"{record.seconds * 1e3:.3f} ms by {record.time_source}")
    table = Table("result", "shape", "dtype", "largest value", "largest error against float64")
    for index, (result, reference) in enumerate(zip(results, expected, strict=True)):
        table.add_row(str(index), *_compare(result, reference))
    console.print(table)


def _artifact(file: str, target: str, specs: tuple[TensorSpec, ...]) -> Any:
    from pathlib import Path

    from tessera.runtime import load

    if Path(file).is_dir():
        return load(file, None if target == "rocm" else target)
    source = read_source(file, target)
    if source.function is None:
        raise OptionError(f"{file!r}: run takes FILE.py:function or a folder of a saved artifact")
    with traced_by_command(source.function, specs):
        return source.function.lower(*specs)


def _random(spec: TensorSpec, generator: np.random.Generator) -> np.ndarray:
    from tessera.runtime.tensors import NUMPY_DTYPES

    shape = [0 if size is None else size for size in spec.shape]
    return generator.standard_normal(shape).astype(NUMPY_DTYPES[spec.dtype])


def _tuple(results: Any) -> tuple[np.ndarray, ...]:
    return results if isinstance(results, tuple) else (results,)


def _compare(result: np.ndarray, reference: np.ndarray) -> tuple[str, str, str, str]:
    values, wanted = result.astype(np.float64), reference.astype(np.float64)
    same = (values == wanted) | (np.isnan(values) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(values - wanted))
    largest = float(np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted)))
    worst = float(np.max(error, initial=0.0)) if not np.isnan(error).any() else float("nan")
    return str(result.shape), str(result.dtype), f"{largest:.4g}", f"{worst:.3g}"
