"""AMD chip names to frozen chip facts: wave size, registers, LDS and matrix-core rows."""

from __future__ import annotations

from dataclasses import dataclass

from tessera.errors import DtypeError, supported
from tessera.targets.matrix_core import RDNA3_MATRIX_CORES, MatrixCore


@dataclass(frozen=True)
class AmdChip:
    """One AMD GPU as the compiler sees it (RDNA 3.5 ISA guide, section 3; LLVM GCNSubtarget)."""

    name: str
    compute_units: int
    vgprs_per_simd: int
    vgpr_granule: int
    matrix_cores: tuple[MatrixCore, ...]
    wave_size: int = 32
    simds_per_compute_unit: int = 2
    max_vgprs_per_wave: int = 256
    max_waves_per_simd: int = 16
    max_threads_per_workgroup: int = 1024
    max_lds_bytes_per_workgroup: int = 65536
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)

    def __post_init__(self) -> None:
        if self.wave_size != 32:
            raise ValueError(f"{self.name}: only wave32 kernels are generated")
        if self.vgprs_per_simd % self.vgpr_granule:
            raise ValueError(f"{self.name}: the register file is no multiple of its granule")

    def waves_per_simd(self, vgprs: int) -> int:
        """Resident waves that a kernel of `vgprs` registers per lane allows on one SIMD."""
        allocated = -(-max(vgprs, 1) // self.vgpr_granule) * self.vgpr_granule
        return min(self.max_waves_per_simd, self.vgprs_per_simd // allocated)

    def matrix_core(self, dtype: str) -> MatrixCore:
        """The matrix instruction for operands of `dtype`; DtypeError lists what there is.

        Unsigned integers are multiplied by the signed ones' instruction, which is told the sign.
        """
        wanted = f"i{dtype[1:]}" if dtype in ("u4", "u8") else dtype
        for row in self.matrix_cores:
            if row.element_dtype == wanted:
                return row
        raise DtypeError(
            f"{self.name} has no matrix instruction for {dtype}; "
            + supported(row.element_dtype for row in self.matrix_cores)
        )


def _rdna3(name: str, compute_units: int, vgprs_per_simd: int, vgpr_granule: int) -> AmdChip:
    return AmdChip(name, compute_units, vgprs_per_simd, vgpr_granule, RDNA3_MATRIX_CORES)


CHIPS: dict[str, AmdChip] = {
    chip.name: chip
    for chip in (
        _rdna3("gfx1100", 96, 1536, 24),
        _rdna3("gfx1101", 60, 1536, 24),
        _rdna3("gfx1102", 32, 1024, 16),
        _rdna3("gfx1103", 12, 1024, 16),
        _rdna3("gfx1150", 16, 1024, 16),
        _rdna3("gfx1151", 40, 1536, 24),
        _rdna3("gfx1152", 8, 1024, 16),
        _rdna3("gfx1153", 4, 1024, 16),
    )
}
"""Every chip that Tessera compiles for; all share the RDNA3 WMMA instructions."""
