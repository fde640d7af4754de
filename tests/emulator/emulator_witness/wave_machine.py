"""A wave's registers and an instruction that names other lanes to the registers it leaves.

The pseudo-code of these instructions indexes `VGPR[lane][register]`, so that one machine holds
all lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tinygrad.runtime.autogen.amd.rdna3.str_pcode import PCODE

from emulator_witness import harness as h
from emulator_witness.pseudocode import Machine
from emulator_witness.pseudocode_values import Value, integer


def unsigned(value: int, width: int = 32) -> Value:
    return Value(value & ((1 << width) - 1), width, "u")


def wave_machine(vectors: np.ndarray, scalars: np.ndarray, names: dict[str, Any]) -> Machine:
    """A machine over vectors [32, registers] and scalars [16]; `names` are operand values.

    Integers in `names` become unsigned 32-bit values.
    """
    machine = Machine()
    machine.vgprs = {
        lane: {register: int(x) for register, x in enumerate(vectors[lane])}
        for lane in range(h.LANES)
    }
    execute = int(scalars[h.EXEC])
    state = machine.variables
    state["EXEC"] = Value(execute, 64, "u")
    state["EXEC_LO"] = unsigned(execute)
    state["M0"] = unsigned(int(scalars[h.M0]))
    state["D0"] = unsigned(0)
    state["SCC"] = Value(int(scalars[h.SCC]), 1, "u")
    for name, value in names.items():
        state[name] = unsigned(value) if isinstance(value, int) else value
    return machine


def registers(machine: Machine, count: int) -> np.ndarray:
    """Vector registers [32, count] of the machine."""
    rows = [[machine.vgprs[lane][r] for r in range(count)] for lane in range(h.LANES)]
    return np.array(rows, np.uint32)


def run_wave(
    operation: Any, vectors: np.ndarray, scalars: np.ndarray, names: dict[str, Any]
) -> tuple[np.ndarray, int]:
    """(vector registers, D0) after a text that handles all lanes itself."""
    machine = wave_machine(vectors, scalars, names)
    given = tuple(name for name in names if name in ("DATA0", "VDST", "OFFSET"))
    machine.variables["given"] = given
    machine.run(PCODE[operation])
    return registers(machine, vectors.shape[1]), machine.variables["D0"].bits


def run_lanes(
    operation: Any, vectors: np.ndarray, scalars: np.ndarray, names: dict[str, Any], source: int
) -> np.ndarray:
    """Vector registers after a text for one lane, run for each active lane; S0 is v[source]."""
    machine = wave_machine(vectors, scalars, names)
    for lane in range(h.LANES):
        if not int(scalars[h.EXEC]) >> lane & 1:
            continue
        state = machine.variables
        state["laneId"] = integer(lane)
        state["S0"] = unsigned(int(vectors[lane, source]))
        state["D0"] = Value(0, 64, "u")
        machine.run(PCODE[operation])
        if "D0" in PCODE[operation]:
            machine.vgprs[lane][names["DST"]] = state["D0"].bits & 0xFFFFFFFF
    return registers(machine, vectors.shape[1])
