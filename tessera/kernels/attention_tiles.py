"""Heads, key ranges and tiles of attention operands to addresses, fetches and fragment reads."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, SSAValue

from tessera.dialects import wave
from tessera.dialects.wave_types import LdsType, StagedType
from tessera.kernels.attention_problem import AttentionProblem
from tessera.kernels.program import KernelProgram
from tessera.kernels.schedules import LDS_PADDING, padded
from tessera.targets.matrix_core import converted_order


class Heads:
    """Base pointers of the one batch entry and head that a workgroup works on."""

    def __init__(self, program: KernelProgram, index: SSAValue) -> None:
        p = self.program = program
        self.index = index
        self.batch = p.div(index, p["heads"])
        self.head = p.rem(index, p["heads"])
        self.key_head = p.div(self.head, p["group"])

    def pointer(self, name: str) -> SSAValue:
        """Pointer to the first row of operand q, k, v or o."""
        p = self.program
        head = self.key_head if name in ("k", "v") else self.head
        place = p.add(
            p.mul(p.wide(self.batch), p[f"{name}_batch"]), p.mul(p.wide(head), p[f"{name}_head"])
        )
        return p.offset(p[name], place)


class KeyRange:
    """Which keys a workgroup visits, and which of them a query sees.

    Query i sees keys 0 .. min(seq_k, i + shift + 1) - 1 under a causal mask, where shift is
    seq_k - seq_q (bottom_right) or 0 (top_left); without one it sees all seq_k.
    """

    def __init__(
        self, program: KernelProgram, problem: AttentionProblem, first_query: SSAValue
    ) -> None:
        p = self.program = program
        self.problem = problem
        step = self.step = problem.schedule.keys_per_step
        last_query = p.sub(p.min(p.add(first_query, problem.schedule.queries), p["seq_q"]), 1)
        self.whole_tiles = p.div(p.max(self.limit_of(first_query), 0), step)
        self.tiles = p.ceildiv(p.max(self.limit_of(last_query), 0), step)

    def limit_of(self, query: SSAValue) -> SSAValue:
        """The number of leading keys that a query sees; not positive when it sees none."""
        p = self.program
        if self.problem.causal == "none":
            return p["seq_k"]
        visible = p.add(query, 1)
        if self.problem.causal == "bottom_right":
            visible = p.add(visible, p.sub(p["seq_k"], p["seq_q"]))
        return p.min(visible, p["seq_k"])

    def start_of(self, tile: SSAValue) -> SSAValue:
        """Index of the first key of a tile."""
        return self.program.mul(tile, self.step)


class TileLoader:
    """Moves tiles: Q into registers, K and V through LDS, O and lse back to memory.

    K lies in LDS as in memory, [key][channel]. V lies transposed, [channel][key], with the 16 keys
    of each group in the order that a converted accumulator has.
    """

    def __init__(self, program: KernelProgram, problem: AttentionProblem, heads: Heads) -> None:
        p = self.program = program
        self.problem = problem
        self.pointers = {name: heads.pointer(name) for name in ("q", "k", "v", "o")}
        self.lse = p.offset(p["lse"], p.mul(p.wide(heads.index), p.wide(p["seq_q"])))
        keys = problem.schedule.keys_per_step
        channels, values = padded(problem.head_dim), padded(problem.head_dim_v)
        element = problem.element
        self.key_lds = p.insert(
            wave.AllocLdsOp(LdsType(keys, channels, element, channels + LDS_PADDING))
        )
        self.value_lds = p.insert(
            wave.AllocLdsOp(LdsType(values, keys, element, keys + LDS_PADDING))
        )
        self.staged_types: tuple[Attribute, Attribute] = (
            StagedType(keys, channels, element, "rows"),
            StagedType(keys, values, element, "transposed"),
        )

    def query_fragment(self, first: SSAValue, tile: int, channel: int) -> SSAValue:
        """Q of 16 queries and 16 channels; queries past the end repeat the last one."""
        p, problem = self.program, self.problem
        row = p.min(p.add(first, 16 * tile), p.sub(p["seq_q"], 1))
        place = p.add(p.mul(p.wide(row), p.wide(p["q_row"])), p.wide(p.constant(16 * channel)))
        left = problem.head_dim - 16 * channel
        return p.insert(
            wave.LoadGlobalFragmentOp(
                p.offset(self.pointers["q"], place),
                p["q_row"],
                problem.fragment("b"),
                problem.alignment,
                outer_limit=p.sub(p["seq_q"], row),
                inner_limit=p.constant(left) if left < 16 else None,
            )
        )

    def stage(self, first_key: SSAValue, left: SSAValue | None) -> list[SSAValue]:
        """Fetch K and V rows from `first_key`; `left` counts valid ones where some may be missing.

        Missing keys repeat the last one (their scores are masked); missing values are zero, since
        weight 0 does not silence a NaN. Padding channels of K are zero for the same reason.
        """
        p, problem = self.program, self.problem
        keys, values = self.staged_types
        assert isinstance(keys, StagedType)
        assert isinstance(values, StagedType)

        def pointer(name: str) -> SSAValue:
            place = p.mul(p.wide(first_key), p.wide(p[f"{name}_row"]))
            return p.offset(self.pointers[name], place)

        def columns(head_dim: int) -> SSAValue | None:
            return p.constant(head_dim, i32) if head_dim % 16 else None

        threads, alignment = problem.schedule.threads, problem.alignment
        return [
            p.insert(
                wave.StageOp(
                    pointer("k"), p["k_row"], keys, threads, alignment,
                    row_limit=left,
                    column_limit=columns(problem.head_dim),
                )
            ),
            p.insert(
                wave.StageOp(
                    pointer("v"), p["v_row"], values, threads, alignment,
                    row_limit=left,
                    column_limit=columns(problem.head_dim_v),
                    zero_rows=left is not None,
                    any_columns=True,
                    order=converted_order(problem.core),
                )
            ),
        ]  # fmt: skip

    def commit(self, staged: Sequence[SSAValue]) -> None:
        """Put both tiles into LDS once every wave is done with what was there."""
        p, threads = self.program, self.problem.schedule.threads
        p.barrier()
        for tile, lds in zip(staged, (self.key_lds, self.value_lds), strict=True):
            p.effect(wave.CommitOp(tile, lds, threads))
        p.barrier()

    def key_fragment(self, key: int, channel: int) -> SSAValue:
        """K of 16 keys and 16 channels."""
        return self._fragment(self.key_lds, 16 * key, 16 * channel)

    def value_fragment(self, channel: int, key: int) -> SSAValue:
        """V^T of 16 channels and 16 keys."""
        return self._fragment(self.value_lds, 16 * channel, 16 * key)

    def _fragment(self, lds: SSAValue, outer: int, inner: int) -> SSAValue:
        p = self.program
        places = p.constant(outer), p.constant(inner)
        return p.insert(wave.LoadFragmentOp(lds, *places, self.problem.fragment("a")))

    def store_output(self, fragment: SSAValue, query: SSAValue, channel: int) -> None:
        """Write O^T of 16 channels and 16 queries."""
        p, problem = self.program, self.problem
        row = p.mul(p.wide(query), p.wide(p["o_row"]))
        place = p.add(row, p.wide(p.constant(16 * channel)))
        limits = p.constant(problem.head_dim_v - 16 * channel), p.sub(p["seq_q"], query)
        p.effect(
            wave.StoreOp(
                fragment,
                p.offset(self.pointers["o"], place),
                p["o_row"],
                limits,
                problem.alignment,
                transposed=True,
            )
        )

    def store_lse(self, lse: SSAValue, query: SSAValue) -> None:
        """Write the log-sum-exp of 16 queries."""
        p = self.program
        pointer = p.offset(self.lse, p.wide(query))
        p.effect(wave.StoreStatisticOp(lse, pointer, p.sub(p["seq_q"], query)))
