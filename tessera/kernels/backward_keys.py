"""Attention backward, key by key: a workgroup owns keys, walks the queries, gives dK and dV."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tessera.dialects import wave
from tessera.dialects.wave_types import LdsType, StatisticType
from tessera.kernels.attention_geometry import (
    Heads,
    SequencePair,
    Visibility,
    on_existing_rows,
    queries_of_keys,
)
from tessera.kernels.attention_gradient import Place, TileGradient, log2_lse
from tessera.kernels.attention_problem import AttentionProblem
from tessera.kernels.attention_scores import ScoreRule
from tessera.kernels.channel_split import ChannelSplit
from tessera.kernels.program import KernelProgram
from tessera.kernels.row_tiles import TILE, OwnedRows, Rows, SharedTile, store_transposed
from tessera.kernels.schedules import BackwardSchedule, key_parts
from tessera.kernels.tile_walk import walk_tiles
from tessera.targets.matrix_core import converted_order


class KeyGradientProgram:
    """Writes the dK and dV kernel; a lane owns a key.

    S = Q K^T and dP = dO V^T give P and dS, which after a swap of lane halves are the second
    operands of dV^T += dO^T P and dK^T += Q^T dS. Query heads that share a key head are walked one
    after the other, so their sum needs no second pass. lse and delta are numbers per row here and
    come from LDS. Long rows are split over neighbouring waves, which own the same keys.
    """

    def __init__(
        self, program: KernelProgram, problem: AttentionProblem, schedule: BackwardSchedule
    ) -> None:
        p = self.program = program
        self.problem, self.schedule = problem, schedule
        workgroup = p.insert(wave.WorkgroupIdOp())
        parts = key_parts(max(problem.head_dim, problem.head_dim_v))
        self.split = ChannelSplit(p, problem, parts, 2 * schedule.rows_per_step // TILE)
        head_index = p.div(workgroup, p["k_tiles"])
        heads_k = p.div(p["heads"], p["group"])
        self.key_head = p.rem(head_index, heads_k)
        self.sequence = SequencePair(p, problem, p.div(head_index, heads_k))
        keys = TILE * (schedule.waves // parts)
        self.first_key = p.mul(p.rem(workgroup, p["k_tiles"]), keys)
        self.key = p.add(self.first_key, p.mul(self.split.row_group, TILE))
        self.visibility = Visibility(p, problem, self.sequence)
        self.queries = queries_of_keys(
            p, self.visibility, self.first_key, keys, schedule.rows_per_step
        )
        self.order = converted_order(problem.core)
        # lse of every row of the tile, then delta of every row.
        count = 2 * schedule.rows_per_step
        self.statistics = p.insert(wave.AllocLdsOp(LdsType(1, count, f32, count)))

    def _heads(self, member: SSAValue) -> Heads:
        """Operands of one query head of the group."""
        p = self.program
        head = p.add(p.mul(self.key_head, p["group"]), member)
        return Heads(p, self.problem, self.sequence, head, self.key_head)

    def write(self) -> None:
        """The whole kernel."""
        seq_k = self.sequence.seq_k
        on_existing_rows(self.program, self.problem, self.first_key, seq_k, self._write)

    def _write(self) -> None:
        p, problem, split = self.program, self.problem, self.split
        heads = self._heads(p.constant(0))
        fragment = problem.fragment("b")
        self.key_channels = split.channels(problem.channel_tiles)
        self.value_channels = split.channels(problem.value_tiles)
        self.k = OwnedRows(p, heads.rows("k"), self.key, 1, fragment, channels=self.key_channels)
        self.v = OwnedRows(p, heads.rows("v"), self.key, 1, fragment, channels=self.value_channels)
        # The tiles' pointers change with the query head; their LDS does not.
        self.q = self._shared(heads.rows("q"), problem.channel_tiles)
        self.do = self._shared(heads.rows("do"), problem.value_tiles)
        zero = p.zero(problem.accumulator)
        count = len(self.key_channels)
        sums = self._walk([zero] * (count + len(self.value_channels)))
        for channel, accumulator in zip(self.key_channels, sums[:count], strict=True):
            scaled = p.map([accumulator, p["scale"]], p.multiply)
            store_transposed(p, heads.rows("dk"), scaled, self.key, channel)
        for channel, accumulator in zip(self.value_channels, sums[count:], strict=True):
            store_transposed(p, heads.rows("dv"), accumulator, self.key, channel)

    def _shared(self, rows: Rows, channel_tiles: int) -> SharedTile:
        return SharedTile(
            self.program,
            rows,
            self.schedule.rows_per_step,
            self.order,
            natural=True,
            transposed=True,
            columns=self.split.columns(channel_tiles),
        )

    def _walk(self, state: Sequence[SSAValue]) -> list[SSAValue]:
        """All query tiles of all heads of the group."""
        p, queries = self.program, self.queries
        per_head = p.max(p.sub(queries.end, queries.first), 0)
        total = p.mul(per_head, p["group"])
        types = [self.q.staged_type, self.do.staged_type, f32, f32]

        def place_of(turn: SSAValue) -> tuple[SSAValue, SSAValue]:
            """(member of the group, query tile) of one turn."""
            divisor = p.max(per_head, 1)
            return p.div(turn, divisor), p.add(queries.first, p.rem(turn, divisor))

        def fetch(turn: SSAValue) -> list[SSAValue]:
            member, tile = place_of(turn)
            start = queries.start_of(tile)
            heads = self._heads(member)

            q = self.q.of(heads.rows("q")).stage(start)
            do = self.do.of(heads.rows("do")).stage(start)
            return [q, do, *self._fetch_statistics(heads, start)]

        def commit(staged: Sequence[SSAValue]) -> None:
            q, do, lse, delta = staged
            self.q.commit(q)
            self.do.commit(do)
            self._commit_statistics(lse, delta)

        def compute(carried: Sequence[SSAValue], turn: SSAValue) -> list[SSAValue]:
            member, tile = place_of(turn)
            return self._accumulate(carried, self._heads(member), tile)

        bounds = (p.constant(0), total)
        prefetch = self.schedule.prefetch
        return walk_tiles(p, bounds, state, types, fetch, commit, compute, prefetch)

    # lse and delta: thread t carries those of the tile's query t.

    def _fetch_statistics(self, heads: Heads, start: SSAValue) -> list[SSAValue]:
        """(lse in log2, delta) of one query per thread; +inf and 0 past the end, so that P is 0."""
        p = self.program
        thread = p.insert(wave.ThreadIdOp())
        query = p.add(start, thread)
        inside = p.both(
            p.compare("slt", thread, self.schedule.rows_per_step),
            p.compare("slt", query, self.sequence.seq_q),
        )

        def load() -> list[SSAValue]:
            lse, delta = (
                p.insert(wave.LoadElementOp(heads.statistic(name), p.wide(query)))
                for name in ("lse", "delta")
            )
            return [log2_lse(p, lse), delta]

        nothing = [p.float_constant(math.inf), p.float_constant(0.0)]
        return p.when(inside, load, lambda: nothing, [f32, f32])

    def _commit_statistics(self, lse: SSAValue, delta: SSAValue) -> None:
        p = self.program
        thread = p.insert(wave.ThreadIdOp())
        place = self._place_in_order(thread)

        def write() -> list[SSAValue]:
            p.effect(wave.StoreLdsElementOp(lse, self.statistics, place))
            behind = p.add(place, self.schedule.rows_per_step)
            p.effect(wave.StoreLdsElementOp(delta, self.statistics, behind))
            return []

        p.when(p.compare("slt", thread, self.schedule.rows_per_step), write)

    def _place_in_order(self, row: SSAValue) -> SSAValue:
        """Where wave.load_statistic looks for a row: the inverse of the converted order.

        That order is linear over the bits of the place, hence so is its inverse.
        """
        p = self.program
        place = p.mul(p.div(row, TILE), TILE)
        for bit in range(TILE.bit_length() - 1):
            chosen = p.rem(p.div(row, 1 << bit), 2)
            place = p.add(place, p.mul(chosen, self.order.index(1 << bit)))
        return place

    def _accumulate(
        self, state: Sequence[SSAValue], heads: Heads, tile: SSAValue
    ) -> list[SSAValue]:
        """dK^T += Q^T dS and dV^T += dO^T P over the queries of one tile."""
        p, problem = self.program, self.problem
        rule = ScoreRule(p, problem, heads, self.visibility)
        gradient = TileGradient(p, problem, rule, self.visibility)
        query_tiles = range(self.schedule.rows_per_step // TILE)
        products, d_weights = self.split.products(
            [(self.q, self.k, self.key_channels), (self.do, self.v, self.value_channels)],
            query_tiles,
        )
        first_query = self.queries.start_of(tile)
        places = [self._place(p.add(first_query, TILE * i)) for i in query_tiles]
        logits, d_weights = gradient.logits(
            products, d_weights, places, self.queries.is_whole(tile)
        )
        keys = list(state[: len(self.key_channels)])
        values = list(state[len(self.key_channels) :])
        statistic = StatisticType(problem.core.m, f32, "row")
        for index in query_tiles:
            lse, delta = (
                p.insert(wave.LoadStatisticOp(self.statistics, p.constant(first), statistic))
                for first in (TILE * index, self.schedule.rows_per_step + TILE * index)
            )
            weights = gradient.weights(logits[index], lse)
            d_product = gradient.d_products(weights, d_weights[index], delta, products[index])
            operand = gradient.as_operand(weights)
            values = self._add(self.do, operand, index, self.value_channels, values)
            p.schedule_barrier()
            operand = gradient.as_operand(d_product)
            keys = self._add(self.q, operand, index, self.key_channels, keys)
            p.schedule_barrier()
        return [*keys, *values]

    def _add(
        self,
        tile: SharedTile,
        operand: SSAValue,
        index: int,
        channels: Sequence[SSAValue | int],
        sums: list[SSAValue],
    ) -> list[SSAValue]:
        """Add the product of 16 shared rows, transposed, and an operand, per channel tile."""
        p, fragment = self.program, self.problem.fragment("a")
        results = []
        for number, (channel, total) in enumerate(zip(channels, sums, strict=True)):
            if number % 2 == 0:
                p.schedule_barrier()
            shared = tile.transposed_fragment(fragment, channel, TILE * index)
            results.append(p.mma(shared, operand, total))
        return results

    def _place(self, first_query: SSAValue) -> Place:
        p = self.program
        return lambda row, column: (p.add(first_query, row), p.add(self.key, column))
