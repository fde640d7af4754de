"""Every function of the scalar and atomic tables against AMD's text or Python integers."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.function_cases import TYPES, as_array, as_bits, bits_of, same, width_of
from emulator_witness.pseudocode import Machine, instruction_texts
from emulator_witness.pseudocode_remedies import REMEDIES
from emulator_witness.pseudocode_values import Value

from tessera.emulator.semantics import ATOMIC_OPS, SCALAR_OPS

COUNT = 160


def expected_scalar(name, operation, row, old, scc):
    """(value bits, SCC) that the text leaves."""
    machine = Machine()
    state = machine.variables
    width = width_of(operation.result) if operation.result else 32
    state["SCC"] = Value(scc, 1, "u")
    state["D0"] = Value(old, max(32, width), "b")
    names = ["S0", "S1", "SIMM32"]
    if "FMAMK" in name:
        names = ["S0", "SIMM32", "S1"]
    for target, kind, bits in zip(names, operation.sources, row):
        state[target] = Value(bits, width_of(kind), "b")
    remedy = REMEDIES.get(name)
    if remedy is None or not remedy(machine):
        machine.run(instruction_texts()[name.lower()])
    return state["D0"].bits & ((1 << width) - 1), state["SCC"].bits & 1


@pytest.mark.parametrize("name", sorted(SCALAR_OPS))
def test_scalar_function_agrees_with_the_pseudocode(name):
    operation = SCALAR_OPS[name]
    rng = random.Random(zlib.crc32(name.encode()))
    columns = [[bits_of(rng, kind) for _ in range(COUNT)] for kind in operation.sources]
    result_kind = operation.result or "b32"
    old = [bits_of(rng, result_kind) for _ in range(COUNT)]
    scc = [rng.randint(0, 1) for _ in range(COUNT)]
    arguments = [as_array(c, k).reshape(-1) for c, k in zip(columns, operation.sources)]
    if operation.accumulates:
        arguments.append(as_array(old, result_kind).reshape(-1))
    if operation.reads_scc:
        arguments.append(np.array(scc, bool))
    with np.errstate(all="ignore"):
        result = operation.function(*arguments)
    value, flag = result if operation.result and operation.writes_scc else (result, None)
    if operation.result is None:
        value, flag = None, result
    if flag is not None:
        assert np.asarray(flag).dtype == np.bool_
    if value is not None:
        assert value.dtype == TYPES.get(result_kind, np.dtype("uint32"))
    differences = []
    for index, row in enumerate(zip(*columns)):
        wanted, wanted_scc = expected_scalar(name, operation, row, old[index], scc[index])
        operands = [hex(bits) for bits in row]
        if value is not None:
            got = as_bits(value, (COUNT,))[index]
            if not same(name, result_kind, got, wanted):
                differences.append(f"{operands} got {got:#x}, text {wanted:#x}")
        if flag is not None and bool(flag[index]) != bool(wanted_scc):
            differences.append(f"{operands} SCC {flag[index]}, text {wanted_scc}")
    assert not differences, f"{len(differences)} of {COUNT}: " + "; ".join(differences[:4])


def atomic_text(name):
    """The text of a DS or FLAT instruction with this operation."""
    texts = instruction_texts()
    renamed = name.lower().replace("cmpswap", "cmpstore").replace("swap_", "storexchg_rtn_")
    for candidate in (f"ds_{renamed}", f"flat_atomic_{name.lower()}", "ds_" + name.lower()):
        if candidate in texts:
            return texts[candidate], candidate
    return texts[f"ds_{name.lower().replace('_b', '_rtn_b')}"], "ds_"


APART = {"CONDXCHG32_B64", "CSUB_U32"}


@pytest.mark.parametrize("name", sorted(set(ATOMIC_OPS) - APART))
def test_atomic_function_agrees_with_the_pseudocode(name):
    operation = ATOMIC_OPS[name]
    text, instruction = atomic_text(name)
    assert instruction.startswith("ds_"), "the operands of FLAT texts are packed"
    rng = random.Random(zlib.crc32(name.encode()))
    kinds = [operation.kind] * (3 if operation.compares else 2)
    columns = [[bits_of(rng, kind) for _ in range(COUNT)] for kind in kinds]
    if operation.compares:  # make equal pairs common
        columns[2] = [c if rng.random() < 0.5 else o for o, c in zip(columns[0], columns[2])]
    arrays = [as_array(c, k).reshape(-1) for c, k in zip(columns, kinds)]
    with np.errstate(all="ignore"):
        result = operation.function(*arrays)
    assert result.dtype == TYPES[operation.kind]
    got = as_bits(result, (COUNT,))
    for index, row in enumerate(zip(*columns)):
        machine = Machine()
        width = width_of(operation.kind)
        machine.variables["ADDR"] = Value(64, 32, "u")
        machine.write_memory(64, Value(row[0], width))
        machine.variables["DATA"] = Value(row[1], width, "b")
        if operation.compares:
            machine.variables["DATA2"] = Value(row[2], width, "b")
        machine.run(text)
        wanted = machine.read_memory(64, "u", width).bits
        assert same(name, operation.kind, got[index], wanted), [hex(bits) for bits in row]


def test_clamped_subtraction_stops_at_zero():
    function = ATOMIC_OPS["CSUB_U32"].function
    old, data = np.array([5, 5, 0], np.uint32), np.array([7, 2, 1], np.uint32)
    assert function(old, data).tolist() == [0, 3, 0]


def test_conditional_exchange_replaces_halves_with_bit_31():
    function = ATOMIC_OPS["CONDXCHG32_B64"].function
    old = np.array([0x1111111122222222] * 3, np.uint64)
    data = np.array([0x0000000180000002, 0x8000000100000002, 0x8000000180000002], np.uint64)
    wanted = [0x1111111100000002, 0x0000000122222222, 0x0000000100000002]
    assert function(old, data).tolist() == wanted
