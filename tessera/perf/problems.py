"""Sizes of one operation to inputs, a jitted function, FLOPs, bytes and a check against float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tessera.errors import OptionError, supported

MATRIX_DTYPES = ("f16", "bf16", "i8", "i4")
ATTENTION_DTYPES = ("f16", "bf16")
LAYOUTS = ("nn", "nt", "tn", "tt")
CAUSAL = ("none", "top_left", "bottom_right")
Schedule = Mapping[str, int]
LARGEST_EXACT_SEQ = 512
"""Up to here the gradients' inputs o and lse are exact, beyond it placeholders."""


@dataclass(frozen=True)
class GemmProblem:
    """c [m, n] = a b; `layout` says for a and for b whether it is transposed in memory ("t")."""

    m: int
    n: int
    k: int
    dtype: str = "f16"
    layout: str = "nn"
    kind = "gemm"

    def __post_init__(self) -> None:
        _member("dtype", self.dtype, MATRIX_DTYPES)
        _member("layout", self.layout, ("nt",) if self.dtype == "i4" else LAYOUTS)
        _positive(m=self.m, n=self.n, k=self.k)

    @property
    def flops(self) -> float:
        """Operations: a product and a sum for each term."""
        return 2.0 * self.m * self.n * self.k

    @property
    def bytes(self) -> float:
        """Bytes of operands and result, each counted once."""
        per_element = {"i8": 1.0, "i4": 0.5}.get(self.dtype, 2.0)
        return per_element * self.k * (self.m + self.n) + 4.0 * self.m * self.n

    @property
    def matrix_bits(self) -> int:
        """Bits of the numbers that the matrix cores multiply."""
        return {"i8": 8, "i4": 4}.get(self.dtype, 16)

    def shape(self) -> dict[str, Any]:
        """The sizes, JSON-ready."""
        return {"m": self.m, "n": self.n, "k": self.k, "layout": self.layout}

    def small(self) -> GemmProblem:
        """A problem of the same kind that the emulator runs whole in a moment."""
        return replace(self, m=min(self.m, 288), n=min(self.n, 272), k=min(self.k, 160))

    def inputs(self, seed: int = 0) -> list[np.ndarray]:
        """a and b as they lie in memory: standard normal, or all integers of the type."""
        rows = (self.k, self.m) if self.layout[0] == "t" else (self.m, self.k)
        columns = (self.n, self.k) if self.layout[1] == "t" else (self.k, self.n)
        if self.dtype == "i4":
            rows, columns = (self.m, self.k // 2), (self.n, self.k // 2)
        return [_random(shape, self.dtype, seed + i) for i, shape in enumerate((rows, columns))]

    def function(self, chip: str, schedule: Schedule | None) -> Any:
        """A jitted function of `inputs`; `schedule` fixes tile sizes (None: what is shipped)."""
        import tessera
        from tessera import ops

        options: dict[str, Any] = {
            "transpose_a": self.layout[0] == "t",
            "transpose_b": self.layout[1] == "t",
            "schedule": None if schedule is None else dict(schedule),
        }
        if self.dtype == "i4":
            options["packed"] = "i4"

        @tessera.jit(target=chip)
        def matmul(a, b):
            return ops.matmul(a, b, **options)

        return matmul

    def check(self, results: Any, inputs: list[np.ndarray]) -> float:
        """The largest error as a multiple of its bound; raises AssertionError beyond 1."""
        from tessera import reference, testing

        a, b = inputs
        transposes: dict[str, Any] = {
            "transpose_a": self.layout[0] == "t",
            "transpose_b": self.layout[1] == "t",
        }
        if self.matrix_bits == 16:
            expected = reference.matmul(a, b, **transposes)
            bound: Any = testing.matmul_bound(a, b, np.float32, **transposes)
        else:
            formats = ("packed_a", "packed_b") if self.dtype == "i4" else ()
            packed: dict[str, Any] = dict.fromkeys(formats, "i4")
            expected = reference.fused_matmul(a, b, **transposes, **packed)
            bound = np.zeros(expected.shape)
        return testing.check(results, expected, bound, "c")


@dataclass(frozen=True)
class AttentionProblem:
    """Attention of `heads` heads, seq_q = seq_k = `seq`; forward, or the three gradients."""

    batch: int
    heads: int
    seq: int
    head_dim: int
    causal: str = "none"
    dtype: str = "f16"
    backward: bool = False

    def __post_init__(self) -> None:
        _member("dtype", self.dtype, ATTENTION_DTYPES)
        _member("causal", self.causal, CAUSAL)
        _positive(batch=self.batch, heads=self.heads, seq=self.seq, head_dim=self.head_dim)

    @property
    def kind(self) -> str:
        """The name of the ladder."""
        return "flash_attn_bwd" if self.backward else "flash_attn"

    @property
    def flops(self) -> float:
        """4 (backward: 10) operations per query, key and channel; half of that when causal."""
        total = float(self.batch * self.heads * self.seq * self.seq * self.head_dim)
        return total * (10 if self.backward else 4) / (1 if self.causal == "none" else 2)

    @property
    def bytes(self) -> float:
        """Bytes of all operands and results, each counted once."""
        rows = float(self.batch * self.heads * self.seq)
        tensors = 8 if self.backward else 4
        return rows * (2 * tensors * self.head_dim + 4)

    @property
    def matrix_bits(self) -> int:
        """Bits of the numbers that the matrix cores multiply."""
        return 16

    def shape(self) -> dict[str, Any]:
        """The sizes, JSON-ready."""
        return {
            "batch": self.batch, "heads": self.heads, "seq": self.seq,
            "head_dim": self.head_dim, "causal": self.causal,
        }  # fmt: skip

    def small(self) -> AttentionProblem:
        """A problem of the same kind that the emulator runs whole in a few seconds."""
        return replace(self, batch=1, heads=1, seq=min(self.seq, 160 if self.backward else 272))

    def inputs(self, seed: int = 0) -> list[np.ndarray]:
        """q, k, v, standard normal; for the gradients also o, lse and do.

        o and lse are exact on small sizes, and placeholders of the right magnitude on large ones,
        where only the time of a kernel is of interest.
        """
        shape = (self.batch, self.heads, self.seq, self.head_dim)
        q, k, v = [_random(shape, self.dtype, seed + i) for i in range(3)]
        if not self.backward:
            return [q, k, v]
        do = _random(shape, self.dtype, seed + 3)
        if self.seq <= LARGEST_EXACT_SEQ:
            from tessera import reference

            o, lse = reference.flash_attn(q, k, v, self._causal)
            return [q, k, v, o.astype(q.dtype), lse.astype(np.float32), do]
        lse = np.full(shape[:3], np.log(self.seq) + 0.5, np.float32)
        return [q, k, v, _random(shape, self.dtype, seed + 4), lse, do]

    @property
    def _causal(self) -> bool | str:
        return False if self.causal == "none" else self.causal

    def function(self, chip: str, schedule: Schedule | None) -> Any:
        """A jitted function of `inputs`; `schedule` fixes tile sizes (None: what is shipped)."""
        import tessera
        from tessera import ops

        options: dict[str, Any] = {
            "causal": self._causal,
            "schedule": None if schedule is None else dict(schedule),
        }
        if self.backward:

            @tessera.jit(target=chip)
            def gradients(q, k, v, o, lse, do):
                return ops.flash_attn_bwd(q, k, v, o, lse, do, **options)

            return gradients

        @tessera.jit(target=chip)
        def attention(q, k, v):
            return ops.flash_attn(q, k, v, return_lse=True, **options)

        return attention

    def check(self, results: Any, inputs: list[np.ndarray]) -> float:
        """The largest error as a multiple of its bound; raises AssertionError beyond 1."""
        from tessera import reference, testing

        if self.backward:
            q, k, v, o, lse, do = inputs
            expected = reference.flash_attn_bwd(q, k, v, o, lse, do, self._causal)
            bounds = testing.attention_gradient_bound(q, k, v, do, self._causal)
            names = ("dq", "dk", "dv")
        else:
            q, k, v = inputs
            expected = reference.flash_attn(q, k, v, self._causal)
            bounds = testing.attention_bound(q, k, v, self._causal)
            names = ("o", "lse")
        return max(map(testing.check, results, expected, bounds, names))


Problem = GemmProblem | AttentionProblem


def _random(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if dtype == "i8":
        return generator.integers(-128, 128, shape, np.int8)
    if dtype == "i4":
        return generator.integers(0, 256, shape, np.uint8)
    from tessera.testing import random_tensor

    if dtype == "bf16":
        import ml_dtypes

        return random_tensor(shape, ml_dtypes.bfloat16, seed)
    return random_tensor(shape, np.float16, seed)


def _member(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise OptionError(f"ladder: {name} = {value!r}; {supported(allowed)}")


def _positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise OptionError(f"ladder: {name} = {size}; it must be at least 1")
