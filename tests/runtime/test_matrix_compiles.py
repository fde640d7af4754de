"""What the execution matrix claims beyond emulated runs: what compiles, and what is refused."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera
from tessera import ops
from tessera.errors import TesseraError
from tessera.targets import CHIPS

DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "u8": np.uint8,
    "i32": np.int32,
    "i4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
}


def attention(q, k, v):
    return ops.flash_attn(q, k, v, causal=True, return_lse=True)


def matmul(a, b):
    return ops.matmul(a, b)


def elementwise(x):
    return ops.gelu(x)


def packed(dtype: str) -> Callable[..., Any]:
    def packed_matmul(a, b):
        return ops.matmul(a, b, packed=dtype, transpose_b=True)

    return packed_matmul


def call(op: str, dtype: str) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """A function with this operation, and operands of the dtype."""
    kind = DTYPES[dtype]
    if op == "matmul" and dtype in ("i4", "u4"):
        return packed(dtype), [np.zeros((32, 16), np.uint8), np.zeros((32, 16), np.uint8)]
    if op == "matmul":
        return matmul, [np.zeros((32, 32), kind)] * 2
    if op == "elementwise":
        return elementwise, [np.zeros((8, 32), kind)]
    tensors = [np.zeros((1, 2, 32, 64), kind)] * 3
    if op == "flash_attn":
        return attention, tensors
    lse = np.zeros((1, 2, 32), np.float32)
    return ops.flash_attn_bwd, [*tensors, tensors[0], lse, tensors[0]]


SUPPORTED = {
    "matmul": ("f16", "bf16", "i8", "u8", "i4", "u4"),
    "flash_attn": ("f16", "bf16"),
    "flash_attn_bwd": ("f16", "bf16"),
    "elementwise": ("f16", "bf16", "f32"),
}


@pytest.mark.parametrize(
    "chip, op, dtype",
    [(chip, op, dtype) for chip in CHIPS for op, dtypes in SUPPORTED.items() for dtype in dtypes],
)
def test_compiles_for_every_chip(chip, op, dtype):
    function, operands = call(op, dtype)
    artifact = tessera.compile(function, *operands, target=chip)
    assert artifact.kernels
    for kernel in artifact.kernels:
        assert kernel.chip == chip
        assert kernel.scratch_bytes == 0
    assert all(step.rules for step in artifact.plan.launches)


@pytest.mark.parametrize(
    "op, dtype",
    [(op, dtype) for op, dtypes in SUPPORTED.items() for dtype in DTYPES if dtype not in dtypes],
)
def test_dtype_is_refused_by_name(op, dtype):
    if op == "matmul" and dtype in ("f32", "f64", "i32"):
        function, operands = matmul, [np.zeros((32, 32), DTYPES[dtype])] * 2
    else:
        function, operands = call(op, dtype)
    with pytest.raises(TesseraError, match="supported: ") as caught:
        tessera.compile(function, *operands, target="gfx1151")
    assert dtype in str(caught.value) or np.dtype(DTYPES[dtype]).name in str(caught.value)
