"""An attention backward directive to what its three kernels are compiled for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation

from tessera.kernels.attention_problem import (
    AttentionProblem,
    argument_rules,
    attention_problem,
    problems,
    requirements,
)
from tessera.kernels.generated import option
from tessera.kernels.schedules import (
    AttentionSchedule,
    BackwardSchedule,
    backward_schedule,
    check_lds,
)
from tessera.launch_rule import LaunchRule
from tessera.targets import Target

PRE_OPERANDS = ("o", "do")
DKDV_OPERANDS = ("q", "k", "v", "do", "dk", "dv")
DQ_OPERANDS = ("q", "k", "v", "do", "dq")
STATISTICS = ("lse", "delta")
PRE_WAVES = 4


@dataclass(frozen=True)
class BackwardProblem:
    """The forward problem whose gradients are asked for, and the schedules of the kernels."""

    forward: AttentionProblem
    schedule: BackwardSchedule
    bias_gradient: bool = False
    compute_lse: bool = False

    @property
    def given(self) -> tuple[str, ...]:
        """The statistics that the caller has."""
        return () if self.compute_lse else ("lse",)

    def part(self, suffix: str, waves: int) -> AttentionProblem:
        """The facts of one kernel: its name, and a workgroup of `waves` waves."""
        one = AttentionSchedule(waves=waves, queries_per_wave=16, keys_per_step=16)
        return replace(self.forward, name=f"{self.forward.name}_{suffix}", schedule=one)


def backward_problem(directive: Operation, target: Target) -> BackwardProblem:
    """Read a directive's attributes; absent ones take the shipped schedule's values."""
    forward = attention_problem(directive, target, is_forward=False)
    default = backward_schedule(
        target, forward.dtype, forward.head_dim, forward.head_dim_v, forward.alignment
    )
    schedule = BackwardSchedule(
        waves=option(directive, "waves", default.waves),
        rows_per_step=option(directive, "rows_per_step", default.rows_per_step),
        prefetch=bool(option(directive, "prefetch", default.prefetch)),
    )
    schedule.check_parts(max(forward.head_dim, forward.head_dim_v))
    check_lds(target, schedule.lds_bytes(forward.head_dim, forward.head_dim_v))
    return BackwardProblem(
        forward,
        schedule,
        bias_gradient=bool(option(directive, "bias_gradient", False)),
        compute_lse=bool(option(directive, "compute_lse", False)),
    )


def backward_rule(
    problem: AttentionProblem,
    operands: Sequence[str],
    statistics: Sequence[str],
    rows: int,
    over: str,
    workspaces: Sequence[str] = (),
    given: Sequence[str] = (),
) -> LaunchRule:
    """The launch of one kernel whose workgroups own `rows` rows of the axis `over` (q or k).

    `workspaces` names the statistics that this kernel writes for the others, `given` those that
    the caller has.
    """
    tiles = f"ceildiv(seq_{over}, {rows})"
    heads = "heads_k" if over == "k" else "heads"
    workgroups = f"{tiles} * {heads} * {problems(problem)}"
    counts = (tiles, "0") if over == "q" else ("0", tiles)
    return LaunchRule(
        kernel=problem.name,
        grid=(workgroups, "1", "1"),
        block=(problem.schedule.threads, 1, 1),
        arguments=argument_rules(problem, operands, statistics, counts),
        requires=requirements(problem, operands, given, workgroups),
        workspaces=tuple((name, "f32", ("batch", "heads", "seq_q")) for name in workspaces),
    )
