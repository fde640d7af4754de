"""Operators and methods of a traced tensor to calls of `tessera.ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessera.contracts import TensorSpec
from tessera.frontend.sizes import public_shape

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from tessera.frontend.trace import Trace


class Tracer:
    """A tensor inside a traced function: what it is, but not what it holds.

    `shape_guess` and `dtype_guess` number the arguments whose shape or dtype this tensor has only
    because tracing without arguments had to guess; they are empty otherwise.
    """

    __slots__ = ("dtype_guess", "shape_guess", "spec", "trace", "value")

    # NumPy and PyTorch leave a binary operator to this class when it stands on the right.
    __array_ufunc__ = None

    def __init__(
        self,
        trace: Trace,
        value: SSAValue | None,
        spec: TensorSpec,
        shape_guess: frozenset[int] = frozenset(),
        dtype_guess: frozenset[int] = frozenset(),
    ) -> None:
        self.trace = trace
        self.value = value
        self.spec = spec
        self.shape_guess = shape_guess
        self.dtype_guess = dtype_guess

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes; while tracing without arguments, a placeholder stands for an unknown one."""
        return public_shape(self.spec.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.spec.shape)

    @property
    def dtype(self) -> str:
        """Name of the element type: f16, bf16 or f32."""
        return self.spec.dtype

    def __repr__(self) -> str:
        return f"Tracer({self.spec})"

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has no value while tracing: a branch cannot depend on it")

    def __iter__(self) -> Any:
        raise TypeError(f"{self!r} has no value while tracing: it cannot be iterated over")

    def __matmul__(self, other: Any) -> Tracer:
        return _ops().matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tracer:
        return _ops().matmul(other, self)

    def __add__(self, other: Any) -> Tracer:
        return _ops().add(self, other)

    def __radd__(self, other: Any) -> Tracer:
        return _ops().add(other, self)

    def __mul__(self, other: Any) -> Tracer:
        return _ops().mul(self, other)

    def __rmul__(self, other: Any) -> Tracer:
        return _ops().mul(other, self)

    def reshape(self, *sizes: Any) -> Tracer:
        """See `tessera.ops.reshape`."""
        return _ops().reshape(self, *sizes)

    def permute(self, *axes: Any) -> Tracer:
        """See `tessera.ops.permute`."""
        return _ops().permute(self, *axes)

    def transpose(self, *axes: Any) -> Tracer:
        """See `tessera.ops.transpose`."""
        return _ops().transpose(self, *axes)

    @property
    def T(self) -> Tracer:
        """The last two axes swapped."""
        return _ops().transpose(self)

    def astype(self, dtype: Any) -> Tracer:
        """See `tessera.ops.cast`."""
        return _ops().cast(self, dtype)


def _ops() -> Any:
    # Late: the module of operations needs this one.
    from tessera import ops

    return ops
