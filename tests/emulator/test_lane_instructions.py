"""Instructions that read or write other lanes or other registers than they name."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.assembler import isa, s, v
from emulator_witness.harness import EXEC, LANES, M0, SCALARS, VCC, Case, run_batch, wait_all
from emulator_witness.pseudocode_values import Value
from emulator_witness.wave_machine import run_lanes, run_wave

VOP1, VOP3, DS = isa.VOP1Op, isa.VOP3Op, isa.DSOp
MASKS = (0xFFFFFFFF, 0x00000000, 0x80000000, 0x0F0F3C5A, 0x00FF0000)


def random_state(seed, execute, registers=16):
    rng = np.random.default_rng(seed)
    vectors = rng.integers(0, 2**32, (1, LANES, registers), np.uint32)
    scalars = rng.integers(0, 2**32, (1, SCALARS), np.uint32)
    scalars[0, EXEC], scalars[0, M0], scalars[0, 13] = execute, 0, 1
    return vectors, scalars


def cases_over_masks(name, instructions, change=None, **options):
    cases = []
    for seed, mask in enumerate(MASKS):
        vectors, scalars = random_state(seed, mask)
        if change is not None:
            change(vectors, scalars)
        cases.append(Case(name, instructions, vectors, scalars, **options))
    return cases


def test_readfirstlane():
    move = isa.VOP1_SDST(VOP1.V_READFIRSTLANE_B32_E32, vdst=s[24], src0=v[3])
    cases = cases_over_masks("readfirstlane", [move])
    for case, outcome in zip(cases, run_batch(cases)):
        _, value = run_wave(
            VOP1.V_READFIRSTLANE_B32_E32, case.vectors[0], case.scalars[0], {"SRC0": 3}
        )
        assert outcome.scalars[0, 24 - 16] == value
        assert np.array_equal(outcome.vectors[:, :, :16], case.vectors)


@pytest.mark.parametrize("selector", [0, 5, 31, 37])
def test_readlane_and_writelane(selector):
    """The lane select is taken modulo 32; EXEC has no part."""
    read = isa.VOP3_SDST(VOP3.V_READLANE_B32, vdst=s[24], src0=v[3], src1=selector)
    write = isa.VOP3(VOP3.V_WRITELANE_B32, vdst=v[5], src0=s[16], src1=selector)
    cases = cases_over_masks("readlane, writelane", [read, write])
    for case, outcome in zip(cases, run_batch(cases)):
        vectors, scalars = case.vectors[0], case.scalars[0]
        _, value = run_wave(VOP3.V_READLANE_B32, vectors, scalars, {"SRC0": 3, "S1": selector})
        assert outcome.scalars[0, 24 - 16] == value
        after, _ = run_wave(
            VOP3.V_WRITELANE_B32,
            vectors,
            scalars,
            {"VDST": 5, "S0": int(scalars[0]), "S1": selector},
        )
        assert np.array_equal(outcome.vectors[0, :, :16], after)


@pytest.mark.parametrize("operation", [VOP3.V_PERMLANE16_B32, VOP3.V_PERMLANEX16_B32])
@pytest.mark.parametrize("fetch_inactive", [0, 1])
@pytest.mark.parametrize("bound_control", [0, 1])
def test_permlane(operation, fetch_inactive, bound_control):
    """The text fetches from all lanes (OPSEL[0]); else a lane that is off gives 0 or no write."""
    permute = isa.VOP3(
        operation,
        vdst=v[5],
        src0=v[3],
        src1=s[16],
        src2=s[17],
        opsel=fetch_inactive | bound_control << 1,
    )
    cases = cases_over_masks("permlane", [permute])
    for case, outcome in zip(cases, run_batch(cases)):
        vectors, scalars = case.vectors[0], case.scalars[0]
        names = {"SRC0": 3, "VDST": 5, "S1": int(scalars[0]), "S2": int(scalars[1])}
        expected, _ = run_wave(operation, vectors, scalars, names)
        execute = int(scalars[EXEC])
        if not fetch_inactive:
            select = int(scalars[0]) | int(scalars[1]) << 32
            other = 16 if operation is VOP3.V_PERMLANEX16_B32 else 0
            for lane in range(LANES):
                source = (lane & 16) ^ other | select >> 4 * (lane & 15) & 15
                if execute >> lane & 1 and not execute >> source & 1:
                    expected[lane, 5] = 0 if bound_control else vectors[lane, 5]
        assert np.array_equal(outcome.vectors[0, :, :16], expected), hex(execute)


def test_swaps_and_instructions_without_effect():
    nothing = [
        isa.VOP1(VOP1.V_NOP_E32),
        isa.VOP1(VOP1.V_PIPEFLUSH_E32),
        isa.VOP1(VOP1.V_PERMLANE64_B32_E32, vdst=v[5], src0=v[3]),
        isa.DS(DS.DS_NOP),
    ]
    swap = [isa.VOP1(VOP1.V_SWAP_B32_E32, vdst=v[5], src0=v[3])]
    halves = [isa.VOP1(VOP1.V_SWAP_B16_E32, vdst=v[5], src0=v[3 + 128])]
    cases = [
        *cases_over_masks("nothing", nothing),
        *cases_over_masks("swap", swap),
        *cases_over_masks("halves", halves),
    ]
    for case, outcome in zip(cases, run_batch(cases)):
        expected = case.vectors[0].copy()
        on = [int(case.scalars[0, EXEC]) >> lane & 1 == 1 for lane in range(LANES)]
        if case.name == "swap":
            expected[on, 5], expected[on, 3] = case.vectors[0, on, 3], case.vectors[0, on, 5]
        elif case.name == "halves":
            five, three = case.vectors[0, on, 5], case.vectors[0, on, 3]
            expected[on, 5] = five & 0xFFFF0000 | three >> 16
            expected[on, 3] = three & 0xFFFF | (five & 0xFFFF) << 16
        assert np.array_equal(outcome.vectors[0, :, :16], expected), case.name
        assert np.array_equal(outcome.scalars, case.scalars), case.name


@pytest.mark.parametrize(
    "name, m0",
    [
        ("V_MOVRELD_B32", 2),
        ("V_MOVRELS_B32", 3),
        ("V_MOVRELSD_B32", 1),
        ("V_MOVRELSD_2_B32", 2 | 5 << 16),
        ("V_SWAPREL_B32", 4 | 1 << 16),
    ],
)
def test_registers_relative_to_m0(name, m0):
    operation = VOP1[f"{name}_E32"]

    def set_m0(_, scalars):
        scalars[0, M0] = m0

    cases = cases_over_masks(name, [isa.VOP1(operation, vdst=v[5], src0=v[3])], set_m0)
    for case, outcome in zip(cases, run_batch(cases)):
        names = {"SRC0": 3, "DST": 5}
        expected = run_lanes(operation, case.vectors[0], case.scalars[0], names, source=3)
        assert np.array_equal(outcome.vectors[0, :, :16], expected)


@pytest.mark.parametrize("operation", [DS.DS_PERMUTE_B32, DS.DS_BPERMUTE_B32])
@pytest.mark.parametrize("offset", [0, 12])
def test_lds_permutes(operation, offset):
    permute = isa.DS(operation, vdst=v[5], addr=v[3], data0=v[4], offset0=offset)

    def keep_positive(vectors, _):
        # High-order bits are ignored; the text divides them as a signed number.
        vectors[0, :, 3] &= 0x7FFFFF00 | 0x7F

    cases = cases_over_masks("permute", [permute, *wait_all()], keep_positive)
    for case, outcome in zip(cases, run_batch(cases)):
        names = {
            "ADDR": 3,
            "DATA0": Value(4, 32, "u"),
            "VDST": Value(5, 32, "u"),
            "OFFSET": Value(offset, 16, "u"),
        }
        expected, _ = run_wave(operation, case.vectors[0], case.scalars[0], names)
        assert np.array_equal(outcome.vectors[0, :, :16], expected)


def swizzle_source(offset, lane):
    """The lane that DS_SWIZZLE_B32 reads, after the ISA guide's three modes."""
    if offset >= 0xE000:
        mask = offset & 31
        reverse = int(f"{lane & 31:05b}"[::-1], 2)
        return reverse >> mask.bit_count() | lane & mask
    if offset & 0x8000:
        if offset & 0x4000:  # rotate by [9:5], left or right by bit 10, where the mask is set
            rotation, mask = offset >> 5 & 31, offset & 31
            moved = lane - rotation if offset >> 10 & 1 else lane + rotation
            return lane & mask | moved & 31 & ~mask
        return lane & ~3 | offset >> 2 * (lane & 3) & 3
    keep, set_bits, flip = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    return (lane & keep | set_bits) ^ flip


def test_swizzle():
    rng = random.Random(5)
    offsets = [0x401F, 0x041F, 0x001E, 0x8000 | 0b00_01_10_11, 0x80E4]
    offsets += [rng.randrange(0x8000) for _ in range(10)]
    offsets += [0x8000 | rng.randrange(256) for _ in range(5)]
    offsets += [0xC000 | rng.randrange(32) << 5 | rng.randrange(2) << 10 for _ in range(4)]
    offsets += [0xE000 | mask for mask in (0, 1, 3, 7, 16, 31)]
    for offset in offsets:
        swizzle = isa.DS(
            DS.DS_SWIZZLE_B32, vdst=v[5], addr=v[3], offset0=offset & 0xFF, offset1=offset >> 8
        )
        cases = cases_over_masks("swizzle", [swizzle, *wait_all()])
        for case, outcome in zip(cases, run_batch(cases)):
            execute = int(case.scalars[0, EXEC])
            expected = case.vectors[0, :, 5].copy()
            for lane in range(LANES):
                source = swizzle_source(offset, lane)
                if execute >> lane & 1:
                    expected[lane] = case.vectors[0, source, 3] if execute >> source & 1 else 0
            assert np.array_equal(outcome.vectors[0, :, 5], expected), (hex(offset), hex(execute))


@pytest.mark.parametrize("name, sign", [("DS_APPEND", 1), ("DS_CONSUME", -1)])
def test_append_and_consume(name, sign):
    """A counter in LDS changes by the number of active lanes; all of them get the old value."""
    count = isa.DS(DS[name], vdst=v[5], offset0=8)
    cases = []
    for seed, mask in enumerate(MASKS):
        if mask:
            vectors, scalars = random_state(seed, mask, registers=32)
            scalars[0, M0] = 128  # base address of the counter
            cases.append(Case(name, [count, *wait_all()], vectors, scalars, lds=True))
    for case, outcome in zip(cases, run_batch(cases)):
        execute = int(case.scalars[0, EXEC])
        old = int(case.vectors[0, 2, 16 + 2])  # byte 128 + 8 is word 2 of lane 2
        on = [execute >> lane & 1 == 1 for lane in range(LANES)]
        assert (outcome.vectors[0, on, 5] == old).all()
        changed = outcome.vectors[0, 2, 16 + 2]
        assert changed == (old + sign * execute.bit_count()) % 2**32


def test_ballot_of_a_comparison_ignores_lanes_that_are_off():
    compare = isa.v_cmp_lt_u32_e32(v[3], v[4])
    cases = cases_over_masks("ballot", [compare])
    for case, outcome in zip(cases, run_batch(cases)):
        less = case.vectors[0, :, 3] < case.vectors[0, :, 4]
        bits = sum(int(x) << lane for lane, x in enumerate(less)) & int(case.scalars[0, EXEC])
        assert outcome.scalars[0, VCC] == bits
