"""A matmul problem to its launch rules: grids, arguments and demands as expressions over sizes."""

from __future__ import annotations

from tessera.dialects.wave_types import ELEMENT_BITS
from tessera.kernels.gemm_problem import GemmProblem
from tessera.kernels.generated import alignment_requirements, buffer, scalar
from tessera.launch_rule import ArgumentRule, LaunchRule

REDUCE_THREADS = 256
PARTIAL_SUMS = "partial_sums"
"""The workspace of split K: one accumulator per part, batch entry, row and column."""


def launch_rules(problem: GemmProblem) -> tuple[LaunchRule, ...]:
    """The multiplying kernel's rule, and the summing one's where K is split."""
    rule = _multiply_rule(problem)
    return (rule, _reduce_rule(problem)) if problem.schedule.split_k > 1 else (rule,)


def _axis(batched: bool) -> int:
    """The axis whose stride separates matrix rows."""
    return 1 if batched else 0


def multiply_scalars(problem: GemmProblem) -> dict[str, tuple[str, str]]:
    """The multiplying kernel's scalar arguments: (dtype, launch expression) by name, in order."""
    schedule, split = problem.schedule, problem.schedule.split_k > 1
    tiles_m, tiles_n = f"ceildiv(m, {schedule.tile_m})", f"ceildiv(n, {schedule.tile_n})"
    scalars = {
        "m": ("i32", "m"),
        "n": ("i32", "n"),
        "k": ("i32", "k"),
        "lda": ("i32", f"stride(a, {_axis(problem.batch_a)})"),
        "ldb": ("i32", f"stride(b, {_axis(problem.batch_b or problem.grouped)})"),
        "ldc": ("i32", "n" if split else f"stride(c, {_axis(problem.batched)})"),
        # Of groups each may have one tile that is not full.
        "tiles_m": ("i32", f"{tiles_m} + groups" if problem.grouped else tiles_m),
        **{f"ld_{name}": ("i32", f"stride({name}, 0)") for name in problem.weight_tensors},
    }
    if problem.pair:
        scalars["ld_pair"] = ("i32", f"stride(pair, {_axis(problem.batch_b)})")
        if problem.batch_b:
            scalars["batch_stride_pair"] = ("i64", "stride(pair, 0) * (batch_pair > 1)")
    if problem.grouped:
        scalars |= {"groups": ("i32", "groups"), "batch_stride_b": ("i64", "stride(b, 0)")}
    if schedule.group_m:
        scalars["tiles_n"] = ("i32", tiles_n)
    if problem.batched or split:
        scalars["tiles"] = ("i32", f"{tiles_m} * {tiles_n}")
    for name, batched in (("a", problem.batch_a), ("b", problem.batch_b)):
        if batched:
            # An operand with one entry serves every entry of the batch.
            scalars[f"batch_stride_{name}"] = ("i64", f"stride({name}, 0) * (batch_{name} > 1)")
    if not split:
        scalars |= result_strides(problem)
    return scalars


def result_strides(problem: GemmProblem) -> dict[str, tuple[str, str]]:
    """Strides of the result and of the epilogue's matrices: (dtype, expression) by name."""
    scalars: dict[str, tuple[str, str]] = {}
    if problem.batched:
        scalars["batch_stride_c"] = ("i64", "stride(c, 0)")
    for name in problem.epilogue.matrices:
        scalars[f"ld_{name}"] = ("i32", f"stride({name}, {_axis(problem.batched)})")
        if problem.batched:
            scalars[f"batch_stride_{name}"] = ("i64", f"stride({name}, 0)")
    return scalars


def _scalars(named: dict[str, tuple[str, str]]) -> list[ArgumentRule]:
    return [scalar(name, dtype, value) for name, (dtype, value) in named.items()]


def _epilogue_buffers(problem: GemmProblem) -> list[ArgumentRule]:
    return [buffer(name, dtype) for name, dtype in problem.epilogue.dtypes.items()]


def _multiply_rule(problem: GemmProblem) -> LaunchRule:
    schedule, split = problem.schedule, problem.schedule.split_k
    tiles_m = f"ceildiv(m, {schedule.tile_m})" + (" + groups" if problem.grouped else "")
    tiles = f"({tiles_m}) * ceildiv(n, {schedule.tile_n})"
    grid = tiles + (" * batch" if problem.batched else "") + (f" * {split}" if split > 1 else "")
    target = PARTIAL_SUMS if split > 1 else "c"
    result_dtype = problem.accumulator_dtype if split > 1 else problem.out_dtype
    workspace = (split_shape(problem),) if split > 1 else ()
    return LaunchRule(
        kernel=problem.name,
        grid=(grid, "1", "1"),
        block=(schedule.threads, 1, 1),
        arguments=(
            buffer("a", problem.memory_dtype),
            buffer("b", problem.memory_dtype_b),
            *((buffer("pair", problem.memory_dtype_b),) if problem.pair else ()),
            *((buffer("starts", "i32"),) if problem.grouped else ()),
            *(buffer(name, "f16") for name in problem.weight_tensors),
            ArgumentRule("c", "buffer", result_dtype, target),
            *(() if split > 1 else _epilogue_buffers(problem)),
            *_scalars(multiply_scalars(problem)),
        ),
        requires=_requirements(problem, grid),
        workspaces=workspace,
    )


def split_shape(problem: GemmProblem) -> tuple[str, str, tuple[str, ...]]:
    """Name, dtype and shape of the partial sums."""
    batch = "batch" if problem.batched else "1"
    shape = (batch, str(problem.schedule.split_k), "m", "n")
    return PARTIAL_SUMS, problem.accumulator_dtype, shape


def _requirements(problem: GemmProblem, grid: str) -> tuple[tuple[str, str], ...]:
    schedule = problem.schedule
    # The axis that runs along memory rows is read in whole pieces.
    contiguous_a = "m" if problem.transpose_a else "k"
    contiguous_b = "k" if problem.transpose_b else "n"
    if problem.weight:
        contiguous_b = f"k // {problem.weights_per_byte}"
    bits = {"a": problem.memory_bits, "b": ELEMENT_BITS[problem.memory_dtype_b]}
    operands = {
        "a": (tuple(range(_axis(problem.batch_a) + 1)), contiguous_a),
        "b": (tuple(range(_axis(problem.batch_b or problem.grouped) + 1)), contiguous_b),
    }
    if problem.pair:
        operands["pair"], bits["pair"] = operands["b"], bits["b"]
    longest = max(schedule.tile_m, schedule.tile_n, problem.slice, 16)
    axes = {"a": problem.batch_a, "b": problem.batch_b or problem.grouped, "c": problem.batched}
    axes |= dict.fromkeys(problem.epilogue.matrices, problem.batched)
    axes |= dict.fromkeys(problem.weight_tensors, False)
    if problem.pair:
        axes["pair"] = problem.batch_b
    odd_end = (
        [
            (
                f"2 * k - 1 == {problem.inner_size}",
                f"inner_size = {problem.inner_size} packed numbers must fill the rows' bytes",
            )
        ]
        if problem.has_odd_end
        else []
    )
    return (
        *(
            rule
            for name, rows in operands.items()
            for rule in alignment_requirements({name: rows}, problem.alignment, bits[name])
        ),
        *(
            (
                f"stride({name}, {_axis(batched)}) * {longest} < 2**31",
                f"operand {name!r}: {longest} rows must span fewer than 2**31 elements",
            )
            for name, batched in axes.items()
        ),
        (f"{grid} < 2**31", "the grid must have fewer than 2**31 workgroups"),
        ("max(m, n, k) < 2**31 - 512", "m, n and k must be below 2**31 - 512"),
        *odd_end,
    )


def reduce_scalars(problem: GemmProblem) -> dict[str, tuple[str, str]]:
    """The summing kernel's scalar arguments: (dtype, launch expression) by name, in order."""
    return {
        "m": ("i32", "m"),
        "n": ("i32", "n"),
        "count": ("i32", _count(problem)),
        "ldc": ("i32", f"stride(c, {_axis(problem.batched)})"),
    } | result_strides(problem)


def _count(problem: GemmProblem) -> str:
    return "batch * m * n" if problem.batched else "m * n"


def _reduce_rule(problem: GemmProblem) -> LaunchRule:
    return LaunchRule(
        kernel=f"{problem.name}_sum",
        grid=(f"ceildiv({_count(problem)}, {REDUCE_THREADS})", "1", "1"),
        block=(REDUCE_THREADS, 1, 1),
        arguments=(
            ArgumentRule("partial_sums", "buffer", problem.accumulator_dtype, PARTIAL_SUMS),
            buffer("c", problem.out_dtype),
            *_epilogue_buffers(problem),
            *_scalars(reduce_scalars(problem)),
        ),
        requires=((f"{_count(problem)} < 2**31 - 256", "split K is for fewer than 2**31 results"),),
        workspaces=(split_shape(problem),),
    )
