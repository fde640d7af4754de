"""The matrix instruction of every element type against sums of products written out by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessera.emulator import matrix

WAVES = 3
FLOAT_KINDS = [
    ("V_WMMA_F32_16X16X16_F16", "f16", "f32"),
    ("V_WMMA_F32_16X16X16_BF16", "bf16", "f32"),
    ("V_WMMA_F16_16X16X16_F16", "f16", "f16"),
    ("V_WMMA_BF16_16X16X16_BF16", "bf16", "bf16"),
]
ROUNDING = {"f32": 2.0**-23, "f16": 2.0**-11, "bf16": 2.0**-8}


def to_bits(values: Any, kind: str) -> Any:
    """float64 to the 16 or 32 bits of the nearest value of the kind."""
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    bits = values.astype(np.float32).view(np.uint32)
    return bits if kind == "f32" else (bits + 0x8000) >> 16


def from_bits(bits, kind):
    if kind == "f16":
        return (bits & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float64)
    word = bits if kind == "f32" else (bits & 0xFFFF) << 16
    return word.astype(np.uint32).view(np.float32).astype(np.float64)


def operand_registers(bits: Any, width: int) -> np.ndarray:
    """[waves, 16 rows, 16 k] of `width`-bit fields to uint32 [16 * width / 32, waves, 32]."""
    per_register = 32 // width
    registers = np.zeros((16 // per_register, len(bits), 32), np.uint32)
    for k in range(16):
        field = (bits[:, :, k].astype(np.uint32) << (width * (k % per_register))).astype(np.uint32)
        registers[k // per_register, :, :16] |= field
        registers[k // per_register, :, 16:] |= field
    return registers


def result_registers(bits):
    """[waves, 16, 16] to uint32 [8, waves, 32]."""
    registers = np.zeros((8, len(bits), 32), np.uint32)
    for row in range(16):
        for column in range(16):
            registers[row // 2, :, 16 * (row % 2) + column] = bits[:, row, column]
    return registers


def tile(registers):
    """The inverse of `result_registers`."""
    out = np.zeros((registers.shape[1], 16, 16), np.uint32)
    for row in range(16):
        for column in range(16):
            out[:, row, column] = registers[row // 2, :, 16 * (row % 2) + column]
    return out


def run(operation, a, b, c, **fields):
    arguments = {"old_d": c, "neg": 0, "neg_hi": 0, "opsel": 0, "clamp": False} | fields
    with np.errstate(all="ignore"):
        return matrix.wmma(operation, a, b, c, **arguments)


def float_operands(kind, result, seed=0):
    rng = np.random.default_rng(seed)
    a, b, c = (to_bits(rng.standard_normal((WAVES, 16, 16)), k) for k in (kind, kind, result))
    return a, b, c


@pytest.mark.parametrize("operation, kind, result", FLOAT_KINDS)
def test_float_product_and_its_layout(operation, kind, result):
    a, b, c = float_operands(kind, result)
    old = np.full((8, WAVES, 32), 0xABCD1234, np.uint32)
    d = run(operation, operand_registers(a, 16), operand_registers(b, 16), result_registers(c),
            old_d=old)  # fmt: skip
    terms = np.einsum("wik,wjk->wijk", from_bits(a, kind), from_bits(b, kind))
    exact = terms.sum(axis=3) + from_bits(c, result)
    bound = ROUNDING[result] * np.abs(exact) + 2.0**-20 * np.abs(terms).sum(axis=3)
    assert (np.abs(from_bits(tile(d), result) - exact) <= bound).all()
    if result != "f32":
        assert (d >> 16 == 0xABCD).all(), "the other half keeps its bits"


@pytest.mark.parametrize("operation, kind, result", FLOAT_KINDS[2:])
def test_opsel_takes_and_writes_the_high_half(operation, kind, result):
    a, b, c = float_operands(kind, result)
    operands = operand_registers(a, 16), operand_registers(b, 16)
    low = run(operation, *operands, result_registers(c))
    old = np.full((8, WAVES, 32), 0x00005678, np.uint32)
    high = run(operation, *operands, result_registers(c) << 16, old_d=old, opsel=4)
    assert (high & 0xFFFF == 0x5678).all()
    assert np.array_equal(high >> 16, low & 0xFFFF)


def test_each_sign_field_negates_what_the_guide_says():
    operation, kind, result = FLOAT_KINDS[0]
    a, b, c = float_operands(kind, result)
    accumulator = result_registers(c)

    def product(left: Any, right: Any, addend: Any = accumulator, **fields: int) -> Any:
        registers = operand_registers(left, 16), operand_registers(right, 16)
        return run(operation, *registers, addend, **fields)

    even = np.where(np.arange(16) % 2 == 0, 0x8000, 0).astype(np.uint32)
    odd = even ^ 0x8000
    assert np.array_equal(product(a, b, neg=1), product(a ^ even, b))
    assert np.array_equal(product(a, b, neg=2), product(a, b ^ even))
    assert np.array_equal(product(a, b, neg_hi=1), product(a ^ odd, b))
    assert np.array_equal(product(a, b, neg_hi=2), product(a, b ^ odd))
    negated, positive = accumulator ^ 0x80000000, accumulator & 0x7FFFFFFF
    assert np.array_equal(product(a, b, neg=4), product(a, b, negated))
    assert np.array_equal(product(a, b, neg_hi=4), product(a, b, positive))
    assert np.array_equal(product(a, b, neg=4, neg_hi=4), product(a, b, positive | 0x80000000))


def signed(values, width):
    return np.where(values >> (width - 1), values.astype(np.int64) - (1 << width), values)


@pytest.mark.parametrize("neg", range(4))
@pytest.mark.parametrize("operation, width", [("IU8", 8), ("IU4", 4)])
def test_integer_product_is_exact(operation, width, neg):
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 1 << width, (2, WAVES, 16, 16))
    c = rng.integers(0, 1 << 32, (WAVES, 16, 16), np.uint32)
    operands = operand_registers(a, width), operand_registers(b, width)
    d = run(f"V_WMMA_I32_16X16X16_{operation}", *operands, result_registers(c), neg=neg)
    left = signed(a, width) if neg & 1 else a
    right = signed(b, width) if neg & 2 else b
    wanted = np.einsum("wik,wjk->wij", left, right) + c
    assert np.array_equal(tile(d), (wanted & 0xFFFFFFFF).astype(np.uint32))


def test_integer_clamp_saturates_the_sum():
    ones = operand_registers(np.full((1, 16, 16), 127), 8)
    top = np.full((8, 1, 1), 0x7FFFFFFF, np.uint32)
    wrapped = run("V_WMMA_I32_16X16X16_IU8", ones, ones, top, neg=3)
    clamped = run("V_WMMA_I32_16X16X16_IU8", ones, ones, top, neg=3, clamp=True)
    assert (wrapped == 0x7FFFFFFF + 16 * 127 * 127).all()
    assert (clamped == 0x7FFFFFFF).all()


def test_constant_accumulator_is_broadcast():
    a, b, _ = float_operands("f16", "f32")
    operands = operand_registers(a, 16), operand_registers(b, 16)
    one = np.full((8, 1, 1), 0x3F800000, np.uint32)
    full = np.broadcast_to(one, (8, WAVES, 32))
    name = "V_WMMA_F32_16X16X16_F16"
    assert np.array_equal(run(name, *operands, one), run(name, *operands, full))


def test_replicas_that_differ_are_told():
    a, b, _ = float_operands("f16", "f32")
    good, bad = operand_registers(a, 16), operand_registers(b, 16)
    assert not matrix.replicas_differ(good, bad).any()
    bad[3, 1, 20] ^= 1
    assert matrix.replicas_differ(good, bad).tolist() == [False, True, False]
    assert matrix.replicas_differ(bad, good).tolist() == [False, True, False]
