"""Named schedules of each operation, from the simplest to the shipped one, with their reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tessera.errors import OptionError, supported

SHIPPED = "shipped"
SIZES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gemm": ("mt", "nt", "waves_m", "waves_n", "block_k"),
        "flash_attn": ("waves", "queries_per_wave", "keys_per_step"),
        "flash_attn_bwd": ("waves", "rows_per_step"),
    }
)
"""Names of the tile sizes that rungs fix, in the order in which they are written below."""


@dataclass(frozen=True)
class Rung:
    """One schedule: its name, why it is a step up, and the fixed tile sizes (None: as shipped)."""

    name: str
    reason: str
    schedule: Mapping[str, int] | None = None


def _rung(ladder: str, name: str, reason: str, *sizes: int) -> Rung:
    return Rung(name, reason, MappingProxyType(dict(zip(SIZES[ladder], sizes))))


_AS_SHIPPED = Rung(SHIPPED, "what a call without a schedule gets")

RUNGS: Mapping[str, tuple[Rung, ...]] = MappingProxyType(
    {
        "gemm": (
            _rung("gemm", "1x1", "one wave, one tile, operands from memory", 1, 1, 1, 1, 0),
            _rung("gemm", "2x2", "each fragment is used twice", 2, 2, 1, 1, 0),
            _rung("gemm", "2x4", "fragments are used two and four times", 2, 4, 1, 1, 0),
            _rung("gemm", "64x64", "four waves share slices in LDS", 2, 2, 2, 2, 32),
            _rung("gemm", "128x64", "more rows for each slice of b", 4, 2, 2, 2, 32),
            _rung("gemm", "128x128", "each fragment read serves four products", 4, 4, 2, 2, 32),
            _rung("gemm", "256x128", "eight waves share each staged slice", 4, 4, 4, 2, 32),
            _AS_SHIPPED,
        ),
        "flash_attn": (
            _rung("flash_attn", "one_wave", "a wave of 16 queries stages for itself", 1, 16, 16),
            _rung("flash_attn", "four_waves", "four waves share each staged tile", 4, 16, 16),
            _rung("flash_attn", "32_keys", "fewer reductions and barriers per key", 4, 16, 32),
            _rung("flash_attn", "eight_waves", "half the staging for each query", 8, 16, 32),
            _rung("flash_attn", "32_queries", "a fragment read serves 32 queries", 8, 32, 32),
            _rung("flash_attn", "64_keys", "rescaling once for 64 keys", 8, 16, 64),
            _AS_SHIPPED,
        ),
        "flash_attn_bwd": (
            _rung("flash_attn_bwd", "one_wave", "a wave of 16 rows stages for itself", 1, 16),
            _rung("flash_attn_bwd", "four_waves", "four waves share each staged tile", 4, 16),
            _rung("flash_attn_bwd", "32_rows", "fewer barriers for each row", 4, 32),
            _rung("flash_attn_bwd", "eight_waves", "half the staging for each row", 8, 32),
            _AS_SHIPPED,
        ),
    }
)
"""The steps of each ladder, ascending; some sizes of a problem refuse some of them."""


def choose(ladder: str, names: Sequence[str] | None) -> tuple[Rung, ...]:
    """The rungs called `names`, or all; OptionError lists what there is."""
    rungs = {rung.name: rung for rung in RUNGS[ladder]}
    for name in names or ():
        if name not in rungs:
            raise OptionError(f"ladder {ladder}: no schedule {name!r}; {supported(rungs)}")
    return tuple(rungs.values()) if names is None else tuple(rungs[name] for name in names)


def schedule_of(artifact: Any, ladder: str) -> dict[str, int]:
    """The tile sizes that an artifact was compiled with, read from its directive.

    Raises OptionError when the function holds no such operation.
    """
    from tessera.ops.attention import ATTENTION_SCHEDULE, BACKWARD_SCHEDULE
    from tessera.ops.matmul import GEMM_SCHEDULE

    names = {
        "gemm": GEMM_SCHEDULE,
        "flash_attn": ATTENTION_SCHEDULE,
        "flash_attn_bwd": BACKWARD_SCHEDULE,
    }[ladder]
    directive = {"gemm": "wmma_gemm"}.get(ladder, ladder)
    for line in artifact.text("target").splitlines():
        if f"tessera_rocm.{directive}(" in line:
            found = dict(re.findall(r"(\w+) = (\d+) : i64", line))
            return {name: int(found[name]) for name in names if name in found}
    raise OptionError(f"ladder {ladder}: the compiled function has no {directive}")
