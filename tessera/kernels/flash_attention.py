"""`tessera_rocm.flash_attn` to a wave program: online softmax over key tiles, scores transposed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tessera.dialects import wave
from tessera.kernels.attention_geometry import (
    Heads,
    SequencePair,
    Visibility,
    keys_of_queries,
    on_existing_rows,
    query_tile,
)
from tessera.kernels.attention_problem import (
    FORWARD_OPERANDS,
    AttentionProblem,
    attention_problem,
    contract_options,
    forward_launch_rule,
    kernel_arguments,
)
from tessera.kernels.attention_scores import ScoreRule
from tessera.kernels.generated import GeneratedKernels
from tessera.kernels.online_softmax import OnlineSoftmax
from tessera.kernels.program import KernelProgram
from tessera.kernels.row_tiles import TILE, OwnedRows, SharedTile, store_transposed
from tessera.kernels.schedules import LARGEST_HEAD_DIM_IN_REGISTERS
from tessera.kernels.tile_walk import walk_tiles
from tessera.targets import Target
from tessera.targets.matrix_core import converted_order

SMALLEST_SCALE = 2.0**-126


def generate_flash_attention(directive: Operation, target: Target) -> GeneratedKernels:
    """The kernel and launch rule of one attention directive."""
    problem = attention_problem(directive, target)
    arguments = kernel_arguments(problem, FORWARD_OPERANDS, ("lse",))
    program = KernelProgram(problem.name, arguments, problem.schedule.threads)
    AttentionProgram(program, problem).write()
    return GeneratedKernels(
        (program.finish(),),
        (forward_launch_rule(problem),),
        contract="flash_attn",
        options=contract_options(problem),
    )


class AttentionProgram:
    """Writes the kernel: a workgroup owns a tile of queries of one head and walks over the keys.

    Scores are computed transposed, S^T = K Q^T, so that a lane owns one query: the running maximum
    and sum are one number per lane, and P^T is the second operand of O^T += V^T P^T after a swap
    of lane halves (Dao, "FlashAttention-2", 2023, with the axes exchanged). Tiles that every query
    of the workgroup sees in full skip the masks; the rest, at most a diagonal and a tail, do not.
    """

    def __init__(
        self, program: KernelProgram, problem: AttentionProblem, values: bool = True
    ) -> None:
        """Without `values` only lse is computed, and V and O are no operands."""
        self.program = program
        self.problem = problem
        self.value_tiles = problem.value_tiles if values else 0
        p, schedule = program, problem.schedule
        workgroup = p.insert(wave.WorkgroupIdOp())
        wave_id = p.insert(wave.WaveIdOp())
        head_index = p.div(workgroup, p["q_tiles"])
        head = p.rem(head_index, p["heads"])
        sequence = SequencePair(p, problem, p.div(head_index, p["heads"]))
        self.heads = Heads(p, problem, sequence, head, p.div(head, p["group"]))
        self.first_query = p.mul(query_tile(p, problem, workgroup), schedule.queries)
        self.wave_row = p.mul(wave_id, schedule.queries_per_wave)
        self.wave_query = p.add(self.first_query, self.wave_row)
        self.visibility = Visibility(p, problem, sequence)
        self.keys = keys_of_queries(
            p, self.visibility, self.first_query, schedule.queries, schedule.keys_per_step
        )
        self.rule = ScoreRule(p, problem, self.heads, self.visibility)
        self.queries_in_registers = problem.head_dim <= LARGEST_HEAD_DIM_IN_REGISTERS
        self.softmax = OnlineSoftmax(
            p, problem.statistic, self._common_scale(), problem.dtype if values else None
        )
        order = converted_order(problem.core)
        step = schedule.keys_per_step
        self.k = SharedTile(p, self.heads.rows("k"), step, order, natural=True)
        self.tiles = [self.k]
        if values:
            self.v = SharedTile(p, self.heads.rows("v"), step, order, transposed=True)
            self.tiles.append(self.v)

    def _common_scale(self) -> SSAValue | None:
        """log2(e) |scale| where every logit is a product times that, up to the sign of Q.

        Not 0: a masked product of -inf stays -inf.
        """
        if not (self.rule.is_plain and self.queries_in_registers):
            return None
        p = self.program
        magnitude = p.absolute(self.rule.scale_log2)
        return p.maximum(magnitude, p.float_constant(SMALLEST_SCALE))

    @property
    def query_tiles(self) -> int:
        """Instruction tiles of queries per wave."""
        return self.problem.schedule.queries_per_wave // TILE

    def write(self) -> None:
        """The whole kernel."""
        seq_q = self.heads.sequence.seq_q
        on_existing_rows(self.program, self.problem, self.first_query, seq_q, self._write)

    def _write(self) -> None:
        self._store(self._walk(self._load_queries(), self._initial_state()))

    def _load_queries(self) -> OwnedRows:
        """Q with the sign of the scale, where that makes scaled maxima maxima of products."""
        p, problem = self.program, self.problem
        in_lds = None
        if not self.queries_in_registers:
            in_lds = (self.first_query, self.wave_row, problem.schedule.queries)
        rows, fragment = self.heads.rows("q"), problem.fragment("b")
        queries = OwnedRows(p, rows, self.wave_query, self.query_tiles, fragment, in_lds)
        if self.softmax.scale is not None:
            negative = p.float_compare("olt", p["scale"], p.float_constant(0.0))
            queries.negate_if(negative)
        return queries

    # The loop state is flat: per query tile a maximum, a sum, and the accumulators of O^T.

    def _initial_state(self) -> list[SSAValue]:
        p, problem = self.program, self.problem
        zero = p.zero(problem.accumulator)
        return [*self.softmax.initial(), *[zero] * self.value_tiles] * self.query_tiles

    def _walk(self, queries: OwnedRows, state: Sequence[SSAValue]) -> list[SSAValue]:
        """All visible tiles in order; the next one is fetched while this one is computed.

        One loop holds both kinds of tiles, with masks and bounds behind a branch that all lanes
        take alike: the accumulators then never meet a second set of themselves.
        """
        p, keys = self.program, self.keys
        tiles = self.tiles
        types = [tile.staged_type for tile in tiles]

        def fetch(index: SSAValue) -> list[SSAValue]:
            start = keys.start_of(index)
            return [tile.stage(start) for tile in tiles]

        def commit(staged: Sequence[SSAValue]) -> None:
            for tile, one in zip(tiles, staged, strict=True):
                tile.commit(one)

        def compute(carried: Sequence[SSAValue], index: SSAValue) -> list[SSAValue]:
            return self._attend(queries, carried, index)

        return walk_tiles(p, (keys.first, keys.end), state, types, fetch, commit, compute)

    def _attend(
        self, queries: OwnedRows, state: Sequence[SSAValue], index: SSAValue
    ) -> list[SSAValue]:
        """The tile of keys `index`: scores, softmax update, output update."""
        size = 2 + self.value_tiles
        first_key = self.keys.start_of(index)
        logits = [
            self._logits(row, tile, first_key) for tile, row in enumerate(self._products(queries))
        ]
        logits = self._masked_where_needed(logits, index)
        self.program.schedule_barrier()
        weights: list[list[SSAValue]] = []
        rescaled: list[SSAValue] = []
        for tile in range(self.query_tiles):
            part = state[tile * size : (tile + 1) * size]
            new_state, probabilities = self.softmax.update(logits[tile], part)
            if self.value_tiles:
                weights.append([self._as_operand(one) for one in probabilities])
            rescaled += new_state
        self.program.schedule_barrier()
        return self._accumulate(weights, rescaled)

    def _products(self, queries: OwnedRows) -> list[list[SSAValue]]:
        """K Q^T [query tile][key tile]; every K fragment is read once for all query tiles."""
        p, problem = self.program, self.problem
        products = [
            [p.zero(problem.accumulator) for _ in range(problem.key_tiles)]
            for _ in range(self.query_tiles)
        ]
        for key in range(problem.key_tiles):
            if key % 2 == 0:
                p.schedule_barrier()
            for channel in range(problem.channel_tiles):
                fragment = self.k.fragment(problem.fragment("a"), TILE * key, TILE * channel)
                for tile, row in enumerate(products):
                    row[key] = p.mma(fragment, queries.fragment(tile, channel), row[key])
        return products

    def _each_pair(
        self, values: list[SSAValue], tile: int, first_key: SSAValue, body: object
    ) -> list[SSAValue]:
        """body(query, key, element) over the elements of one query tile."""
        p = self.program
        query = p.add(self.wave_query, TILE * tile)
        results = []
        for index, value in enumerate(values):
            key = p.add(first_key, TILE * index)

            def of_element(
                row: SSAValue, column: SSAValue, element: SSAValue, key: SSAValue = key
            ) -> SSAValue:
                return body(p.add(query, column), p.add(key, row), element)  # type: ignore[operator]

            results.append(p.map([value], of_element, coordinates=True))
        return results

    def _logits(self, products: list[SSAValue], tile: int, first_key: SSAValue) -> list[SSAValue]:
        p, rule = self.program, self.rule
        if self.softmax.scale is not None:
            return products
        if rule.needs_coordinates:
            return self._each_pair(
                products, tile, first_key, lambda query, key, one: rule.logit(one, query, key)
            )
        return [p.map([one], lambda x: rule.logit(x, None, None)) for one in products]

    def _masked_where_needed(
        self, logits: list[list[SSAValue]], index: SSAValue
    ) -> list[list[SSAValue]]:
        """Logits of hidden keys become -inf, in tiles that have any."""
        p = self.program
        flat = [one for row in logits for one in row]
        first_key = self.keys.start_of(index)
        hidden = p.float_constant(-math.inf)

        def visible(query: SSAValue, key: SSAValue, logit: SSAValue) -> SSAValue:
            return p.select(self.visibility.visible(query, key), logit, hidden)

        chosen = p.when(
            self.keys.is_whole(index),
            lambda: flat,
            lambda: [
                one
                for tile, row in enumerate(logits)
                for one in self._each_pair(row, tile, first_key, visible)
            ],
            [one.type for one in flat],
        )
        count = self.problem.key_tiles
        return [chosen[start : start + count] for start in range(0, len(chosen), count)]

    def _as_operand(self, weights: SSAValue) -> SSAValue:
        fragment = self.problem.fragment(self.problem.core.operand_from_accumulator)
        return self.program.insert(wave.ConvertOp(weights, fragment, toward_zero=True))

    def _accumulate(self, weights: list[list[SSAValue]], state: list[SSAValue]) -> list[SSAValue]:
        """O^T += V^T P^T; every V^T fragment is read once for all query tiles."""
        problem = self.problem
        size = 2 + self.value_tiles
        for channel in range(self.value_tiles):
            if channel % 2 == 0:
                self.program.schedule_barrier()
            for key in range(problem.key_tiles):
                fragment = self.v.transposed_fragment(
                    problem.fragment("a"), TILE * channel, TILE * key
                )
                for tile, weight in enumerate(weights):
                    place = tile * size + 2 + channel
                    state[place] = self.program.mma(fragment, weight[key], state[place])
        return state

    def _store(self, state: Sequence[SSAValue]) -> None:
        p = self.program
        size = 2 + self.value_tiles
        seq_q, lse_pointer = self.heads.sequence.seq_q, self.heads.statistic("lse")
        output = self.heads.rows("o") if self.value_tiles else None
        one, zero = p.float_constant(1.0), p.float_constant(0.0)

        def inverse(value: SSAValue) -> SSAValue:
            return p.select(p.float_compare("oeq", value, zero), zero, p.divide(one, value))

        for tile in range(self.query_tiles):
            maximum, partial, *accumulators = state[tile * size : (tile + 1) * size]
            total, lse = self.softmax.finish(maximum, partial)
            factor = p.map([total], inverse)
            query = p.add(self.wave_query, TILE * tile)
            for channel, accumulator in enumerate(accumulators):
                scaled = p.map([accumulator, factor], p.multiply)
                assert output is not None
                store_transposed(p, output, scaled, query, TILE * channel)
            pointer = p.offset(lse_pointer, p.wide(query))
            p.effect(wave.StoreStatisticOp(lse, pointer, p.sub(seq_q, query)))
