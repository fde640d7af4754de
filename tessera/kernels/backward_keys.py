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
    Visibility,
    on_existing_rows,
    queries_of_keys,
)
from tessera.kernels.attention_geometry import Sequence as Problem
from tessera.kernels.attention_gradient import Place, TileGradient, log2_lse
from tessera.kernels.attention_problem import AttentionProblem
from tessera.kernels.attention_scores import ScoreRule
from tessera.kernels.program import KernelProgram
from tessera.kernels.row_tiles import TILE, OwnedRows, SharedTile, store_transposed
from tessera.kernels.schedules import BackwardSchedule
from tessera.kernels.tile_walk import walk_tiles
from tessera.targets.matrix_core import converted_order


class KeyGradientProgram:
    """Writes the dK and dV kernel; a lane owns a key.

    S = Q K^T and dP = dO V^T give P and dS, which after a swap of lane halves are the second
    operands of dV^T += dO^T P and dK^T += Q^T dS. Query heads that share a key head are walked one
    after the other, so their sum needs no second pass. lse and delta are numbers per row here and
    come from LDS.
    """

    def __init__(
        self, program: KernelProgram, problem: AttentionProblem, schedule: BackwardSchedule
    ) -> None:
        p = self.program = program
        self.problem, self.schedule = problem, schedule
        workgroup, wave_id = p.insert(wave.WorkgroupIdOp()), p.insert(wave.WaveIdOp())
        head_index = p.div(workgroup, p["k_tiles"])
        heads_k = p.div(p["heads"], p["group"])
        self.key_head = p.rem(head_index, heads_k)
        self.sequence = Problem(p, problem, p.div(head_index, heads_k))
        keys = TILE * schedule.waves
        self.first_key = p.mul(p.rem(workgroup, p["k_tiles"]), keys)
        self.wave_row = p.mul(wave_id, TILE)
        self.key = p.add(self.first_key, self.wave_row)
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
        p, problem, schedule = self.program, self.problem, self.schedule
        heads = self._heads(p.constant(0))
        in_lds = None
        if schedule.owned_rows_in_lds(max(problem.head_dim, problem.head_dim_v)):
            in_lds = (self.first_key, self.wave_row, TILE * schedule.waves)
        fragment = problem.fragment("b")
        self.k = OwnedRows(p, heads.rows("k"), self.key, 1, fragment, in_lds)
        self.v = OwnedRows(p, heads.rows("v"), self.key, 1, fragment, in_lds)
        step = schedule.rows_per_step
        # The tiles' pointers change with the query head; their LDS does not.
        self.q = SharedTile(p, heads.rows("q"), step, self.order, natural=True, transposed=True)
        self.do = SharedTile(p, heads.rows("do"), step, self.order, natural=True, transposed=True)
        zero = p.zero(problem.accumulator)
        sums = self._walk([zero] * (problem.channel_tiles + problem.value_tiles))
        keys, values = sums[: problem.channel_tiles], sums[problem.channel_tiles :]
        for channel, accumulator in enumerate(keys):
            scaled = p.map([accumulator, p["scale"]], p.multiply)
            store_transposed(p, heads.rows("dk"), scaled, self.key, TILE * channel)
        for channel, accumulator in enumerate(values):
            store_transposed(p, heads.rows("dv"), accumulator, self.key, TILE * channel)

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
        products = [self._product(self.q, self.k, i, problem.channel_tiles) for i in query_tiles]
        d_weights = [self._product(self.do, self.v, i, problem.value_tiles) for i in query_tiles]
        p.schedule_barrier()
        first_query = self.queries.start_of(tile)
        places = [self._place(p.add(first_query, TILE * i)) for i in query_tiles]
        logits, d_weights = gradient.logits(
            products, d_weights, places, self.queries.is_whole(tile)
        )
        keys = list(state[: problem.channel_tiles])
        values = list(state[problem.channel_tiles :])
        statistic = StatisticType(problem.core.m, f32, "row")
        for index in query_tiles:
            lse, delta = (
                p.insert(wave.LoadStatisticOp(self.statistics, p.constant(first), statistic))
                for first in (TILE * index, self.schedule.rows_per_step + TILE * index)
            )
            weights = gradient.weights(logits[index], lse)
            d_product = gradient.d_products(weights, d_weights[index], delta, products[index])
            values = self._add(self.do, gradient.as_operand(weights), index, values)
            p.schedule_barrier()
            keys = self._add(self.q, gradient.as_operand(d_product), index, keys)
            p.schedule_barrier()
        return [*keys, *values]

    def _add(
        self, tile: SharedTile, operand: SSAValue, index: int, sums: list[SSAValue]
    ) -> list[SSAValue]:
        """Add the product of 16 shared rows, transposed, and an operand, per channel tile."""
        p, fragment = self.program, self.problem.fragment("a")
        results = []
        for channel, total in enumerate(sums):
            if channel % 2 == 0:
                p.schedule_barrier()
            shared = tile.transposed_fragment(fragment, TILE * channel, TILE * index)
            results.append(p.mma(shared, operand, total))
        return results

    def _product(self, tile: SharedTile, owned: OwnedRows, row: int, channels: int) -> SSAValue:
        """16 shared rows times the owned rows, contracted along all channels."""
        p, problem = self.program, self.problem
        p.schedule_barrier()
        total = p.zero(problem.accumulator)
        for channel in range(channels):
            fragment = tile.fragment(problem.fragment("a"), TILE * row, TILE * channel)
            total = p.mma(fragment, owned.fragment(0, channel), total)
        return total

    def _place(self, first_query: SSAValue) -> Place:
        p = self.program
        return lambda row, column: (p.add(first_query, row), p.add(self.key, column))
