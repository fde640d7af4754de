"""What an operation contract is made of: dtypes, tensor specs, operands and results as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

HALF_DTYPES = ("f16", "bf16")
FLOAT_DTYPES = ("f16", "bf16", "f32")
BYTE_DTYPES = ("i8", "u8")
PACKED_DTYPES = ("i4", "u4")
"""Numbers of four bits, two in each byte of a u8 tensor: the first one in the low four bits."""
MATMUL_DTYPES = (*HALF_DTYPES, *BYTE_DTYPES)
WEIGHT_DTYPES = ("i4", "u4", "i8")
GROUP_SIZES = (32, 64, 128)
"""Weights of one row along k that may share a scale."""
DTYPE_BYTES: Mapping[str, int] = MappingProxyType(
    {"f16": 2, "bf16": 2, "f32": 4, "i8": 1, "u8": 1, "i32": 4}
)
"""Bytes of one element, for every dtype that a tensor may have."""
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
BIAS_AXES = ("row", "column")

MAX_HEAD_DIM = 256
ELEMENTWISE_RANK = 4
"""Elementwise kernels see every tensor at this rank: leading 1s, stride 0 where broadcast."""

CAUSAL_MODES = ("none", "top_left", "bottom_right")

Size = int | None
"""A dimension's size in elements; None while it is not known."""


@dataclass(frozen=True)
class TensorSpec:
    """Shape (None for a size that is not known yet) and dtype name of one tensor."""

    shape: tuple[Size, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join('?' if s is None else str(s) for s in self.shape)}]"


@dataclass(frozen=True)
class OperandContract:
    """One operand: its dimension symbols from outermost to innermost and its allowed dtypes.

    `transposed_by` names the boolean option under which the dimensions stand in reverse order,
    `when` the option without which the operand is absent, `unless` that with which it is. A
    `batched` operand may have one axis more in front, `batch`; one entry there serves all entries
    of the other operands. Along the `broadcast` dimensions it may have size 1, or lack them in
    front, for any size of the others: kernels then see stride 0. `any_strides` lifts the rule of a
    contiguous last axis.
    """

    name: str
    dims: tuple[str, ...]
    dtypes: tuple[str, ...]
    transposed_by: str | None = None
    when: str = ""
    batched: bool = False
    broadcast: tuple[str, ...] = ()
    any_strides: bool = False
    unless: str = ""

    def dims_under(self, options: Mapping[str, object]) -> tuple[str, ...]:
        """The dimension symbols in the order in which memory has them under `options`."""
        if self.name == "bias" and options.get("bias") == "row":
            return ("m",)
        if self.name == "b" and options.get("weight"):
            return ("n", "weight_columns")
        is_swapped = self.transposed_by is not None and options.get(self.transposed_by)
        dims = self.dims[::-1] if is_swapped else self.dims
        return ("groups", *dims) if self.name == "b" and options.get("grouped") else dims


@dataclass(frozen=True)
class ResultContract:
    """One result: its dimension symbols, and its dtype as a name or as that of an operand.

    `shape_of` names an operand whose very shape it has instead, broadcast axes included. `when` is
    the option without which the result is absent.

    `dtype_option` names the option that overrides the dtype, `dtypes` what it may ask for.
    """

    name: str
    dims: tuple[str, ...]
    dtype: str = ""
    dtype_of: str = ""
    dtype_option: str = ""
    dtypes: tuple[str, ...] = FLOAT_DTYPES
    batched: bool = False
    shape_of: str = ""
    when: str = ""


@dataclass(frozen=True)
class OpContract:
    """What one operation takes and gives.

    `same_dtype` operands share one dtype. `limits` are (symbol, smallest, largest) sizes;
    `multiples` are (symbol, divisor symbol) pairs that must divide evenly.
    """

    name: str
    operands: tuple[OperandContract, ...]
    results: tuple[ResultContract, ...]
    same_dtype: tuple[str, ...] = ()
    limits: tuple[tuple[str, int, int], ...] = ()
    multiples: tuple[tuple[str, str], ...] = ()

    def operands_under(self, options: Mapping[str, object]) -> tuple[OperandContract, ...]:
        """The operands that the operation has under `options`, in order."""
        return tuple(
            one
            for one in self.operands
            if _is_present(one.when, options)
            and not (one.unless and _is_present(one.unless, options))
        )

    def results_under(self, options: Mapping[str, object]) -> tuple[ResultContract, ...]:
        """The results that the operation has under `options`, in order."""
        return tuple(one for one in self.results if _is_present(one.when, options))


def _is_present(option: str, options: Mapping[str, object]) -> bool:
    value = options.get(option)
    # A number is there even if it is 0, which is equal to False.
    return not option or not (value is None or value is False or value == "")


@dataclass(frozen=True)
class Binding:
    """The outcome of `bind`: a size (or None) per symbol, and operands and results by name."""

    symbols: Mapping[str, Size]
    operands: Mapping[str, TensorSpec]
    results: Mapping[str, TensorSpec] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether no result has an element, so that there is nothing to launch."""
        return all(0 in spec.shape for spec in self.results.values())
