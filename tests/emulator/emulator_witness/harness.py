"""Instructions and operand sets to the register contents that the emulator leaves.

One kernel runs many cases one after another; each wave (one workgroup of 32 lanes) has its own
operand sets. Around the instructions of a case the harness loads and dumps registers:

    v0-v31    per lane; with `lds` or `memory`, v16-v31 carry 64 bytes per lane of that memory
    s16-s27   free operands; then VCC, SCC, EXEC, M0 in the slots 12 to 15
    s[98:99]  return address of the two routines that load and dump
    s[86:87]  base of the case's 2048 bytes of global memory; s[88:91] its buffer descriptor
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from emulator_witness.assembler import isa, s, to_bytes, v
from emulator_witness.code_object import Kernel, KernelArgument, build_code_object

LANES = 32
SCALARS = 16
VCC, SCC, EXEC, M0 = 12, 13, 14, 15
MEMORY_BYTES = 64 * LANES
RAW_BUFFER_WORD3 = 0x31004000
RETURN = s[98:99]


@dataclass
class Case:
    """Instructions under test with inputs: vectors [waves, 32, registers], scalars [waves, 16]."""

    name: str
    instructions: Sequence[Any]
    vectors: np.ndarray
    scalars: np.ndarray
    lds: bool = False
    memory: bool = False
    details: dict[str, Any] = field(default_factory=dict)

    def code(self) -> bytes:
        return to_bytes(self.instructions)


@dataclass
class Outcome:
    """Registers after a case, in the layout of its inputs."""

    vectors: np.ndarray
    scalars: np.ndarray


def wait_all() -> list[Any]:
    return [isa.s_waitcnt(simm16=0), isa.s_waitcnt_vscnt(sdst=isa.NULL, simm16=0)]


def _add_to_pointer(register: int, amount: Any) -> list[Any]:
    return [
        isa.s_add_u32(s[register], s[register], amount),
        isa.s_addc_u32(s[register + 1], s[register + 1], 0),
    ]


def _memory_transfer(case: Case, store: bool) -> list[Any]:
    """Move v16-v31 to the case's LDS or global memory, or back; v102 holds lane * 64."""
    code: list[Any] = []
    for group in range(4):
        data = v[16 + 4 * group : 19 + 4 * group]
        offset = 16 * group
        if case.lds and store:
            code.append(isa.ds_store_b128(addr=v[102], data0=data, offset0=offset))
        elif case.lds:
            code.append(isa.ds_load_b128(vdst=data, addr=v[102], offset0=offset))
        elif store:
            code.append(
                isa.global_store_b128(addr=v[102], data=data, saddr=s[86:87], offset=offset)
            )
        else:
            code.append(isa.global_load_b128(vdst=data, addr=v[102], saddr=s[86:87], offset=offset))
    return code + wait_all()


def _load_case(case: Case, registers: int) -> list[Any]:
    code: list[Any] = [
        isa.s_mov_b32(s[88], s[86]),
        isa.s_mov_b32(s[89], s[87]),
        isa.s_mov_b32(s[90], MEMORY_BYTES),
        isa.s_mov_b32(s[91], RAW_BUFFER_WORD3),
        isa.s_load_b512(sdata=s[16:31], sbase=s[80:81], offset=0),
    ]
    for group in range(registers // 4):
        code.append(
            isa.global_load_b128(
                vdst=v[4 * group : 4 * group + 3],
                addr=v[100],
                saddr=s[80:81],
                offset=4 * SCALARS + 16 * group,
            )
        )
    code += wait_all()
    if case.lds or case.memory:
        code += _memory_transfer(case, store=True)
    return [
        *code,
        isa.s_mov_b32(isa.M0, s[31]),
        isa.s_mov_b32(isa.VCC_LO, s[28]),
        isa.s_mov_b32(isa.VCC_HI, 0),
        isa.s_cmp_lg_u32(s[29], 0),
        isa.s_mov_b32(isa.EXEC_LO, s[30]),
    ]


def _dump_case(case: Case, registers: int) -> list[Any]:
    code: list[Any] = [
        isa.s_cselect_b32(s[93], 1, 0),
        isa.s_mov_b32(s[92], isa.VCC_LO),
        isa.s_mov_b32(s[94], isa.EXEC_LO),
        isa.s_mov_b32(s[95], isa.M0),
        isa.s_mov_b32(isa.EXEC_LO, -1),
        *wait_all(),
    ]
    if case.lds or case.memory:
        code += _memory_transfer(case, store=False)
    for group in range(registers // 4):
        code.append(
            isa.global_store_b128(
                addr=v[100],
                data=v[4 * group : 4 * group + 3],
                saddr=s[82:83],
                offset=4 * SCALARS + 16 * group,
            )
        )
    code.append(isa.s_mov_b32(isa.EXEC_LO, 1))
    for group in range(4):
        for word in range(4):
            index = 4 * group + word
            source = s[16 + index] if index < VCC else s[80 + index]
            code.append(isa.v_mov_b32_e32(v[104 + word], source))
        code.append(
            isa.global_store_b128(addr=v[101], data=v[104:107], saddr=s[82:83], offset=16 * group)
        )
    return [*code, isa.s_mov_b32(isa.EXEC_LO, -1), *wait_all()]


def _call(place: int, target: int) -> bytes:
    """A call from byte `place` of the kernel to byte `target`."""
    return to_bytes([isa.s_call_b64(sdst=RETURN, simm16=(target - place - 4) // 4 & 0xFFFF)])


def record_bytes(registers: int) -> int:
    return 4 * SCALARS + 4 * registers * LANES


def batch_kernel(cases: Sequence[Case], registers: int, private_bytes: int = 0) -> bytes:
    """The code object that runs `cases`; arguments: inputs, outputs, global memory."""
    size = record_bytes(registers)
    code: list[Any] = [
        isa.s_load_b128(sdata=s[80:83], sbase=s[0:1], offset=0),
        isa.s_load_b64(sdata=s[86:87], sbase=s[0:1], offset=16),
        isa.s_waitcnt(simm16=0),
        isa.s_mul_i32(s[84], s[2], size * len(cases)),
        *_add_to_pointer(80, s[84]),
        *_add_to_pointer(82, s[84]),
        isa.s_mul_i32(s[84], s[2], MEMORY_BYTES * len(cases)),
        *_add_to_pointer(86, s[84]),
        isa.v_mul_u32_u24_e32(v[100], 4 * registers, v[0]),
        isa.v_mov_b32_e32(v[101], 0),
        isa.v_lshlrev_b32_e32(v[102], 6, v[0]),
    ]
    kind = cases[0]
    if any((case.lds, case.memory) != (kind.lds, kind.memory) for case in cases):
        raise ValueError("the cases of a batch use different kinds of memory")
    before = to_bytes([*_load_case(kind, registers), isa.s_setpc_b64(ssrc0=RETURN)])
    after = [*_dump_case(kind, registers), *_add_to_pointer(80, size), *_add_to_pointer(82, size)]
    after += [*_add_to_pointer(86, MEMORY_BYTES), isa.s_setpc_b64(ssrc0=RETURN)]
    start = to_bytes(code)
    # Both routines stand in front of the cases; the kernel jumps over them.
    routines = before + to_bytes(after)
    machine_code = start + to_bytes([isa.s_branch(simm16=len(routines) // 4)]) + routines
    load_place, dump_place = len(start) + 4, len(start) + 4 + len(before)
    for case in cases:
        machine_code += _call(len(machine_code), load_place) + case.code()
        machine_code += _call(len(machine_code), dump_place)
    machine_code += to_bytes([isa.s_endpgm()])
    arguments = [KernelArgument(name, 8, True) for name in ("inputs", "outputs", "memory")]
    lds = MEMORY_BYTES if any(case.lds for case in cases) else 0
    kernel = Kernel(machine_code, "batch", arguments, lds, private_bytes, max_block=LANES)
    return build_code_object(kernel)


def run_batch(
    cases: Sequence[Case], registers: int = 16, sanitize: bool = True, private_bytes: int = 0
) -> list[Outcome]:
    """Run all cases in one launch; every case has the same number of waves."""
    from tessera import emulator

    if any(case.lds or case.memory for case in cases):
        registers = 32
    waves = cases[0].vectors.shape[0]
    size = record_bytes(registers) // 4
    inputs = np.zeros((waves, len(cases), size), np.uint32)
    for index, case in enumerate(cases):
        vectors = np.zeros((waves, LANES, registers), np.uint32)
        vectors[:, :, : case.vectors.shape[2]] = case.vectors
        inputs[:, index, :SCALARS] = case.scalars
        inputs[:, index, SCALARS:] = vectors.reshape(waves, -1)
    outputs = np.zeros_like(inputs)
    memory = np.zeros((waves, len(cases), MEMORY_BYTES), np.uint8)
    report = emulator.run(
        batch_kernel(cases, registers, private_bytes),
        "batch",
        (waves, 1, 1),
        (LANES, 1, 1),
        [inputs, outputs, memory],
        sanitize=sanitize,
    )
    assert not report.findings, [str(finding) for finding in report.findings]
    return [
        Outcome(
            outputs[:, index, SCALARS:].reshape(waves, LANES, registers).copy(),
            outputs[:, index, :SCALARS].copy(),
        )
        for index in range(len(cases))
    ]


def run_each(cases: Sequence[Case], **options: Any) -> list[Outcome | Exception]:
    """Outcomes of all cases; a batch that fails is halved until the failing case stands alone."""
    try:
        return list(run_batch(cases, **options))
    except Exception as error:
        if len(cases) == 1:
            return [error]
    middle = len(cases) // 2
    return run_each(cases[:middle], **options) + run_each(cases[middle:], **options)
