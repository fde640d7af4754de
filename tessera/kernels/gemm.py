"""`tessera_rocm.wmma_gemm` to a wave program: C = A B in tiles staged through LDS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tessera.dialects import wave
from tessera.dialects.wave_types import FragmentType, LdsType, PointerType, StagedType
from tessera.kernels.generated import (
    GeneratedKernels,
    alignment_requirements,
    buffer,
    option,
    scalar,
)
from tessera.kernels.program import KernelProgram
from tessera.kernels.schedules import LDS_PADDING, GemmSchedule, check_lds, gemm_schedule
from tessera.launch_rule import LaunchRule
from tessera.targets import MatrixCore, Target

ELEMENT_TYPES = {"f16": Float16Type(), "bf16": BFloat16Type(), "f32": f32}
ELEMENT_BITS = {"f16": 16, "bf16": 16, "f32": 32}


@dataclass(frozen=True)
class GemmProblem:
    """What one matmul kernel is compiled for; sizes are runtime arguments."""

    name: str
    dtype: str
    out_dtype: str
    transpose_a: bool
    transpose_b: bool
    alignment: int
    schedule: GemmSchedule
    core: MatrixCore

    @property
    def element(self) -> Attribute:
        """Type of A's and B's elements."""
        return ELEMENT_TYPES[self.dtype]

    @property
    def accumulator(self) -> FragmentType:
        """Type of one accumulator."""
        return FragmentType(self.core.m, self.core.n, f32, "acc")

    def fragment(self, role: str) -> FragmentType:
        """Type of one operand fragment."""
        shape = (self.core.m, self.core.k) if role == "a" else (self.core.k, self.core.n)
        return FragmentType(*shape, self.element, role)


@dataclass(frozen=True)
class Side:
    """One operand as a workgroup sees it.

    `outer` is its index that is not contracted. `contiguous_inner` says whether the contracted
    index runs along memory rows; otherwise tiles are transposed on their way into LDS.
    """

    role: str
    pointer: SSAValue
    stride: SSAValue
    outer_limit: SSAValue
    outer_size: int
    contiguous_inner: bool
    lds: SSAValue | None


def gemm_problem(directive: Operation, target: Target) -> GemmProblem:
    """Read a directive's attributes; absent ones take the shipped schedule's values."""
    dtype = option(directive, "dtype", "f16")
    default = gemm_schedule(target, dtype, None, None, None)
    schedule = GemmSchedule(
        mt=option(directive, "mt", default.mt),
        nt=option(directive, "nt", default.nt),
        waves_m=option(directive, "waves_m", default.waves_m),
        waves_n=option(directive, "waves_n", default.waves_n),
        block_k=option(directive, "block_k", default.block_k),
    )
    check_lds(target, schedule.lds_bytes(ELEMENT_BITS[dtype] // 8))
    return GemmProblem(
        name=option(directive, "name", ""),
        dtype=dtype,
        out_dtype=option(directive, "out_dtype", "f32"),
        transpose_a=bool(option(directive, "transpose_a", False)),
        transpose_b=bool(option(directive, "transpose_b", False)),
        alignment=option(directive, "alignment", ELEMENT_BITS[dtype] // 8),
        schedule=schedule,
        core=target.matrix_core(dtype),
    )


def generate_gemm(directive: Operation, target: Target) -> GeneratedKernels:
    """The kernel and launch rule of one matmul directive."""
    problem = gemm_problem(directive, target)
    program = KernelProgram(
        problem.name,
        [
            ("a", PointerType(problem.element)),
            ("b", PointerType(problem.element)),
            ("c", PointerType(ELEMENT_TYPES[problem.out_dtype])),
            *((name, i32) for name in ("m", "n", "k", "lda", "ldb", "ldc", "tiles_m")),
        ],
        problem.schedule.threads,
    )
    GemmProgram(program, problem).write()
    options = {
        "transpose_a": problem.transpose_a,
        "transpose_b": problem.transpose_b,
        "out_dtype": problem.out_dtype,
    }
    return GeneratedKernels(
        (program.finish(),), (launch_rule(problem),), contract="matmul", options=options
    )


def launch_rule(problem: GemmProblem) -> LaunchRule:
    """Grid and arguments from the operands' sizes and strides."""
    schedule = problem.schedule
    tiles_m = f"ceildiv(m, {schedule.tile_m})"
    # The axis that runs along memory rows is read in whole pieces.
    contiguous_a = "m" if problem.transpose_a else "k"
    contiguous_b = "k" if problem.transpose_b else "n"
    operands = {"a": ((0,), contiguous_a), "b": ((0,), contiguous_b)}
    longest = max(schedule.tile_m, schedule.tile_n, schedule.block_k, 16)
    requires = [
        *alignment_requirements(operands, problem.alignment, ELEMENT_BITS[problem.dtype]),
        *(
            (
                f"stride({name}, 0) * {longest} < 2**31",
                f"operand {name!r}: {longest} rows must span fewer than 2**31 elements",
            )
            for name in ("a", "b", "c")
        ),
        (
            f"{tiles_m} * ceildiv(n, {schedule.tile_n}) < 2**31",
            "the grid must have fewer than 2**31 workgroups",
        ),
        ("max(m, n, k) < 2**31 - 512", "m, n and k must be below 2**31 - 512"),
    ]
    return LaunchRule(
        kernel=problem.name,
        grid=(f"{tiles_m} * ceildiv(n, {schedule.tile_n})", "1", "1"),
        block=(schedule.threads, 1, 1),
        arguments=(
            buffer("a", problem.dtype),
            buffer("b", problem.dtype),
            buffer("c", problem.out_dtype),
            scalar("m", "i32", "m"),
            scalar("n", "i32", "n"),
            scalar("k", "i32", "k"),
            scalar("lda", "i32", "stride(a, 0)"),
            scalar("ldb", "i32", "stride(b, 0)"),
            scalar("ldc", "i32", "stride(c, 0)"),
            scalar("tiles_m", "i32", tiles_m),
        ),
        requires=tuple(requires),
    )


class GemmProgram:
    """Writes the kernel: K slices through LDS, the next one fetched while this one is multiplied.

    Only the fetch of the last, partial slice checks K, and fills up with zeros.
    """

    def __init__(self, program: KernelProgram, problem: GemmProblem) -> None:
        self.program = program
        self.problem = problem
        self.schedule = problem.schedule
        p, schedule = program, problem.schedule
        workgroup = p.insert(wave.WorkgroupIdOp())
        wave_id = p.insert(wave.WaveIdOp())
        self.first_row = p.mul(p.rem(workgroup, p["tiles_m"]), schedule.tile_m)
        self.first_column = p.mul(p.div(workgroup, p["tiles_m"]), schedule.tile_n)
        self.wave_row = p.mul(p.rem(wave_id, schedule.waves_m), 16 * schedule.mt)
        self.wave_column = p.mul(p.div(wave_id, schedule.waves_m), 16 * schedule.nt)
        self.a = self._side("a", not problem.transpose_a)
        self.b = self._side("b", problem.transpose_b)

    def _side(self, role: str, contiguous_inner: bool) -> Side:
        p, schedule = self.program, self.schedule
        first, size, length = {
            "a": (self.first_row, schedule.tile_m, p["m"]),
            "b": (self.first_column, schedule.tile_n, p["n"]),
        }[role]
        stride = p[f"ld{role}"]
        start = p.mul(p.wide(first), p.wide(stride)) if contiguous_inner else p.wide(first)
        lds = None
        if schedule.block_k:
            pitch = schedule.block_k + LDS_PADDING
            lds = p.insert(
                wave.AllocLdsOp(LdsType(size, schedule.block_k, self.problem.element, pitch))
            )
        return Side(
            role,
            p.offset(p[role], start),
            stride,
            p.sub(length, first),
            size,
            contiguous_inner,
            lds,
        )

    def write(self) -> None:
        """The whole kernel."""
        zeros = [self.program.zero(self.problem.accumulator)] * (
            self.schedule.mt * self.schedule.nt
        )
        if self.schedule.block_k:
            accumulators = self._through_lds(zeros)
        else:
            accumulators = self._from_global(zeros)
        self._store(accumulators)

    # Staged through LDS.

    def _through_lds(self, zeros: list[SSAValue]) -> list[SSAValue]:
        p, block_k = self.program, self.schedule.block_k
        whole, rest = p.div(p["k"], block_k), p.rem(p["k"], block_k)
        slices = p.ceildiv(p["k"], block_k)
        last = p.sub(slices, 1)
        types = [self._staged_type(side) for side in (self.a, self.b)]

        def fetch(index: SSAValue) -> list[SSAValue]:
            start = p.mul(index, block_k)
            return p.when(
                p.compare("slt", index, whole),
                lambda: [self._stage(side, start, None) for side in (self.a, self.b)],
                lambda: [self._stage(side, start, rest) for side in (self.a, self.b)],
                types,
            )

        def step(index: SSAValue, *carried: SSAValue) -> Sequence[SSAValue]:
            self._commit(carried[-2:])
            ahead = fetch(p.min(p.add(index, 1), last))
            return [*self._multiply_slice(carried[:-2]), *ahead]

        first = p.when(
            p.compare("sgt", slices, 0),
            lambda: fetch(p.constant(0)),
            lambda: [p.insert(wave.UndefinedOp(type_)) for type_ in types],
            types,
        )
        return p.loop(0, slices, [*zeros, *first], step)[: len(zeros)]

    def _staged_type(self, side: Side) -> StagedType:
        element, block_k = self.problem.element, self.schedule.block_k
        if side.contiguous_inner:
            return StagedType(side.outer_size, block_k, element, "rows")
        return StagedType(block_k, side.outer_size, element, "blocks")

    def _stage(self, side: Side, start: SSAValue, rest: SSAValue | None) -> SSAValue:
        """Fetch the K slice from `start` on; `rest` counts its valid elements (None: all)."""
        p, schedule = self.program, self.schedule
        if side.contiguous_inner:
            return p.insert(
                wave.StageOp(
                    p.offset(side.pointer, start),
                    side.stride,
                    self._staged_type(side),
                    schedule.threads,
                    self.problem.alignment,
                    row_limit=side.outer_limit,
                    column_limit=rest,
                )
            )
        return p.insert(
            wave.StageOp(
                p.offset(side.pointer, p.mul(p.wide(start), p.wide(side.stride))),
                side.stride,
                self._staged_type(side),
                schedule.threads,
                self.problem.alignment,
                row_limit=rest,
                column_limit=side.outer_limit,
                zero_rows=rest is not None,
                any_columns=True,
            )
        )

    def _commit(self, staged: Sequence[SSAValue]) -> None:
        """Put both tiles into LDS once every wave is done with what was there."""
        p = self.program
        p.barrier()
        for tile, side in zip(staged, (self.a, self.b), strict=True):
            assert side.lds is not None
            p.effect(
                wave.CommitOp(
                    tile, side.lds, self.schedule.threads, transposed=not side.contiguous_inner
                )
            )
        p.barrier()

    def _multiply_slice(self, accumulators: Sequence[SSAValue]) -> list[SSAValue]:
        sums = list(accumulators)
        for inner in range(0, self.schedule.block_k, self.problem.core.k):
            sums = self._multiply_step(self.program.constant(inner), sums)
        return sums

    def _multiply_step(self, inner: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
        """Multiply the part of the slice that one instruction contracts."""
        schedule = self.schedule
        a = [self._lds_fragment(self.a, self.wave_row, i, inner) for i in range(schedule.mt)]
        b = [self._lds_fragment(self.b, self.wave_column, i, inner) for i in range(schedule.nt)]
        return self._outer_product(a, b, sums)

    def _lds_fragment(self, side: Side, first: SSAValue, index: int, inner: SSAValue) -> SSAValue:
        p = self.program
        assert side.lds is not None
        outer = p.add(first, 16 * index)
        fragment = self.problem.fragment(side.role)
        return p.insert(wave.LoadFragmentOp(side.lds, outer, inner, fragment))

    def _outer_product(
        self, a: list[SSAValue], b: list[SSAValue], sums: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """Every A fragment times every B fragment; `sums` run along columns first."""
        nt = self.schedule.nt
        return [
            self.program.mma(a[index // nt], b[index % nt], total)
            for index, total in enumerate(sums)
        ]

    # Straight from global memory: the simplest rung.

    def _from_global(self, zeros: list[SSAValue]) -> list[SSAValue]:
        p, depth = self.program, self.problem.core.k
        whole, rest = p.div(p["k"], depth), p.rem(p["k"], depth)

        def multiply(
            start: SSAValue, sums: Sequence[SSAValue], limit: SSAValue | None
        ) -> Sequence[SSAValue]:
            a = self._global_fragments(self.a, self.wave_row, self.schedule.mt, start, limit)
            b = self._global_fragments(self.b, self.wave_column, self.schedule.nt, start, limit)
            return self._outer_product(a, b, sums)

        sums = p.loop(
            0, whole, zeros, lambda index, *carried: multiply(p.mul(index, depth), carried, None)
        )
        return p.when(
            p.compare("sgt", rest, 0),
            lambda: multiply(p.mul(whole, depth), sums, rest),
            lambda: sums,
            [value.type for value in zeros],
        )

    def _global_fragments(
        self, side: Side, first: SSAValue, count: int, start: SSAValue, limit: SSAValue | None
    ) -> list[SSAValue]:
        p = self.program
        fragments = []
        for index in range(count):
            # A fragment wholly outside reads the last valid rows, which nobody stores.
            outer = p.min(p.add(first, 16 * index), p.sub(side.outer_limit, 1))
            wide_outer, wide_start = p.wide(outer), p.wide(start)
            stride = p.wide(side.stride)
            if side.contiguous_inner:
                place = p.add(p.mul(wide_outer, stride), wide_start)
            else:
                place = p.add(p.mul(wide_start, stride), wide_outer)
            fragments.append(
                p.insert(
                    wave.LoadGlobalFragmentOp(
                        p.offset(side.pointer, place),
                        side.stride,
                        self.problem.fragment(side.role),
                        self.problem.alignment if side.contiguous_inner else 2,
                        outer_limit=p.sub(side.outer_limit, outer),
                        inner_limit=limit,
                        transposed=not side.contiguous_inner,
                    )
                )
            )
        return fragments

    def _store(self, accumulators: list[SSAValue]) -> None:
        p, schedule = self.program, self.schedule
        for index, total in enumerate(accumulators):
            row = p.add(p.add(self.first_row, self.wave_row), 16 * (index // schedule.nt))
            column = p.add(p.add(self.first_column, self.wave_column), 16 * (index % schedule.nt))
            place = p.add(p.mul(p.wide(row), p.wide(p["ldc"])), p.wide(column))
            limits = (p.sub(p["m"], row), p.sub(p["n"], column))
            p.effect(wave.StoreOp(total, p.offset(p["c"], place), p["ldc"], limits, 2))
