"""Tessera's attention as PyTorch operations: custom ops with fake kernels and autograd.

Importing this package registers the ops `tessera::flash_attn` and `tessera::flash_attn_bwd`.
"""

from tessera.pytorch.attention import flash_attn
from tessera.pytorch.scaled_dot_product import scaled_dot_product_attention

__all__ = ["flash_attn", "scaled_dot_product_attention"]
