"""Published measurements and documents of RDNA 3.5 to the numbers that the timing model uses.

Kinds of sources: "documented" by AMD or by a compiler's source, "measured" on hardware by the
author named, "fitted" by `tessera ladder calibrate` to the points it names, "assumed" where nothing
is published. Cycles are shader clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType


@dataclass(frozen=True)
class Row:
    """One parameter: value, unit, kind of its source, and the source."""

    name: str
    value: float
    unit: str
    kind: str
    source: str


_HALO = "yet-another-halo-engine, docs/hardware.md (gfx1151)"
_TRACES = "instruction traces of gfx1100 published by tinygrad"
_LLVM = "LLVM, SISchedule.td and AMDGPU user guide"
_NONE = "no publication gives it"

ROWS: tuple[Row, ...] = (
    Row("clock_ghz", 2.9, "GHz", "documented", "nominal clock of the Radeon 8060S"),
    Row("compute_units", 40, "", "documented", "IREE, KnownTargets.cpp"),
    Row("simds_per_unit", 2, "", "documented", "RDNA 3.5 ISA guide: two SIMD32 per compute unit"),
    Row("vgprs_per_simd", 1536, "", "documented", _LLVM),
    Row("vgpr_granule", 24, "", "documented", _LLVM),
    Row("most_waves_per_simd", 16, "", "documented", _LLVM),
    Row("lds_bytes_per_unit", 65536, "bytes", "documented", "ISA guide: 128 KiB for two units"),
    Row("lds_granule", 1024, "bytes", "documented", "ISA guide, 3.3.4"),
    Row("wmma_issue", 32, "cycles", "documented", "amd_matrix_instruction_calculator"),
    Row("wmma_same_bank", 2, "cycles", "measured", f"{_HALO}: 34.0 cycles; 32 in other banks"),
    Row("matrix_switch", 1.0, "cycles", "measured", f"{_HALO}: one VALU adds 2, others 1.03"),
    Row("valu_issue", 1.03, "cycles", "measured", f"{_HALO}: 1.03 per instruction beside WMMA"),
    Row("dual_issue_beside_wmma", 1.9, "cycles", "measured", f"{_HALO}: 1.9 per VOPD pair"),
    Row("quarter_rate_issue", 4, "cycles", "measured", f"{_HALO}: v_mul_lo_u32 4.2; {_TRACES}"),
    Row("wide_issue", 2, "cycles", "measured", f"{_TRACES}: 64-bit integers and shifts"),
    Row("double_issue", 32, "cycles", "measured", f"{_TRACES}: f64"),
    Row("trans_unit", 4, "cycles", "measured", f"{_TRACES}: quarter rate, in a unit of its own"),
    Row("valu_latency", 5, "cycles", "measured", f"{_TRACES}; LLVM and Mesa say the same"),
    Row("trans_latency", 10, "cycles", "documented", _LLVM),
    Row("vector_to_memory", 12, "cycles", "measured", f"{_TRACES}: 17 instead of 5"),
    Row("vector_to_scalar", 2, "cycles", "measured", f"{_TRACES}: 7 instead of 5"),
    Row("scalar_latency", 2, "cycles", "measured", _TRACES),
    Row("branch_taken", 16, "cycles", "measured", f"{_TRACES}: 16 to 17"),
    Row("branch_not_taken", 3, "cycles", "measured", _TRACES),
    Row("lds_load_issue", 1.75, "cycles", "fitted", f"{_HALO}: price list, kernels"),
    Row("lds_store_issue", 1.0, "cycles", "fitted", f"{_HALO}: price list"),
    Row("lds_latency", 32, "cycles", "measured", f"{_TRACES}: 32 to 37"),
    Row("lds_phases_per_cycle", 0.5, "per unit", "measured", f"{_HALO}: 128 bytes for two units"),
    Row("lds_queue", 128, "cycles", "assumed", "how far the LDS may fall behind its waves"),
    Row("vmem_issue", 1.5, "cycles", "fitted", f"{_HALO}: price list"),
    Row(
        "vmem_address_cycles",
        4,
        "cycles",
        "assumed",
        "per access of a unit; 4 to 5 fit a 2x4 kernel",
    ),
    Row("vmem_queue", 256, "cycles", "assumed", "how far vector memory may fall behind"),
    Row("l0_bytes", 32768, "bytes", "documented", "rocminfo: 32 KiB per unit, lines of 128 bytes"),
    Row("l0_bytes_per_cycle", 64, "per unit", "assumed", _NONE),
    Row("l0_latency", 110, "cycles", "assumed", _NONE),
    Row("l2_bytes_per_cycle", 1024, "chip", "assumed", "16 channels of 64 bytes"),
    Row("l2_latency", 260, "cycles", "assumed", _NONE),
    Row("mall_bytes", 33554432, "bytes", "measured", "Chips and Cheese: 32 MiB"),
    Row("mall_gigabytes_per_second", 960, "chip", "measured", "Chips and Cheese: under 1 TB/s"),
    Row("mall_nanoseconds", 155, "ns", "measured", "Chips and Cheese: 150 (RX 7900 XTX), higher"),
    Row("dram_gigabytes_per_second", 239, "chip", "measured", "three authors: 238 to 241, reads"),
    Row("dram_nanoseconds", 260, "ns", "assumed", _NONE),
    Row("scalar_load_latency", 60, "cycles", "assumed", "a hit; LLVM 20, Mesa 30 to 200"),
    Row("barrier_release", 15, "cycles", "measured", f"{_TRACES}: 14 to 16"),
    Row("wave_launch", 16, "cycles", "measured", f"{_TRACES}: 9 to 24 between waves"),
    Row("kernel_start", 5000, "cycles", "measured", "empty kernel 1.74 microseconds"),
)
"""Every parameter of the model with its source."""


@dataclass(frozen=True)
class Parameters:
    """The values of `ROWS` by name; units as there."""

    clock_ghz: float
    compute_units: float
    simds_per_unit: float
    vgprs_per_simd: float
    vgpr_granule: float
    most_waves_per_simd: float
    lds_bytes_per_unit: float
    lds_granule: float
    wmma_issue: float
    wmma_same_bank: float
    matrix_switch: float
    valu_issue: float
    dual_issue_beside_wmma: float
    quarter_rate_issue: float
    wide_issue: float
    double_issue: float
    trans_unit: float
    valu_latency: float
    trans_latency: float
    vector_to_memory: float
    vector_to_scalar: float
    scalar_latency: float
    branch_taken: float
    branch_not_taken: float
    lds_load_issue: float
    lds_store_issue: float
    lds_latency: float
    lds_phases_per_cycle: float
    lds_queue: float
    vmem_issue: float
    vmem_address_cycles: float
    vmem_queue: float
    l0_bytes: float
    l0_bytes_per_cycle: float
    l0_latency: float
    l2_bytes_per_cycle: float
    l2_latency: float
    mall_bytes: float
    mall_gigabytes_per_second: float
    mall_nanoseconds: float
    dram_gigabytes_per_second: float
    dram_nanoseconds: float
    scalar_load_latency: float
    barrier_release: float
    wave_launch: float
    kernel_start: float

    def with_values(self, **values: float) -> Parameters:
        """The same with some values replaced; TypeError for a name that is none."""
        return replace(self, **values)

    def waves_per_simd(self, vgprs: int) -> int:
        """Waves that a SIMD's vector registers hold when each has `vgprs`."""
        granule = int(self.vgpr_granule)
        allocated = max(granule, -(-vgprs // granule) * granule)
        return min(int(self.most_waves_per_simd), int(self.vgprs_per_simd) // allocated)

    def peak_flops(self, matrix_bits: int = 16) -> float:
        """Operations per second of all matrix units at the clock; twice as many with 4 bits."""
        per_cycle = 16 * 16 * 16 * 2 / self.wmma_issue * self.simds_per_unit * self.compute_units
        return per_cycle * self.clock_ghz * 1e9 * (2 if matrix_bits == 4 else 1)


PARAMETERS = Parameters(**{row.name: row.value for row in ROWS})
"""gfx1151."""

LAW: Mapping[str, int] = MappingProxyType({"wmma": 34, "valu": 1, "lds": 3, "vmem": 2})
"""Cycles of the issue law; within 2 % of five production kernels on gfx1151 (see `ROWS`)."""
