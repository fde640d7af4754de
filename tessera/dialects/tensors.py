"""Tensor types to the sizes and dtype names that contracts speak of, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerType,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from tessera.contracts import Binding, TensorSpec, bind
from tessera.errors import TesseraError, supported

ELEMENT_TYPES: Mapping[str, Attribute] = MappingProxyType(
    {
        "f16": f16,
        "bf16": bf16,
        "f32": f32,
        "i8": i8,
        "u8": IntegerType(8, Signedness.UNSIGNED),
        "i32": i32,
    }
)
"""The element type of every dtype name that a tensor may have."""

_DTYPE_NAMES = {element: name for name, element in ELEMENT_TYPES.items()}


def spec_of(tensor: Attribute) -> TensorSpec:
    """Shape (None where dynamic) and dtype name of a tensor type; VerifyException for others."""
    if not isinstance(tensor, TensorType):
        raise VerifyException(f"{tensor} is no ranked tensor")
    dtype = _DTYPE_NAMES.get(tensor.element_type)
    if dtype is None:
        raise VerifyException(
            f"{tensor} has element type {tensor.element_type}; " + supported(ELEMENT_TYPES)
        )
    shape = tuple(None if size == DYNAMIC_INDEX else size for size in tensor.get_shape())
    return TensorSpec(shape, dtype)


def tensor_type(spec: TensorSpec) -> TensorType:
    """The tensor type of a shape and dtype name; unknown sizes become dynamic."""
    shape = [DYNAMIC_INDEX if size is None else size for size in spec.shape]
    return TensorType(ELEMENT_TYPES[spec.dtype], shape)


def compatible(left: TensorSpec, right: TensorSpec) -> bool:
    """Whether both can describe one tensor: an unknown size fits every size."""
    return (
        left.dtype == right.dtype
        and len(left.shape) == len(right.shape)
        and all(None in (a, b) or a == b for a, b in zip(left.shape, right.shape, strict=True))
    )


def verify_against_contract(
    op_name: str,
    contract: str,
    operands: Sequence[SSAValue],
    results: Sequence[SSAValue],
    options: Mapping[str, object],
) -> Binding:
    """Bind an operation's operand types by its contract and compare its result types.

    Raises VerifyException that opens with `op_name` and names operand or result.
    """
    try:
        binding = bind(contract, [spec_of(value.type) for value in operands], options)
    except (TesseraError, VerifyException) as error:
        raise VerifyException(f"{op_name}: {error}") from error
    if len(results) != len(binding.results):
        raise VerifyException(
            f"{op_name}: gives {len(binding.results)} results "
            f"({', '.join(binding.results)}), got {len(results)}"
        )
    for (name, expected), value in zip(binding.results.items(), results, strict=True):
        found = spec_of(value.type)
        if not compatible(found, expected):
            raise VerifyException(f"{op_name}: result {name!r} must be {expected}, got {found}")
    return binding
