"""Problem sizes, dtypes and chip facts to tile sizes and wave counts, as frozen table rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tessera.errors import OptionError, ResourceError, supported
from tessera.targets import Target

INSTRUCTION_TILE = 16
MAX_HEAD_DIM = 256
LARGEST_HEAD_DIM_IN_REGISTERS = 128
"""Up to here a wave keeps its queries in registers, beyond it the workgroup has them in LDS."""
LDS_PADDING_BYTES = 16
"""Bytes added to each LDS row so that 128-bit reads of 16 rows touch all banks evenly."""
LDS_PADDING = LDS_PADDING_BYTES // 2
"""The same in 16-bit elements."""


OPERAND_BITS: Mapping[str, int] = MappingProxyType({"f16": 16, "bf16": 16, "i8": 8, "i4": 4})
"""Bits of one number of each kind of matrix instruction."""


@dataclass(frozen=True)
class GemmSchedule:
    """Tiling of one matmul kernel.

    A wave computes `mt` x `nt` instruction tiles, a workgroup `waves_m` x `waves_n` waves; the
    contracted axis goes through LDS in slices of `block_k`. `block_k` 0 reads operands straight
    from global memory into registers, one instruction tile deep. Workgroups walk the result in
    bands of `group_m` tiles' height, so that neighbours share operands in the caches (0: one band).
    `split_k` workgroups share the contracted axis of each tile, and a second kernel sums them up.
    With two `stages` LDS holds two slices, one that is written while the other is read: one barrier
    per slice instead of two, for twice the LDS.
    """

    mt: int
    nt: int
    waves_m: int
    waves_n: int
    block_k: int
    group_m: int = 0
    split_k: int = 1
    stages: int = 1

    def __post_init__(self) -> None:
        if min(self.mt, self.nt, self.waves_m, self.waves_n, self.split_k) < 1:
            raise OptionError(f"{self}: tiles, waves and split_k must be at least 1")
        if self.stages not in (1, 2) or (self.stages > 1 and not self.block_k):
            raise OptionError(f"{self}: stages must be 1, or 2 with a block_k")
        if self.block_k < 0 or self.group_m < 0:
            raise OptionError(f"{self}: block_k and group_m must be at least 0")
        if self.block_k % INSTRUCTION_TILE:
            raise OptionError(f"block_k = {self.block_k} is not a multiple of {INSTRUCTION_TILE}")
        if self.threads > 1024:
            raise OptionError(f"{self}: {self.threads} threads; a workgroup has at most 1024")

    @property
    def threads(self) -> int:
        """Threads of one workgroup."""
        return 32 * self.waves_m * self.waves_n

    @property
    def tile_m(self) -> int:
        """Rows of the result that one workgroup computes."""
        return INSTRUCTION_TILE * self.mt * self.waves_m

    @property
    def tile_n(self) -> int:
        """Columns of the result that one workgroup computes."""
        return INSTRUCTION_TILE * self.nt * self.waves_n

    def tiles(self, m: int, n: int) -> int:
        """Tiles of a result of m rows and n columns."""
        return -(-m // self.tile_m) * -(-n // self.tile_n)

    def lds_bytes(self, element_bits: int = 16) -> int:
        """Local memory of one workgroup."""
        if not self.block_k:
            return 0
        row = self.block_k * element_bits // 8 + LDS_PADDING_BYTES
        return self.stages * (self.tile_m + self.tile_n) * row

    def for_kind(self, pair: bool, grouped: bool) -> GemmSchedule:
        """The same for two products at once, or for groups of rows, neither of which splits k."""
        schedule = self
        if pair:
            # Both products' accumulators together take the room of one.
            schedule = replace(schedule, nt=max(1, self.nt // 2), split_k=1)
        # Workgroups find their tile along the groups, in no other order.
        return replace(schedule, group_m=0, split_k=1) if grouped else schedule

    def for_bits(self, element_bits: int) -> GemmSchedule:
        """The same with as many bytes along k for elements of another size than 16 bits."""
        return replace(self, block_k=self.block_k * 16 // element_bits)


GEMM_SCHEDULES: Mapping[str, GemmSchedule] = MappingProxyType(
    {
        "one_wave": GemmSchedule(mt=1, nt=1, waves_m=1, waves_n=1, block_k=0),
        "one_wave_2x4": GemmSchedule(mt=2, nt=4, waves_m=1, waves_n=1, block_k=0),
        "32x32": GemmSchedule(mt=1, nt=1, waves_m=2, waves_n=2, block_k=32),
        "32x128": GemmSchedule(mt=2, nt=2, waves_m=1, waves_n=4, block_k=32),
        "128x32": GemmSchedule(mt=2, nt=2, waves_m=4, waves_n=1, block_k=32),
        "64x64": GemmSchedule(mt=2, nt=2, waves_m=2, waves_n=2, block_k=32),
        "128x64": GemmSchedule(mt=4, nt=2, waves_m=2, waves_n=2, block_k=32),
        "64x128": GemmSchedule(mt=2, nt=4, waves_m=2, waves_n=2, block_k=32),
        "128x128": GemmSchedule(mt=4, nt=4, waves_m=2, waves_n=2, block_k=32),
        "128x128_two_stages": GemmSchedule(mt=4, nt=4, waves_m=2, waves_n=2, block_k=16, stages=2),
        "256x128": GemmSchedule(mt=4, nt=4, waves_m=4, waves_n=2, block_k=32),
    }
)
"""Every matmul schedule that is offered, by name; `one_wave` is the simplest rung."""


LARGE_TILES = ("256x128", "128x128", "128x64", "64x64")
"""Schedules for many rows and columns, the one with the fewest LDS reads per product first."""
UNALIGNED_TILES = {16: ("128x64", "64x64"), 8: ("64x64",), 4: ("64x64",)}
"""Those whose piecewise fetches leave enough registers, by bits of an element."""
LONGEST_BAND = 8
"""Tiles above each other that neighbouring workgroups share a column of B for."""
MOST_PARTS, SLICES_PER_PART = 16, 8
"""Limits of split K: parts of one tile, and slices below which a part is not worth its sums."""


def gemm_schedule(
    target: Target, dtype: str, m: int | None, n: int | None, k: int | None, alignment: int = 16
) -> GemmSchedule:
    """The schedule for sizes m, n, k (None while unknown): the largest tile that fills the chip.

    `dtype` is that of the numbers that are multiplied, `alignment` in bytes. Where the result has
    too few tiles for the chip, several workgroups share k. Raises DtypeError.
    """
    core = target.matrix_core(dtype)
    bits = OPERAND_BITS[core.element_dtype]
    names = LARGE_TILES if alignment >= 16 else UNALIGNED_TILES[bits]
    if m is None or n is None:
        name = "128x128" if "128x128" in names else names[0]
        return replace(GEMM_SCHEDULES[name].for_bits(bits), group_m=LONGEST_BAND)
    units = target.facts.compute_units
    for name in names if min(m, n) > 32 else ():
        schedule = GEMM_SCHEDULES[name].for_bits(bits)
        # The largest tile has half as many workgroups per compute unit.
        wanted = 2 * units if name == "256x128" else units
        if schedule.tiles(m, n) >= wanted:
            return replace(schedule, group_m=min(LONGEST_BAND, -(-m // schedule.tile_m)))
    schedule = GEMM_SCHEDULES[_small_tile(m, n)].for_bits(bits)
    return replace(schedule, split_k=_parts(schedule.tiles(m, n), units, k, schedule.block_k))


def _small_tile(m: int, n: int) -> str:
    """The schedule for results too small, or too narrow, for the large tiles."""
    if min(m, n) > 32:
        return "64x64"
    if max(m, n) <= 64:
        return "32x32"
    return "32x128" if m <= n else "128x32"


def _parts(tiles: int, units: int, k: int | None, block_k: int) -> int:
    """Workgroups per tile that fill the chip with parts of some length."""
    if not tiles or k is None:
        return 1
    return max(1, min(MOST_PARTS, units // tiles, k // (block_k * SLICES_PER_PART)))


@dataclass(frozen=True)
class AttentionSchedule:
    """Tiling of one attention kernel.

    `waves` waves own `queries_per_wave` queries each; all of them share `keys_per_step` keys and
    values per iteration, staged in LDS.
    """

    waves: int
    queries_per_wave: int
    keys_per_step: int

    def __post_init__(self) -> None:
        for name in ("queries_per_wave", "keys_per_step"):
            value = getattr(self, name)
            if value < INSTRUCTION_TILE or value % INSTRUCTION_TILE:
                raise OptionError(f"{name} = {value} is not a multiple of {INSTRUCTION_TILE}")
        if not 1 <= self.waves <= 32:
            raise OptionError(f"waves = {self.waves}; supported: 1 to 32")

    @property
    def threads(self) -> int:
        """Threads of one workgroup."""
        return 32 * self.waves

    @property
    def queries(self) -> int:
        """Queries that one workgroup computes."""
        return self.waves * self.queries_per_wave

    def lds_bytes(self, head_dim: int, head_dim_v: int) -> int:
        """Local memory of one workgroup: keys, transposed values and, where in LDS, queries."""
        row = padded(head_dim) + LDS_PADDING
        keys = self.keys_per_step * row
        values = padded(head_dim_v) * (self.keys_per_step + LDS_PADDING)
        queries = self.queries * row if head_dim > LARGEST_HEAD_DIM_IN_REGISTERS else 0
        return 2 * (keys + values + queries)


def padded(size: int) -> int:
    """`size` rounded up to whole instruction tiles."""
    return -(-size // INSTRUCTION_TILE) * INSTRUCTION_TILE


@dataclass(frozen=True)
class AttentionChoice:
    """Shipped forward schedules up to one head_dim.

    `wide` is for many queries; `narrow` for many whose rows are not on 16-byte boundaries or whose
    keys and values differ in width, since such fetches take more registers; `small` for so few
    queries that `wide` would leave waves idle.
    """

    largest_head_dim: int
    wide: AttentionSchedule
    narrow: AttentionSchedule
    small: AttentionSchedule


ATTENTION_SCHEDULES: tuple[AttentionChoice, ...] = (
    AttentionChoice(
        64,
        wide=AttentionSchedule(waves=8, queries_per_wave=32, keys_per_step=32),
        narrow=AttentionSchedule(waves=8, queries_per_wave=16, keys_per_step=32),
        small=AttentionSchedule(waves=4, queries_per_wave=16, keys_per_step=32),
    ),
    AttentionChoice(
        80,
        wide=AttentionSchedule(waves=8, queries_per_wave=16, keys_per_step=32),
        narrow=AttentionSchedule(waves=8, queries_per_wave=16, keys_per_step=32),
        small=AttentionSchedule(waves=4, queries_per_wave=16, keys_per_step=32),
    ),
    AttentionChoice(
        96,
        wide=AttentionSchedule(waves=8, queries_per_wave=16, keys_per_step=32),
        narrow=AttentionSchedule(waves=8, queries_per_wave=16, keys_per_step=32),
        small=AttentionSchedule(waves=4, queries_per_wave=16, keys_per_step=16),
    ),
    AttentionChoice(
        128,
        wide=AttentionSchedule(waves=8, queries_per_wave=16, keys_per_step=64),
        narrow=AttentionSchedule(waves=8, queries_per_wave=16, keys_per_step=16),
        small=AttentionSchedule(waves=8, queries_per_wave=16, keys_per_step=16),
    ),
    AttentionChoice(
        256,
        wide=AttentionSchedule(waves=4, queries_per_wave=16, keys_per_step=16),
        narrow=AttentionSchedule(waves=4, queries_per_wave=16, keys_per_step=16),
        small=AttentionSchedule(waves=4, queries_per_wave=16, keys_per_step=16),
    ),
)
"""In ascending order of head_dim; none of those up to 128 spills registers."""


def attention_schedule(
    target: Target,
    dtype: str,
    head_dim: int,
    head_dim_v: int,
    seq_q: int | None = None,
    alignment: int = 16,
) -> AttentionSchedule:
    """The shipped forward schedule; `seq_q` None while unknown, `alignment` in bytes.

    Raises DtypeError and OptionError.
    """
    target.matrix_core(dtype)
    largest = max(head_dim, head_dim_v)
    for choice in ATTENTION_SCHEDULES:
        if largest <= choice.largest_head_dim:
            is_even = alignment >= 16 and padded(head_dim) == padded(head_dim_v)
            schedule = choice.wide if is_even else choice.narrow
            if seq_q is not None and seq_q <= schedule.queries // 2:
                schedule = choice.small
            check_lds(target, schedule.lds_bytes(head_dim, head_dim_v))
            return schedule
    raise OptionError(
        f"head_dim = {head_dim}, head_dim_v = {head_dim_v}: " + supported([f"1 to {MAX_HEAD_DIM}"])
    )


def key_parts(head_dim: int) -> int:
    """Over how many waves the rows of K and V, and their gradients, are split."""
    return 1 if head_dim <= 64 else 2 if head_dim <= 128 else 4


def query_parts(head_dim: int) -> int:
    """Over how many waves the rows of Q and dO, and the gradient of Q, are split."""
    return 1 if head_dim <= 128 else 2


@dataclass(frozen=True)
class BackwardSchedule:
    """Tiling of the backward kernels.

    Waves own 16 rows (keys for dK and dV, queries for dQ), alone or, where rows are long, together
    with their neighbours, and walk over the other axis `rows_per_step` rows at a time. With
    `prefetch` the next rows are in flight, in registers, while these are computed on; the dQ kernel
    does so up to head_dim 96, beyond which its own rows leave no registers for it.
    """

    waves: int
    rows_per_step: int
    prefetch: bool = True

    def __post_init__(self) -> None:
        if self.rows_per_step < INSTRUCTION_TILE or self.rows_per_step % INSTRUCTION_TILE:
            raise OptionError(
                f"rows_per_step = {self.rows_per_step} is not a multiple of {INSTRUCTION_TILE}"
            )
        if not 1 <= self.waves <= 16:
            raise OptionError(f"waves = {self.waves}; supported: 1 to 16")

    def prefetches_keys(self, head_dim: int) -> bool:
        """Whether the dQ kernel fetches a tile of keys ahead."""
        return self.prefetch and head_dim <= 96

    def check_parts(self, head_dim: int) -> None:
        """Raise OptionError unless the waves can be dealt out to the parts of a row."""
        parts = max(key_parts(head_dim), query_parts(head_dim))
        if self.waves % parts:
            raise OptionError(
                f"waves = {self.waves}: head_dim {head_dim} needs a multiple of {parts} waves"
            )

    def lds_bytes(self, head_dim: int, head_dim_v: int) -> int:
        """Local memory of the dK and dV kernel, the larger one."""
        parts = key_parts(max(head_dim, head_dim_v))
        elements = 0
        for size in (head_dim, head_dim_v):
            columns = -(-padded(size) // (INSTRUCTION_TILE * parts)) * INSTRUCTION_TILE * parts
            elements += self.rows_per_step * (columns + LDS_PADDING)
            elements += columns * (self.rows_per_step + LDS_PADDING)
        exchanged = 0
        if parts > 1:
            accumulators = 2 * self.rows_per_step // INSTRUCTION_TILE
            exchanged = 4 * self.waves * accumulators * INSTRUCTION_TILE**2
        return 2 * elements + 2 * 4 * self.rows_per_step + exchanged


BACKWARD_SCHEDULES: tuple[tuple[int, BackwardSchedule], ...] = (
    (64, BackwardSchedule(waves=8, rows_per_step=32)),
    (128, BackwardSchedule(waves=8, rows_per_step=16)),
    (256, BackwardSchedule(waves=8, rows_per_step=16, prefetch=False)),
)
"""(largest head_dim, schedule) in ascending order."""


def backward_schedule(
    target: Target, dtype: str, head_dim: int, head_dim_v: int, alignment: int = 16
) -> BackwardSchedule:
    """The shipped backward schedule; raises DtypeError and OptionError.

    Rows on other boundaries than 16 bytes are not prefetched: their loads take more registers.
    """
    target.matrix_core(dtype)
    for largest, schedule in BACKWARD_SCHEDULES:
        if max(head_dim, head_dim_v) <= largest:
            check_lds(target, schedule.lds_bytes(head_dim, head_dim_v))
            return schedule if alignment >= 16 else replace(schedule, prefetch=False)
    raise OptionError(
        f"head_dim = {head_dim}, head_dim_v = {head_dim_v}: " + supported([f"1 to {MAX_HEAD_DIM}"])
    )


def check_lds(target: Target, lds_bytes: int) -> None:
    """Raise ResourceError when a workgroup cannot have that much local memory."""
    limit = target.facts.max_lds_bytes_per_workgroup
    if lds_bytes > limit:
        raise ResourceError(f"{lds_bytes} bytes of LDS; {target.chip} has {limit} per workgroup")
