"""An attention directive to what its kernels are compiled for, their arguments and launch rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32, i32, i64
from xdsl.ir import Attribute, Operation

from tessera.dialects.wave_types import FragmentType, PointerType, StatisticType
from tessera.errors import OptionError
from tessera.kernels.generated import alignment_requirements, buffer, option, scalar
from tessera.kernels.schedules import (
    INSTRUCTION_TILE,
    AttentionSchedule,
    attention_schedule,
    check_lds,
    padded,
)
from tessera.launch_rule import ArgumentRule, LaunchRule
from tessera.targets import MatrixCore, Target

ELEMENT_TYPES: dict[str, Attribute] = {"f16": Float16Type(), "bf16": BFloat16Type(), "f32": f32}
ELEMENT_BITS = 16
ROWS_AHEAD = 256
"""Rows of one tile at most: in-tile offsets are 32 bits wide."""

NO_WINDOW = 2**30
"""A side of this many keys hides none, as lengths with a window are below; sums fit into i32."""

FORWARD_OPERANDS = ("q", "k", "v", "o")
AXES = ("batch", "head", "row")


@dataclass(frozen=True)
class AttentionProblem:
    """Compile-time facts of an attention kernel; lengths, strides and scale come at run time."""

    name: str
    dtype: str
    head_dim: int
    head_dim_v: int
    causal: str
    scale: float
    alignment: int
    schedule: AttentionSchedule
    core: MatrixCore
    window_left: int | None = None
    window_right: int | None = None
    softcap: float | None = None
    bias_dtype: str | None = None
    has_alibi: bool = False
    variable_lengths: bool = False

    @property
    def has_window(self) -> bool:
        """Whether `window_left` or `window_right` was asked for."""
        return self.window_left is not None or self.window_right is not None

    def __post_init__(self) -> None:
        if self.schedule.queries > ROWS_AHEAD or self.schedule.keys_per_step > ROWS_AHEAD:
            raise OptionError(f"{self.name}: tiles of more than {ROWS_AHEAD} rows are not built")
        elements = self.alignment * 8 // ELEMENT_BITS
        for extent in (self.head_dim, self.head_dim_v):
            if elements > 1 and extent % elements:
                raise OptionError(
                    f"{self.name}: alignment {self.alignment} needs head dims that are multiples "
                    f"of {elements}, got {extent}"
                )

    @property
    def has_bias(self) -> bool:
        """Whether an additive bias is an operand."""
        return self.bias_dtype is not None

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
        """Type of one number per lane-owned row of a tile."""
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


def attention_problem(
    directive: Operation, target: Target, is_forward: bool = True
) -> AttentionProblem:
    """Read a directive's attributes; absent ones take the shipped schedule's values.

    A backward directive's waves are not those of the forward pass that it may need too.
    """
    dtype = option(directive, "dtype", "f16")
    head_dim = option(directive, "head_dim", 0)
    head_dim_v = option(directive, "head_dim_v", head_dim)
    alignment = option(directive, "alignment", ELEMENT_BITS // 8)
    default = attention_schedule(target, dtype, head_dim, head_dim_v, alignment=alignment)
    schedule = default
    if is_forward:
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
        window_left=option(directive, "window_left", None),
        window_right=option(directive, "window_right", None),
        softcap=option(directive, "softcap", None),
        bias_dtype=option(directive, "bias_dtype", None),
        has_alibi=bool(option(directive, "alibi", False)),
        variable_lengths=bool(option(directive, "variable_lengths", False)),
    )


def contract_options(problem: AttentionProblem) -> dict[str, object]:
    """The options that say what is computed, as the operation's contract has them."""
    return {
        "causal": problem.causal,
        "scale": problem.scale,
        "window_left": problem.window_left,
        "window_right": problem.window_right,
        "softcap": problem.softcap,
        "bias_dtype": problem.bias_dtype,
        "alibi": problem.has_alibi or None,
        "variable_lengths": problem.variable_lengths or None,
    }


def kernel_arguments(
    problem: AttentionProblem, operands: Sequence[str], statistics: Sequence[str]
) -> list[tuple[str, Attribute]]:
    """Names and types of a kernel's arguments, in the order of `argument_rules`."""
    arguments: list[tuple[str, Attribute]] = [
        *((name, PointerType(problem.element)) for name in operands),
        *((name, PointerType(f32)) for name in statistics),
        *((name, i32) for name in ("seq_q", "seq_k", "heads", "group", "q_tiles", "k_tiles")),
        *((f"{name}_{axis}", i32 if axis == "row" else i64) for name in operands for axis in AXES),
        ("scale", f32),
    ]
    if problem.bias_dtype is not None:
        arguments.append(("bias", PointerType(ELEMENT_TYPES[problem.bias_dtype])))
        arguments += [(f"bias_{axis}", i64) for axis in ("batch", "head", "row", "column")]
    if problem.has_alibi:
        arguments += [("alibi_slopes", PointerType(f32)), ("alibi_slopes_batch", i64)]
    if problem.variable_lengths:
        arguments += [(f"cu_seqlens_{one}", PointerType(i32)) for one in ("q", "k")]
    return arguments


def argument_rules(
    problem: AttentionProblem,
    operands: Sequence[str],
    statistics: Sequence[str],
    tiles: tuple[str, str],
) -> tuple[ArgumentRule, ...]:
    """Where each argument of `kernel_arguments` comes from; `tiles` are the two tile counts."""
    rules = [
        *(buffer(name, problem.dtype) for name in operands),
        *(buffer(name, "f32") for name in statistics),
        scalar("seq_q", "i32", "seq_q"),
        scalar("seq_k", "i32", "seq_k"),
        scalar("heads", "i32", "heads"),
        scalar("group", "i32", "heads // max(heads_k, 1)"),
        scalar("q_tiles", "i32", tiles[0]),
        scalar("k_tiles", "i32", tiles[1]),
        *(
            scalar(f"{name}_{axis}", "i32" if axis == "row" else "i64", f"stride({name}, {index})")
            for name in operands
            for index, axis in enumerate(AXES)
        ),
        scalar("scale", "f32", repr(float(problem.scale))),
    ]
    if problem.bias_dtype is not None:
        rules.append(buffer("bias", problem.bias_dtype))
        rules += [
            scalar(f"bias_{axis}", "i64", f"stride(bias, {index})")
            for index, axis in enumerate(("batch", "head", "row", "column"))
        ]
    if problem.has_alibi:
        rules += [
            buffer("alibi_slopes", "f32"),
            scalar("alibi_slopes_batch", "i64", "stride(alibi_slopes, 0)"),
        ]
    if problem.variable_lengths:
        rules += [buffer(f"cu_seqlens_{one}", "i32") for one in ("q", "k")]
    return tuple(rules)


def requirements(
    problem: AttentionProblem, operands: Sequence[str], statistics: Sequence[str], grid: str
) -> tuple[tuple[str, str], ...]:
    """Conditions on strides, alignment and sizes under which a kernel is right."""
    aligned = alignment_requirements(
        dict.fromkeys(operands, ((0, 1, 2), None)), problem.alignment, ELEMENT_BITS
    )
    return (
        *aligned,
        *(
            (
                f"stride({name}, 2) * {ROWS_AHEAD} < 2**31",
                f"operand {name!r}: {ROWS_AHEAD} rows must span fewer than 2**31 elements",
            )
            for name in operands
        ),
        (f"{grid} < 2**31", "the grid must have fewer than 2**31 workgroups"),
        ("seq_q + seq_k < 2**31 - 1024", "seq_q + seq_k must be below 2**31 - 1024"),
        *(
            ((f"seq_q + seq_k < {NO_WINDOW}", f"with a window seq_q + seq_k is below {NO_WINDOW}"),)
            if problem.has_window
            else ()
        ),
        *(
            (
                f"stride({name}, 2) == 1 and stride({name}, 1) == seq_q"
                f" and stride({name}, 0) == seq_q * heads",
                f"{name!r} must be contiguous",
            )
            for name in statistics
        ),
    )


def problems(problem: AttentionProblem) -> str:
    """How many independent (batch entry or sequence) problems a launch has, as an expression."""
    return "sequences" if problem.variable_lengths else "batch"


def forward_launch_rule(problem: AttentionProblem) -> LaunchRule:
    """Grid and arguments of the forward kernel.

    The grid is one-dimensional, query tile fastest, because only its first axis may pass 65535.
    """
    q_tiles = f"ceildiv(seq_q, {problem.schedule.queries})"
    workgroups = f"{q_tiles} * heads * {problems(problem)}"
    return LaunchRule(
        kernel=problem.name,
        grid=(workgroups, "1", "1"),
        block=(problem.schedule.threads, 1, 1),
        arguments=argument_rules(problem, FORWARD_OPERANDS, ("lse",), (q_tiles, "0")),
        requires=requirements(problem, FORWARD_OPERANDS, ("lse",), workgroups),
    )
