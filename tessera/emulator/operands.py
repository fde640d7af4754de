"""Source operands of an encoding to fetch functions, and results to store functions.

`fetch(kind, ...)` returns a function of a wave group that gives the operand as an array of that
kind (see `semantics`): [waves, 32] from vector registers, [waves, 1] or [1, 1] from scalar ones.
All decisions fall when the instruction is translated, none when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tessera.emulator.errors import UnsupportedInstructionError
from tessera.emulator.memory import PRIVATE_APERTURE, SHARED_APERTURE
from tessera.emulator.registers import EXEC_LO, FIRST_VGPR, NULL, VCC_LO
from tessera.emulator.state import WaveGroup

# An array; four of them for the kind b128.
Fetch = Callable[[WaveGroup], Any]
LITERAL = 255
SCC_SOURCE = 253
FLOAT_CONSTANTS = {
    240: 0.5,
    241: -0.5,
    242: 1.0,
    243: -1.0,
    244: 2.0,
    245: -2.0,
    246: 4.0,
    247: -4.0,
}
# 1 / (2 pi), as the ISA guide gives it per width.
INVERSE_TWO_PI = {16: 0x3118, 32: 0x3E22F983, 64: 0x3FC45F306DC9C882}
APERTURES = {
    235: SHARED_APERTURE,
    236: SHARED_APERTURE | 0xFFFFFFFF,
    237: PRIVATE_APERTURE,
    238: PRIVATE_APERTURE | 0xFFFFFFFF,
}

DTYPES = {
    "f16": np.float16,
    "bf16": np.uint16,
    "b16": np.uint16,
    "u16": np.uint16,
    "i16": np.int16,
    "f32": np.float32,
    "b32": np.uint32,
    "u32": np.uint32,
    "i32": np.int32,
    "u24": np.uint32,
    "i24": np.uint32,
    "f64": np.float64,
    "b64": np.uint64,
    "u64": np.uint64,
    "i64": np.int64,
}
FLOAT_KINDS = ("f16", "f32", "f64")


def width_of(kind: str) -> int:
    """Bits of a kind; packed kinds are 32."""
    if kind.startswith("pk_") or kind in ("u24", "i24", "mask"):
        return 32
    return {"b128": 128, "bf16": 16}.get(kind) or int(kind[1:])


def dtype_of(kind: str) -> np.dtype:
    """The numpy type of a kind."""
    return np.dtype(np.uint32 if kind.startswith("pk_") else DTYPES[kind])


def is_vgpr(source: int) -> bool:
    return source >= FIRST_VGPR


def is_scalar_register(source: int) -> bool:
    return source < 128


def constant_bits(source: int, kind: str, literal: int, high: bool = False) -> int | None:
    """The bits of an inline or literal constant for an operand of `kind`; None for a register.

    Integers are sign-extended to the operand's width; float constants take the operand's own
    format by width, f16 in the low half of packed f16. A literal of a 64-bit float is its high
    word.
    """
    width = width_of(kind)
    mask = (1 << width) - 1
    if 128 <= source <= 192:
        return source - 128
    if 193 <= source <= 208:
        return (192 - source) & mask
    if source in FLOAT_CONSTANTS or source == 248:
        return _float_constant(source, kind, width)
    if source in APERTURES:
        return APERTURES[source] >> (0 if width == 64 else 32) & mask
    if source == LITERAL:
        if kind == "f64":
            return literal << 32
        if kind == "i64" and literal >> 31:
            return literal | 0xFFFFFFFF << 32
        return (literal >> 16 if high and width == 16 else literal) & mask
    return None


def _float_constant(source: int, kind: str, width: int) -> int:
    half = width == 16 or kind in ("pk_f16", "pk_bf16")
    size = 16 if half else width
    if source == 248:
        return INVERSE_TWO_PI[size]
    dtype = {16: np.float16, 32: np.float32, 64: np.float64}[size]
    bits = {16: np.uint16, 32: np.uint32, 64: np.uint64}[size]
    if kind in ("bf16", "pk_bf16"):
        return int(np.float32(FLOAT_CONSTANTS[source]).view(np.uint32)) >> 16
    return int(dtype(FLOAT_CONSTANTS[source]).view(bits))


def constant_array(bits: int, kind: str) -> np.ndarray:
    """A read-only [1, 1] array of `kind` with the given bits."""
    dtype = dtype_of(kind)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    value = np.array([[bits]], unsigned).view(dtype)
    value.setflags(write=False)
    return value


def vector_fetch(register: int, kind: str, high: bool = False) -> Fetch:
    """Fetch v[`register`] (and the next for wide kinds) as [waves, 32]; `high`: upper half."""
    width = width_of(kind)
    if kind == "b128":
        return lambda g: tuple(g.u32[register + i] for i in range(4))
    if kind == "f32":
        return lambda g: g.f32[register]
    if kind == "i32":
        return lambda g: g.i32[register]
    if width == 32:
        return lambda g: g.u32[register]
    dtype = dtype_of(kind)
    if width == 16:
        half = int(high)
        return lambda g: g.u32[register].view(dtype)[:, half::2]
    if width == 64:
        return lambda g: join_words(g.u32[register], g.u32[register + 1]).view(dtype)
    raise UnsupportedInstructionError(f"vector operand of {width} bits")


def join_words(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """uint64 from low and high words, uint32 of one shape."""
    pair = np.empty((*np.broadcast_shapes(low.shape, high.shape), 2), np.uint32)
    pair[..., 0] = low
    pair[..., 1] = high
    return pair.view(np.uint64)[..., 0]


def scalar_bits(register: int, kind: str, high: bool = False) -> Fetch:
    """Fetch a scalar register as [waves] or [1] of `kind`."""
    dtype, width = dtype_of(kind), width_of(kind)
    if register == NULL and width <= 64:
        zero = np.zeros(1, dtype)
        return lambda g: zero
    if width == 32:
        if dtype == np.uint32:
            return lambda g: g.sgpr[register]
        return lambda g: g.sgpr[register].view(dtype)
    if width == 16:
        half = int(high)
        return lambda g: g.sgpr[register].view(dtype)[half::2]
    if width == 64:
        if not is_scalar_register(register + 1):
            raise UnsupportedInstructionError(f"a register pair from operand {register}")
        return lambda g: join_words(g.sgpr[register], g.sgpr[register + 1]).view(dtype)
    raise UnsupportedInstructionError(f"scalar operand of {width} bits")


def scalar_fetch(source: int, kind: str, literal: int) -> Fetch:
    """Fetch a source of a scalar instruction as [waves] or [1]."""
    bits = constant_bits(source, kind, literal)
    if bits is not None:
        value = constant_array(bits, kind)[0]
        return lambda g: value
    if source == SCC_SOURCE:
        dtype = dtype_of(kind)
        return lambda g: g.scc.astype(dtype)
    if source in (251, 252):
        register = VCC_LO if source == 251 else EXEC_LO
        dtype = dtype_of(kind)
        return lambda g: (g.sgpr[register] == 0).astype(dtype)
    if not is_scalar_register(source):
        raise UnsupportedInstructionError(f"source operand {source} of a scalar instruction")
    return scalar_bits(source, kind)


def source_fetch(source: int, kind: str, literal: int, high: bool = False) -> Fetch:
    """Fetch a source of a vector instruction, broadcastable to [waves, 32]."""
    if is_vgpr(source):
        return vector_fetch(source - FIRST_VGPR, kind, high)
    if kind == "b128":
        raise UnsupportedInstructionError(f"source operand {source} as 128 bits: not a register")
    bits = constant_bits(source, kind, literal, high)
    if bits is not None:
        value = constant_array(bits, kind)
        return lambda g: value
    if is_scalar_register(source):
        fetch = scalar_bits(source, kind, high)
    else:
        fetch = scalar_fetch(source, kind, literal)
    return lambda g: fetch(g)[:, None]


def source_registers(source: int, kind: str) -> int:
    """The set of registers that a source operand of `kind` reads."""
    count = max(1, width_of(kind) // 32)
    if is_vgpr(source) or (is_scalar_register(source) and source != NULL):
        return ((1 << count) - 1) << source
    if source == SCC_SOURCE:
        return 1 << 128
    return {251: 1 << VCC_LO, 252: 1 << EXEC_LO}.get(source, 0)


def store_scalar(g: WaveGroup, register: int, value: np.ndarray) -> None:
    """Write a 32-bit value, [waves] or [1] of any 32-bit type, to a scalar register."""
    if register == EXEC_LO:
        bits = value.view(np.uint32)
        g.set_exec(bits if len(bits) == g.count else np.repeat(bits, g.count))
    elif register != NULL:
        g.sgpr[register] = value.view(np.uint32)


def store_scalar_pair(g: WaveGroup, register: int, value: np.ndarray) -> None:
    """Write a 64-bit value, [waves] or [1], to a register pair; wave32 ignores EXEC_HI."""
    if register == NULL:
        return
    words = np.ascontiguousarray(value).view(np.uint32)
    store_scalar(g, register, words[0::2].copy())
    g.sgpr[register + 1] = words[1::2].copy()
