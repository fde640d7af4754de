"""A memory plan and its operands to the registers and memory that AMD's pseudo-code leaves."""

from __future__ import annotations

import numpy as np

from emulator_witness import harness as h
from emulator_witness import soft_float as sf
from emulator_witness.memory_cases import DATA, DATA2, MEMORY, OWN_BYTES, RESULT, MemoryPlan
from emulator_witness.pseudocode import Machine
from emulator_witness.pseudocode_values import Value, integer


def _gather(row: np.ndarray, register: int, width: int) -> int:
    return sum(int(row[register + word]) << (32 * word) for word in range(max(1, width // 32)))


def _lane_machine(plan: MemoryPlan, row: np.ndarray, lane: int, memory: dict[int, int]) -> Machine:
    machine = Machine()
    machine.memory = memory
    state = machine.variables
    base = int(row[0]) + (lane * OWN_BYTES if plan.family == "SCRATCH" else 0)
    # Where the text adds OFFSET itself, ADDR is the register alone.
    offset = 0 if "OFFSET" in plan.text else plan.offset
    if plan.family == "SCRATCH" and plan.form == "saddr":
        base = lane * OWN_BYTES
    address = Value(base + offset & 0xFFFFFFFF, 32, "u")
    state.update({"ADDR": address, "ADDR_BASE": address, "S0": address})
    state["OFFSET"] = Value(plan.offset & 0xFFFFFFFF, 32, "u")
    state["OFFSET0"] = Value(plan.offsets[0], 32, "u")
    state["OFFSET1"] = Value(plan.offsets[1], 32, "u")
    state["laneID"] = integer(lane)
    state["M0"] = Value(0, 32, "u")
    state["SGPR_ADDR"] = Value(0, 64, "u")
    state["INST_OFFSET"] = Value(plan.offset & 0xFFF, 32, "u")
    data = Value(_gather(row, DATA, plan.data_width), max(32, plan.data_width), "b")
    state["DATA"] = state["DATA0"] = state["S1"] = data
    state["DATA2"] = Value(_gather(row, DATA2, plan.data_width), max(32, plan.data_width), "b")
    result = Value(_gather(row, RESULT, plan.result_width), max(32, plan.result_width), "b")
    state["RETURN_DATA"] = result
    state["VDATA"] = result if "LOAD" in plan.name else data
    if "ADDTID" in plan.name:
        state["OFFSET0"] = Value(plan.offset & 0xFF, 8, "u")
        state["OFFSET1"] = Value(plan.offset >> 8, 8, "u")
        state["given"] = ("OFFSET0", "OFFSET1")
    if "CONDXCHG32" in plan.name:
        state["OFFSET0"] = Value(plan.offset & 0xFF, 8, "u")
        state["OFFSET1"] = Value(plan.offset >> 8, 8, "u")
        state["given"] = ("OFFSET0", "OFFSET1")
        state["RETURN_DATA"] = [Value(0, 32, "u"), Value(0, 32, "u")]
    return machine


def _result_bits(plan: MemoryPlan, machine: Machine) -> int:
    name = "VDATA" if "VDATA" in plan.text else "RETURN_DATA"
    value = machine.variables[name]
    if isinstance(value, list):
        return sum(part.bits << (32 * index) for index, part in enumerate(value))
    return value.bits


def evaluate(plan: MemoryPlan, vectors: np.ndarray, scalars: np.ndarray) -> np.ndarray:
    """Vectors [waves, 32, 32] after the pseudo-code: results and, in v16-v31, memory."""
    out = vectors.copy()
    for wave in range(vectors.shape[0]):
        contents = vectors[wave, :, MEMORY:].astype("<u4").tobytes()
        memory = dict(enumerate(contents))
        for lane in range(h.LANES):
            if not int(scalars[wave, h.EXEC]) >> lane & 1:
                continue
            machine = _lane_machine(plan, vectors[wave, lane], lane, memory)
            machine.run(plan.text)
            register = DATA if plan.returns_in_data else RESULT
            if plan.result_width:
                bits = _result_bits(plan, machine)
                for word in range(max(1, plan.result_width // 32)):
                    out[wave, lane, register + word] = bits >> (32 * word) & 0xFFFFFFFF
        after = bytes(memory[address] for address in range(len(contents)))
        out[wave, :, MEMORY:] = np.frombuffer(after, "<u4").reshape(h.LANES, -1)
    return out


def mismatches(
    plan: MemoryPlan, vectors: np.ndarray, scalars: np.ndarray, got: np.ndarray
) -> list[str]:
    """Descriptions of the first registers and memory words that differ from the text."""
    expected = evaluate(plan, vectors, scalars)
    found = []
    for wave, lane, register in np.argwhere(expected != got):
        if register in plan.ignored:
            continue
        one, other = int(got[wave, lane, register]), int(expected[wave, lane, register])
        if _both_nan(plan, got[wave, lane], expected[wave, lane], int(register)):
            continue
        on = int(scalars[wave, h.EXEC]) >> lane & 1
        row = vectors[wave, lane]
        place = f"v{register}" if register < MEMORY else f"memory word {register - MEMORY}"
        found.append(
            f"{plan.name} ({plan.form}, offset {plan.offset or plan.offsets}) wave {wave} "
            f"lane {lane}{'' if on else ' (off)'}: v0={int(row[0]):#x} "
            f"data={[hex(x) for x in row[DATA : DATA + 4]]} "
            f"data2={[hex(x) for x in row[DATA2 : DATA2 + 2]]}: "
            f"{place} is {one:#x}, expected {other:#x}"
        )
        if len(found) == 3:
            break
    return found


def _both_nan(plan: MemoryPlan, got: np.ndarray, expected: np.ndarray, register: int) -> bool:
    form = plan.float_form
    if form is None:
        return False
    words = form.width // 32
    first = register // words * words
    one, other = (_gather(row, first, form.width) for row in (got, expected))
    return sf.is_nan(one, form) and sf.is_nan(other, form)
