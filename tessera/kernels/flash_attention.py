"""`tessera_rocm.flash_attn` to a wave program: online softmax over key tiles, scores transposed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from tessera.dialects import wave
from tessera.dialects.wave_types import PointerType
from tessera.kernels.attention_problem import AttentionProblem, attention_problem, launch_rule
from tessera.kernels.attention_tiles import Heads, KeyRange, TileLoader
from tessera.kernels.generated import GeneratedKernels
from tessera.kernels.program import KernelProgram
from tessera.targets import Target

LOG2_E = math.log2(math.e)
LN_2 = math.log(2.0)

POINTERS = ("q", "k", "v", "o", "lse")
SIZES = ("seq_q", "seq_k", "heads", "group", "q_tiles")
STRIDES = tuple(
    f"{name}_{axis}" for name in ("q", "k", "v", "o") for axis in ("batch", "head", "row")
)


def generate_flash_attention(directive: Operation, target: Target) -> GeneratedKernels:
    """The kernel and launch rule of one attention directive."""
    problem = attention_problem(directive, target)
    element = problem.element
    types: dict[str, Attribute] = {
        **dict.fromkeys(POINTERS, PointerType(element)),
        "lse": PointerType(f32),
        **dict.fromkeys(SIZES, i32),
        **{name: i32 if name.endswith("row") else i64 for name in STRIDES},
        "scale": f32,
    }
    program = KernelProgram(problem.name, list(types.items()), problem.schedule.threads)
    AttentionProgram(program, problem).write()
    return GeneratedKernels(
        (program.finish(),),
        (launch_rule(problem),),
        contract="flash_attn",
        options={"causal": problem.causal, "scale": problem.scale},
    )


class AttentionProgram:
    """Writes the kernel: a workgroup owns a tile of queries of one head and walks over the keys.

    Scores are computed transposed, S^T = K Q^T, so that a lane owns one query: the running maximum
    and sum are one number per lane, and P^T is the second operand of O^T += V^T P^T after a swap
    of lane halves (Dao, "FlashAttention-2", 2023, with the axes exchanged). Tiles that every query
    of the workgroup sees in full skip the masks; the rest, at most a diagonal and a tail, do not.
    """

    def __init__(self, program: KernelProgram, problem: AttentionProblem) -> None:
        self.program = program
        self.problem = problem
        p, schedule = program, problem.schedule
        workgroup = p.insert(wave.WorkgroupIdOp())
        wave_id = p.insert(wave.WaveIdOp())
        self.heads = Heads(p, p.div(workgroup, p["q_tiles"]))
        self.first_query = p.mul(p.rem(workgroup, p["q_tiles"]), schedule.queries)
        self.wave_query = p.add(self.first_query, p.mul(wave_id, schedule.queries_per_wave))
        self.keys = KeyRange(p, problem, self.first_query)
        self.loader = TileLoader(p, problem, self.heads)
        # The sign of the scale moves into Q, so that the maximum of scaled scores is the scaled
        # maximum.
        zero = p.float_constant(0.0)
        self.negative = p.float_compare("olt", p["scale"], zero)
        magnitude = p.select(self.negative, p.minus(zero, p["scale"]), p["scale"])
        self.scale_log2 = p.multiply(magnitude, p.float_constant(LOG2_E))

    @property
    def query_tiles(self) -> int:
        """Instruction tiles of queries per wave."""
        return self.problem.schedule.queries_per_wave // 16

    def write(self) -> None:
        """The whole kernel."""
        queries = self._load_queries()
        self._store(self._walk(queries, self._initial_state()))

    def _load_queries(self) -> list[list[SSAValue]]:
        """Q fragments [query tile][channel tile], which stay in registers throughout."""
        p, problem = self.program, self.problem
        return [
            [
                p.insert(
                    wave.NegateOp(
                        self.loader.query_fragment(self.wave_query, tile, channel), self.negative
                    )
                )
                for channel in range(problem.channel_tiles)
            ]
            for tile in range(self.query_tiles)
        ]

    # The loop state is flat: per query tile a maximum, a sum, and the accumulators of O^T.

    def _initial_state(self) -> list[SSAValue]:
        p, problem = self.program, self.problem
        lowest = p.splat(p.float_constant(-math.inf), problem.statistic)
        nothing = p.splat(p.float_constant(0.0), problem.statistic)
        zero = p.zero(problem.accumulator)
        return [lowest, nothing, *[zero] * problem.value_tiles] * self.query_tiles

    def _walk(self, queries: list[list[SSAValue]], state: Sequence[SSAValue]) -> list[SSAValue]:
        """All visible tiles in order; the next one is fetched while this one is computed.

        One loop holds both kinds of tiles, with masks and bounds behind a branch that all lanes
        take alike: the accumulators then never meet a second set of themselves.
        """
        p, loader, keys = self.program, self.loader, self.keys
        last = p.sub(keys.tiles, 1)

        def fetch(index: SSAValue) -> list[SSAValue]:
            start = keys.start_of(index)
            return p.when(
                p.compare("slt", index, keys.whole_tiles),
                lambda: loader.stage(start, None),
                lambda: loader.stage(start, p.sub(p["seq_k"], start)),
                loader.staged_types,
            )

        def step(index: SSAValue, *carried: SSAValue) -> Sequence[SSAValue]:
            loader.commit(carried[-2:])
            ahead = fetch(p.min(p.add(index, 1), last))
            return [*self._attend(queries, carried[:-2], index), *ahead]

        first = p.when(
            p.compare("sgt", keys.tiles, 0),
            lambda: fetch(p.constant(0)),
            lambda: [p.insert(wave.UndefinedOp(type_)) for type_ in loader.staged_types],
            loader.staged_types,
        )
        return p.loop(0, keys.tiles, [*state, *first], step)[: len(state)]

    def _attend(
        self, queries: list[list[SSAValue]], state: Sequence[SSAValue], index: SSAValue
    ) -> list[SSAValue]:
        """The tile of keys `index`: scores, softmax update, output update."""
        size = 2 + self.problem.value_tiles
        scores = self._masked_where_needed(self._scores(queries), index)
        weights: list[list[SSAValue]] = []
        rescaled: list[SSAValue] = []
        for tile in range(self.query_tiles):
            part = state[tile * size : (tile + 1) * size]
            new_state, probabilities = self._softmax(scores[tile], part)
            weights.append([self._as_operand(one) for one in probabilities])
            rescaled += new_state
        return self._accumulate(weights, rescaled)

    def _scores(self, queries: list[list[SSAValue]]) -> list[list[SSAValue]]:
        """S^T [query tile][key tile]; every K fragment is read once for all query tiles."""
        p, problem = self.program, self.problem
        scores = [[p.zero(problem.accumulator) for _ in range(problem.key_tiles)] for _ in queries]
        for key in range(problem.key_tiles):
            for channel in range(problem.channel_tiles):
                fragment = self.loader.key_fragment(key, channel)
                for tile, query in enumerate(queries):
                    scores[tile][key] = p.mma(fragment, query[channel], scores[tile][key])
        return scores

    def _masked_where_needed(
        self, scores: list[list[SSAValue]], index: SSAValue
    ) -> list[list[SSAValue]]:
        """Scores of hidden keys become -inf, in tiles that have any."""
        p = self.program
        flat = [score for row in scores for score in row]
        first_key = self.keys.start_of(index)
        chosen = p.when(
            p.compare("slt", index, self.keys.whole_tiles),
            lambda: flat,
            lambda: [
                one for tile, row in enumerate(scores) for one in self._mask(row, tile, first_key)
            ],
            [score.type for score in flat],
        )
        count = self.problem.key_tiles
        return [chosen[start : start + count] for start in range(0, len(chosen), count)]

    def _mask(self, scores: list[SSAValue], tile: int, first_key: SSAValue) -> list[SSAValue]:
        p = self.program
        query = p.add(self.wave_query, 16 * tile)
        hidden = p.float_constant(-math.inf)

        def visible(key: int, row: SSAValue, column: SSAValue, score: SSAValue) -> SSAValue:
            index = p.add(p.add(first_key, 16 * key), row)
            limit = self.keys.limit_of(p.add(query, column))
            return p.select(p.compare("slt", index, limit), score, hidden)

        return [
            p.map([score], lambda *element, key=key: visible(key, *element), coordinates=True)
            for key, score in enumerate(scores)
        ]

    def _softmax(
        self, scores: list[SSAValue], state: Sequence[SSAValue]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """([maximum, sum, rescaled accumulators], P^T) of one query tile.

        The maximum is that of the scaled scores, as rounded: the same numbers enter the exponent,
        so that the largest weight is exactly 1 however large the scores are.
        """
        p = self.program
        maximum, total, *accumulators = state
        scaled = [p.map([one, self.scale_log2], p.multiply) for one in scores]
        largest = p.combine(p.reduce(scaled, "max"), "max")
        grown = p.map([maximum, largest], p.maximum)
        # A row that has seen no key yet has maximum -inf; 0 instead keeps -inf - (-inf) away.
        shift = p.map([grown], self._finite)
        decay = p.map([maximum, shift], lambda old, new: p.exp2(p.minus(old, new)))
        weights = [
            p.map([one, shift], lambda score, new: p.exp2(p.minus(score, new))) for one in scaled
        ]
        total = p.map(
            [total, decay, p.reduce(weights, "sum")],
            lambda old, factor, more: p.plus(p.multiply(old, factor), more),
        )
        rescaled = [p.map([one, decay], p.multiply) for one in accumulators]
        return [grown, total, *rescaled], weights

    def _finite(self, value: SSAValue) -> SSAValue:
        p = self.program
        lowest = p.float_compare("oeq", value, p.float_constant(-math.inf))
        return p.select(lowest, p.float_constant(0.0), value)

    def _as_operand(self, weights: SSAValue) -> SSAValue:
        fragment = self.problem.fragment(self.problem.core.operand_from_accumulator)
        return self.program.insert(wave.ConvertOp(weights, fragment))

    def _accumulate(self, weights: list[list[SSAValue]], state: list[SSAValue]) -> list[SSAValue]:
        """O^T += V^T P^T; every V^T fragment is read once for all query tiles."""
        size = 2 + self.problem.value_tiles
        for channel in range(self.problem.value_tiles):
            for key in range(self.problem.key_tiles):
                fragment = self.loader.value_fragment(channel, key)
                for tile, weight in enumerate(weights):
                    place = tile * size + 2 + channel
                    state[place] = self.program.mma(fragment, weight[key], state[place])
        return state

    def _store(self, state: Sequence[SSAValue]) -> None:
        p, problem = self.program, self.problem
        size = 2 + problem.value_tiles
        one, zero = p.float_constant(1.0), p.float_constant(0.0)
        for tile in range(self.query_tiles):
            maximum, partial, *accumulators = state[tile * size : (tile + 1) * size]
            total = p.combine(partial, "sum")

            def inverse(value: SSAValue) -> SSAValue:
                return p.select(p.float_compare("oeq", value, zero), zero, p.divide(one, value))

            factor = p.map([total], inverse)
            query = p.add(self.wave_query, 16 * tile)
            for channel, accumulator in enumerate(accumulators):
                self.loader.store_output(p.map([accumulator, factor], p.multiply), query, channel)
            lse = p.map(
                [maximum, total],
                lambda high, sum_: p.multiply(
                    p.plus(self._finite(high), p.log2(sum_)), p.float_constant(LN_2)
                ),
            )
            self.loader.store_lse(lse, query)
