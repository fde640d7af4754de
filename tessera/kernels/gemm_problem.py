"""Attributes of `tessera_rocm.wmma_gemm` to the description that its generators read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from xdsl.dialects.builtin import BFloat16Type, Float16Type, IntegerType, Signedness, f32, i8, i32
from xdsl.ir import Attribute, Operation

from tessera.contracts import GROUP_SIZES
from tessera.dialects.wave_staged import PACKED_NUMBERS
from tessera.dialects.wave_types import ELEMENT_BITS, FragmentType, LdsType, StagedType
from tessera.errors import DtypeError, OptionError, supported
from tessera.kernels.gemm_epilogue import Epilogue, epilogue_of
from tessera.kernels.generated import option
from tessera.kernels.schedules import LDS_PADDING_BYTES, GemmSchedule, check_lds, gemm_schedule
from tessera.targets import MatrixCore, Target

_UNSIGNED = Signedness.UNSIGNED
ELEMENT_TYPES: MappingProxyType[str, Attribute] = MappingProxyType(
    {
        "f16": Float16Type(), "bf16": BFloat16Type(), "f32": f32, "i32": i32, "i8": i8,
        "u8": IntegerType(8, _UNSIGNED), "i4": IntegerType(4), "u4": IntegerType(4, _UNSIGNED),
    }
)  # fmt: skip
"""The kernel-level type of every element that a matmul reads, multiplies or writes."""

WEIGHT_SLICE = 32
"""Elements along k of a slice whose weights are dequantized: all of them share a scale."""

SCHEDULE_FIELDS = ("mt", "nt", "waves_m", "waves_n", "block_k", "group_m", "split_k", "stages")


@dataclass(frozen=True)
class GemmProblem:
    """What one matmul kernel is compiled for; sizes are runtime arguments.

    `dtype_a`, `dtype_b` are the numbers that are multiplied (i4 and u4 lie two per byte in memory,
    the first one in the low bits), `batch_a`, `batch_b` say which operands have a batch axis, and
    `inner_size` is k where bytes do not tell it: an odd count of packed numbers. With `weight` B
    holds such numbers, [n, k] as stored, and is dequantized to f16 by a scale, and with `zero` a
    zero point, per `group_size` of them along k. With `grouped` rows of A belong to groups with a B
    each.
    """

    name: str
    dtype_a: str
    dtype_b: str
    out_dtype: str
    transpose_a: bool
    transpose_b: bool
    batch_a: bool
    batch_b: bool
    inner_size: int | None
    alignment: int
    schedule: GemmSchedule
    core: MatrixCore
    epilogue: Epilogue
    weight: str = ""
    group_size: int = 0
    zero: bool = False
    grouped: bool = False

    @property
    def batched(self) -> bool:
        """Whether the result has a batch axis."""
        return self.batch_a or self.batch_b

    @property
    def memory_dtype(self) -> str:
        """What one element of A and B is in memory; a byte for packed numbers."""
        return "u8" if self.packed > 1 else self.dtype_a

    @property
    def memory_dtype_b(self) -> str:
        """What one element of B is in memory."""
        if self.weight:
            return "i8" if self.weight == "i8" else "u8"
        return self.memory_dtype if self.packed > 1 else self.dtype_b

    @property
    def weights_per_byte(self) -> int:
        """Numbers of B in one byte, where B is dequantized."""
        return PACKED_NUMBERS[self.weight]

    @property
    def pair(self) -> bool:
        """Whether two products with the same A are computed, one as the other's gate."""
        return self.epilogue.pair

    @property
    def sums(self) -> int:
        """Accumulators of one wave; those of a pair's second product come last."""
        return self.schedule.mt * self.schedule.nt * (2 if self.pair else 1)

    @property
    def weight_tensors(self) -> tuple[str, ...]:
        """Names of the operands that dequantize B, in argument order."""
        if not self.weight:
            return ()
        return ("scale", "zero") if self.zero else ("scale",)

    def staged_weights(self, outer_size: int, arrangement: str) -> StagedType:
        """Type of a slice of B that is dequantized, or (per_piece) of its scales."""
        element = ELEMENT_TYPES["u8" if arrangement == "rows" else "f16"]
        return StagedType(outer_size, self.slice // self.weights_per_byte, element, arrangement)

    @property
    def memory_bits(self) -> int:
        """Bits of one memory element of A or B."""
        return ELEMENT_BITS[self.memory_dtype]

    @property
    def packed(self) -> int:
        """Numbers in one memory element."""
        return max(1, 8 // ELEMENT_BITS[self.dtype_a])

    @property
    def has_odd_end(self) -> bool:
        """Whether the last byte of a row of packed numbers holds only one."""
        return self.packed > 1 and self.inner_size is not None and self.inner_size % 2 == 1

    @property
    def accumulator_dtype(self) -> str:
        """f32 or i32."""
        return self.core.accumulator_dtype

    @property
    def accumulator(self) -> FragmentType:
        """Type of one accumulator."""
        return self.accumulator_of(self.accumulator_dtype)

    def accumulator_of(self, dtype: str) -> FragmentType:
        """Type of one accumulator-shaped fragment of another dtype."""
        return FragmentType(self.core.m, self.core.n, ELEMENT_TYPES[dtype], "acc")

    def fragment(self, role: str) -> FragmentType:
        """Type of one operand fragment."""
        shape = (self.core.m, self.core.k) if role == "a" else (self.core.k, self.core.n)
        dtype = self.dtype_a if role == "a" else self.dtype_b
        return FragmentType(*shape, ELEMENT_TYPES[dtype], role)

    @property
    def depth(self) -> int:
        """Memory elements along k that one instruction contracts."""
        return self.core.k // self.packed

    @property
    def slice(self) -> int:
        """Memory elements along k of one slice through LDS."""
        return self.schedule.block_k // self.packed

    def staged(self, outer_size: int, contiguous_inner: bool) -> StagedType:
        """Type of one operand's slice on its way into LDS."""
        element = ELEMENT_TYPES[self.memory_dtype]
        if contiguous_inner:
            return StagedType(outer_size, self.slice, element, "rows")
        return StagedType(self.slice, outer_size, element, "blocks")

    def lds(self, outer_size: int) -> LdsType:
        """Type of one operand's slices in LDS: k along rows, padded against bank conflicts."""
        pitch = self.slice + LDS_PADDING_BYTES * 8 // self.memory_bits
        rows = self.schedule.stages * outer_size
        return LdsType(rows, self.slice, ELEMENT_TYPES[self.memory_dtype], pitch)


def multiplied_dtypes(directive: Operation) -> tuple[str, str]:
    """The dtypes that a directive's operands are multiplied as: packed ones by what they hold."""
    memory = option(directive, "dtype", "f16")
    if option(directive, "weight", ""):
        return memory, memory
    a = option(directive, "packed_a", memory)
    return a, option(directive, "packed_b", option(directive, "dtype_b", memory))


def gemm_problem(directive: Operation, target: Target) -> GemmProblem:
    """Read a directive's attributes; absent ones take the shipped schedule's values."""
    dtype_a, dtype_b = multiplied_dtypes(directive)
    core = target.matrix_core(dtype_a)
    if core is not target.matrix_core(dtype_b):
        raise DtypeError(f"matmul: no instruction multiplies {dtype_a} by {dtype_b}")
    default = gemm_schedule(target, dtype_a, None, None, None).for_kind(
        _flag(directive, "pair"), _flag(directive, "grouped")
    )
    fields = {name: option(directive, name, getattr(default, name)) for name in SCHEDULE_FIELDS}
    schedule = GemmSchedule(**fields)
    problem = GemmProblem(
        name=option(directive, "name", ""),
        dtype_a=dtype_a,
        dtype_b=dtype_b,
        out_dtype=option(directive, "out_dtype", core.accumulator_dtype),
        transpose_a=_flag(directive, "transpose_a"),
        transpose_b=_flag(directive, "transpose_b"),
        batch_a=_flag(directive, "batch_a"),
        batch_b=_flag(directive, "batch_b"),
        inner_size=option(directive, "inner_size", None),
        alignment=option(directive, "alignment", max(1, ELEMENT_BITS[dtype_a] // 8)),
        schedule=schedule,
        core=core,
        epilogue=epilogue_of(directive),
        weight=option(directive, "weight", ""),
        group_size=option(directive, "group_size", 0),
        zero=_flag(directive, "zero"),
        grouped=_flag(directive, "grouped"),
    )
    bits = ELEMENT_BITS[dtype_a]
    wide = replace(schedule, nt=2 * schedule.nt) if problem.pair else schedule
    check_lds(target, wide.lds_bytes(bits))
    _check(problem)
    return problem


def _flag(directive: Operation, name: str) -> bool:
    value: Any = option(directive, name, False)
    return bool(value)


def _check(problem: GemmProblem) -> None:
    """Raise OptionError or DtypeError for what is not built."""
    schedule, where = problem.schedule, f"matmul {problem.name!r}"
    if problem.packed > 1:
        if problem.transpose_a or not problem.transpose_b:
            raise OptionError(
                f"{where}: packed operands must be [m, k] and [n, k] (transpose_a False, "
                "transpose_b True), so that each byte holds two numbers along k"
            )
        if not schedule.block_k:
            raise OptionError(f"{where}: packed operands need block_k of at least 32")
    if problem.weight:
        _check_weight(problem, where)
    if problem.pair and (schedule.split_k > 1 or problem.weight or problem.grouped):
        raise OptionError(f"{where}: pair needs split_k 1, no groups and no quantized weights")
    if problem.grouped and (schedule.group_m or schedule.split_k > 1 or problem.batched):
        raise OptionError(f"{where}: grouped needs group_m 0, split_k 1 and no batch axis")
    # A staged piece is 128 bits of a row.
    pieces = 128 // ELEMENT_BITS[problem.dtype_a]
    if schedule.block_k % pieces and (not problem.transpose_a or problem.transpose_b):
        raise OptionError(
            f"{where}: block_k = {schedule.block_k} is no multiple of {pieces}, the "
            f"{problem.dtype_a} numbers of one 128-bit access"
        )
    if schedule.split_k > 1 and not schedule.block_k:
        raise OptionError(f"{where}: split_k needs block_k of at least {problem.core.k}")
    if problem.out_dtype == "i32" and problem.accumulator_dtype != "i32":
        raise DtypeError(f"{where}: out_dtype i32 is for integer operands only")
    if problem.out_dtype == "i32" and problem.epilogue.computes:
        raise OptionError(f"{where}: an epilogue computes in f32; ask for a float out_dtype")


def _check_weight(problem: GemmProblem, where: str) -> None:
    """Raise for dequantization that is not built."""
    if problem.dtype_a != "f16":
        raise DtypeError(f"{where}: quantized weights are multiplied by f16 only")
    if problem.weight not in PACKED_NUMBERS or problem.group_size not in GROUP_SIZES:
        raise OptionError(
            f"{where}: weight = {problem.weight!r}, group_size = {problem.group_size}; "
            + supported([*PACKED_NUMBERS, *map(str, GROUP_SIZES)])
        )
    if problem.transpose_a or problem.batched or problem.schedule.block_k != WEIGHT_SLICE:
        raise OptionError(
            f"{where}: quantized weights need transpose_a False, no batch axis and "
            f"block_k = {WEIGHT_SLICE}"
        )
