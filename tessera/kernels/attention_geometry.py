"""Workgroup numbers to heads, sequence lengths and the tiles that can see one another."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tessera.dialects import wave
from tessera.kernels.attention_problem import NO_WINDOW, AttentionProblem
from tessera.kernels.program import KernelProgram
from tessera.kernels.row_tiles import Rows


class SequencePair:
    """The queries and keys that belong together: their lengths, and where their rows begin.

    Without variable lengths it is one batch entry. With them (`cu_seqlens`) it is one of several
    sequences that lie behind one another along the rows of a single batch entry.
    """

    def __init__(self, program: KernelProgram, problem: AttentionProblem, index: SSAValue) -> None:
        p = self.program = program
        self.index = index
        self.is_packed = problem.variable_lengths
        if not self.is_packed:
            self.seq_q, self.seq_k = p["seq_q"], p["seq_k"]
            return
        self.first_query, self.seq_q = self._slice("cu_seqlens_q")
        self.first_key, self.seq_k = self._slice("cu_seqlens_k")

    def _slice(self, name: str) -> tuple[SSAValue, SSAValue]:
        p = self.program
        here = p.wide(self.index)
        first = p.insert(wave.LoadElementOp(p[name], here))
        end = p.insert(wave.LoadElementOp(p[name], p.add(here, 1)))
        return first, p.sub(end, first)

    def batch_offset(self, name: str) -> SSAValue:
        """Elements from an operand's start to this problem's first row."""
        p = self.program
        if not self.is_packed:
            return p.mul(p.wide(self.index), p[f"{name}_batch"])
        first = self.first_key if name in ("k", "v", "dk", "dv") else self.first_query
        return p.mul(p.wide(first), p.wide(p[f"{name}_row"]))


def on_existing_rows(
    program: KernelProgram,
    problem: AttentionProblem,
    first_row: SSAValue,
    count: SSAValue,
    body: Callable[[], None],
) -> None:
    """Run `body` where a workgroup owns rows: of packed sequences many are shorter than the grid.

    A sequence may even have none, and then there is no row to read in place of one past the end.
    """
    if not problem.variable_lengths:
        body()
        return

    def run() -> tuple[SSAValue, ...]:
        body()
        return ()

    program.when(program.compare("slt", first_row, count), run)


def query_tile(p: KernelProgram, problem: AttentionProblem, workgroup: SSAValue) -> SSAValue:
    """The tile of queries of a workgroup, numbered with the tile fastest.

    Under a causal mask the last queries see the most keys: their tiles start first, so that short
    ones fill the gaps at the end.
    """
    tile = p.rem(workgroup, p["q_tiles"])
    if problem.causal == "none":
        return tile
    return p.sub(p.sub(p["q_tiles"], 1), tile)


class Heads:
    """Base pointers of the operands for one problem and one query head."""

    def __init__(
        self,
        program: KernelProgram,
        problem: AttentionProblem,
        sequence: SequencePair,
        head: SSAValue,
        key_head: SSAValue,
    ) -> None:
        self.program, self.problem, self.sequence = program, problem, sequence
        self.head, self.key_head = head, key_head

    def rows(self, name: str) -> Rows:
        """The rows of q, k, v, o, do, dq, dk or dv."""
        p, problem, sequence = self.program, self.problem, self.sequence
        is_key = name in ("k", "v", "dk", "dv")
        head = self.key_head if is_key else self.head
        place = p.add(sequence.batch_offset(name), p.mul(p.wide(head), p[f"{name}_head"]))
        return Rows(
            pointer=p.offset(p[name], place),
            stride=p[f"{name}_row"],
            count=sequence.seq_k if is_key else sequence.seq_q,
            channels=problem.head_dim_v if name in ("v", "o", "do", "dv") else problem.head_dim,
            element=problem.element,
            alignment=problem.alignment,
        )

    def statistic(self, name: str) -> SSAValue:
        """Pointer to lse or delta of the first query: [batch, heads, seq_q], contiguous."""
        p, sequence = self.program, self.sequence
        if sequence.is_packed:
            place = p.add(
                p.mul(p.wide(self.head), p.wide(p["seq_q"])), p.wide(sequence.first_query)
            )
            return p.offset(p[name], place)
        index = p.add(p.mul(sequence.index, p["heads"]), self.head)
        return p.offset(p[name], p.mul(p.wide(index), p.wide(p["seq_q"])))


class Visibility:
    """Which keys a query sees.

    Query i stands at position i + shift among the keys, where shift is 0 (top_left) or
    seq_k - seq_q. It sees keys from position - left on, up to position + right (right is 0 under a
    causal mask), as far as they exist.
    """

    def __init__(
        self, program: KernelProgram, problem: AttentionProblem, sequence: SequencePair
    ) -> None:
        p = self.program = program
        self.seq_q, self.seq_k = sequence.seq_q, sequence.seq_k
        self.left, self.right = (
            None if side is None or side >= NO_WINDOW else side
            for side in (problem.window_left, problem.window_right)
        )
        if problem.causal != "none":
            self.right = 0
        top_left = problem.causal == "top_left"
        self.shift = p.constant(0) if top_left else p.sub(self.seq_k, self.seq_q)

    def position(self, query: SSAValue) -> SSAValue:
        """Where a query stands among the keys."""
        return self.program.add(query, self.shift)

    def end(self, query: SSAValue) -> SSAValue:
        """One past the last key that a query sees; at or below `begin` when it sees none."""
        p = self.program
        if self.right is None:
            return self.seq_k
        return p.min(p.add(self.position(query), self.right + 1), self.seq_k)

    def begin(self, query: SSAValue) -> SSAValue:
        """The first key that a query sees."""
        p = self.program
        if self.left is None:
            return p.constant(0)
        return p.max(p.sub(self.position(query), self.left), 0)

    def visible(self, query: SSAValue, key: SSAValue) -> SSAValue:
        """Whether a query sees a key."""
        p = self.program
        below = p.compare("slt", key, self.end(query))
        if self.left is None:
            return below
        return p.both(below, p.compare("sge", key, self.begin(query)))


class TileRange:
    """Tiles first .. end - 1 to visit, of which whole_first .. whole_end - 1 need no masks."""

    def __init__(
        self,
        program: KernelProgram,
        step: int,
        visited: tuple[SSAValue, SSAValue],
        whole: tuple[SSAValue, SSAValue],
    ) -> None:
        """`visited` and `whole` are (begin, end) in rows; empty when end <= begin."""
        p = self.program = program
        self.step = step
        self.first = p.div(p.max(visited[0], 0), step)
        self.end = p.ceildiv(p.max(visited[1], 0), step)
        self.whole_first = p.ceildiv(p.max(whole[0], 0), step)
        self.whole_end = p.div(p.max(whole[1], 0), step)

    def start_of(self, tile: SSAValue) -> SSAValue:
        """First row of a tile."""
        return self.program.mul(tile, self.step)

    def is_whole(self, tile: SSAValue) -> SSAValue:
        """Whether every pair of rows in a tile is visible and exists."""
        p = self.program
        return p.both(
            p.compare("sge", tile, self.whole_first), p.compare("slt", tile, self.whole_end)
        )


def keys_of_queries(
    p: KernelProgram, visibility: Visibility, first_query: SSAValue, queries: int, step: int
) -> TileRange:
    """The key tiles that `queries` neighbouring queries visit."""
    last_query = p.sub(p.min(p.add(first_query, queries), visibility.seq_q), 1)
    visited = visibility.begin(first_query), visibility.end(last_query)
    whole = visibility.begin(last_query), visibility.end(first_query)
    return TileRange(p, step, visited, whole)


def queries_of_keys(
    p: KernelProgram, visibility: Visibility, first_key: SSAValue, keys: int, step: int
) -> TileRange:
    """The query tiles that see some of `keys` neighbouring keys.

    Key j is seen from positions j - right to j + left. Keys past the end need no mask, since
    nobody stores what belongs to them.
    """
    last_key = p.sub(p.min(p.add(first_key, keys), visibility.seq_k), 1)
    zero = p.constant(0, i32)
    begin, whole_begin, end, whole_end = zero, zero, visibility.seq_q, visibility.seq_q
    if visibility.right is not None:
        reach = p.add(visibility.shift, visibility.right)
        begin, whole_begin = p.sub(first_key, reach), p.sub(last_key, reach)
    if visibility.left is not None:
        reach = p.sub(visibility.left + 1, visibility.shift)
        end = p.min(p.add(last_key, reach), visibility.seq_q)
        whole_end = p.min(p.add(first_key, reach), visibility.seq_q)
    return TileRange(p, step, (begin, end), (whole_begin, whole_end))
