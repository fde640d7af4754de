"""`tessera_rocm.flash_attn_bwd` to three wave programs: delta, then dK and dV, then dQ."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from tessera.dialects import wave
from tessera.kernels.attention_geometry import Heads, SequencePair, on_existing_rows
from tessera.kernels.attention_problem import (
    AttentionProblem,
    contract_options,
    kernel_arguments,
)
from tessera.kernels.backward_bias import THREADS as SUM_THREADS
from tessera.kernels.backward_bias import (
    BiasGradientProgram,
    partial_arguments,
    partial_rule,
    sum_arguments,
    sum_rule,
    write_sum,
)
from tessera.kernels.backward_keys import KeyGradientProgram
from tessera.kernels.backward_problem import (
    DKDV_OPERANDS,
    DQ_OPERANDS,
    PRE_OPERANDS,
    PRE_WAVES,
    STATISTICS,
    BackwardProblem,
    backward_problem,
    backward_rule,
)
from tessera.kernels.backward_queries import QueryGradientProgram
from tessera.kernels.flash_attention import AttentionProgram
from tessera.kernels.generated import GeneratedKernels
from tessera.kernels.program import KernelProgram
from tessera.kernels.row_tiles import TILE, OwnedRows
from tessera.kernels.schedules import key_parts, query_parts
from tessera.launch_rule import LaunchRule
from tessera.targets import Target


def generate_flash_attention_backward(directive: Operation, target: Target) -> GeneratedKernels:
    """The three kernels of one directive and their launches, in order.

    `<name>_pre` writes delta = rowsum(O * dO) into a workspace, and lse too where the caller has
    none; `<name>_dkdv` owns a key tile per
    workgroup, `<name>_dq` a query tile. No two workgroups write the same element, so results are
    the same bits on every run.
    """
    problem = backward_problem(directive, target)
    waves = problem.schedule.waves
    head_dim = max(problem.forward.head_dim, problem.forward.head_dim_v)
    keys = TILE * (waves // key_parts(head_dim))
    queries = TILE * (waves // query_parts(head_dim))

    pre_kernel, pre_rule = first_kernel(problem)

    dkdv = problem.part("dkdv", waves)
    dkdv_program = KernelProgram(
        dkdv.name, kernel_arguments(dkdv, DKDV_OPERANDS, STATISTICS), dkdv.schedule.threads
    )
    KeyGradientProgram(dkdv_program, dkdv, problem.schedule).write()

    dq = problem.part("dq", waves)
    dq_program = KernelProgram(
        dq.name, kernel_arguments(dq, DQ_OPERANDS, STATISTICS), dq.schedule.threads
    )
    QueryGradientProgram(dq_program, dq, problem.schedule).write()

    bias_kernels, bias_launches = bias_gradient(problem) if problem.bias_gradient else ((), ())
    return GeneratedKernels(
        kernels=(
            pre_kernel,
            dkdv_program.finish(),
            dq_program.finish(),
            *bias_kernels,
        ),
        launches=(
            pre_rule,
            backward_rule(dkdv, DKDV_OPERANDS, STATISTICS, keys, "k", given=problem.given),
            backward_rule(dq, DQ_OPERANDS, STATISTICS, queries, "q", given=problem.given),
            *bias_launches,
        ),
        contract="flash_attn_bwd",
        options={
            **contract_options(problem.forward),
            "bias_gradient": problem.bias_gradient or None,
            "compute_lse": problem.compute_lse or None,
        },
    )


def bias_gradient(
    problem: BackwardProblem,
) -> tuple[tuple[func.FuncOp, ...], tuple[LaunchRule, ...]]:
    """The kernels `<name>_dbias` and `<name>_dbias_sum`, and their launches."""
    partial, total = problem.part("dbias", 1), problem.part("dbias_sum", 1)
    partial_program = KernelProgram(
        partial.name, partial_arguments(partial), partial.schedule.threads
    )
    BiasGradientProgram(partial_program, partial).write()
    sum_program = KernelProgram(total.name, sum_arguments(total), SUM_THREADS)
    write_sum(sum_program, total)
    kernels = (partial_program.finish(), sum_program.finish())
    return kernels, (partial_rule(partial, problem.given), sum_rule(total))


def first_kernel(problem: BackwardProblem) -> tuple[func.FuncOp, LaunchRule]:
    """`<name>_pre`: delta, and with `compute_lse` a forward pass without values before it."""
    if not problem.compute_lse:
        part = problem.part("pre", PRE_WAVES)
        arguments = kernel_arguments(part, PRE_OPERANDS, ("delta",))
        p = KernelProgram(part.name, arguments, part.schedule.threads)
        workgroup, wave_id = p.insert(wave.WorkgroupIdOp()), p.insert(wave.WaveIdOp())
        head_index = p.div(workgroup, p["q_tiles"])
        head = p.rem(head_index, p["heads"])
        sequence = SequencePair(p, part, p.div(head_index, p["heads"]))
        heads = Heads(p, part, sequence, head, p.div(head, p["group"]))
        first = p.mul(p.rem(workgroup, p["q_tiles"]), TILE * PRE_WAVES)
        query = p.add(first, p.mul(wave_id, TILE))
        on_existing_rows(p, part, first, sequence.seq_q, lambda: write_delta(p, part, heads, query))
        rule = backward_rule(part, PRE_OPERANDS, ("delta",), TILE * PRE_WAVES, "q", ("delta",))
        return p.finish(), rule
    part = replace(problem.forward, name=f"{problem.forward.name}_pre")
    operands = ("q", "k", *PRE_OPERANDS)
    arguments = kernel_arguments(part, operands, STATISTICS)
    p = KernelProgram(part.name, arguments, part.schedule.threads)
    program = AttentionProgram(p, part, values=False)
    program.write()

    def deltas() -> None:
        for tile in range(program.query_tiles):
            write_delta(p, part, program.heads, p.add(program.wave_query, TILE * tile))

    on_existing_rows(p, part, program.first_query, program.heads.sequence.seq_q, deltas)
    rule = backward_rule(part, operands, STATISTICS, part.schedule.queries, "q", STATISTICS)
    return p.finish(), rule


def write_delta(p: KernelProgram, problem: AttentionProblem, heads: Heads, query: SSAValue) -> None:
    """delta = rowsum(O * dO) of 16 queries: a lane owns a row and sums its channels alone."""
    o, do = (
        OwnedRows(p, heads.rows(name), query, 1, problem.fragment("b")) for name in PRE_OPERANDS
    )
    total: SSAValue | None = None
    for channel in range(problem.value_tiles):
        part = p.insert(
            wave.DotOp(o.fragment(0, channel), do.fragment(0, channel), problem.statistic)
        )
        total = part if total is None else p.map([total, part], p.plus)
    assert total is not None
    pointer = p.offset(heads.statistic("delta"), p.wide(query))
    p.effect(wave.StoreStatisticOp(total, pointer, p.sub(heads.sequence.seq_q, query)))
