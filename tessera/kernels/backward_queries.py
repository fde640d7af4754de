"""Attention backward, query by query: a workgroup owns queries, walks over the keys, gives dQ."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tessera.dialects import wave
from tessera.kernels.attention_geometry import (
    Heads,
    SequencePair,
    Visibility,
    keys_of_queries,
    on_existing_rows,
    query_tile,
)
from tessera.kernels.attention_gradient import Place, TileGradient, log2_lse
from tessera.kernels.attention_problem import AttentionProblem
from tessera.kernels.attention_scores import ScoreRule
from tessera.kernels.channel_split import ChannelSplit
from tessera.kernels.program import KernelProgram
from tessera.kernels.row_tiles import TILE, OwnedRows, SharedTile, store_transposed
from tessera.kernels.schedules import BackwardSchedule, query_parts
from tessera.kernels.tile_walk import walk_tiles
from tessera.targets.matrix_core import converted_order


class QueryGradientProgram:
    """Writes the dQ kernel; a lane owns a query, as in the forward kernel.

    S^T = K Q^T and dP^T = V dO^T give dS^T, which after a swap of lane halves is the second
    operand of dQ^T += K^T dS^T. lse and delta are one number per lane.
    """

    def __init__(
        self, program: KernelProgram, problem: AttentionProblem, schedule: BackwardSchedule
    ) -> None:
        p = self.program = program
        self.problem, self.schedule = problem, schedule
        workgroup = p.insert(wave.WorkgroupIdOp())
        parts = query_parts(max(problem.head_dim, problem.head_dim_v))
        self.split = ChannelSplit(p, problem, parts, 2 * schedule.rows_per_step // TILE)
        head_index = p.div(workgroup, p["q_tiles"])
        head = p.rem(head_index, p["heads"])
        sequence = SequencePair(p, problem, p.div(head_index, p["heads"]))
        self.heads = Heads(p, problem, sequence, head, p.div(head, p["group"]))
        queries = TILE * (schedule.waves // parts)
        self.first_query = p.mul(query_tile(p, problem, workgroup), queries)
        self.query = p.add(self.first_query, p.mul(self.split.row_group, TILE))
        self.visibility = Visibility(p, problem, sequence)
        step = schedule.rows_per_step
        self.keys = keys_of_queries(p, self.visibility, self.first_query, queries, step)
        rule = ScoreRule(p, problem, self.heads, self.visibility)
        self.gradient = TileGradient(p, problem, rule, self.visibility)
        order = converted_order(problem.core)
        channels, values = problem.channel_tiles, problem.value_tiles
        self.k = SharedTile(
            p, self.heads.rows("k"), step, order,
            natural=True, transposed=True, columns=self.split.columns(channels),
        )  # fmt: skip
        self.v = SharedTile(
            p, self.heads.rows("v"), step, order,
            natural=True, columns=self.split.columns(values),
        )  # fmt: skip
        self.channels, self.values = self.split.channels(channels), self.split.channels(values)

    def write(self) -> None:
        """The whole kernel."""
        seq_q = self.heads.sequence.seq_q
        on_existing_rows(self.program, self.problem, self.first_query, seq_q, self._write)

    def _write(self) -> None:
        p, problem = self.program, self.problem
        fragment = problem.fragment("b")
        heads, query = self.heads, self.query
        self.q = OwnedRows(p, heads.rows("q"), query, 1, fragment, channels=self.channels)
        self.do = OwnedRows(p, heads.rows("do"), query, 1, fragment, channels=self.values)
        self.lse = p.map([self._load("lse")], lambda x: log2_lse(p, x))
        self.delta = self._load("delta")
        zero = p.zero(problem.accumulator)
        gradients = self._walk([zero] * len(self.channels))
        rows = self.heads.rows("dq")
        for channel, accumulator in zip(self.channels, gradients, strict=True):
            scaled = p.map([accumulator, p["scale"]], p.multiply)
            store_transposed(p, rows, scaled, self.query, channel)

    def _load(self, name: str) -> SSAValue:
        p = self.program
        seq_q = self.heads.sequence.seq_q
        first = p.min(self.query, p.sub(seq_q, 1))
        pointer = p.offset(self.heads.statistic(name), p.wide(first))
        limit = p.sub(seq_q, first)
        return p.insert(wave.LoadGlobalStatisticOp(pointer, limit, self.problem.statistic))

    def _walk(self, state: Sequence[SSAValue]) -> list[SSAValue]:
        """All visible key tiles in order."""
        p, keys = self.program, self.keys
        tiles = (self.k, self.v)
        types = [tile.staged_type for tile in tiles]

        def fetch(index: SSAValue) -> list[SSAValue]:
            start = keys.start_of(index)
            return [tile.stage(start) for tile in tiles]

        def commit(staged: Sequence[SSAValue]) -> None:
            for tile, one in zip(tiles, staged, strict=True):
                tile.commit(one)

        bounds = (keys.first, keys.end)
        head_dim = max(self.problem.head_dim, self.problem.head_dim_v)
        prefetch = self.schedule.prefetches_keys(head_dim)
        return walk_tiles(p, bounds, state, types, fetch, commit, self._accumulate, prefetch)

    def _accumulate(self, state: Sequence[SSAValue], index: SSAValue) -> list[SSAValue]:
        """dQ^T += K^T dS^T over the keys of one tile."""
        p, problem, gradient = self.program, self.problem, self.gradient
        key_tiles = range(self.schedule.rows_per_step // TILE)
        products, d_weights = self.split.products(
            [(self.k, self.q, self.channels), (self.v, self.do, self.values)], key_tiles
        )
        first_key = self.keys.start_of(index)
        places = [self._place(p.add(first_key, TILE * key)) for key in key_tiles]
        logits, d_weights = gradient.logits(products, d_weights, places, self.keys.is_whole(index))
        operands = []
        for key in key_tiles:
            weights = gradient.weights(logits[key], self.lse)
            d_product = gradient.d_products(weights, d_weights[key], self.delta, products[key])
            operands.append(gradient.as_operand(d_product))
        sums = list(state)
        for number, channel in enumerate(self.channels):
            if number % 2 == 0:
                p.schedule_barrier()
            for key in key_tiles:
                fragment = self.k.transposed_fragment(problem.fragment("a"), channel, TILE * key)
                sums[number] = p.mma(fragment, operands[key], sums[number])
        return sums

    def _place(self, first_key: SSAValue) -> Place:
        p = self.program
        return lambda row, column: (p.add(self.query, column), p.add(first_key, row))
