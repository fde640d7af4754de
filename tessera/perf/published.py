"""Published figures of gfx1151 that plots and tables show beside ours, with who measured them.

`clock_ghz` is what the author recorded, None where nothing was; shares of peak can be formed only
with a clock.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """One measured point: which ladder, its sizes, TFLOP/s, clock, and the source."""

    ladder: str
    label: str
    sizes: dict[str, int]
    tflops: float
    clock_ghz: float | None
    source: str

    @property
    def share_of_peak(self) -> float | None:
        """Of the peak at the recorded clock; None without one."""
        if self.clock_ghz is None:
            return None
        return self.tflops / (0.02048 * self.clock_ghz * 1000)


_KROQUETA = "kroqueta, docs/attention.md (Windows, ROCm 10)"
_GLOVEPOST = "glovepost/wmma_ops (ROCm 7.14)"
_AITER = "ROCm/aiter issue 3778 and pull request 4242"


def _attention(seq: int, head_dim: int, tflops: float) -> Published:
    sizes = {"batch": 1, "heads": 16, "seq": seq, "head_dim": head_dim}
    return Published("flash_attn", "AOTriton", sizes, tflops, 2.129, _KROQUETA)


def _cube(label: str, tflops: float, clock: float | None, source: str) -> Published:
    return Published("gemm", label, {"m": 4096, "n": 4096, "k": 4096}, tflops, clock, source)


def _backward(label: str, tflops: float) -> Published:
    sizes = {"batch": 1, "heads": 16, "seq": 4096, "head_dim": 64}
    return Published("flash_attn_bwd", label, sizes, tflops, None, _AITER)


PUBLISHED: tuple[Published, ...] = (
    _attention(1024, 64, 19.2),
    _attention(2048, 64, 21.1),
    _attention(4096, 64, 22.8),
    _attention(8192, 64, 24.0),
    _attention(8194, 128, 24.3),
    _cube("rocBLAS nn", 30.8, 1.914, "kroqueta (Windows, ROCm 7.2.1)"),
    _cube("rocBLAS nt", 21.4, 1.914, "kroqueta (Windows, ROCm 7.2.1)"),
    _cube("hipBLASLt", 24.2, 1.914, "kroqueta (Windows, ROCm 7.2.1)"),
    _cube("wmma_ops, packed operands", 50.07, None, _GLOVEPOST),
    _cube("wmma_ops, ordinary layouts", 41.32, None, _GLOVEPOST),
    _backward("Triton 32x32", 9.67),
    _backward("Triton 16x64", 19.81),
)
"""Points of the ladders; what is left out is listed in docs/timing_model.md."""
