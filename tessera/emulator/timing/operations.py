"""Translated instructions to what the timing model needs: class, cycles, registers, counters."""

from __future__ import annotations

from dataclasses import dataclass

from tessera.emulator.registers import FIRST_VGPR, NULL, members
from tessera.emulator.report import class_of
from tessera.emulator.step import Step
from tessera.emulator.timing.parameters import Parameters

WMMA, VALU, TRANS, LDS, VMEM, SMEM, SCALAR, WAIT, BARRIER, BRANCH, END, FREE = range(12)
KIND_NAMES = (
    "wmma", "valu", "trans", "lds", "vmem", "smem", "salu", "wait", "barrier", "branch", "end",
    "free",
)  # fmt: skip
NO_LIMIT = 1 << 30
_TRANSCENDENTAL = ("V_EXP_", "V_LOG_", "V_RCP_", "V_RSQ_", "V_SQRT_", "V_SIN_", "V_COS_")
_QUARTER_RATE = ("V_MUL_LO_U32", "V_MUL_HI_U32", "V_MUL_HI_I32", "V_MAD_U64", "V_MAD_I64")
_FREE = ("S_DELAY_ALU", "S_CLAUSE", "S_NOP", "S_SET_INST_PREFETCH_DISTANCE", "S_CODE_END")
# VCC, EXEC, SCC and the scalar registers are tracked with the vector registers in one table.
REGISTERS = FIRST_VGPR + 256


@dataclass(frozen=True, slots=True)
class Operation:
    """One static instruction for the replay; cycles by `Parameters`.

    `slot` is the time in the issue slot of the SIMD, `latency` from issue to a dependent vector
    instruction. `wait` gives the most outstanding accesses that may remain, (vm, vs, lgkm);
    `bytes` is what a memory access moves with all lanes active.
    """

    kind: int
    pc: int
    name: str
    slot: float
    latency: float
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    read_delay: float = 0.0
    counter: str = ""
    wait: tuple[int, int, int] | None = None
    law_class: str = ""
    target: int | None = None
    bytes: int = 0


def operation_of(step: Step, entry: int, p: Parameters) -> Operation:
    """Classify one step; `entry` is the pc that `Operation.pc` counts from."""
    instruction = step.instruction
    name, form = instruction.name, instruction.format
    kind = _kind(step)
    slot, latency, delay = _cycles(step, kind, p)
    return Operation(
        kind,
        instruction.pc - entry,
        name.lower(),
        slot,
        latency,
        _tracked(step.reads),
        _tracked(step.writes & ~step.returns),
        delay,
        step.counter,
        _wait_limits(step),
        class_of(name, form),
        step.target,
        128 * (step.returns or step.data).bit_count(),
    )


def _tracked(registers: int) -> tuple[int, ...]:
    return tuple(r for r in members(registers) if r < REGISTERS and r != NULL)


def _kind(step: Step) -> int:
    name = step.instruction.name
    if step.control == "end":
        return END
    if step.control == "barrier":
        return BARRIER
    if step.control == "jump":
        return BRANCH
    if name.startswith("S_WAITCNT"):
        return WAIT
    if name.startswith(_FREE):
        return FREE
    if "WMMA" in name:
        return WMMA
    by_class = {"lds": LDS, "vmem": VMEM, "scratch": VMEM, "smem": SMEM, "valu": VALU}
    kind = by_class.get(class_of(name, step.instruction.format), SCALAR)
    if kind == VALU and name.startswith(_TRANSCENDENTAL) and "F64" not in name:
        return TRANS
    return kind


def _cycles(step: Step, kind: int, p: Parameters) -> tuple[float, float, float]:
    """(issue slot, latency to a dependent vector instruction, extra delay of reading registers)."""
    name = step.instruction.name
    if kind == WMMA:
        cycles = p.wmma_issue / 2 if "IU4" in name else p.wmma_issue
        if _same_bank(step):
            cycles += p.wmma_same_bank / (2 if "IU4" in name else 1)
        # A chain through C needs no more than the unit's own time.
        return cycles, cycles, 0.0
    if kind == TRANS:
        return p.valu_issue, p.trans_latency, 0.0
    if kind == VALU:
        return *_vector_cycles(step, p), 0.0
    if kind == LDS:
        is_load = bool(step.returns)
        return (p.lds_load_issue if is_load else p.lds_store_issue), 0.0, p.vector_to_memory
    if kind == VMEM:
        return p.vmem_issue, 0.0, p.vector_to_memory
    if kind == SMEM:
        return 0.0, p.scalar_load_latency, 0.0
    return 0.0, p.scalar_latency, p.vector_to_scalar


def _vector_cycles(step: Step, p: Parameters) -> tuple[float, float]:
    name = step.instruction.name
    if step.instruction.format == "VOPD":
        return p.dual_issue_beside_wmma, p.valu_latency
    if name.startswith(_QUARTER_RATE):
        return p.quarter_rate_issue, p.valu_latency + p.quarter_rate_issue - 1
    if "F64" in name:
        return p.double_issue, p.valu_latency + p.double_issue
    if name.endswith(("_B64", "_U64", "_I64")) and not name.startswith("V_CMP"):
        return p.wide_issue, p.valu_latency + 1
    return p.valu_issue, p.valu_latency


def _same_bank(step: Step) -> bool:
    """Whether the first registers of A, B and C lie in one of the four banks."""
    if step.matrix is None:
        return True
    c = step.instruction.field(58, 50)
    banks = {step.matrix[0][0] % 4, step.matrix[1][0] % 4}
    if c >= FIRST_VGPR:
        banks.add((c - FIRST_VGPR) % 4)
    return len(banks) == 1


def _wait_limits(step: Step) -> tuple[int, int, int] | None:
    """(vm, vs, lgkm) that a wait allows to be outstanding; None for other instructions."""
    name, constant = step.instruction.name, step.instruction.field(15, 0)
    if name == "S_WAITCNT":
        return constant >> 10 & 63, NO_LIMIT, constant >> 4 & 63
    limits = [NO_LIMIT] * 3
    for index, counter in enumerate(("VMCNT", "VSCNT", "LGKMCNT")):
        if name == f"S_WAITCNT_{counter}":
            limits[index] = constant & 63
            return limits[0], limits[1], limits[2]
    return (NO_LIMIT, NO_LIMIT, NO_LIMIT) if name.startswith("S_WAITCNT") else None
