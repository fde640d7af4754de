"""`tessera_rocm.elementwise` to a kernel: one thread per element, broadcasting by strides."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from tessera.contracts import ELEMENTWISE_FUNCTIONS, ELEMENTWISE_RANK
from tessera.dialects import wave
from tessera.dialects.wave_types import PointerType
from tessera.kernels.generated import GeneratedKernels, buffer, option, scalar
from tessera.kernels.program import KernelProgram
from tessera.launch_rule import LaunchRule
from tessera.targets import Target

THREADS = 256
ELEMENT_TYPES: dict[str, Attribute] = {"f16": Float16Type(), "bf16": BFloat16Type(), "f32": f32}

LOG2_E = math.log2(math.e)
ERFC_LOG2 = (
    -1.825853733, 1.445577036, 0.5068453685, 0.352143284, -1.121868667, 2.628283695,
    -5.474898724, 6.480662651, -4.266990748, 1.496841042, -0.220741205,
)  # fmt: skip
"""Coefficients, lowest first, of log2(erfc(z) / t) + z^2 log2(e) in t = 1 / (1 + z / 2).

Interpolated at the 11 Chebyshev nodes of z in [0, 10] from 40-digit values; error below 1.4e-8.
"""


def generate_elementwise(directive: Operation, target: Target) -> GeneratedKernels:
    """The kernel and launch rule of one elementwise directive."""
    name, function = option(directive, "name", ""), option(directive, "function", "")
    dtype, out_dtype = option(directive, "dtype", ""), option(directive, "out_dtype", "")
    number = option(directive, "scalar", None)
    inputs = [f"x{i}" for i in range(ELEMENTWISE_FUNCTIONS[function] - (number is not None))]
    tensors = [*inputs, "out"]
    types: dict[str, Attribute] = {
        **{one: PointerType(ELEMENT_TYPES[dtype]) for one in inputs},
        "out": PointerType(ELEMENT_TYPES[out_dtype]),
        "count": i32,
        **{f"size{axis}": i32 for axis in range(1, ELEMENTWISE_RANK)},
        **{f"{one}_stride{axis}": i64 for one in tensors for axis in range(ELEMENTWISE_RANK)},
        "number": f32,
    }
    program = KernelProgram(name, list(types.items()), THREADS)
    write_program(program, function, inputs, number is not None, ELEMENT_TYPES[out_dtype])
    options = {"function": function, "out_dtype": out_dtype}
    if number is not None:
        options["scalar"] = float(number)
    rule = launch_rule(name, inputs, dtype, out_dtype, 0.0 if number is None else float(number))
    return GeneratedKernels((program.finish(),), (rule,), contract="elementwise", options=options)


def launch_rule(
    name: str, inputs: list[str], dtype: str, out_dtype: str, number: float
) -> LaunchRule:
    """Grid and arguments from the broadcast sizes and each tensor's strides, 0 where it repeats."""
    count = " * ".join(f"size{axis}" for axis in range(ELEMENTWISE_RANK))
    return LaunchRule(
        kernel=name,
        grid=(f"ceildiv({count}, {THREADS})", "1", "1"),
        block=(THREADS, 1, 1),
        arguments=(
            *(buffer(one, dtype) for one in inputs),
            buffer("out", out_dtype),
            scalar("count", "i32", count),
            *(scalar(f"size{axis}", "i32", f"size{axis}") for axis in range(1, ELEMENTWISE_RANK)),
            *(
                scalar(f"{one}_stride{axis}", "i64", f"stride({one}, {axis})")
                for one in [*inputs, "out"]
                for axis in range(ELEMENTWISE_RANK)
            ),
            scalar("number", "f32", repr(number)),
        ),
        requires=((f"{count} < 2**31 - {THREADS}", "results must have fewer than 2**31 elements"),),
    )


def write_program(
    program: KernelProgram,
    function: str,
    inputs: list[str],
    has_number: bool,
    out_element: Attribute,
) -> None:
    """Compute one element per thread in f32 and round it once."""
    p = program
    index = p.add(p.mul(p.insert(wave.WorkgroupIdOp()), THREADS), p.insert(wave.ThreadIdOp()))

    def body() -> list[SSAValue]:
        coordinates: list[SSAValue] = []
        rest = index
        for axis in range(ELEMENTWISE_RANK - 1, 0, -1):
            coordinates.insert(0, p.rem(rest, p[f"size{axis}"]))
            rest = p.div(rest, p[f"size{axis}"])
        coordinates.insert(0, rest)

        def place(tensor: str) -> SSAValue:
            total: SSAValue | None = None
            for axis, coordinate in enumerate(coordinates):
                step = p.mul(p.wide(coordinate), p[f"{tensor}_stride{axis}"])
                total = step if total is None else p.add(total, step)
            assert total is not None
            return total

        values = [_as_f32(p, p.insert(wave.LoadElementOp(p[name], place(name)))) for name in inputs]
        if has_number:
            values.append(p["number"])
        result = FUNCTIONS[function](p, *values)
        if out_element != f32:
            result = p.insert(arith.TruncFOp(result, out_element))  # type: ignore[arg-type]
        p.effect(wave.StoreElementOp(result, p["out"], place("out")))
        return []

    p.when(p.compare("slt", index, p["count"]), body)


def _as_f32(p: KernelProgram, value: SSAValue) -> SSAValue:
    return value if value.type == f32 else p.insert(arith.ExtFOp(value, f32))


def _relu(p: KernelProgram, x: SSAValue) -> SSAValue:
    zero = p.float_constant(0.0)
    return p.select(p.float_compare("olt", x, zero), zero, x)


def _logistic_product(p: KernelProgram, x: SSAValue, argument: SSAValue) -> SSAValue:
    """x / (1 + exp(-argument))."""
    power = p.exp2(p.multiply(argument, p.float_constant(-LOG2_E)))
    return p.divide(x, p.plus(p.float_constant(1.0), power))


def _silu(p: KernelProgram, x: SSAValue) -> SSAValue:
    return _logistic_product(p, x, x)


def _gelu_tanh(p: KernelProgram, x: SSAValue) -> SSAValue:
    """x (1 + tanh u) / 2 = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    twice = 2.0 * math.sqrt(2.0 / math.pi)
    square = p.multiply(x, x)
    inner = p.plus(p.float_constant(twice), p.multiply(square, p.float_constant(twice * 0.044715)))
    return _logistic_product(p, x, p.multiply(x, inner))


def _gelu(p: KernelProgram, x: SSAValue) -> SSAValue:
    """x (1 + erf(x / sqrt 2)) / 2 by the complement of the tail, accurate for negative x too."""
    zero, one = p.float_constant(0.0), p.float_constant(1.0)
    negative = p.float_compare("olt", x, zero)
    magnitude = p.select(negative, p.minus(zero, x), x)
    z = p.multiply(magnitude, p.float_constant(math.sqrt(0.5)))
    t = p.divide(one, p.plus(one, p.multiply(z, p.float_constant(0.5))))
    series = p.float_constant(ERFC_LOG2[-1])
    for coefficient in reversed(ERFC_LOG2[:-1]):
        series = p.plus(p.multiply(series, t), p.float_constant(coefficient))
    square = p.multiply(p.multiply(z, z), p.float_constant(LOG2_E))
    tail = p.multiply(p.multiply(t, p.float_constant(0.5)), p.exp2(p.minus(series, square)))
    lower = p.minus(one, tail)
    # Beyond |x| = 14 the tail is below half the smallest f32; the product would be inf * 0 for inf.
    far = p.float_compare("ogt", magnitude, p.float_constant(14.0))
    chosen = p.multiply(x, p.select(negative, tail, lower))
    return p.select(far, _relu(p, x), chosen)


FUNCTIONS: Mapping[str, Callable[..., SSAValue]] = MappingProxyType(
    {
        "add": KernelProgram.plus,
        "mul": KernelProgram.multiply,
        "relu": _relu,
        "gelu": _gelu,
        "gelu_tanh": _gelu_tanh,
        "silu": _silu,
        "cast": lambda p, x: x,
    }
)
"""What each function computes of its f32 inputs."""
