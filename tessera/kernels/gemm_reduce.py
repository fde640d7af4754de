"""Split K's partial sums to the result: one thread per element, in the order of the parts."""

from __future__ import annotations

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, SSAValue

from tessera.dialects import wave
from tessera.dialects.wave_types import PointerType
from tessera.kernels.gemm_epilogue import EpilogueTensors, apply_epilogue
from tessera.kernels.gemm_problem import ELEMENT_TYPES, GemmProblem
from tessera.kernels.gemm_rules import REDUCE_THREADS, reduce_scalars
from tessera.kernels.program import KernelProgram


def reduce_kernel(problem: GemmProblem) -> func.FuncOp:
    """The kernel `<name>_sum`; its order of summation is fixed, so that results repeat."""
    types: dict[str, Attribute] = {
        "partial_sums": PointerType(ELEMENT_TYPES[problem.accumulator_dtype]),
        "c": PointerType(ELEMENT_TYPES[problem.out_dtype]),
        **{
            name: PointerType(ELEMENT_TYPES[dtype])
            for name, dtype in problem.epilogue.dtypes.items()
        },
        **{
            name: {"i32": i32, "i64": i64}[dtype]
            for name, (dtype, _) in reduce_scalars(problem).items()
        },
    }
    program = KernelProgram(f"{problem.name}_sum", list(types.items()), REDUCE_THREADS)
    p = program
    group, thread = p.insert(wave.WorkgroupIdOp()), p.insert(wave.ThreadIdOp())
    index = p.add(p.mul(group, REDUCE_THREADS), thread)
    p.when(p.compare("slt", index, p["count"]), lambda: _sum_element(p, problem, index))
    return program.finish()


def _sum_element(p: KernelProgram, problem: GemmProblem, index: SSAValue) -> list[SSAValue]:
    column, rest = p.rem(index, p["n"]), p.div(index, p["n"])
    row, batch = (p.rem(rest, p["m"]), p.div(rest, p["m"])) if problem.batched else (rest, None)
    in_part = p.add(p.mul(row, p["n"]), column)
    size = p.mul(p.wide(p["m"]), p.wide(p["n"]))
    first = p.wide(in_part)
    if batch is not None:
        parts = p.mul(p.wide(batch), p.constant(problem.schedule.split_k, i64))
        first = p.add(first, p.mul(parts, size))
    total: SSAValue | None = None
    for part in range(problem.schedule.split_k):
        place = p.add(first, p.mul(size, p.constant(part, i64)))
        value = p.insert(wave.LoadElementOp(p["partial_sums"], place))
        if total is None:
            total = value
        elif problem.accumulator_dtype == "i32":
            total = p.add(total, value)
        else:
            total = p.plus(total, value)
    assert total is not None
    p.effect(wave.StoreElementOp(_finished(p, problem, total, row, column, batch), p["c"],
                                 _place(p, "c", "ldc", row, column, batch)))  # fmt: skip
    return []


def _place(
    p: KernelProgram,
    name: str,
    leading: str,
    row: SSAValue,
    column: SSAValue,
    batch: SSAValue | None,
) -> SSAValue:
    place = p.add(p.mul(p.wide(row), p.wide(p[leading])), p.wide(column))
    return place if batch is None else p.add(place, _batch_start(p, name, batch))


def _batch_start(p: KernelProgram, name: str, batch: SSAValue) -> SSAValue:
    return p.mul(p.wide(batch), p[f"batch_stride_{name}"])


def _finished(
    p: KernelProgram,
    problem: GemmProblem,
    total: SSAValue,
    row: SSAValue,
    column: SSAValue,
    batch: SSAValue | None,
) -> SSAValue:
    """The sum after the epilogue, rounded to the result's type."""
    if problem.out_dtype == "i32":
        return total
    epilogue = problem.epilogue
    pointers = {}
    for name in epilogue.dtypes:
        pointers[name] = p[name]
        if name != "bias" and batch is not None:
            pointers[name] = p.offset(p[name], _batch_start(p, name, batch))
    tensors = EpilogueTensors(
        pointers,
        {name: p[f"ld_{name}"] for name in epilogue.matrices},
        p.sub(p["m"], 1),
        p.sub(p["n"], 1),
    )
    value = apply_epilogue(p, epilogue, tensors, total, row, column)
    element = ELEMENT_TYPES[problem.out_dtype]
    return value if value.type == element else p.insert(arith.TruncFOp(value, element))  # type: ignore[arg-type]
