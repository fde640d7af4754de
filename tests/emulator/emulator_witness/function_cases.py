"""Operand kinds of the semantics tables to arrays of random and edge values, and comparisons."""

from __future__ import annotations

import numpy as np

from emulator_witness import soft_float as sf
from emulator_witness.operand_values import random_float, random_integer

TYPES = {
    **{kind: np.dtype(f"uint{kind[1:]}") for kind in ("b16", "b32", "b64", "u16", "u32", "u64")},
    **{kind: np.dtype(f"int{kind[1:]}") for kind in ("i16", "i32", "i64")},
    **{kind: np.dtype(f"float{kind[1:]}") for kind in ("f16", "f32", "f64")},
    "bf16": np.dtype("uint16"),
    "u24": np.dtype("uint32"),
    "i24": np.dtype("uint32"),
    "mask": np.dtype("bool"),
}
# Within one unit of the text's result, which itself is computed through binary64.
NEAR = {"EXP", "LOG", "RCP", "RSQ", "SQRT"}


def bits_of(rng, kind):
    if kind in ("f16", "f32", "f64", "bf16"):
        return random_float(rng, sf.FORMATS[kind])
    if kind == "mask":
        return rng.randint(0, 1)
    if kind in ("pk_f16", "pk_bf16"):
        form = sf.FORMATS[kind[3:]]
        return random_float(rng, form) | random_float(rng, form) << 16
    if kind in ("pk_i16", "pk_u16"):
        return random_integer(rng, 16) | random_integer(rng, 16) << 16
    return random_integer(rng, width_of(kind))


def width_of(kind):
    return 1 if kind == "mask" else TYPES.get(kind, np.dtype("uint32")).itemsize * 8


def as_array(values, kind):
    dtype = TYPES.get(kind, np.dtype("uint32"))
    if kind == "mask":
        return np.array(values, bool).reshape(-1, 32)
    return np.array(values, f"uint{dtype.itemsize * 8}").view(dtype).reshape(-1, 32)


def as_bits(array, shape):
    array = np.ascontiguousarray(np.broadcast_to(array, shape))
    return [int(x) for x in array.view(f"uint{array.dtype.itemsize * 8}").reshape(-1)]


def flush(bits):
    return bits & 0x80000000 if bits & 0x7F800000 == 0 else bits


def is_nan(bits, kind):
    return sf.is_nan(bits, sf.FORMATS[kind])


def same(name, kind, got, wanted):
    if got == wanted:
        return True
    forms = {"pk_f16": (sf.F16, 2), "f16": (sf.F16, 1), "f32": (sf.F32, 1), "f64": (sf.F64, 1)}
    if kind not in forms:
        return False
    form, count = forms[kind]
    for index in range(count):
        mask = (1 << form.width) - 1
        one, other = (bits >> index * form.width & mask for bits in (got, wanted))
        near = name.split("_")[1] in NEAR and sf.ulp_distance(one, other, form) <= 1
        both_nan = sf.is_nan(one, form) and sf.is_nan(other, form)
        if not (one == other or near or both_nan):
            return False
    return True
