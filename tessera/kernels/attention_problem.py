"""An attention directive to what its kernels are compiled for, and their launch rule."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32
from xdsl.ir import Attribute, Operation

from tessera.dialects.wave_types import FragmentType, StatisticType
from tessera.errors import OptionError
from tessera.kernels.generated import alignment_requirements, buffer, option, scalar
from tessera.kernels.schedules import (
    INSTRUCTION_TILE,
    AttentionSchedule,
    attention_schedule,
    check_lds,
    padded,
)
from tessera.launch_rule import LaunchRule
from tessera.targets import MatrixCore, Target

ELEMENT_TYPES: dict[str, Attribute] = {"f16": Float16Type(), "bf16": BFloat16Type()}
ELEMENT_BITS = 16
ROWS_AHEAD = 256
"""Rows of one tile at most: in-tile offsets are 32 bits wide."""


@dataclass(frozen=True)
class AttentionProblem:
    """Compile-time facts of one forward kernel; lengths, strides and scale come at run time."""

    name: str
    dtype: str
    head_dim: int
    head_dim_v: int
    causal: str
    scale: float
    alignment: int
    schedule: AttentionSchedule
    core: MatrixCore

    def __post_init__(self) -> None:
        if self.schedule.queries > ROWS_AHEAD or self.schedule.keys_per_step > ROWS_AHEAD:
            raise OptionError(f"{self.name}: tiles of more than {ROWS_AHEAD} rows are not built")

    @property
    def element(self) -> Attribute:
        """Type of the elements of Q, K, V and O."""
        return ELEMENT_TYPES[self.dtype]

    @property
    def accumulator(self) -> FragmentType:
        """Type of one accumulator."""
        return FragmentType(self.core.m, self.core.n, f32, "acc")

    @property
    def statistic(self) -> StatisticType:
        """Type of one number per query of a tile."""
        return StatisticType(self.core.n, f32, "column")

    def fragment(self, role: str) -> FragmentType:
        """Type of one operand fragment."""
        shape = (self.core.m, self.core.k) if role == "a" else (self.core.k, self.core.n)
        return FragmentType(*shape, self.element, role)

    @property
    def channel_tiles(self) -> int:
        """Instruction tiles along head_dim, padding included."""
        return padded(self.head_dim) // INSTRUCTION_TILE

    @property
    def value_tiles(self) -> int:
        """Instruction tiles along head_dim_v, padding included."""
        return padded(self.head_dim_v) // INSTRUCTION_TILE

    @property
    def key_tiles(self) -> int:
        """Instruction tiles along the keys of one step."""
        return self.schedule.keys_per_step // INSTRUCTION_TILE


def attention_problem(directive: Operation, target: Target) -> AttentionProblem:
    """Read a directive's attributes; absent ones take the shipped schedule's values."""
    dtype = option(directive, "dtype", "f16")
    head_dim = option(directive, "head_dim", 0)
    head_dim_v = option(directive, "head_dim_v", head_dim)
    alignment = option(directive, "alignment", ELEMENT_BITS // 8)
    default = attention_schedule(target, dtype, head_dim, head_dim_v, alignment=alignment)
    schedule = AttentionSchedule(
        waves=option(directive, "waves", default.waves),
        queries_per_wave=option(directive, "queries_per_wave", default.queries_per_wave),
        keys_per_step=option(directive, "keys_per_step", default.keys_per_step),
    )
    check_lds(target, schedule.lds_bytes(head_dim, head_dim_v))
    return AttentionProblem(
        name=option(directive, "name", ""),
        dtype=dtype,
        head_dim=head_dim,
        head_dim_v=head_dim_v,
        causal=option(directive, "causal", "none"),
        scale=option(directive, "scale", head_dim**-0.5),
        alignment=alignment,
        schedule=schedule,
        core=target.matrix_core(dtype),
    )


def launch_rule(problem: AttentionProblem) -> LaunchRule:
    """Grid and arguments from the operands' sizes and strides.

    The grid is one-dimensional, query tile fastest, because only its first axis may pass 65535.
    """
    q_tiles = f"ceildiv(seq_q, {problem.schedule.queries})"
    workgroups = f"{q_tiles} * heads * batch"
    operands = dict.fromkeys(("q", "k", "v", "o"), ((0, 1, 2), None))
    aligned = alignment_requirements(operands, problem.alignment, ELEMENT_BITS)
    elements = problem.alignment * 8 // ELEMENT_BITS
    for extent in (problem.head_dim, problem.head_dim_v):
        if elements > 1 and extent % elements:
            raise OptionError(
                f"{problem.name}: alignment {problem.alignment} needs head dims that are multiples "
                f"of {elements}, got {extent}"
            )
    strides = [
        scalar(f"{name}_{axis}", "i32" if axis == "row" else "i64", f"stride({name}, {index})")
        for name in ("q", "k", "v", "o")
        for index, axis in enumerate(("batch", "head", "row"))
    ]
    return LaunchRule(
        kernel=problem.name,
        grid=(workgroups, "1", "1"),
        block=(problem.schedule.threads, 1, 1),
        arguments=(
            *(buffer(name, problem.dtype) for name in ("q", "k", "v", "o")),
            buffer("lse", "f32"),
            scalar("seq_q", "i32", "seq_q"),
            scalar("seq_k", "i32", "seq_k"),
            scalar("heads", "i32", "heads"),
            scalar("group", "i32", "heads // max(heads_k, 1)"),
            scalar("q_tiles", "i32", q_tiles),
            *strides,
            scalar("scale", "f32", repr(float(problem.scale))),
        ),
        requires=(
            *aligned,
            *(
                (
                    f"stride({name}, 2) * {ROWS_AHEAD} < 2**31",
                    f"operand {name!r}: {ROWS_AHEAD} rows must span fewer than 2**31 elements",
                )
                for name in ("q", "k", "v", "o")
            ),
            (f"{workgroups} < 2**31", "the grid must have fewer than 2**31 workgroups"),
            ("seq_q + seq_k < 2**31 - 1024", "seq_q + seq_k must be below 2**31 - 1024"),
            (
                "stride(lse, 2) == 1 and stride(lse, 1) == seq_q"
                " and stride(lse, 0) == seq_q * heads",
                "result 'lse' must be contiguous",
            ),
        ),
    )
