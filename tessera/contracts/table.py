"""Operation names to their contracts, and elementwise functions to their numbers of inputs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tessera.contracts.model import (
    FLOAT_DTYPES,
    HALF_DTYPES,
    MATMUL_DTYPES,
    MAX_HEAD_DIM,
    OpContract,
    OperandContract,
    ResultContract,
)

CONTRACTS: Mapping[str, OpContract] = MappingProxyType(
    {
        "matmul": OpContract(
            name="matmul",
            operands=(
                OperandContract("a", ("m", "k"), MATMUL_DTYPES, "transpose_a", batched=True),
                OperandContract("b", ("k", "n"), MATMUL_DTYPES, "transpose_b", batched=True),
                OperandContract("addend", ("m", "n"), FLOAT_DTYPES, when="beta", batched=True),
                OperandContract("bias", ("n",), FLOAT_DTYPES, when="bias"),
                OperandContract("gate", ("m", "n"), FLOAT_DTYPES, when="gate", batched=True),
                OperandContract(
                    "residual", ("m", "n"), FLOAT_DTYPES, when="residual", batched=True
                ),
            ),
            results=(
                ResultContract(
                    "c",
                    ("m", "n"),
                    dtype="f32",
                    dtype_option="out_dtype",
                    dtypes=(*FLOAT_DTYPES, "i32"),
                    batched=True,
                ),
            ),
            same_dtype=("a", "b"),
        ),
        "flash_attn": OpContract(
            name="flash_attn",
            operands=(
                OperandContract("q", ("batch", "heads", "seq_q", "head_dim"), HALF_DTYPES),
                OperandContract("k", ("batch", "heads_k", "seq_k", "head_dim"), HALF_DTYPES),
                OperandContract("v", ("batch", "heads_k", "seq_k", "head_dim_v"), HALF_DTYPES),
            ),
            results=(
                ResultContract("o", ("batch", "heads", "seq_q", "head_dim_v"), dtype_of="q"),
                ResultContract("lse", ("batch", "heads", "seq_q"), dtype="f32"),
            ),
            same_dtype=("q", "k", "v"),
            limits=(("head_dim", 1, MAX_HEAD_DIM), ("head_dim_v", 1, MAX_HEAD_DIM)),
            multiples=(("heads", "heads_k"),),
        ),
    }
)
"""The operations with named dimensions. `elementwise` broadcasts instead; `bind` knows both."""

ELEMENTWISE_FUNCTIONS: Mapping[str, int] = MappingProxyType(
    {"add": 2, "mul": 2, "relu": 1, "gelu": 1, "gelu_tanh": 1, "silu": 1, "cast": 1}
)
"""Elementwise functions and their number of inputs, of which one may be a scalar constant."""
