"""Ladder documents to pictures: speed over sequence length or size, and a roofline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tessera.errors import OptionError

SHIPPED = "shipped"
GROUPS = {"other schedules": "0.6", "Triton": "C3", SHIPPED: "C0"}
"""Kinds of rows with their colours, in drawing order."""


def _group(row: dict[str, Any]) -> str:
    name = row["schedule"]["name"]
    if name.startswith("triton"):
        return "Triton"
    return SHIPPED if name == SHIPPED else "other schedules"


def plot(document: dict[str, Any], path: Path) -> None:
    """Write one picture with both plots; the format is that of the file's suffix.

    Raises OptionError without matplotlib or without any timed row.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise OptionError("plots need matplotlib: install tessera[bench]") from error
    rows = [row for row in document["rows"] if row["status"] == "ok"]
    if not rows:
        raise OptionError("plot: no row was timed")
    figure = Figure(figsize=(13, 5.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    _speed(left, document, rows)
    _roofline(right, document, rows)
    source, clock = document["time_source"], document["clock_ghz"]
    figure.suptitle(
        f"{document['ladder']} on {document['chip']}: time by {source}, {clock} GHz", fontsize=13
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _size(shape: Mapping[str, Any]) -> int:
    return shape["seq"] if "seq" in shape else round((shape["m"] * shape["n"]) ** 0.5)


def _label(row: dict[str, Any]) -> str:
    shape = row["shape"]
    if "head_dim" in shape:
        causal = "" if shape["causal"] == "none" else ", causal"
        return f"head_dim {shape['head_dim']}{causal}, {row['dtype']}"
    return f"{row['dtype']} {shape['layout']}"


def _speed(axes: Any, document: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        point = (_size(row["shape"]), 100 * row["share_of_peak"])
        if row["schedule"]["name"] == "shipped":
            lines.setdefault(_label(row), []).append(point)
    for label, points in lines.items():
        axes.plot(*zip(*sorted(points)), marker="o", label=label)
    for label, colour in GROUPS.items():
        others = [
            (_size(row["shape"]), 100 * row["share_of_peak"])
            for row in rows
            if _group(row) == label
        ]
        if others and label != SHIPPED:
            axes.scatter(*zip(*others), s=18, c=colour, label=label, zorder=1)
    known = [one for one in document["published"] if one["share_of_peak"] is not None]
    if known:
        places = [(_size(one["sizes"]), 100 * one["share_of_peak"]) for one in known]
        axes.scatter(*zip(*places), marker="x", c="black", label="published, at its clock")
    axes.axhline(100, color="0.3", linewidth=1, linestyle="--")
    axes.annotate(f"peak {document['peak_tflops']:.1f} TFLOP/s", (0.02, 0.955),
                  xycoords="axes fraction", fontsize=9)  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 105)
    axes.set_xlabel("sequence length" if "seq" in rows[0]["shape"] else "size sqrt(m n)")
    axes.set_ylabel("share of peak, %")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _roofline(axes: Any, document: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    peak = document["peak_tflops"]
    bandwidth = 0.239  # TB/s of the LPDDR5X, the figure that the model uses
    intensities = [row["flops"] / row["bytes"] for row in rows]
    low, high = 0.5 * min(intensities), 2 * max(intensities)
    edge = peak / bandwidth
    axes.plot([low, max(edge, low), high], [min(peak, low * bandwidth), peak, peak], c="0.3")
    for label, colour in GROUPS.items():
        places = [(x, row["tflops"]) for x, row in zip(intensities, rows) if _group(row) == label]
        if places:
            axes.scatter(*zip(*places), c=colour, s=24, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte (each tensor once)")
    axes.set_ylabel("TFLOP/s")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
