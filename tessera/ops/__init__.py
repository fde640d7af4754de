"""Operations on traced tensors: each call adds one operation to the function's Graph IR."""

from tessera.ops.attention import flash_attn, flash_attn_bwd
from tessera.ops.elementwise import add, cast, gelu, mul, relu, silu
from tessera.ops.matmul import grouped_matmul, matmul, quantized_matmul
from tessera.ops.views import permute, reshape, transpose

__all__ = [
    "add",
    "cast",
    "flash_attn",
    "flash_attn_bwd",
    "gelu",
    "grouped_matmul",
    "matmul",
    "mul",
    "permute",
    "quantized_matmul",
    "relu",
    "reshape",
    "silu",
    "transpose",
]
