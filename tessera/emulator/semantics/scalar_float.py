"""Scalar float instructions of RDNA 3.5 and scalar compares to numpy functions on [waves]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessera.emulator.semantics import compare, conversion, minmax
from tessera.emulator.semantics.kinds import Array, ScalarOp, scalar
from tessera.emulator.semantics.rounding import fma_f16, fma_f32

_31, _63 = np.uint32(31), np.uint32(63)


def high_half_to_f32(x: Array) -> Array:
    """float32 of the float16 in the high half of uint32 (S_CVT_HI_F32_F16)."""
    return (x >> np.uint32(16)).astype(np.uint16).view(np.float16).astype(np.float32)


def test_bit(value: int) -> Callable[[Array, Array], Array]:
    """Whether bit `index` modulo the width of x equals `value` (S_BITCMP0/1_B32/B64)."""

    def apply(x: Array, index: Array) -> Array:
        shift = index & (_63 if x.dtype.itemsize == 8 else _31)
        return (x >> shift) & x.dtype.type(1) == value

    return apply


def _compares() -> dict[str, ScalarOp]:
    """S_CMP_* of integers and floats; the float ones lack F and T."""
    relations = {"EQ": np.equal, "LG": np.not_equal, "GT": np.greater, "GE": np.greater_equal}
    relations |= {"LT": np.less, "LE": np.less_equal}
    operations: dict[str, ScalarOp] = {}
    for relation, function in relations.items():
        for kind in ("i32", "u32"):
            name = f"S_CMP_{relation}_{kind.upper()}"
            operations[name] = scalar(function, f"{kind} {kind}", None, writes_scc=True)
    operations["S_CMP_EQ_U64"] = scalar(np.equal, "u64 u64", None, writes_scc=True)
    operations["S_CMP_LG_U64"] = scalar(np.not_equal, "u64 u64", None, writes_scc=True)
    for relation, function in compare.FLOAT_COMPARES.items():
        if relation in ("F", "T"):
            continue
        for kind in ("f32", "f16"):
            name = f"S_CMP_{relation}_{kind.upper()}"
            operations[name] = scalar(function, f"{kind} {kind}", None, writes_scc=True)
    for value in (0, 1):
        for width in (32, 64):
            name = f"S_BITCMP{value}_B{width}"
            operations[name] = scalar(test_bit(value), f"b{width} u32", None, writes_scc=True)
    return operations


SCALAR_COMPARE_OPS = _compares()

SCALAR_FLOAT_OPS: dict[str, ScalarOp] = {
    "S_ADD_F32": scalar(np.add, "f32 f32", "f32"),
    "S_SUB_F32": scalar(np.subtract, "f32 f32", "f32"),
    "S_MUL_F32": scalar(np.multiply, "f32 f32", "f32"),
    "S_MIN_F32": scalar(minmax.minimum, "f32 f32", "f32"),
    "S_MAX_F32": scalar(minmax.maximum, "f32 f32", "f32"),
    "S_FMAAK_F32": scalar(fma_f32, "f32 f32 f32", "f32"),
    "S_FMAMK_F32": scalar(fma_f32, "f32 f32 f32", "f32"),
    "S_FMAC_F32": scalar(fma_f32, "f32 f32", "f32", accumulates=True),
    "S_CVT_PK_RTZ_F16_F32": scalar(conversion.pack_toward_zero, "f32 f32", "pk_f16"),
    "S_ADD_F16": scalar(np.add, "f16 f16", "f16"),
    "S_SUB_F16": scalar(np.subtract, "f16 f16", "f16"),
    "S_MUL_F16": scalar(np.multiply, "f16 f16", "f16"),
    "S_MIN_F16": scalar(minmax.minimum, "f16 f16", "f16"),
    "S_MAX_F16": scalar(minmax.maximum, "f16 f16", "f16"),
    "S_FMAC_F16": scalar(fma_f16, "f16 f16", "f16", accumulates=True),
    "S_CEIL_F32": scalar(np.ceil, "f32", "f32"),
    "S_FLOOR_F32": scalar(np.floor, "f32", "f32"),
    "S_TRUNC_F32": scalar(np.trunc, "f32", "f32"),
    "S_RNDNE_F32": scalar(np.rint, "f32", "f32"),
    "S_CEIL_F16": scalar(np.ceil, "f16", "f16"),
    "S_FLOOR_F16": scalar(np.floor, "f16", "f16"),
    "S_TRUNC_F16": scalar(np.trunc, "f16", "f16"),
    "S_RNDNE_F16": scalar(np.rint, "f16", "f16"),
    "S_CVT_F32_I32": scalar(conversion.to_f32, "i32", "f32"),
    "S_CVT_F32_U32": scalar(conversion.to_f32, "u32", "f32"),
    "S_CVT_I32_F32": scalar(conversion.float_to_i32, "f32", "i32"),
    "S_CVT_U32_F32": scalar(conversion.float_to_u32, "f32", "u32"),
    "S_CVT_F16_F32": scalar(conversion.to_f16, "f32", "f16"),
    "S_CVT_F32_F16": scalar(conversion.to_f32, "f16", "f32"),
    "S_CVT_HI_F32_F16": scalar(high_half_to_f32, "b32", "f32"),
}
