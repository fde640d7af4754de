"""Whole kernels against publications: shares at a clock, and ratios of one author."""

from __future__ import annotations

import pytest

from tessera.perf import kernel_points
from tessera.perf.kernel_points import KERNEL_POINTS, KernelPoint, compare_kernels
from tessera.perf.problems import GemmProblem

SMALL = GemmProblem(256, 256, 256)


def test_every_base_is_a_point():
    names = {point.name for point in KERNEL_POINTS}
    assert all(point.base in names for point in KERNEL_POINTS if point.base is not None)
    assert len(names) == len(KERNEL_POINTS)


def test_ratios_and_shares(monkeypatch):
    speeds = {"slow": 10.0, "fast": 25.0, "clocked": 20.0}
    monkeypatch.setattr(kernel_points, "_model", lambda point: speeds[point.name])
    points = [
        KernelPoint("slow", SMALL, "2x2", 4.0, ""),
        KernelPoint("fast", SMALL, "2x4", 8.0, "", base="slow"),
        KernelPoint("clocked", SMALL, "2x4", 10.24, "", clock_ghz=1.0),
    ]
    fast, clocked = compare_kernels(points)
    assert (fast["measured"], fast["modelled"]) == (2.0, 2.5)
    assert fast["error"] == pytest.approx(0.25)
    # 20.48 TFLOP/s is the peak at 1 GHz.
    assert clocked["measured"] == pytest.approx(0.5)
    assert clocked["modelled"] == pytest.approx(20 / 20.48)


def test_points_of_triton_need_triton(monkeypatch):
    monkeypatch.setattr(kernel_points, "unavailable_reason", lambda: "the package is not installed")
    monkeypatch.setattr(kernel_points, "_model", lambda point: 1.0)
    assert not any("Triton" in row["name"] for row in compare_kernels())


def test_a_larger_tile_is_faster_in_the_model():
    # Large enough that either fills all units.
    problem = GemmProblem(1024, 1024, 256)
    points = [
        KernelPoint("small tile", problem, "1x1", 1.0, ""),
        KernelPoint("larger tile", problem, "2x2", 1.0, "", base="small tile"),
    ]
    assert compare_kernels(points)[0]["modelled"] > 1.0
