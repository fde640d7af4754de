"""What a test of a kernel needs: derived bounds, a strict checker, guarded buffers, hard inputs."""

from tessera.testing.bounds import (
    FORWARD_GATE,
    GRADIENT_GATE,
    attention_bound,
    attention_gradient_bound,
    matmul_bound,
    rounding_bound,
    unit_roundoff,
)
from tessera.testing.buffers import GuardedBuffer, guarded, guarded_empty
from tessera.testing.checker import check, worst_error
from tessera.testing.inputs import (
    HEAD_DIMS,
    LENGTHS,
    MATMUL_SIZES,
    AttentionInputs,
    growing_maximum,
    large_logits,
    one_hot_values,
    random_attention,
    random_tensor,
    uniform_weights,
)
from tessera.testing.same_dtype import (
    same_dtype_attention,
    same_dtype_attention_bwd,
    same_dtype_matmul,
)

__all__ = [
    "FORWARD_GATE",
    "GRADIENT_GATE",
    "HEAD_DIMS",
    "LENGTHS",
    "MATMUL_SIZES",
    "AttentionInputs",
    "GuardedBuffer",
    "attention_bound",
    "attention_gradient_bound",
    "check",
    "growing_maximum",
    "guarded",
    "guarded_empty",
    "large_logits",
    "matmul_bound",
    "one_hot_values",
    "random_attention",
    "random_tensor",
    "rounding_bound",
    "same_dtype_attention",
    "same_dtype_attention_bwd",
    "same_dtype_matmul",
    "uniform_weights",
    "unit_roundoff",
    "worst_error",
]
