"""Instruction semantics as data: a function on arrays with the kinds of its operands and results.

Arrays have shape [waves, 32] for vector instructions and [waves] for scalar ones; operands of one
call may have any shapes that broadcast to it (a constant is [1, 1]), results too.

Kinds and numpy types: f16 float16 · f32 float32 · f64 float64 · i16 i32 i64 and u16 u32 u64 as
named · b16 b32 b64 as u16 u32 u64 · bf16 uint16 · u24 i24 uint32 (the function takes the low 24
bits itself) · pk_* uint32 with packed elements, the low one first · mask bool, a bit per lane ·
b128 a tuple of four uint32 arrays.

The functions never write to their operands. The caller silences floating-point warnings
(`numpy.errstate(all="ignore")`) and has applied NEG, ABS and OPSEL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray of the kind that the table names
Function = Callable[..., Any]


@dataclass(frozen=True)
class VectorOp:
    """Semantics of a vector instruction.

    `function(*sources)` returns an array of kind `results[0]`, or a tuple of arrays when there are
    more results. After the sources come the old destination (`accumulates`) and VCC as a mask
    (`reads_vcc`). `ufunc` is set when one numpy ufunc does it all with the result's own type.
    `clamped` replaces `function` when CLAMP is set on an integer instruction (saturation).
    `takes_neg` passes the NEG field as a keyword `neg` of three bools: signedness of operands.
    """

    function: Function
    sources: tuple[str, ...]
    results: tuple[str, ...]
    ufunc: np.ufunc | None = None
    clamped: Function | None = None
    accumulates: bool = False
    reads_vcc: bool = False
    takes_neg: bool = False


@dataclass(frozen=True)
class ScalarOp:
    """Semantics of a scalar instruction.

    `function(*sources)` returns the value of kind `result`, (value, SCC as bool array) when
    `writes_scc`, or SCC alone when `result` is None. After the sources come the old destination
    (`accumulates`) and SCC (`reads_scc`).
    """

    function: Function
    sources: tuple[str, ...]
    result: str | None
    writes_scc: bool = False
    reads_scc: bool = False
    accumulates: bool = False


@dataclass(frozen=True)
class AtomicOp:
    """`function(old, data) -> new` on flat arrays of kind `kind`.

    `compares` adds a third operand: the value compared with (CMPSWAP), the OR mask (MSKOR) or the
    limit (WRAP).
    """

    function: Function
    kind: str
    compares: bool = False


def vector(function: Function, sources: str, results: str, **flags: Any) -> VectorOp:
    """A VectorOp with the kinds given as words: `vector(fma_f32, "f32 f32 f32", "f32")`."""
    ufunc = function if isinstance(function, np.ufunc) else None
    return VectorOp(function, tuple(sources.split()), tuple(results.split()), ufunc, **flags)


def scalar(function: Function, sources: str, result: str | None, **flags: Any) -> ScalarOp:
    """A ScalarOp with the kinds of the sources given as words."""
    return ScalarOp(function, tuple(sources.split()), result, **flags)
