"""`tessera ladder`: shapes and schedules to a table of speed, by the model or an attached chip."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tessera.errors import OptionError

TABLE_WIDTH = 170
"""Columns where output goes to a file or a pipe, whose own width means nothing."""

app = typer.Typer(help="Speed of schedules over shapes: correctness first, then time.")

Chip = Annotated[str, typer.Option(help="gfx1151")]
Device = Annotated[str, typer.Option(help="auto: the attached chip, else the model; model; hip")]
Clock = Annotated[float | None, typer.Option(help="GHz that times and shares refer to")]
Json = Annotated[Path | None, typer.Option(help="write the document here")]
Plot = Annotated[Path | None, typer.Option(help="write a picture here (.png, .svg, .pdf)")]
Compare = Annotated[Path | None, typer.Option(help="an older document: show what moved")]
Timeline = Annotated[
    Path | None, typer.Option(help="write the last row's workgroup for Perfetto here")
]
Names = Annotated[
    str,
    typer.Option(help="by comma, or all; default: all for the first size, shipped for the others"),
]
Search = Annotated[bool, typer.Option(help="try other schedules; keep the best for this chip")]
Peers = Annotated[bool, typer.Option(help="also Triton's kernels for the same problems")]
Integers = Annotated[str, typer.Option(help="one or more numbers, by comma")]
Dtypes = Annotated[str, typer.Option(help="f16, bf16, i8 (int8), i4 (int4), by comma")]
Causal = Annotated[str, typer.Option(help="none, top_left, bottom_right, by comma")]
Layouts = Annotated[str, typer.Option(help="of a and b: nn, nt, tn, tt, by comma")]


@app.command("gemm")
def gemm(
    m: Integers = "4096", n: Integers = "", k: Integers = "", dtypes: Dtypes = "f16",
    layouts: Layouts = "nn", schedules: Names = "", chip: Chip = "gfx1151",
    device: Device = "auto", clock: Clock = None, json: Json = None, plot: Plot = None,
    compare: Compare = None, timeline: Timeline = None, search: Search = False,
    peers: Peers = False,
) -> None:  # fmt: skip
    """Matmul; n and k are as m unless given. i4 is packed and has the layout nt alone."""
    from tessera.perf.problems import GemmProblem

    problems = [
        GemmProblem(size, one_n, one_k, dtype, layout)
        for dtype in _dtypes(dtypes)
        for layout in (["nt"] if dtype == "i4" else _texts(layouts))
        for size in _integers(m)
        for one_n in _integers(n) or [size]
        for one_k in _integers(k) or [size]
    ]
    setting = (chip, device, clock)
    _run("gemm", problems, schedules, setting, json, plot, compare, timeline, search, peers)


@app.command("flash_attn")
def flash_attn(
    batch: int = 1, heads: int = 16, seq: Integers = "4096,1024,2048,8192",
    head_dim: Integers = "64,128", causal: Causal = "none,bottom_right", dtypes: Dtypes = "f16",
    schedules: Names = "", chip: Chip = "gfx1151", device: Device = "auto", clock: Clock = None,
    json: Json = None, plot: Plot = None, compare: Compare = None, timeline: Timeline = None,
    search: Search = False, peers: Peers = False,
) -> None:  # fmt: skip
    """Attention forward; FLOPs are 4 batch heads seq^2 head_dim, half of that when causal."""
    problems = _attention((batch, heads), seq, head_dim, causal, dtypes, False)
    setting = (chip, device, clock)
    _run("flash_attn", problems, schedules, setting, json, plot, compare, timeline, search, peers)


@app.command("flash_attn_bwd")
def flash_attn_bwd(
    batch: int = 1, heads: int = 16, seq: Integers = "4096,1024", head_dim: Integers = "64,128",
    causal: Causal = "none", dtypes: Dtypes = "f16", schedules: Names = "",
    chip: Chip = "gfx1151", device: Device = "auto", clock: Clock = None, json: Json = None,
    plot: Plot = None, compare: Compare = None, timeline: Timeline = None,
    search: Search = False, peers: Peers = False,
) -> None:  # fmt: skip
    """Attention's gradients; FLOPs are 10 batch heads seq^2 head_dim, half of that when causal."""
    problems = _attention((batch, heads), seq, head_dim, causal, dtypes, True)
    setting = (chip, device, clock)
    _run(
        "flash_attn_bwd", problems, schedules, setting, json, plot, compare, timeline, search, peers
    )


def _attention(
    counts: tuple[int, int], seq: str, head_dim: str, causal: str, dtypes: str, backward: bool
) -> list[Any]:
    from tessera.perf.problems import AttentionProblem

    return [
        AttentionProblem(*counts, length, size, mode, dtype, backward)
        for dtype in _dtypes(dtypes)
        for mode in _texts(causal)
        for length in _integers(seq)
        for size in _integers(head_dim)
    ]


DTYPE_ALIASES = {"int8": "i8", "int4": "i4"}


def _dtypes(value: str) -> list[str]:
    return [DTYPE_ALIASES.get(name, name) for name in _texts(value)]


def _texts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _integers(value: str) -> list[int]:
    try:
        return [int(part) for part in _texts(value)]
    except ValueError:
        raise OptionError(f"ladder: {value!r} is no list of integers like 1024,2048") from None


def _run(
    name: str, problems: list[Any], schedules: str, where: tuple[str, str, float | None],
    json: Path | None, plot: Path | None, compare: Path | None, timeline: Path | None,
    search: bool, peers: bool,
) -> None:  # fmt: skip
    """One ladder: rows with progress, table, notes, and the files asked for."""
    from rich.console import Console
    from rich.status import Status

    from tessera.perf import documents, ladder, rungs, tables
    from tessera.perf.search import candidates, keep_best

    setting = ladder.Setting.of(*where)
    old = None if compare is None else documents.load(compare)
    if schedules:
        chosen = rungs.choose(name, None if schedules == "all" else _texts(schedules))
        work = [(problem, rung) for problem in problems for rung in chosen]
    else:
        work = ladder.default_work(problems, rungs.choose(name, None))
    if search:
        work += [(problem, rung) for problem in problems for rung in candidates(problem)]
    console = Console()
    if not console.is_terminal:
        console = Console(width=TABLE_WIDTH)
    done: list[dict[str, Any]] = []
    with Status("", console=console) as status:
        document = ladder.run_ladder(
            name,
            work,
            setting,
            lambda text: status.update(f"{len(done) + 1} of {len(work)}: {text}"),
            done.append,
        )
        if peers:
            from tessera.perf.peers.triton_peers import peer_rows

            document["rows"] += peer_rows(problems, setting, status.update)
    console.print(tables.table(document, None if old is None else documents.moved(old, document)))
    for note in tables.notes(document):
        console.print(note, markup=False, highlight=False)
    for note in keep_best(document["rows"], setting) if search else ():
        console.print(note, markup=False, highlight=False)
    if json is not None:
        documents.save(document, json)
    if plot is not None:
        from tessera.perf.plots import plot as draw

        draw(document, plot)
    if timeline is not None:
        from tessera.perf.timelines import write_timeline

        write_timeline(*work[-1], setting, timeline)


@app.command("calibrate")
def calibrate(
    fit: Annotated[bool, typer.Option(help="choose the fitted parameters anew first")] = False,
    kernels: Annotated[bool, typer.Option(help="also compare whole kernels (a minute)")] = False,
    json: Json = None,
) -> None:
    """The timing model against published measurements: error where it was fitted, and elsewhere."""
    from rich.console import Console

    from tessera.perf import calibration, kernel_points, tables

    p = calibration.fit() if fit else calibration.PARAMETERS
    result = calibration.calibrate(p)
    document = result.to_dict()
    console = Console()
    console.print(tables.calibration_table(document))
    for note in tables.calibration_notes(document):
        console.print(note, markup=False, highlight=False)
    if kernels:
        document["kernels"] = kernel_points.compare_kernels()
        console.print(tables.kernel_table(document["kernels"]))
    if json is not None:
        import json as writer

        json.parent.mkdir(parents=True, exist_ok=True)
        json.write_text(writer.dumps(document, indent=1) + "\n", encoding="utf-8")
