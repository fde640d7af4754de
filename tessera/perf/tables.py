"""Ladder documents to a table for the terminal, and notes below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessera.perf.documents import row_key

if TYPE_CHECKING:
    from rich.table import Table


def table(document: dict[str, Any], ratios: dict[tuple[Any, ...], float] | None = None) -> Table:
    """One line per row; `ratios` (from `documents.moved`) adds new speed over old speed."""
    from rich.table import Table

    title = (
        f"{document['ladder']} on {document['chip']}, time by {document['time_source']} "
        f"at {document['clock_ghz']} GHz, peak {document['peak_tflops']:.1f} TFLOP/s"
    )
    result = Table(title=title)
    for name in ("shape", "dtype", "schedule"):
        result.add_column(name, no_wrap=True)
    for name in ("ms", "TFLOP/s", "of peak", "error", "VGPR", "LDS", "waves", "per WMMA", "law"):
        result.add_column(name, justify="right", no_wrap=True)
    result.add_column("bound")
    if ratios is not None:
        result.add_column("moved", justify="right")
    for row in document["rows"]:
        cells = _cells(row)
        if ratios is not None:
            ratio = ratios.get(row_key(row))
            cells.append("" if ratio is None else f"{ratio:.3f}x")
        result.add_row(*cells)
    return result


def _cells(row: dict[str, Any]) -> list[str]:
    shape = " ".join(str(value) for value in row["shape"].values() if value != "none")
    head = [shape, row["dtype"], row["schedule"]["name"]]
    if row["status"] != "ok":
        return [*head, *[""] * 9, f"{row['status']}: {row['why']}"]
    return [
        *head,
        f"{row['seconds'] * 1e3:.3f}",
        f"{row['tflops']:.2f}",
        f"{row['share_of_peak']:.1%}",
        f"{row['error_multiple']:.2f}",
        str(row["registers"]) + ("*" if row["spills"] else ""),
        str(row["lds_bytes"]),
        _number(row, "occupancy", ".1f"),
        _number(row, "instructions_per_wmma", ".1f"),
        _number(row, "issue_law", ".3f"),
        row.get("bound", "").split(" (")[0].split(";")[0],
    ]


def _number(row: dict[str, Any], name: str, form: str) -> str:
    return format(row[name], form) if name in row else ""


def notes(document: dict[str, Any]) -> list[str]:
    """What the columns mean, and published figures with the share of their own clock's peak."""
    lines = [
        "error: multiple of the derived bound, on a small shape on the emulator; waves: per SIMD; "
        "per WMMA: instructions in the main loop; law: 32 WMMA / (34 WMMA + VALU + 3 LDS + 2 VMEM)"
    ]
    if document["time_source"] == "model":
        lines.append("Times are a model's, not measured: docs/timing_model.md has its errors.")
    lines += _peer_notes(document["rows"])
    if any(row.get("spills") for row in document["rows"]):
        lines.append("*: registers spilled to scratch")
    for one in document["published"]:
        share = one["share_of_peak"]
        at = "clock not recorded" if share is None else f"{share:.0%} of peak at its clock"
        sizes = " ".join(str(size) for size in one["sizes"].values())
        lines.append(f"published: {sizes} {one['label']} {one['tflops']} TFLOP/s, {at}")
    return lines


def _peer_notes(rows: list[dict[str, Any]]) -> list[str]:
    """Our shipped schedule's speed over the best tile of Triton's, for each problem with both."""
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    ours: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        name, key = row["schedule"]["name"], row_key(row)[:-1]
        if row["status"] != "ok":
            continue
        if name == "shipped":
            ours[key] = row
        elif name.startswith("triton") and row["seconds"] < best.get(key, row)["seconds"] + 1e-12:
            best[key] = row
    return [
        f"against Triton: {' '.join(str(v) for v in row['shape'].values())} {row['dtype']}: "
        f"{best[key]['seconds'] / row['seconds']:.2f} times as fast as its best, "
        f"{best[key]['schedule']['name']}"
        for key, row in ours.items()
        if key in best
    ]


def calibration_table(document: dict[str, Any]) -> Table:
    """Measured and modelled cycles of each point."""
    from rich.table import Table

    result = Table(title="timing model against measurements, cycles per WMMA")
    result.add_column("point", no_wrap=True)
    result.add_column("part")
    for name in ("measured", "model", "error"):
        result.add_column(name, justify="right")
    for one in document["points"]:
        result.add_row(
            one["name"], one["part"], f"{one['measured']:.2f}", f"{one['modelled']:.2f}",
            f"{one['error']:+.1%}",
        )  # fmt: skip
    return result


def calibration_notes(document: dict[str, Any]) -> list[str]:
    """Errors of both parts, and the fitted parameters."""
    lines = [
        f"{part}: median error {document[part]['median_error']:.1%}, worst "
        f"{document[part]['worst_error']:.1%}, {document[part]['ranking']:.0%} of pairs in order"
        for part in ("fit", "held out")
    ]
    fitted = ", ".join(f"{name} {value:g}" for name, value in document["fitted"].items())
    return [*lines, f"fitted parameters: {fitted}"]


def kernel_table(rows: list[dict[str, Any]]) -> Table:
    """Measured and modelled shares and ratios of whole kernels."""
    from rich.table import Table

    result = Table(title="our kernels of these schedules in the model; none was fitted to")
    for name in ("kernel", "what"):
        result.add_column(name)
    for name in ("measured", "model", "error"):
        result.add_column(name, justify="right")
    for one in rows:
        result.add_row(
            one["name"], one["what"], f"{one['measured']:.3f}", f"{one['modelled']:.3f}",
            f"{one['error']:+.0%}",
        )  # fmt: skip
    return result
