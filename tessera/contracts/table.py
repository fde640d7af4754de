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

_HEADS = ("batch", "heads", "seq_q", "head_dim")
_HEADS_V = ("batch", "heads", "seq_q", "head_dim_v")
_HEADS_K = ("batch", "heads_k", "seq_k", "head_dim")
_HEADS_K_V = ("batch", "heads_k", "seq_k", "head_dim_v")
_ROWS = ("batch", "heads", "seq_q")
_SCORES = ("batch", "heads", "seq_q", "seq_k")
_ATTENTION_OPTIONS = (
    OperandContract(
        "bias", _SCORES, FLOAT_DTYPES, when="bias_dtype", broadcast=_SCORES, any_strides=True
    ),
    OperandContract(
        "alibi_slopes", ("batch", "heads"), ("f32",), when="alibi", broadcast=("batch",)
    ),
    OperandContract("cu_seqlens_q", ("sequence_starts",), ("i32",), when="variable_lengths"),
    OperandContract("cu_seqlens_k", ("sequence_starts",), ("i32",), when="variable_lengths"),
)
"""What follows the tensors of attention, forward and backward, under its options."""
_ATTENTION_LIMITS = (("head_dim", 1, MAX_HEAD_DIM), ("head_dim_v", 1, MAX_HEAD_DIM))

CONTRACTS: Mapping[str, OpContract] = MappingProxyType(
    {
        "matmul": OpContract(
            name="matmul",
            operands=(
                OperandContract("a", ("m", "k"), MATMUL_DTYPES, "transpose_a", batched=True),
                OperandContract("b", ("k", "n"), MATMUL_DTYPES, "transpose_b", batched=True),
                OperandContract(
                    "pair", ("k", "n"), MATMUL_DTYPES, "transpose_b", when="pair", batched=True
                ),
                OperandContract("starts", ("group_starts",), ("i32",), when="grouped"),
                OperandContract("scale", ("n", "groups"), ("f16",), when="weight"),
                OperandContract("zero", ("n", "groups"), ("f16",), when="zero"),
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
                OperandContract("q", _HEADS, HALF_DTYPES),
                OperandContract("k", _HEADS_K, HALF_DTYPES),
                OperandContract("v", _HEADS_K_V, HALF_DTYPES),
                *_ATTENTION_OPTIONS,
            ),
            results=(
                ResultContract("o", _HEADS_V, dtype_of="q"),
                ResultContract("lse", _ROWS, dtype="f32"),
            ),
            same_dtype=("q", "k", "v"),
            limits=_ATTENTION_LIMITS,
            multiples=(("heads", "heads_k"),),
        ),
        "flash_attn_bwd": OpContract(
            name="flash_attn_bwd",
            operands=(
                OperandContract("q", _HEADS, HALF_DTYPES),
                OperandContract("k", _HEADS_K, HALF_DTYPES),
                OperandContract("v", _HEADS_K_V, HALF_DTYPES),
                OperandContract("o", _HEADS_V, HALF_DTYPES),
                OperandContract("lse", _ROWS, ("f32",), unless="compute_lse"),
                OperandContract("do", _HEADS_V, HALF_DTYPES),
                *_ATTENTION_OPTIONS,
            ),
            results=(
                ResultContract("dq", _HEADS, dtype_of="q"),
                ResultContract("dk", _HEADS_K, dtype_of="q"),
                ResultContract("dv", _HEADS_K_V, dtype_of="q"),
                ResultContract("dbias", (), dtype_of="bias", shape_of="bias", when="bias_gradient"),
            ),
            same_dtype=("q", "k", "v", "o", "do"),
            limits=_ATTENTION_LIMITS,
            multiples=(("heads", "heads_k"),),
        ),
    }
)
"""The operations with named dimensions. `elementwise` broadcasts instead; `bind` knows both."""

ELEMENTWISE_FUNCTIONS: Mapping[str, int] = MappingProxyType(
    {"add": 2, "mul": 2, "relu": 1, "gelu": 1, "gelu_tanh": 1, "silu": 1, "cast": 1}
)
"""Elementwise functions and their number of inputs, of which one may be a scalar constant."""
