"""Operation contracts: operand shapes and dtypes to bound dimension symbols and result types."""

from tessera.contracts.attention import (
    ATTENTION_LIMITS,
)
from tessera.contracts.binding import (
    bind,
)
from tessera.contracts.model import (
    ACTIVATIONS,
    BIAS_AXES,
    BYTE_DTYPES,
    CAUSAL_MODES,
    DTYPE_BYTES,
    ELEMENTWISE_RANK,
    FLOAT_DTYPES,
    GROUP_SIZES,
    HALF_DTYPES,
    MATMUL_DTYPES,
    MAX_HEAD_DIM,
    PACKED_DTYPES,
    WEIGHT_DTYPES,
    Binding,
    OpContract,
    OperandContract,
    ResultContract,
    Size,
    TensorSpec,
)
from tessera.contracts.strides import (
    broadcast_shapes,
    broadcast_strides,
    reshape_strides,
)
from tessera.contracts.table import (
    CONTRACTS,
    ELEMENTWISE_FUNCTIONS,
)

__all__ = [
    "ACTIVATIONS",
    "ATTENTION_LIMITS",
    "BIAS_AXES",
    "BYTE_DTYPES",
    "CAUSAL_MODES",
    "CONTRACTS",
    "DTYPE_BYTES",
    "ELEMENTWISE_FUNCTIONS",
    "ELEMENTWISE_RANK",
    "FLOAT_DTYPES",
    "GROUP_SIZES",
    "HALF_DTYPES",
    "MATMUL_DTYPES",
    "MAX_HEAD_DIM",
    "PACKED_DTYPES",
    "WEIGHT_DTYPES",
    "Binding",
    "OpContract",
    "OperandContract",
    "ResultContract",
    "Size",
    "TensorSpec",
    "bind",
    "broadcast_shapes",
    "broadcast_strides",
    "reshape_strides",
]
