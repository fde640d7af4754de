"""Float64 oracles: what each operation should give, computed in the plainest way that is right."""

from tessera.reference.attention import flash_attn
from tessera.reference.attention_backward import flash_attn_bwd
from tessera.reference.fused_matmul import fused_matmul, integer_matmul
from tessera.reference.linear import add, cast, gelu, matmul, mul, relu, silu
from tessera.reference.packed import dequantize, pack_int4, unpack_int4

__all__ = [
    "add",
    "cast",
    "dequantize",
    "flash_attn",
    "flash_attn_bwd",
    "fused_matmul",
    "gelu",
    "integer_matmul",
    "matmul",
    "mul",
    "pack_int4",
    "relu",
    "silu",
    "unpack_int4",
]
