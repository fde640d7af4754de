"""Float64 oracles: what each operation should give, computed in the plainest way that is right."""

from tessera.reference.attention import flash_attn
from tessera.reference.attention_backward import flash_attn_bwd
from tessera.reference.linear import add, cast, gelu, matmul, mul, relu, silu

__all__ = [
    "add",
    "cast",
    "flash_attn",
    "flash_attn_bwd",
    "gelu",
    "matmul",
    "mul",
    "relu",
    "silu",
]
