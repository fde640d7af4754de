"""Instruction names to what they compute: the tables of vector, scalar and atomic semantics."""

from __future__ import annotations

from tessera.emulator.semantics.atomic import ATOMIC_OPS
from tessera.emulator.semantics.bits import BIT_OPS
from tessera.emulator.semantics.compare import COMPARE_OPS
from tessera.emulator.semantics.conversion import CONVERSION_OPS
from tessera.emulator.semantics.division import DIVISION_OPS
from tessera.emulator.semantics.dot import DOT_OPS
from tessera.emulator.semantics.exponent import EXPONENT_OPS
from tessera.emulator.semantics.float16 import FLOAT16_OPS
from tessera.emulator.semantics.float32 import FLOAT32_OPS
from tessera.emulator.semantics.integer import INTEGER_OPS
from tessera.emulator.semantics.integer16 import INTEGER16_OPS
from tessera.emulator.semantics.integer64 import INTEGER64_OPS
from tessera.emulator.semantics.kinds import AtomicOp, ScalarOp, VectorOp
from tessera.emulator.semantics.minmax import MINMAX_OPS
from tessera.emulator.semantics.scalar_float import SCALAR_COMPARE_OPS, SCALAR_FLOAT_OPS
from tessera.emulator.semantics.scalar_integer import SCALAR_INTEGER_OPS
from tessera.emulator.semantics.transcendental import TRANSCENDENTAL_OPS
from tessera.emulator.semantics.two_over_pi import TWO_OVER_PI_OPS

VECTOR_OPS: dict[str, VectorOp] = {
    **FLOAT32_OPS,
    **FLOAT16_OPS,
    **MINMAX_OPS,
    **TRANSCENDENTAL_OPS,
    **CONVERSION_OPS,
    **EXPONENT_OPS,
    **DIVISION_OPS,
    **INTEGER_OPS,
    **INTEGER16_OPS,
    **INTEGER64_OPS,
    **BIT_OPS,
    **DOT_OPS,
    **COMPARE_OPS,
    **TWO_OVER_PI_OPS,
}

SCALAR_OPS: dict[str, ScalarOp] = {
    **SCALAR_INTEGER_OPS,
    **SCALAR_FLOAT_OPS,
    **SCALAR_COMPARE_OPS,
}

__all__ = ["ATOMIC_OPS", "SCALAR_OPS", "VECTOR_OPS", "AtomicOp", "ScalarOp", "VectorOp"]
