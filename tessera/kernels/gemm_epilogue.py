"""What a matmul does to its sums before it stores them: scale, bias, activation, residual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f32
from xdsl.ir import Operation, SSAValue

from tessera.dialects import wave
from tessera.kernels.elementwise import FUNCTIONS
from tessera.kernels.generated import option
from tessera.kernels.program import KernelProgram

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
MATRICES = ("addend", "gate", "residual")
"""Operands of the result's shape, in the order in which the kernel takes and uses them."""


@dataclass(frozen=True)
class Epilogue:
    """c = activation(alpha a b + beta addend + bias) * gate + residual, in f32, rounded once.

    That is hipBLASLt's order: scale, C, bias, activation. `bias` is "row" (one number per row of c,
    m of them), "column" (one per column, n of them) or empty. `dtypes` gives the dtype of each
    tensor that is there, by name, in argument order. With `pair` the gate is a second sum.
    """

    alpha: float = 1.0
    beta: float = 0.0
    bias: str = ""
    activation: str = ""
    pair: bool = False
    dtypes: Mapping[str, str] = field(default_factory=dict)

    @property
    def computes(self) -> bool:
        """Whether the sums are changed at all before they are rounded."""
        return self.alpha != 1.0 or bool(self.activation or self.pair or self.dtypes)

    @property
    def matrices(self) -> tuple[str, ...]:
        """Names of the operands that have the result's shape."""
        return tuple(name for name in self.dtypes if name != "bias")


def epilogue_of(directive: Operation) -> Epilogue:
    """The epilogue that a directive's attributes ask for."""
    names = ("addend", "bias", "gate", "residual")
    dtypes = {name: option(directive, f"{name}_dtype", None) for name in names}
    return Epilogue(
        alpha=option(directive, "alpha", 1.0),
        beta=option(directive, "beta", 1.0),
        bias=option(directive, "bias", ""),
        activation=option(directive, "activation", ""),
        pair=bool(option(directive, "pair", False)),
        dtypes=MappingProxyType({name: one for name, one in dtypes.items() if one is not None}),
    )


@dataclass(frozen=True)
class EpilogueTensors:
    """Where the epilogue's tensors begin for the element (0, 0) of what is being stored.

    `pointers` by name; `strides` between rows by name, in elements; rows and columns that an
    epilogue is asked for beyond `last_row` and `last_column` repeat these.
    """

    pointers: Mapping[str, SSAValue]
    strides: Mapping[str, SSAValue]
    last_row: SSAValue
    last_column: SSAValue


def apply_epilogue(
    p: KernelProgram,
    epilogue: Epilogue,
    tensors: EpilogueTensors,
    total: SSAValue,
    row: SSAValue,
    column: SSAValue,
    gate: SSAValue | None = None,
) -> SSAValue:
    """The f32 result for one sum at (row, column); `gate` is the other sum of a pair."""
    value = as_f32(p, total)
    if not epilogue.computes:
        return value
    # The value of an element outside is not stored; it only has to be read from somewhere valid.
    row, column = p.min(row, tensors.last_row), p.min(column, tensors.last_column)

    def load(name: str) -> SSAValue:
        if name == "bias":
            index = row if epilogue.bias == "row" else column
        else:
            index = p.add(p.mul(row, tensors.strides[name]), column)
        return as_f32(p, p.insert(wave.LoadElementOp(tensors.pointers[name], p.wide(index))))

    if epilogue.alpha != 1.0:
        value = p.multiply(value, p.float_constant(epilogue.alpha))
    if "addend" in epilogue.dtypes:
        addend = load("addend")
        if epilogue.beta != 1.0:
            addend = p.multiply(addend, p.float_constant(epilogue.beta))
        value = p.plus(value, addend)
    if "bias" in epilogue.dtypes:
        value = p.plus(value, load("bias"))
    if epilogue.activation:
        value = FUNCTIONS[epilogue.activation](p, value)
    if gate is not None:
        value = p.multiply(value, as_f32(p, gate))
    if "gate" in epilogue.dtypes:
        value = p.multiply(value, load("gate"))
    if "residual" in epilogue.dtypes:
        value = p.plus(value, load("residual"))
    return value


def as_f32(p: KernelProgram, value: SSAValue) -> SSAValue:
    """A float or a signed integer as f32."""
    if value.type == f32:
        return value
    if isinstance(value.type, IntegerType):
        return p.insert(arith.SIToFPOp(value, f32))
    return p.insert(arith.ExtFOp(value, f32))
