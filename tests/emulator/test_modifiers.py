"""Result modifiers: saturation of integer instructions, OMOD, and clamp of NaN under DX10_CLAMP."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness import families
from emulator_witness.assembler import isa, v
from emulator_witness.harness import Case, run_batch
from emulator_witness.kernels import wait_loads
from emulator_witness.sanitized import X, buffers, clean, store
from emulator_witness.vector_cases import DESTINATION, plan_vector, random_inputs

WAVES = 2


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def limits(kind, bits):
    if kind == "u":
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


# Name: (exact function of the operands' values, kind and bits of operands, of S2, of the result).
SATURATING = {
    "V_ADD_NC_U32": (lambda a, b, c: a + b, "u32", "", "u32"),
    "V_SUB_NC_U32": (lambda a, b, c: a - b, "u32", "", "u32"),
    "V_SUBREV_NC_U32": (lambda a, b, c: b - a, "u32", "", "u32"),
    "V_ADD_NC_I32": (lambda a, b, c: a + b, "i32", "", "i32"),
    "V_SUB_NC_I32": (lambda a, b, c: a - b, "i32", "", "i32"),
    "V_ADD_NC_U16": (lambda a, b, c: a + b, "u16", "", "u16"),
    "V_SUB_NC_U16": (lambda a, b, c: a - b, "u16", "", "u16"),
    "V_ADD_NC_I16": (lambda a, b, c: a + b, "i16", "", "i16"),
    "V_SUB_NC_I16": (lambda a, b, c: a - b, "i16", "", "i16"),
    "V_MAD_U16": (lambda a, b, c: a * b + c, "u16", "u16", "u16"),
    "V_MAD_I16": (lambda a, b, c: a * b + c, "i16", "i16", "i16"),
    "V_MAD_U32_U16": (lambda a, b, c: a * b + c, "u16", "u32", "u32"),
    "V_MAD_I32_I16": (lambda a, b, c: a * b + c, "i16", "i32", "i32"),
    "V_MAD_U32_U24": (lambda a, b, c: a * b + c, "u24", "u32", "u32"),
    "V_MAD_I32_I24": (lambda a, b, c: a * b + c, "i24", "i32", "i32"),
}


def value_of(word, kind):
    if not kind:
        return 0
    bits = int(kind[1:])
    return signed(int(word), bits) if kind[0] == "i" else int(word) & ((1 << bits) - 1)


def operation_named(name):
    for operation in families.operations("VOP3"):
        if families.base_name(operation) == name:
            return operation
    raise LookupError(name)


def test_clamp_saturates_integers():
    names = list(SATURATING)
    plans, inputs, cases = [], [], []
    for name in names:
        operation = operation_named(name)
        encoding = families.encoding_of(operation, "VOP3")
        plan = plan_vector(operation, encoding, "", random.Random(0))
        assert plan is not None
        plan.instruction.clmp = 1
        plans.append(plan)
        inputs.append(random_inputs(plan, WAVES, zlib.crc32(name.encode())))
        # Sums near both ends, so that each instruction saturates somewhere.
        inputs[-1][0][:, ::4, 8] = 0x7FFF7FFF | 0xFFFF * (SATURATING[name][2][1:] == "32")
        inputs[-1][0][:, 1::4, 8] = 0x80008000 if SATURATING[name][2] == "i16" else 0x80000000
        cases.append(Case(name, [plan.instruction], *inputs[-1]))
    saturated = set()
    for name, (vectors, scalars), outcome in zip(names, inputs, run_batch(cases)):
        function, kind, third, result = SATURATING[name]
        bits = int(result[1:])
        low, high = limits(result[0], bits)
        for wave, lane in np.ndindex(WAVES, 32):
            if not int(scalars[wave, 14]) >> lane & 1:
                continue
            row = vectors[wave, lane]
            a, b, c = value_of(row[0], kind), value_of(row[4], kind), value_of(row[8], third)
            exact = function(a, b, c)
            expected = max(low, min(high, exact)) & ((1 << bits) - 1)
            got = int(outcome.vectors[wave, lane, DESTINATION]) & ((1 << bits) - 1)
            assert got == expected, (name, a, b, c, hex(got))
            if exact != max(low, min(high, exact)):
                saturated.add(name)
    assert saturated == set(names)


PACKED = {
    "V_PK_ADD_U16": (lambda a, b, c: a + b, "u16"),
    "V_PK_SUB_U16": (lambda a, b, c: a - b, "u16"),
    "V_PK_ADD_I16": (lambda a, b, c: a + b, "i16"),
    "V_PK_SUB_I16": (lambda a, b, c: a - b, "i16"),
    "V_PK_MAD_U16": (lambda a, b, c: a * b + c, "u16"),
    "V_PK_MAD_I16": (lambda a, b, c: a * b + c, "i16"),
}


def test_clamp_saturates_packed_integers():
    rng = np.random.default_rng(8)
    vectors = rng.integers(0, 2**32, (1, 32, 16), np.uint32)
    scalars = np.zeros((1, 16), np.uint32)
    scalars[0, 14] = 0xFFFFFFFF
    cases = []
    for name in PACKED:
        third = {"src2": v[8]} if "MAD" in name else {}
        instruction = isa.VOP3P(
            isa.VOP3POp[name], vdst=v[12], src0=v[0], src1=v[4], clmp=1, **third
        )
        cases.append(Case(name, [instruction], vectors, scalars))
    for name, outcome in zip(PACKED, run_batch(cases)):
        function, kind = PACKED[name]
        low, high = limits(kind[0], 16)
        for lane in range(32):
            for shift in (0, 16):
                a, b, c = (value_of(int(vectors[0, lane, r]) >> shift, kind) for r in (0, 4, 8))
                expected = max(low, min(high, function(a, b, c))) & 0xFFFF
                assert int(outcome.vectors[0, lane, 12]) >> shift & 0xFFFF == expected, name


def scaled(omod, **kernel_options):
    """v_add_f32 of x = 3 and 1 under an output modifier."""
    arrays = buffers(fill=3.0)
    body = [
        isa.global_load_b32(vdst=v[2], addr=v[1], saddr=X),
        wait_loads(),
        isa.VOP3(isa.VOP3Op.V_ADD_F32_E64, vdst=v[3], src0=v[2], src1=1.0, omod=omod),
        store(3),
    ]
    clean(body, arrays, **kernel_options)
    (value,) = set(arrays["out"].tolist())
    return value


@pytest.mark.parametrize("omod, factor", [(0, 1.0), (1, 2.0), (2, 4.0), (3, 0.5)])
def test_output_modifier(omod, factor):
    assert scaled(omod, float_mode=0xC0, ieee_mode=False) == 4.0 * factor


@pytest.mark.parametrize(
    "options", [{"float_mode": 0xF0, "ieee_mode": False}, {"float_mode": 0xC0, "ieee_mode": True}]
)
def test_output_modifier_is_ignored_with_subnormals_or_in_ieee_mode(options):
    """So the hardware does, and LLVM relies on it when it folds multiplications."""
    assert scaled(1, **options) == 4.0


@pytest.mark.parametrize("dx10_clamp, expected", [(True, 0.0), (False, np.nan)])
def test_clamp_of_nan_follows_the_descriptor(dx10_clamp, expected):
    arrays = buffers(fill=np.nan)
    body = [
        isa.global_load_b32(vdst=v[2], addr=v[1], saddr=X),
        wait_loads(),
        isa.VOP3(isa.VOP3Op.V_ADD_F32_E64, vdst=v[3], src0=v[2], src1=1.0, clmp=1),
        store(3),
    ]
    clean(body, arrays, dx10_clamp=dx10_clamp)
    assert np.array_equal(arrays["out"], np.full(32, expected, np.float32), equal_nan=True)
