"""`tessera_rocm.flash_attn_bwd` to three wave programs: delta, then dK and dV, then dQ."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tessera.dialects import wave
from tessera.kernels.attention_geometry import Heads, Sequence
from tessera.kernels.attention_problem import (
    AttentionProblem,
    contract_options,
    kernel_arguments,
)
from tessera.kernels.backward_keys import KeyGradientProgram
from tessera.kernels.backward_problem import (
    DKDV_OPERANDS,
    DQ_OPERANDS,
    PRE_OPERANDS,
    PRE_WAVES,
    STATISTICS,
    backward_problem,
    backward_rule,
)
from tessera.kernels.backward_queries import QueryGradientProgram
from tessera.kernels.generated import GeneratedKernels
from tessera.kernels.program import KernelProgram
from tessera.kernels.row_tiles import TILE, OwnedRows
from tessera.targets import Target


def generate_flash_attention_backward(directive: Operation, target: Target) -> GeneratedKernels:
    """The three kernels of one directive and their launches, in order.

    `<name>_pre` writes delta = rowsum(O * dO) into a workspace; `<name>_dkdv` owns a key tile per
    workgroup, `<name>_dq` a query tile. No two workgroups write the same element, so results are
    the same bits on every run.
    """
    problem = backward_problem(directive, target)
    waves = problem.schedule.waves
    rows = TILE * waves

    pre = problem.part("pre", PRE_WAVES)
    pre_program = KernelProgram(
        pre.name, kernel_arguments(pre, PRE_OPERANDS, ("delta",)), pre.schedule.threads
    )
    write_delta(pre_program, pre)

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

    return GeneratedKernels(
        kernels=(pre_program.finish(), dkdv_program.finish(), dq_program.finish()),
        launches=(
            backward_rule(pre, PRE_OPERANDS, ("delta",), TILE * PRE_WAVES, "q", workspaces=True),
            backward_rule(dkdv, DKDV_OPERANDS, STATISTICS, rows, "k", workspaces=False),
            backward_rule(dq, DQ_OPERANDS, STATISTICS, rows, "q", workspaces=False),
        ),
        contract="flash_attn_bwd",
        options=contract_options(problem.forward),
    )


def write_delta(p: KernelProgram, problem: AttentionProblem) -> None:
    """delta = rowsum(O * dO): a lane owns a row, whose channels it sums without any exchange."""
    workgroup, wave_id = p.insert(wave.WorkgroupIdOp()), p.insert(wave.WaveIdOp())
    head_index = p.div(workgroup, p["q_tiles"])
    head = p.rem(head_index, p["heads"])
    sequence = Sequence(p, problem, p.div(head_index, p["heads"]))
    heads = Heads(p, problem, sequence, head, p.div(head, p["group"]))
    first = p.mul(p.rem(workgroup, p["q_tiles"]), TILE * PRE_WAVES)
    query = p.add(first, p.mul(wave_id, TILE))
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
    p.effect(wave.StoreStatisticOp(total, pointer, p.sub(sequence.seq_q, query)))
