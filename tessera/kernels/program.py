"""Python calls to kernel-level IR: the vocabulary in which the generators write their programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.builder import Builder
from xdsl.dialects import arith, func, math, scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from tessera.dialects import wave
from tessera.dialects.wave_types import FragmentType, PointerType, StatisticType

Value = SSAValue
Body = Callable[..., Sequence[SSAValue]]

SIGNED_LESS, SIGNED_GREATER_EQUAL, EQUAL = "slt", "sge", "eq"


class KernelProgram:
    """One kernel under construction: a func.func whose `block` attribute is its workgroup size.

    Integer arguments of the arithmetic methods may be Python ints, which become constants of the
    other operand's type. All methods append to the innermost open region.
    """

    def __init__(self, name: str, arguments: Sequence[tuple[str, Attribute]], threads: int) -> None:
        entry = Block(arg_types=[type_ for _, type_ in arguments])
        for argument, (argument_name, _) in zip(entry.args, arguments, strict=True):
            argument.name_hint = argument_name
        self.function = func.FuncOp(
            name, ([type_ for _, type_ in arguments], []), Region(entry), visibility="public"
        )
        self.function.attributes["block"] = DenseArrayBase.from_list(i32, [threads, 1, 1])
        self.arguments = dict(zip((n for n, _ in arguments), entry.args, strict=True))
        self.threads = threads
        self._entry = entry
        self._builder = Builder(InsertPoint.at_end(entry))
        self._constants: dict[tuple[object, str], SSAValue] = {}

    def __getitem__(self, argument: str) -> SSAValue:
        """The kernel argument of that name."""
        return self.arguments[argument]

    def finish(self) -> func.FuncOp:
        """Close the kernel and return it."""
        self._builder.insert(func.ReturnOp())
        return self.function

    def insert(self, operation: Operation) -> SSAValue:
        """Append an operation with one result."""
        self._builder.insert(operation)
        return operation.results[0]

    def effect(self, operation: Operation) -> None:
        """Append an operation without result."""
        self._builder.insert(operation)

    # Constants live at the top of the kernel, one each, so that every region may use them.

    def constant(self, value: int | float, type_: Attribute = i32) -> SSAValue:
        """A constant of an integer or float type."""
        key = (value, f"{type_}{type(value).__name__}{value!s}")
        if key not in self._constants:
            attribute = (
                IntegerAttr(int(value), type_)
                if isinstance(type_, IntegerType | IndexType)
                else FloatAttr(float(value), type_)  # type: ignore[arg-type]
            )
            operation = arith.ConstantOp(attribute)
            first = self._entry.first_op
            if first is None:
                self._builder.insert(operation)
            else:
                self._entry.insert_op_before(operation, first)
            self._constants[key] = operation.result
        return self._constants[key]

    def _pair(
        self, a: SSAValue | int | float, b: SSAValue | int | float
    ) -> tuple[SSAValue, SSAValue]:
        type_ = next((x.type for x in (a, b) if isinstance(x, SSAValue)), i32)
        first, second = (x if isinstance(x, SSAValue) else self.constant(x, type_) for x in (a, b))
        return first, second

    def value(self, number: SSAValue | int) -> SSAValue:
        """A Python int as an i32 constant; values as they are."""
        return number if isinstance(number, SSAValue) else self.constant(number)

    # Integers.

    def add(self, a: SSAValue | int, b: SSAValue | int) -> SSAValue:
        """a + b."""
        return self.insert(arith.AddiOp(*self._pair(a, b)))

    def sub(self, a: SSAValue | int, b: SSAValue | int) -> SSAValue:
        """a - b."""
        return self.insert(arith.SubiOp(*self._pair(a, b)))

    def mul(self, a: SSAValue | int, b: SSAValue | int) -> SSAValue:
        """a * b."""
        return self.insert(arith.MuliOp(*self._pair(a, b)))

    def div(self, a: SSAValue | int, b: SSAValue | int) -> SSAValue:
        """a / b of non-negative integers, rounded down."""
        return self.insert(arith.DivUIOp(*self._pair(a, b)))

    def rem(self, a: SSAValue | int, b: SSAValue | int) -> SSAValue:
        """a modulo b of non-negative integers."""
        return self.insert(arith.RemUIOp(*self._pair(a, b)))

    def min(self, a: SSAValue | int, b: SSAValue | int) -> SSAValue:
        """The smaller of two signed integers."""
        return self.insert(arith.MinSIOp(*self._pair(a, b)))

    def max(self, a: SSAValue | int, b: SSAValue | int) -> SSAValue:
        """The larger of two signed integers."""
        return self.insert(arith.MaxSIOp(*self._pair(a, b)))

    def ceildiv(self, a: SSAValue, divisor: int) -> SSAValue:
        """a / divisor of a non-negative integer, rounded up."""
        return self.div(self.add(a, divisor - 1), divisor)

    def wide(self, value: SSAValue) -> SSAValue:
        """An i32 as i64, by sign."""
        return value if value.type == i64 else self.insert(arith.ExtSIOp(value, i64))

    def compare(self, predicate: str, a: SSAValue | int, b: SSAValue | int) -> SSAValue:
        """An integer comparison by its MLIR name, as in "slt"."""
        return self.insert(arith.CmpiOp(*self._pair(a, b), predicate))

    def both(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Logical and of two conditions."""
        return self.insert(arith.AndIOp(a, b))

    # Floats.

    def float_constant(self, value: float) -> SSAValue:
        """An f32 constant."""
        return self.constant(float(value), f32)

    def multiply(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Product of two floats."""
        return self.insert(arith.MulfOp(a, b))

    def plus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Sum of two floats."""
        return self.insert(arith.AddfOp(a, b))

    def minus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Difference of two floats."""
        return self.insert(arith.SubfOp(a, b))

    def divide(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Quotient of two floats."""
        return self.insert(arith.DivfOp(a, b))

    def maximum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The larger float; of a NaN and a number, the number."""
        return self.insert(arith.MaxnumfOp(a, b))

    def fused_minus(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """a * b - c with one rounding."""
        return self.insert(math.FmaOp(a, b, self.insert(arith.NegfOp(c))))

    def absolute(self, value: SSAValue) -> SSAValue:
        """A float without its sign."""
        return self.insert(math.AbsFOp(value))

    def exp2(self, value: SSAValue) -> SSAValue:
        """2 to the power of a float."""
        return self.insert(math.Exp2Op(value))

    def log2(self, value: SSAValue) -> SSAValue:
        """Logarithm to base 2 of a float."""
        return self.insert(math.Log2Op(value))

    def float_compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """A float comparison by its MLIR name, as in "oeq"."""
        return self.insert(arith.CmpfOp(a, b, predicate))

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """a where the condition holds, else b."""
        return self.insert(arith.SelectOp(condition, a, b))

    # Control flow; bodies are Python functions that return the yielded values.

    def loop(
        self, lower: SSAValue | int, upper: SSAValue, initial: Sequence[SSAValue], body: Body
    ) -> list[SSAValue]:
        """Run body(index, *carried) for lower <= index < upper; returns the last carried values."""
        block = Block(arg_types=[i32, *(value.type for value in initial)])
        start = lower if isinstance(lower, SSAValue) else self.constant(lower)
        operation = scf.ForOp(start, upper, self.constant(1), list(initial), Region(block))
        self._within(block, lambda: body(*block.args))
        self._builder.insert(operation)
        return list(operation.results)

    def when(
        self,
        condition: SSAValue,
        then: Body,
        otherwise: Body | None = None,
        types: Sequence[Attribute] = (),
    ) -> list[SSAValue]:
        """Run one of two bodies; both return values of `types`."""
        true_block, false_block = Block(), Block()
        self._within(true_block, then)
        self._within(false_block, otherwise or (lambda: ()))
        operation = scf.IfOp(condition, list(types), Region(true_block), Region(false_block))
        self._builder.insert(operation)
        return list(operation.results)

    def _within(self, block: Block, body: Body) -> None:
        outer, self._builder = self._builder, Builder(InsertPoint.at_end(block))
        self._builder.insert(scf.YieldOp(*body()))
        self._builder = outer

    # Fragments.

    def map(
        self,
        inputs: Sequence[SSAValue],
        body: Callable[..., SSAValue],
        output: Attribute | None = None,
        coordinates: bool = False,
    ) -> SSAValue:
        """Apply body(*elements) everywhere; with `coordinates`, body(row, column, *elements).

        The result has the first input's type unless `output` says otherwise.
        """
        leading = [i32, i32] if coordinates else []
        block = Block(arg_types=leading + [wave.map_element_type(x.type) for x in inputs])
        outer, self._builder = self._builder, Builder(InsertPoint.at_end(block))
        self._builder.insert(wave.YieldOp([body(*block.args)]))
        self._builder = outer
        result = inputs[0].type if output is None else output
        return self.insert(wave.MapOp(inputs, [result], Region(block), coordinates))

    def zero(self, fragment: FragmentType) -> SSAValue:
        """An accumulator of zeros."""
        return self.insert(wave.ZeroOp(fragment))

    def mma(self, a: SSAValue, b: SSAValue, accumulator: SSAValue) -> SSAValue:
        """a times b plus accumulator."""
        return self.insert(wave.MmaOp(a, b, accumulator))

    def reduce(self, inputs: Sequence[SSAValue], kind: str) -> SSAValue:
        """One lane-partial number per column, over the rows of all inputs."""
        return self.insert(wave.ReduceOp(inputs, kind))

    def combine(self, statistic: SSAValue, kind: str) -> SSAValue:
        """The complete number per column from the lane-partial ones."""
        return self.insert(wave.CombineOp(statistic, kind))

    def splat(self, value: SSAValue, statistic: StatisticType) -> SSAValue:
        """The same number for every column."""
        return self.insert(wave.SplatOp(value, statistic))

    def offset(self, pointer: SSAValue, elements: SSAValue) -> SSAValue:
        """A pointer moved by a number of elements."""
        assert isinstance(pointer.type, PointerType)
        return self.insert(wave.OffsetOp(pointer, self.wide(elements)))

    def schedule_barrier(self) -> None:
        """Keep the instructions before and after apart, so that fewer values live at once."""
        self.effect(wave.ScheduleBarrierOp())

    def barrier(self) -> None:
        """Wait for all waves of the workgroup."""
        self.effect(wave.BarrierOp())
