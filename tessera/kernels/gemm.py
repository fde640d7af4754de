"""`tessera_rocm.wmma_gemm` to wave programs: C = A B in tiles, and the sum over split K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from tessera.dialects import wave
from tessera.dialects.wave_types import PointerType
from tessera.kernels.gemm_epilogue import EpilogueTensors, apply_epilogue
from tessera.kernels.gemm_groups import Group, find_group
from tessera.kernels.gemm_loop import Scales, Side, multiply_from_global, multiply_through_lds
from tessera.kernels.gemm_problem import ELEMENT_TYPES, GemmProblem, gemm_problem
from tessera.kernels.gemm_reduce import reduce_kernel
from tessera.kernels.gemm_rules import launch_rules, multiply_scalars
from tessera.kernels.generated import GeneratedKernels
from tessera.kernels.program import KernelProgram
from tessera.targets import Target


def generate_gemm(directive: Operation, target: Target) -> GeneratedKernels:
    """The kernels and launch rules of one matmul directive."""
    problem = gemm_problem(directive, target)
    program = KernelProgram(
        problem.name, list(arguments(problem).items()), problem.schedule.threads
    )
    GemmProgram(program, problem).write()
    kernels = [program.finish()]
    if problem.schedule.split_k > 1:
        kernels.append(reduce_kernel(problem))
    return GeneratedKernels(
        tuple(kernels), launch_rules(problem), contract="matmul", options=contract_options(problem)
    )


def contract_options(problem: GemmProblem) -> dict[str, object]:
    """The options of the matmul contract that the kernels were generated for."""
    epilogue = problem.epilogue
    options: dict[str, object] = {
        "transpose_a": problem.transpose_a,
        "transpose_b": problem.transpose_b,
        "out_dtype": problem.out_dtype,
    }
    if problem.packed > 1:
        options |= {"packed_a": problem.dtype_a, "packed_b": problem.dtype_b}
    optional = {
        "inner_size": problem.inner_size,
        "grouped": problem.grouped or None,
        "pair": problem.pair or None,
        "weight": problem.weight or None,
        "group_size": problem.group_size or None,
        "zero": problem.zero or None,
        "alpha": epilogue.alpha if epilogue.alpha != 1.0 else None,
        "beta": epilogue.beta if "addend" in epilogue.dtypes else None,
        "bias": epilogue.bias or None,
        "activation": epilogue.activation or None,
        "gate": True if "gate" in epilogue.dtypes else None,
        "residual": True if "residual" in epilogue.dtypes else None,
    }
    return options | {name: value for name, value in optional.items() if value is not None}


def arguments(problem: GemmProblem) -> dict[str, Attribute]:
    """Names and types of the multiplying kernel's arguments; partial sums go where c would."""
    memory = PointerType(ELEMENT_TYPES[problem.memory_dtype])
    memory_b = PointerType(ELEMENT_TYPES[problem.memory_dtype_b])
    split = problem.schedule.split_k > 1
    result = problem.accumulator_dtype if split else problem.out_dtype
    names: dict[str, Attribute] = {
        "a": memory,
        "b": memory_b,
        **({"pair": memory_b} if problem.pair else {}),
        **({"starts": PointerType(i32)} if problem.grouped else {}),
        **{name: PointerType(ELEMENT_TYPES["f16"]) for name in problem.weight_tensors},
        "c": PointerType(ELEMENT_TYPES[result]),
    }
    if not split:
        for name, dtype in problem.epilogue.dtypes.items():
            names[name] = PointerType(ELEMENT_TYPES[dtype])
    for name, (dtype, _) in multiply_scalars(problem).items():
        names[name] = {"i32": i32, "i64": i64}[dtype]
    return names


class GemmProgram:
    """Writes the multiplying kernel: which tile, its sums over k, epilogue and store."""

    def __init__(self, program: KernelProgram, problem: GemmProblem) -> None:
        self.program = program
        self.problem = problem
        self.schedule = problem.schedule
        p, schedule = program, problem.schedule
        workgroup = p.insert(wave.WorkgroupIdOp())
        self.part: SSAValue | None = None
        self.batch: SSAValue | None = None
        if problem.batched or schedule.split_k > 1:
            outer, workgroup = p.div(workgroup, p["tiles"]), p.rem(workgroup, p["tiles"])
            if schedule.split_k > 1:
                self.part = p.rem(outer, schedule.split_k)
                outer = p.div(outer, schedule.split_k)
            self.batch = outer if problem.batched else None
        tile_row, tile_column = self._tile(workgroup)
        self.end_row = p["m"]
        self.group: Group | None = None
        if problem.grouped:
            self.group = find_group(p, tile_row, schedule.tile_m)
            self.end_row = self.group.end_row
        wave_id = p.insert(wave.WaveIdOp())
        self.first_row = p.mul(tile_row, schedule.tile_m)
        if self.group is not None:
            self.first_row = self.group.first_row
        self.first_column = p.mul(tile_column, schedule.tile_n)
        self.wave_row = p.mul(p.rem(wave_id, schedule.waves_m), 16 * schedule.mt)
        self.wave_column = p.mul(p.div(wave_id, schedule.waves_m), 16 * schedule.nt)
        self.sides = [
            self._side("a", "a", not problem.transpose_a),
            self._side("b", "b", problem.transpose_b),
        ]
        if problem.pair:
            self.sides.append(self._side("pair", "b", problem.transpose_b))

    def _tile(self, workgroup: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Row and column of the workgroup's tile; down the columns, within a band if there are."""
        p, band = self.program, self.schedule.group_m
        if not band:
            return p.rem(workgroup, p["tiles_m"]), p.div(workgroup, p["tiles_m"])
        in_band = p.mul(p["tiles_n"], band)
        first = p.mul(p.div(workgroup, in_band), band)
        height = p.min(p.sub(p["tiles_m"], first), band)
        place = p.rem(workgroup, in_band)
        return p.add(first, p.rem(place, height)), p.div(place, height)

    def _side(self, name: str, role: str, contiguous_inner: bool) -> Side:
        p, schedule = self.program, self.schedule
        first, size, length, batched = {
            "a": (self.first_row, schedule.tile_m, self.end_row, self.problem.batch_a),
            "b": (self.first_column, schedule.tile_n, p["n"], self.problem.batch_b),
        }[role]
        stride = p["ld_pair" if name == "pair" else f"ld{role}"]
        start = p.mul(p.wide(first), p.wide(stride)) if contiguous_inner else p.wide(first)
        if batched:
            assert self.batch is not None
            start = p.add(start, p.mul(p.wide(self.batch), p[f"batch_stride_{name}"]))
        if role == "b" and self.group is not None:
            start = p.add(start, p.mul(p.wide(self.group.index), p["batch_stride_b"]))
        lds = p.insert(wave.AllocLdsOp(self.problem.lds(size))) if schedule.block_k else None
        return Side(
            role,
            p.offset(p[name], start),
            stride,
            p.sub(length, first),
            size,
            contiguous_inner,
            lds,
            self.wave_row if role == "a" else self.wave_column,
        )

    def write(self) -> None:
        """The whole kernel; of groups there may be fewer tiles than workgroups."""
        if self.group is None:
            self._write_tile()
        else:
            self.program.when(self.group.is_valid, self._write_tile)

    def _write_tile(self) -> list[SSAValue]:
        if self.schedule.block_k:
            sums = multiply_through_lds(
                self.program, self.problem, self.sides, self._slices(), self._scales()
            )
        else:
            sums = multiply_from_global(self.program, self.problem, self.sides)
        self._store(sums)
        return []

    def _scales(self) -> list[Scales]:
        """The scales of the tile's weights, and their zero points if they have them."""
        p = self.program
        scales = []
        for name in self.problem.weight_tensors:
            stride = p[f"ld_{name}"]
            start = p.mul(p.wide(self.first_column), p.wide(stride))
            scales.append(Scales(p.offset(p[name], start), stride))
        return scales

    def _slices(self) -> tuple[SSAValue, SSAValue]:
        """The first slice of k that this workgroup sums up, and the first that it does not."""
        p = self.program
        slices = p.ceildiv(p["k"], self.problem.slice)
        if self.part is None:
            return p.constant(0), slices
        share = p.ceildiv(slices, self.schedule.split_k)
        begin = p.min(p.mul(self.part, share), slices)
        return begin, p.min(p.add(begin, share), slices)

    def _result(self) -> SSAValue:
        """Where the workgroup's part of the result, or of the partial sums, begins."""
        p, result = self.program, self.program["c"]
        if self.part is not None:
            part = self.part
            if self.batch is not None:
                part = p.add(p.mul(self.batch, self.schedule.split_k), part)
            return p.offset(result, p.mul(p.wide(part), p.mul(p.wide(p["m"]), p.wide(p["n"]))))
        if self.batch is not None:
            return p.offset(result, p.mul(p.wide(self.batch), p["batch_stride_c"]))
        return result

    def _store(self, sums: list[SSAValue]) -> None:
        p, schedule = self.program, self.schedule
        result = self._result()
        fragments = schedule.mt * schedule.nt
        for index, total in enumerate(sums[:fragments]):
            row = p.add(p.add(self.first_row, self.wave_row), 16 * (index // schedule.nt))
            column = p.add(p.add(self.first_column, self.wave_column), 16 * (index % schedule.nt))
            place = p.add(p.mul(p.wide(row), p.wide(p["ldc"])), p.wide(column))
            limits = (p.sub(self.end_row, row), p.sub(p["n"], column))
            if schedule.split_k == 1:
                total = self._finished(sums[index::fragments], row, column, limits)
            p.effect(wave.StoreOp(total, p.offset(result, place), p["ldc"], limits, 2))

    def _finished(
        self,
        totals: Sequence[SSAValue],
        row: SSAValue,
        column: SSAValue,
        limits: tuple[SSAValue, SSAValue],
    ) -> SSAValue:
        """The sums of one fragment after the epilogue; integers stay where the result has them."""
        p, problem, epilogue = self.program, self.problem, self.problem.epilogue
        is_same = problem.accumulator_dtype == "f32" or problem.out_dtype == "i32"
        if is_same and not epilogue.computes:
            return totals[0]
        tensors = EpilogueTensors(
            self._epilogue_pointers(row, column),
            {name: p[f"ld_{name}"] for name in epilogue.matrices},
            p.sub(limits[0], 1),
            p.sub(limits[1], 1),
        )
        return p.map(
            totals,
            lambda r, c, value, gate=None: apply_epilogue(p, epilogue, tensors, value, r, c, gate),
            output=problem.accumulator_of("f32"),
            coordinates=True,
        )

    def _epilogue_pointers(self, row: SSAValue, column: SSAValue) -> Mapping[str, SSAValue]:
        p = self.program
        pointers: dict[str, SSAValue] = {}
        for name in self.problem.epilogue.dtypes:
            if name == "bias":
                start = p.wide(row if self.problem.epilogue.bias == "row" else column)
            else:
                start = p.add(p.mul(p.wide(row), p.wide(p[f"ld_{name}"])), p.wide(column))
                if self.batch is not None:
                    batch = p.mul(p.wide(self.batch), p[f"batch_stride_{name}"])
                    start = p.add(start, batch)
            pointers[name] = p.offset(p[name], start)
        return pointers
