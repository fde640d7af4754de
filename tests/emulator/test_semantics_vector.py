"""Every function of the vector table, on arrays of random and edge operands, against AMD's text."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.function_cases import (
    TYPES,
    as_array,
    as_bits,
    bits_of,
    flush,
    is_nan,
    same,
    width_of,
)
from emulator_witness.pseudocode import Machine, instruction_texts
from emulator_witness.pseudocode_remedies import REMEDIES
from emulator_witness.pseudocode_values import Value, boolean, integer

from tessera.emulator.semantics import VECTOR_OPS

COUNT = 192
# Compared in tests of their own: what the text says is not exact (sine), not the documented note
# (fract, dot of bf16), or needs operands that fit together (division).
APART = {
    "V_SIN_F32",
    "V_COS_F32",
    "V_SIN_F16",
    "V_COS_F16",
    "V_DOT2_BF16_BF16",
    "V_DOT2ACC_F32_BF16",
    "V_DIV_SCALE_F32",
    "V_DIV_FMAS_F32",
    "V_DIV_FMAS_F64",
    "V_MQSAD_U32_U8",
    "V_MBCNT_LO_U32_B32",
    "V_MBCNT_HI_U32_B32",
    "V_MOV_B16",
}
FLUSHING = {f"V_{name}_F32" for name in ("EXP", "LOG", "RCP", "RCP_IFLAG", "RSQ", "SQRT")}


def operand_kinds(operation):
    kinds = list(operation.sources)
    if operation.accumulates:
        kinds.append(operation.results[0])
    if operation.reads_vcc:
        kinds.append("mask")
    return kinds


def machine_for(name, operation, row, lane):
    """The machine before the text runs; operands go to S0.., the condition, D0 or the literal."""
    machine = Machine()
    state = machine.variables
    state["VCC"], state["laneId"] = Value(0, 64, "u"), integer(lane)
    state["D0"] = Value(0, max(32, width_of(operation.results[0])), "b")
    for index, (kind, bits) in enumerate(zip(operand_kinds(operation), row, strict=True)):
        value = Value(bits, width_of(kind), "b")
        if kind == "mask":
            state["VCC"] = Value(bits << lane, 64, "u")
        elif operation.accumulates and index == len(operation.sources):
            state["D0"] = state["S2"] = Value(bits, max(32, value.width), "b")
        elif ("FMAAK" in name and index == 2) or ("FMAMK" in name and index == 1):
            state["SIMM32"] = value
        else:
            state["S1" if "FMAMK" in name and index == 2 else f"S{index}"] = value
    state.setdefault("S1", state["S0"])
    state.setdefault("S2", state["D0"])
    state["D1"] = boolean(False)
    state["NEG"] = Value(3, 3)
    state["OPSEL"], state["OPSEL_HI"] = Value(0, 3), Value(0, 3)
    state["S"] = [state["S0"], state["S1"], state["S2"]]
    state["given"] = ("S",)
    return machine


def expected_results(name, operation, row, lane):
    machine = machine_for(name, operation, row, lane)
    if operation.results == ("mask",):
        machine.variables["D0"] = Value(0, 64, "u")
    remedy = REMEDIES.get(name)
    if remedy is None or not remedy(machine):
        machine.run(instruction_texts()[name.lower()])
    state = machine.variables
    shift = lane if operation.results[0] == "mask" else 0
    first = state["D0"].bits >> (16 if name.endswith("MIXHI_F16") else shift)
    results = [first & ((1 << width_of(operation.results[0])) - 1)]
    if len(operation.results) > 1:
        wide = name.startswith("V_MAD_")
        results.append(state["D1"].bits & 1 if wide else state["VCC"].bits >> lane & 1)
        if name.startswith("V_DIV_SCALE"):
            results[1] = state["VCC"].bits & 1
    return results


def call(operation, arrays):
    keywords = {"neg": (True, True, False)} if operation.takes_neg else {}
    with np.errstate(all="ignore"):
        results = operation.function(*arrays, **keywords)
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("name", sorted(set(VECTOR_OPS) - APART))
def test_function_agrees_with_the_pseudocode(name):
    operation = VECTOR_OPS[name]
    rng = random.Random(zlib.crc32(name.encode()))
    kinds = operand_kinds(operation)
    columns = [[bits_of(rng, kind) for _ in range(COUNT)] for kind in kinds]
    if name in FLUSHING:
        columns = [[flush(bits) for bits in column] for column in columns]
    arrays = [as_array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    before = [array.copy() for array in arrays]
    results = call(operation, arrays)
    for array, copy in zip(arrays, before, strict=True):
        assert array.tobytes() == copy.tobytes(), "an operand was changed"
    got = [as_bits(result, arrays[0].shape) for result in results]
    for result, kind in zip(results, operation.results, strict=True):
        assert np.asarray(result).dtype == TYPES.get(kind, np.dtype("uint32")), kind
    differences = []
    for index, row in enumerate(zip(*columns, strict=True)):
        if name.startswith("V_DIV_FIXUP") and is_nan(row[0], operation.sources[0]):
            continue  # the text passes it through; see the division sequence
        wanted = expected_results(name, operation, row, index % 32)
        if name in FLUSHING:
            wanted = [flush(bits) for bits in wanted]
        for kind, one, other in zip(operation.results, got, wanted, strict=True):
            if name.startswith("V_FRACT") and other in (0x3F800000, 0x3C00, 0x3FF0000000000000):
                other -= 1  # the result stays below 1
            if not same(name, kind, one[index], other):
                operands = [hex(bits) for bits in row]
                differences.append(f"{operands} got {one[index]:#x}, text {other:#x}")
    assert not differences, f"{len(differences)} of {COUNT}: " + "; ".join(differences[:4])
