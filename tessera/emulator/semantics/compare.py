"""Vector compare instructions to numpy functions that give a lane mask.

V_CMPX_* has the semantics of V_CMP_* and writes EXEC. Class tests are in `exponent`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tessera.emulator.semantics.kinds import Array, VectorOp, vector

Compare = Callable[[Array, Array], Array]


def ordered(a: Array, b: Array) -> Array:
    """Neither is NaN."""
    return ~(np.isnan(a) | np.isnan(b))


def unordered(a: Array, b: Array) -> Array:
    """One is NaN."""
    return np.isnan(a) | np.isnan(b)


def less_or_greater(a: Array, b: Array) -> Array:
    """a < b or a > b: false with a NaN."""
    return (a < b) | (a > b)


def never(a: Array, b: Array) -> Array:
    """False everywhere."""
    return np.zeros(np.broadcast_shapes(a.shape, b.shape), np.bool_)


def always(a: Array, b: Array) -> Array:
    """True everywhere."""
    return np.ones(np.broadcast_shapes(a.shape, b.shape), np.bool_)


def not_less(a: Array, b: Array) -> Array:
    """Not a < b: true with a NaN."""
    return ~(a < b)


def not_less_equal(a: Array, b: Array) -> Array:
    """Not a <= b: true with a NaN."""
    return ~(a <= b)


def not_greater(a: Array, b: Array) -> Array:
    """Not a > b: true with a NaN."""
    return ~(a > b)


def not_greater_equal(a: Array, b: Array) -> Array:
    """Not a >= b: true with a NaN."""
    return ~(a >= b)


def not_less_or_greater(a: Array, b: Array) -> Array:
    """Equal or unordered."""
    return ~less_or_greater(a, b)


FLOAT_COMPARES: dict[str, Compare] = {
    "F": never,
    "LT": np.less,
    "EQ": np.equal,
    "LE": np.less_equal,
    "GT": np.greater,
    "LG": less_or_greater,
    "GE": np.greater_equal,
    "O": ordered,
    "U": unordered,
    "NGE": not_greater_equal,
    "NLG": not_less_or_greater,
    "NGT": not_greater,
    "NLE": not_less_equal,
    "NEQ": np.not_equal,
    "NLT": not_less,
    "T": always,
}
INTEGER_COMPARES: dict[str, Compare] = {
    "F": never,
    "LT": np.less,
    "EQ": np.equal,
    "LE": np.less_equal,
    "GT": np.greater,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "T": always,
}
_FLOATS = ("f16", "f32", "f64")
_INTEGERS = ("i16", "u16", "i32", "u32", "i64", "u64")


def _table() -> dict[str, VectorOp]:
    """Every relation for every type; 16-bit integers have no F and T."""
    operations: dict[str, VectorOp] = {}
    for kinds, compares in ((_FLOATS, FLOAT_COMPARES), (_INTEGERS, INTEGER_COMPARES)):
        for kind in kinds:
            for relation, function in compares.items():
                if kind in ("i16", "u16") and relation in ("F", "T"):
                    continue
                name = f"V_CMP_{relation}_{kind.upper()}"
                operations[name] = vector(function, f"{kind} {kind}", "mask")
    return operations


COMPARE_OPS = _table()
