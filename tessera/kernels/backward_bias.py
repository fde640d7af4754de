"""Attention backward for the bias: its gradient, summed over the axes where it is broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import Attribute, SSAValue

from tessera.dialects import wave
from tessera.dialects.wave_types import PointerType
from tessera.kernels.attention_geometry import Heads, SequencePair, Visibility
from tessera.kernels.attention_gradient import TileGradient, log2_lse
from tessera.kernels.attention_problem import (
    ELEMENT_TYPES,
    AttentionProblem,
    argument_rules,
    kernel_arguments,
    requirements,
)
from tessera.kernels.attention_scores import ScoreRule
from tessera.kernels.generated import buffer, scalar
from tessera.kernels.program import KernelProgram
from tessera.kernels.row_tiles import TILE, Rows, row_pointer
from tessera.launch_rule import ArgumentRule, LaunchRule

OPERANDS = ("q", "k", "v", "do")
STATISTICS = ("lse", "delta")
PARTIAL = "bias_partial"
SIZES = ("batch", "heads", "queries", "keys")
"""The bias's own sizes along the four axes of the logits; 1 where it is broadcast."""
THREADS = 256


def _size(axis: int) -> str:
    """Launch expression of the bias's own size along an axis."""
    return f"size(bias, {axis})"


def _partial_size(axis: int) -> str:
    """Rows or columns of the partial sums: 16 where the bias has one."""
    return f"({TILE} if {_size(axis)} == 1 else {_size(axis)})"


def _own_tiles(axis: int) -> str:
    return f"ceildiv({_size(axis)}, {TILE})"


EXTRA_SCALARS: tuple[tuple[str, str], ...] = (
    *((f"bias_size_{name}", _size(axis)) for axis, name in enumerate(SIZES)),
    ("batch", "batch"),
    ("own_tiles_q", _own_tiles(2)),
    ("own_tiles_k", _own_tiles(3)),
    ("partial_queries", _partial_size(2)),
    ("partial_keys", _partial_size(3)),
)


class BiasGradientProgram:
    """Writes the kernel that recomputes dS tile by tile and adds up what one bias element gets.

    A wave owns 16 x 16 elements of the bias, or of the partial sums where the bias is broadcast
    along queries or keys: element (i, j) of those adds up the queries i, i + 16, ... and keys
    j, j + 16, .... It walks over all batch entries, heads and tiles that share them, in one order,
    so results are the same bits on every run. A second kernel adds up the partial sums.
    """

    def __init__(self, program: KernelProgram, problem: AttentionProblem) -> None:
        p = self.program = program
        self.problem = problem
        workgroup = p.insert(wave.WorkgroupIdOp())
        rest, key_tile = p.div(workgroup, p["own_tiles_k"]), p.rem(workgroup, p["own_tiles_k"])
        rest, query_tile = p.div(rest, p["own_tiles_q"]), p.rem(rest, p["own_tiles_q"])
        self.entry, self.head = p.div(rest, p["bias_size_heads"]), p.rem(rest, p["bias_size_heads"])
        self.own_query, self.own_key = p.mul(query_tile, TILE), p.mul(key_tile, TILE)

    def write(self) -> None:
        """The whole kernel."""
        p, problem = self.program, self.problem
        counts = [
            p.div(p["batch"], p["bias_size_batch"]),
            p.div(p["heads"], p["bias_size_heads"]),
            self._turns("seq_q", "own_tiles_q"),
            self._turns("seq_k", "own_tiles_k"),
        ]
        total = p.mul(p.mul(counts[0], counts[1]), p.mul(counts[2], counts[3]))

        def step(turn: SSAValue, carried: SSAValue) -> Sequence[SSAValue]:
            rest, key = p.div(turn, counts[3]), p.rem(turn, counts[3])
            rest, query = p.div(rest, counts[2]), p.rem(rest, counts[2])
            entry, head = p.div(rest, counts[1]), p.rem(rest, counts[1])
            tile = self._tile(
                p.add(self.entry, entry),
                p.add(self.head, head),
                p.add(self.own_query, p.mul(query, TILE)),
                p.add(self.own_key, p.mul(key, TILE)),
            )
            return [p.map([carried, tile], p.plus)]

        (result,) = p.loop(0, total, [p.zero(problem.accumulator)], step)
        self._store(result)

    def _turns(self, length: str, own_tiles: str) -> SSAValue:
        """How many tiles along an axis one wave walks: all of them where the bias has one."""
        p = self.program
        tiles = p.ceildiv(p[length], TILE)
        return p.div(p.add(tiles, p.sub(p[own_tiles], 1)), p[own_tiles])

    def _tile(
        self, entry: SSAValue, head: SSAValue, first_query: SSAValue, first_key: SSAValue
    ) -> SSAValue:
        """dS^T of 16 keys and 16 queries, 0 where hidden or past the end."""
        p, problem = self.program, self.problem
        sequence = SequencePair(p, problem, entry)
        heads = Heads(p, problem, sequence, head, p.div(head, p["group"]))
        visibility = Visibility(p, problem, sequence)
        gradient = TileGradient(p, problem, ScoreRule(p, problem, heads, visibility), visibility)
        product = self._product(heads, ("k", first_key), ("q", first_query), problem.channel_tiles)
        d_weight = self._product(heads, ("v", first_key), ("do", first_query), problem.value_tiles)
        never = p.compare("slt", p.constant(0), 0)
        logits, d_weights = gradient.logits(
            [product],
            [d_weight],
            [lambda row, column: (p.add(first_query, column), p.add(first_key, row))],
            never,
        )
        lse = p.map([self._statistic(heads, "lse", first_query)], lambda x: log2_lse(p, x))
        delta = self._statistic(heads, "delta", first_query)
        weights = gradient.weights(logits[0], lse)
        zero = p.float_constant(0.0)

        def own(
            row: SSAValue, column: SSAValue, weight: SSAValue, d_one: SSAValue, mean: SSAValue
        ) -> SSAValue:
            exists = p.compare("slt", p.add(first_query, column), sequence.seq_q)
            return p.select(exists, p.multiply(weight, p.minus(d_one, mean)), zero)

        return p.map([weights, d_weights[0], delta], own, coordinates=True)

    def _product(
        self,
        heads: Heads,
        left: tuple[str, SSAValue],
        right: tuple[str, SSAValue],
        channels: int,
    ) -> SSAValue:
        p = self.program
        total = p.zero(self.problem.accumulator)
        for channel in range(channels):
            a = self._fragment("a", heads.rows(left[0]), left[1], channel)
            b = self._fragment("b", heads.rows(right[0]), right[1], channel)
            total = p.mma(a, b, total)
        return total

    def _fragment(self, role: str, rows: Rows, first: SSAValue, channel_tile: int) -> SSAValue:
        p = self.program
        row, channel = p.min(first, p.sub(rows.count, 1)), TILE * channel_tile
        left = rows.channels - channel
        return p.insert(
            wave.LoadGlobalFragmentOp(
                row_pointer(p, rows, row, channel),
                rows.stride,
                self.problem.fragment(role),
                rows.alignment,
                outer_limit=p.sub(rows.count, row),
                inner_limit=p.constant(left) if left < TILE else None,
            )
        )

    def _statistic(self, heads: Heads, name: str, first_query: SSAValue) -> SSAValue:
        p = self.program
        seq_q = heads.sequence.seq_q
        first = p.min(first_query, p.sub(seq_q, 1))
        pointer = p.offset(heads.statistic(name), p.wide(first))
        return p.insert(
            wave.LoadGlobalStatisticOp(pointer, p.sub(seq_q, first), self.problem.statistic)
        )

    def _store(self, result: SSAValue) -> None:
        p = self.program
        index = p.add(p.mul(self.entry, p["bias_size_heads"]), self.head)
        row = p.add(p.mul(p.wide(index), p.wide(p["partial_queries"])), p.wide(self.own_query))
        place = p.add(p.mul(row, p.wide(p["partial_keys"])), p.wide(self.own_key))
        limits = (
            p.sub(p["partial_keys"], self.own_key),
            p.sub(p["partial_queries"], self.own_query),
        )
        pointer = p.offset(p[PARTIAL], place)
        p.effect(wave.StoreOp(result, pointer, p["partial_keys"], limits, 4, transposed=True))


def partial_arguments(problem: AttentionProblem) -> list[tuple[str, Attribute]]:
    """Names and types of the first kernel's arguments."""
    return [
        *kernel_arguments(problem, OPERANDS, STATISTICS),
        (PARTIAL, PointerType(f32)),
        *((name, i32) for name, _ in EXTRA_SCALARS),
    ]


def partial_rule(problem: AttentionProblem, given: Sequence[str]) -> LaunchRule:
    """The launch of the kernel that writes partial sums; `given` are statistics of the caller."""
    workgroups = f"{_size(0)} * {_size(1)} * {_own_tiles(2)} * {_own_tiles(3)}"
    shape = (_size(0), _size(1), _partial_size(2), _partial_size(3))
    return LaunchRule(
        kernel=problem.name,
        grid=(workgroups, "1", "1"),
        block=(problem.schedule.threads, 1, 1),
        arguments=(
            *argument_rules(problem, OPERANDS, STATISTICS, ("0", "0")),
            buffer(PARTIAL, "f32"),
            *(scalar(name, "i32", value) for name, value in EXTRA_SCALARS),
        ),
        requires=requirements(problem, OPERANDS, given, workgroups),
        workspaces=((PARTIAL, "f32", shape),),
    )


SUM_SCALARS: tuple[tuple[str, str], ...] = (
    ("count", " * ".join(_size(axis) for axis in range(4))),
    ("queries", _size(2)),
    ("keys", _size(3)),
    ("more_queries", f"({TILE} if {_size(2)} == 1 else 1)"),
    ("more_keys", f"({TILE} if {_size(3)} == 1 else 1)"),
)


def sum_arguments(problem: AttentionProblem) -> list[tuple[str, Attribute]]:
    """Names and types of the second kernel's arguments."""
    assert problem.bias_dtype is not None
    return [
        (PARTIAL, PointerType(f32)),
        ("dbias", PointerType(ELEMENT_TYPES[problem.bias_dtype])),
        *((name, i32) for name, _ in SUM_SCALARS),
    ]


def write_sum(p: KernelProgram, problem: AttentionProblem) -> None:
    """dbias from partial sums: one thread per element adds up to 16 x 16 of them, in order."""
    assert problem.bias_dtype is not None
    element = ELEMENT_TYPES[problem.bias_dtype]
    index = p.add(p.mul(p.insert(wave.WorkgroupIdOp()), THREADS), p.insert(wave.ThreadIdOp()))

    def body() -> list[SSAValue]:
        rest, key = p.div(index, p["keys"]), p.rem(index, p["keys"])
        outer, query = p.div(rest, p["queries"]), p.rem(rest, p["queries"])
        rows, columns = (
            p.mul(p["queries"], p["more_queries"]),
            p.mul(p["keys"], p["more_keys"]),
        )
        first = p.mul(p.wide(outer), p.mul(p.wide(rows), p.wide(columns)))

        def add(turn: SSAValue, total: SSAValue) -> list[SSAValue]:
            row = p.add(query, p.div(turn, p["more_keys"]))
            column = p.add(key, p.rem(turn, p["more_keys"]))
            place = p.add(p.mul(p.wide(row), p.wide(columns)), p.wide(column))
            part = p.insert(wave.LoadElementOp(p[PARTIAL], p.add(first, place)))
            return [p.plus(total, part)]

        turns = p.mul(p["more_queries"], p["more_keys"])
        (total,) = p.loop(0, turns, [p.float_constant(0.0)], add)
        if element != f32:
            total = p.insert(arith.TruncFOp(total, element))  # type: ignore[arg-type]
        p.effect(wave.StoreElementOp(total, p["dbias"], p.insert(arith.ExtSIOp(index, i64))))
        return []

    p.when(p.compare("slt", index, p["count"]), body)


def _is_contiguous(axis: int) -> str:
    """Launch expression: dbias steps along an axis as if its axes lay one inside the other."""
    inner = " * ".join(["1", *(_size(one) for one in range(axis + 1, 4))])
    return f"{_size(axis)} == 1 or stride(dbias, {axis}) == {inner}"


def sum_rule(problem: AttentionProblem) -> LaunchRule:
    """The launch of the kernel that adds up the partial sums."""
    assert problem.bias_dtype is not None
    count = SUM_SCALARS[0][1]
    arguments: list[ArgumentRule] = [
        buffer(PARTIAL, "f32"),
        buffer("dbias", problem.bias_dtype),
        *(scalar(name, "i32", value) for name, value in SUM_SCALARS),
    ]
    return LaunchRule(
        kernel=problem.name,
        grid=(f"ceildiv({count}, {THREADS})", "1", "1"),
        block=(THREADS, 1, 1),
        arguments=tuple(arguments),
        requires=(
            (f"{count} < 2**31 - {THREADS}", "the bias must have fewer than 2**31 elements"),
            *((_is_contiguous(axis), "'dbias' must be contiguous") for axis in range(4)),
        ),
    )
