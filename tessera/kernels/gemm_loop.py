"""A workgroup's operands to its sums over k: slices through LDS, or straight from memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tessera.dialects import wave
from tessera.dialects.wave_staged import (
    CommitDequantizedOp,
    LdsPartOp,
    MaskStagedOp,
    StagePerPieceOp,
)
from tessera.dialects.wave_types import StagedType
from tessera.kernels.gemm_problem import GemmProblem
from tessera.kernels.program import KernelProgram


@dataclass(frozen=True)
class Side:
    """One operand as a workgroup sees it.

    `outer` is its index that is not contracted; `outer_limit` counts the valid ones from the
    tile's first on, `wave_first` is the first one of this wave. `contiguous_inner` says whether the
    contracted index runs along memory rows; otherwise tiles are transposed on their way into LDS.
    """

    role: str
    pointer: SSAValue
    stride: SSAValue
    outer_limit: SSAValue
    outer_size: int
    contiguous_inner: bool
    lds: SSAValue | None
    wave_first: SSAValue


@dataclass(frozen=True)
class Scales:
    """One number per row of B and group of k: where those of the tile begin, and rows' distance."""

    pointer: SSAValue
    stride: SSAValue


def zeros(p: KernelProgram, problem: GemmProblem) -> list[SSAValue]:
    """The accumulators of a wave before the first product; they run along columns first."""
    return [p.zero(problem.accumulator)] * problem.sums


def multiply_through_lds(
    p: KernelProgram,
    problem: GemmProblem,
    sides: Sequence[Side],
    slices: tuple[SSAValue, SSAValue],
    scales: Sequence[Scales] = (),
) -> list[SSAValue]:
    """The wave's sums over the slices from slices[0] up to, not including, slices[1].

    `sides` are A, B and, of a pair, the other B. `scales` dequantize B: its scales, and its zero
    points if it has them.
    """
    loop = _QuantizedLoop if scales else _StagedLoop
    return loop(p, problem, sides, slices, scales).run()


class _StagedLoop:
    """K slices through LDS, the next one fetched while this one is multiplied.

    The last slice is fetched so that it ends where k ends, overlapping the one before; what that
    one had already is zeroed on the way into LDS. So nothing is checked while fetching, and the
    accumulators never meet a second set of themselves, which would make LLVM spill them. Only a k
    below one slice is fetched with checks, before the loop.
    """

    def __init__(
        self,
        p: KernelProgram,
        problem: GemmProblem,
        sides: Sequence[Side],
        slices: tuple[SSAValue, SSAValue],
        scales: Sequence[Scales],
    ) -> None:
        self.p = p
        self.problem = problem
        self.sides = sides
        self.scales = scales
        self.begin, self.end = slices
        self.whole = problem.slice
        self.last = p.sub(p.ceildiv(p["k"], self.whole), 1)
        self.last_start = p.max(p.sub(p["k"], self.whole), 0)
        self.types = self._types()

    def _types(self) -> list[StagedType]:
        """The types of what is in flight from one slice to the next."""
        return [self.problem.staged(side.outer_size, side.contiguous_inner) for side in self.sides]

    def run(self) -> list[SSAValue]:
        p = self.p
        first = p.when(
            p.compare("slt", self.begin, self.end), self._fetch_first, self._nothing, self.types
        )
        initial = zeros(p, self.problem)
        step = self._step
        if self.problem.schedule.stages > 1:
            first, step = self._fill_first(first), self._overlapped_step
        results = p.loop(self.begin, self.end, [*initial, *first], step)
        return results[: len(initial)]

    def _nothing(self) -> list[SSAValue]:
        return [self.p.insert(wave.UndefinedOp(type_)) for type_ in self.types]

    def _fetch_first(self) -> list[SSAValue]:
        """The first slice; with checks where k is shorter than one."""
        p = self.p
        return p.when(
            p.compare("sge", p["k"], self.whole),
            lambda: self._fetch(self.begin),
            lambda: [self._stage(side, p.constant(0), p["k"]) for side in self.sides],
            self.types,
        )

    def _fetch(self, index: SSAValue) -> list[SSAValue]:
        p = self.p
        start = p.min(p.mul(index, self.whole), self.last_start)
        return [self._stage(side, start, None) for side in self.sides]

    def _step(self, index: SSAValue, *carried: SSAValue) -> Sequence[SSAValue]:
        p = self.p
        sums, staged = carried[: -len(self.types)], carried[-len(self.types) :]
        p.barrier()
        self._fill(index, staged)
        p.barrier()
        ahead = self._fetch_if(p.add(index, 1))
        return [*self._multiply_slice(index, sums), *ahead]

    def _fetch_if(self, index: SSAValue) -> list[SSAValue]:
        """Slice `index`, if there is one."""
        p = self.p
        is_left = p.compare("slt", index, self.end)
        return p.when(is_left, lambda: self._fetch(index), self._nothing, self.types)

    # Two slices in LDS: the next one is written while this one is read.

    def _fill_first(self, first: Sequence[SSAValue]) -> list[SSAValue]:
        """Put the first slice into LDS and fetch the second."""
        p = self.p
        p.when(p.compare("slt", self.begin, self.end), lambda: self._fill(self.begin, first))
        p.barrier()
        return self._fetch_if(p.add(self.begin, 1))

    def _overlapped_step(self, index: SSAValue, *carried: SSAValue) -> Sequence[SSAValue]:
        p = self.p
        sums, staged = carried[: -len(self.types)], carried[-len(self.types) :]
        following = p.add(index, 1)
        p.when(p.compare("slt", following, self.end), lambda: self._fill(following, staged))
        ahead = self._fetch_if(p.add(index, 2))
        sums = self._multiply_slice(index, sums)
        p.barrier()
        return [*sums, *ahead]

    def _tiles(self, index: SSAValue) -> list[SSAValue]:
        """Where slice `index` lies in LDS, for both operands."""
        p = self.p
        tiles = []
        for side in self.sides:
            assert side.lds is not None
            tile = side.lds
            if self.problem.schedule.stages > 1:
                place = p.rem(p.sub(index, self.begin), 2)
                tile = p.insert(LdsPartOp(tile, p.mul(place, side.outer_size), side.outer_size))
            tiles.append(tile)
        return tiles

    def _stage(self, side: Side, start: SSAValue, rest: SSAValue | None) -> SSAValue:
        """Fetch the K slice from `start` on; `rest` counts its valid elements (None: all)."""
        p, problem = self.p, self.problem
        staged = problem.staged(side.outer_size, side.contiguous_inner)
        threads = problem.schedule.threads
        alignment = max(problem.alignment, problem.memory_bits // 8)
        if side.contiguous_inner:
            pointer = p.offset(side.pointer, start)
            return p.insert(
                wave.StageOp(
                    pointer, side.stride, staged, threads, alignment,
                    row_limit=side.outer_limit, column_limit=rest,
                )
            )  # fmt: skip
        pointer = p.offset(side.pointer, p.mul(p.wide(start), p.wide(side.stride)))
        return p.insert(
            wave.StageOp(
                pointer, side.stride, staged, threads, alignment,
                row_limit=rest, column_limit=side.outer_limit,
                zero_rows=rest is not None, any_columns=True,
            )
        )  # fmt: skip

    def _fill(self, index: SSAValue, staged: Sequence[SSAValue]) -> list[SSAValue]:
        """Put both operands' slice `index` into LDS, where no wave reads any more."""
        p = self.p
        tiles = self._tiles(index)
        overlap = p.sub(p.mul(index, self.whole), self.last_start)
        is_cut = p.both(p.compare("eq", index, self.last), self._needs_mask(overlap))
        p.when(
            is_cut,
            lambda: self._write(
                [self._masked(*pair, overlap) for pair in zip(self.sides, staged)], tiles
            ),
            lambda: self._write(staged, tiles),
        )
        return []

    def _needs_mask(self, overlap: SSAValue) -> SSAValue:
        return self.p.compare("sge" if self.problem.has_odd_end else "sgt", overlap, 0)

    def _masked(self, side: Side, tile: SSAValue, overlap: SSAValue) -> SSAValue:
        p, problem = self.p, self.problem
        pieces = 128 // problem.memory_bits
        last = None
        if problem.has_odd_end and side.role == "a":
            # The byte in which k ends: the slice's last one, unless k is shorter than a slice.
            last = p.min(p.constant(self.whole - 1), p.sub(p["k"], 1))
        whole_chunks = problem.alignment * 8 // problem.memory_bits >= pieces
        axis = "column" if side.contiguous_inner else "row"
        return p.insert(MaskStagedOp(tile, overlap, axis, last, whole_chunks))

    def _write(self, staged: Sequence[SSAValue], tiles: Sequence[SSAValue]) -> list[SSAValue]:
        for pieces, tile, side in zip(staged, tiles, self.sides, strict=True):
            threads, is_transposed = self.problem.schedule.threads, not side.contiguous_inner
            self.p.effect(wave.CommitOp(pieces, tile, threads, transposed=is_transposed))
        return []

    def _multiply_slice(self, index: SSAValue, accumulators: Sequence[SSAValue]) -> list[SSAValue]:
        sums, schedule = list(accumulators), self.problem.schedule
        tiles = self._tiles(index)
        for inner in range(0, self.whole, self.problem.depth):
            start = self.p.constant(inner)
            counts = (schedule.mt, schedule.nt, schedule.nt)
            a, *products = (
                [self._fragment(side, tile, i, start) for i in range(count)]
                for side, tile, count in zip(self.sides, tiles, counts)
            )
            sums = outer_products(self.p, a, products, sums)
        return sums

    def _fragment(self, side: Side, tile: SSAValue, index: int, inner: SSAValue) -> SSAValue:
        p = self.p
        outer = p.add(side.wave_first, 16 * index)
        fragment = self.problem.fragment(side.role)
        return p.insert(wave.LoadFragmentOp(tile, outer, inner, fragment))


class _QuantizedLoop(_StagedLoop):
    """The same with a B of small integers, which are dequantized on their way into LDS.

    k is a multiple of a slice, so that no slice is cut off, and all of a slice shares a scale.
    """

    def _types(self) -> list[StagedType]:
        a, b = self.sides
        scales = self.problem.staged_weights(b.outer_size, "per_piece")
        return [
            self.problem.staged(a.outer_size, a.contiguous_inner),
            self.problem.staged_weights(b.outer_size, "rows"),
            *(scales for _ in self.scales),
        ]

    def _fetch_first(self) -> list[SSAValue]:
        return self._fetch(self.begin)

    def _fetch(self, index: SSAValue) -> list[SSAValue]:
        p, problem = self.p, self.problem
        a, b = self.sides
        start = p.mul(index, self.whole)
        weights = wave.StageOp(
            p.offset(b.pointer, p.div(start, problem.weights_per_byte)),
            b.stride,
            problem.staged_weights(b.outer_size, "rows"),
            problem.schedule.threads,
            problem.alignment,
            row_limit=b.outer_limit,
        )
        group = p.div(start, problem.group_size)
        return [
            self._stage(a, start, None),
            p.insert(weights),
            *(
                p.insert(
                    StagePerPieceOp(
                        p.offset(one.pointer, group),
                        one.stride,
                        b.outer_limit,
                        problem.staged_weights(b.outer_size, "per_piece"),
                    )
                )
                for one in self.scales
            ),
        ]

    def _fill(self, index: SSAValue, staged: Sequence[SSAValue]) -> list[SSAValue]:
        p, problem = self.p, self.problem
        a, b = self._tiles(index)
        zero_points = staged[3] if problem.zero else None
        p.effect(wave.CommitOp(staged[0], a, problem.schedule.threads))
        p.effect(CommitDequantizedOp(staged[1], staged[2], zero_points, b, problem.weight))
        return []


def outer_products(
    p: KernelProgram, a: list[SSAValue], bs: Sequence[list[SSAValue]], sums: Sequence[SSAValue]
) -> list[SSAValue]:
    """Every A fragment times every B fragment; `sums` run along columns first, one B at a time."""
    factors = [(left, right) for b in bs for left in a for right in b]
    return [p.mma(*pair, total) for pair, total in zip(factors, sums, strict=True)]


def multiply_from_global(
    p: KernelProgram, problem: GemmProblem, sides: Sequence[Side]
) -> list[SSAValue]:
    """The wave's sums over all of k without LDS: the simplest rung."""
    depth = problem.core.k
    whole, rest = p.div(p["k"], depth), p.rem(p["k"], depth)

    def multiply(
        start: SSAValue, sums: Sequence[SSAValue], limit: SSAValue | None
    ) -> Sequence[SSAValue]:
        counts = (problem.schedule.mt, problem.schedule.nt, problem.schedule.nt)
        a, *products = (
            _global_fragments(p, problem, side, count, start, limit)
            for side, count in zip(sides, counts)
        )
        return outer_products(p, a, products, sums)

    initial = zeros(p, problem)
    sums = p.loop(
        0, whole, initial, lambda index, *carried: multiply(p.mul(index, depth), carried, None)
    )
    return p.when(
        p.compare("sgt", rest, 0),
        lambda: multiply(p.mul(whole, depth), sums, rest),
        lambda: sums,
        [value.type for value in initial],
    )


def _global_fragments(
    p: KernelProgram,
    problem: GemmProblem,
    side: Side,
    count: int,
    start: SSAValue,
    limit: SSAValue | None,
) -> list[SSAValue]:
    fragments = []
    element_bytes = problem.memory_bits // 8
    for index in range(count):
        # A fragment wholly outside reads the last valid rows, which nobody stores.
        outer = p.min(p.add(side.wave_first, 16 * index), p.sub(side.outer_limit, 1))
        wide_outer, wide_start = p.wide(outer), p.wide(start)
        stride = p.wide(side.stride)
        if side.contiguous_inner:
            place = p.add(p.mul(wide_outer, stride), wide_start)
        else:
            place = p.add(p.mul(wide_start, stride), wide_outer)
        fragments.append(
            p.insert(
                wave.LoadGlobalFragmentOp(
                    p.offset(side.pointer, place),
                    side.stride,
                    problem.fragment(side.role),
                    problem.alignment if side.contiguous_inner else element_bytes,
                    outer_limit=p.sub(side.outer_limit, outer),
                    inner_limit=limit,
                    transposed=not side.contiguous_inner,
                )
            )
        )
    return fragments
