"""Branches, calls, hardware registers, relative scalar moves, messages, waits, cache controls."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.assembler import isa, s, to_bytes, v
from emulator_witness.harness import EXEC, LANES, SCALARS, SCC, VCC, Case, run_batch
from emulator_witness.kernels import run
from emulator_witness.sanitized import X, buffers, clean, store

from tessera import emulator

MODE = 1
M0_SLOT = 15


def scalar_case(instructions, **registers):
    """A case over scalars: names such as s16, VCC, SCC, EXEC, M0 give initial values."""
    scalars = np.zeros((1, SCALARS), np.uint32)
    scalars[0, EXEC] = 0xFFFFFFFF
    scalars[0, :12] = np.arange(12) + 100
    slots = {"VCC": VCC, "SCC": SCC, "EXEC": EXEC, "M0": M0_SLOT}
    for name, value in registers.items():
        scalars[0, slots[name] if name in slots else int(name[1:]) - 16] = value
    return Case("scalar", instructions, np.zeros((1, LANES, 16), np.uint32), scalars)


def scalars_after(instructions, **registers):
    (outcome,) = run_batch([scalar_case(instructions, **registers)])
    return {f"s{16 + i}": int(outcome.scalars[0, i]) for i in range(12)}


BRANCHES = [
    ("s_branch", {}, True),
    ("s_cbranch_scc0", {"SCC": 0}, True),
    ("s_cbranch_scc0", {"SCC": 1}, False),
    ("s_cbranch_scc1", {"SCC": 0}, False),
    ("s_cbranch_scc1", {"SCC": 1}, True),
    ("s_cbranch_vccz", {"VCC": 0}, True),
    ("s_cbranch_vccz", {"VCC": 4}, False),
    ("s_cbranch_vccnz", {"VCC": 0}, False),
    ("s_cbranch_vccnz", {"VCC": 0x80000000}, True),
    ("s_cbranch_execz", {"EXEC": 0}, True),
    ("s_cbranch_execz", {"EXEC": 1}, False),
    ("s_cbranch_execnz", {"EXEC": 0}, False),
    ("s_cbranch_execnz", {"EXEC": 0x80000000}, True),
]


@pytest.mark.parametrize("name, registers, taken", BRANCHES)
def test_branches(name, registers, taken):
    code = [getattr(isa, name)(simm16=1), isa.s_mov_b32(s[20], 7), isa.s_mov_b32(s[21], 9)]
    after = scalars_after(code, **registers)
    assert after["s20"] == (104 if taken else 7)
    assert after["s21"] == 9


def test_backward_branch():
    code = [
        isa.s_mov_b32(s[20], 0),
        isa.s_add_u32(s[20], s[20], 3),
        isa.s_cmp_lt_u32(s[20], 30),
        isa.s_cbranch_scc1(simm16=-3 & 0xFFFF),
    ]
    assert scalars_after(code)["s20"] == 30


def test_waves_take_different_branches():
    """Each wave counts to its own number; all of them finish."""
    count = 8
    arrays = {"x": np.arange(32 * count, dtype=np.uint32), "out": np.zeros(32 * count, np.uint32)}
    body = [
        isa.v_readfirstlane_b32_e32(s[20], v[0]),
        isa.s_lshr_b32(s[20], s[20], 5),
        isa.s_mov_b32(s[21], 0),
        isa.s_cmp_eq_u32(s[20], 0),
        isa.s_cbranch_scc1(simm16=4),
        isa.s_add_u32(s[21], s[21], s[20]),
        isa.s_sub_u32(s[20], s[20], 1),
        isa.s_cmp_lg_u32(s[20], 0),
        isa.s_cbranch_scc1(simm16=-4 & 0xFFFF),
        isa.v_mov_b32_e32(v[2], s[21]),
        store(2),
    ]
    clean(body, arrays, block=32 * count)
    expected = [n * (n + 1) // 2 for n in range(count)]
    assert np.array_equal(arrays["out"].reshape(count, 32)[:, 0], expected)


def test_program_counter_instructions():
    """getpc gives the next instruction; setpc, swappc and call jump and link."""
    skipped = isa.s_mov_b32(s[20], 7)
    getpc = [
        isa.s_getpc_b64(sdst=s[22:23]),
        isa.s_add_u32(s[22], s[22], 20),  # the s_mov_b32 of s21
        isa.s_addc_u32(s[23], s[23], 0),
        isa.s_setpc_b64(ssrc0=s[22:23]),
        skipped,
        isa.s_nop(simm16=0),
        isa.s_mov_b32(s[21], 9),
    ]
    after = scalars_after(getpc)
    assert (after["s20"], after["s21"]) == (104, 9)
    swap = [
        isa.s_getpc_b64(sdst=s[22:23]),
        isa.s_add_u32(s[22], s[22], 16),  # behind the skipped instruction
        isa.s_addc_u32(s[23], s[23], 0),
        isa.s_swappc_b64(sdst=s[24:25], ssrc0=s[22:23]),
        skipped,
        isa.s_sub_u32(s[26], s[22], s[24]),  # the link is the skipped instruction
    ]
    after = scalars_after(swap)
    assert (after["s20"], after["s26"]) == (104, 4)
    call = [
        isa.s_getpc_b64(sdst=s[22:23]),
        isa.s_call_b64(sdst=s[24:25], simm16=1),
        skipped,
        isa.s_sub_u32(s[26], s[24], s[22]),
    ]
    after = scalars_after(call)
    assert (after["s20"], after["s26"]) == (104, 4)


def test_moves_relative_to_m0():
    moves = {
        "s_movrels_b32": (isa.s_movrels_b32(s[24], s[16]), {24: 103}),
        "s_movreld_b32": (isa.s_movreld_b32(s[20], s[16]), {23: 100}),
        "s_movrelsd_2_b32": (isa.s_movrelsd_2_b32(s[24], s[16]), {24: 103}),
    }
    for name, (move, expected) in moves.items():
        after = scalars_after([move], M0=3)
        for register, value in expected.items():
            assert after[f"s{register}"] == value, name
    after = scalars_after([isa.s_movrels_b64(s[24:25], s[16:17])], M0=2)
    assert (after["s24"], after["s25"]) == (102, 103)
    after = scalars_after([isa.s_movreld_b64(s[20:21], s[16:17])], M0=4)
    assert (after["s24"], after["s25"]) == (100, 101)
    after = scalars_after([isa.s_movrelsd_2_b32(s[20], s[16])], M0=2 | 5 << 16)
    assert after["s25"] == 102


def test_null_register():
    """NULL reads as 0 and swallows what is written to it."""
    code = [
        isa.s_add_u32(s[20], s[16], isa.NULL),
        isa.s_lshl1_add_u32(s[21], s[16], isa.NULL),
        isa.s_mov_b32(isa.NULL, s[16]),
        isa.s_mov_b32(s[22], isa.NULL),
        isa.s_and_b64(s[24:25], s[16:17], isa.NULL),
        isa.s_add_u32(isa.NULL, -1, 1),  # the carry is kept
        isa.s_cselect_b32(s[26], 5, 6),
        isa.v_mov_b32_e32(v[3], isa.NULL),
        isa.v_readfirstlane_b32_e32(s[27], v[3]),
    ]
    after = scalars_after(code)
    values = [after[f"s{register}"] for register in (20, 21, 22, 24, 25, 26, 27)]
    assert values == [100, 200, 0, 0, 0, 5, 0]


def test_null_register_after_waves_took_different_ways():
    arrays = {"x": np.zeros(64, np.uint32), "out": np.zeros(64, np.uint32)}
    body = [
        isa.v_readfirstlane_b32_e32(s[20], v[0]),
        isa.s_cmp_lg_u32(s[20], 0),
        isa.s_cbranch_scc1(simm16=1),
        isa.s_bfm_b32(s[21], 4, isa.NULL),
        isa.s_bfm_b32(s[21], 7, isa.NULL),
        isa.v_add_nc_u32_e32(v[2], isa.NULL, v[0]),
        isa.v_add_nc_u32_e32(v[2], s[21], v[2]),
        store(2),
    ]
    clean(body, arrays, block=64)
    assert np.array_equal(arrays["out"], np.arange(64) + 127)


def hardware_register(number, offset=0, size=32):
    return number | offset << 6 | (size - 1) << 11


def test_mode_register_reads_what_the_descriptor_set():
    after = scalars_after([isa.s_getreg_b32(sdst=s[20], simm16=hardware_register(MODE, 0, 8))])
    assert after["s20"] == 0xF0


def test_writing_a_field_of_the_mode_register():
    code = [
        isa.s_setreg_imm32_b32(simm16=hardware_register(MODE, 4, 2), literal=0),
        isa.s_getreg_b32(sdst=s[20], simm16=hardware_register(MODE, 0, 8)),
        isa.s_mov_b32(s[22], 3),
        isa.s_setreg_b32(sdst=s[22], simm16=hardware_register(MODE, 4, 2)),
        isa.s_getreg_b32(sdst=s[21], simm16=hardware_register(MODE, 0, 8)),
    ]
    after = scalars_after(code)
    assert (after["s20"], after["s21"]) == (0xC0, 0xF0)


def test_flushing_of_subnormals_follows_the_mode():
    """2^-130 * 1 keeps its value with subnormals on, and is a zero with them off."""
    tiny = np.full(LANES, 2.0**-130, np.float32)

    def product(mode):
        arrays = {"x": tiny.copy(), "out": np.ones(LANES, np.float32)}
        body = [
            isa.global_load_b32(vdst=v[2], addr=v[1], saddr=X),
            isa.s_waitcnt(simm16=0),
            isa.v_mul_f32_e32(v[3], 1.0, v[2]),
            store(3),
        ]
        clean(body, arrays, float_mode=mode)
        return arrays["out"]

    assert np.array_equal(product(0xF0), tiny)
    assert np.array_equal(product(0xC0), np.zeros(LANES))


def test_denorm_mode_switches_flushing_for_a_part_of_the_program():
    """Bits 1:0 rule float32, 3:2 float16 and float64: LLVM brackets divisions with it."""
    tiny = np.full(LANES, 2.0**-130, np.float32)
    arrays = {"x": tiny.copy(), "out": np.ones(3 * LANES, np.float32)}
    half = 0x0200  # a subnormal float16
    body = [
        isa.global_load_b32(vdst=v[2], addr=v[1], saddr=X),
        isa.s_waitcnt(simm16=0),
        isa.SOPP(isa.SOPPOp.S_DENORM_MODE, simm16=0b1100),
        isa.v_mul_f32_e32(v[3], 1.0, v[2]),
        isa.v_mov_b32_e32(v[5], half),
        isa.v_add_f16_e32(v[5], 0, v[5]),
        isa.SOPP(isa.SOPPOp.S_DENORM_MODE, simm16=0b0011),
        isa.v_mul_f32_e32(v[4], 1.0, v[2]),
        isa.v_mov_b32_e32(v[6], half),
        isa.v_add_f16_e32(v[6], 0, v[6]),
        isa.v_lshl_or_b32(v[5], v[6], 16, v[5]),
        store(3),
        store(4, offset=4 * LANES),
        store(5, offset=8 * LANES),
    ]
    clean(body, arrays)
    assert (arrays["out"][:LANES] == 0.0).all()
    assert np.array_equal(arrays["out"][LANES : 2 * LANES], tiny)
    assert (arrays["out"][2 * LANES :].view(np.uint32) == half).all()


def test_saved_end_of_the_program():
    arrays = buffers()
    body = [isa.SOPP(isa.SOPPOp.S_ENDPGM_SAVED), isa.v_mov_b32_e32(v[2], 1.0), store(2)]
    clean(body, arrays)
    assert (arrays["out"] == 0.0).all()


def test_rounding_follows_the_mode_or_is_refused_by_name():
    """Float32 rounding toward zero (2 bits at 0): 1 + 2^-24 stays 1 either way, 1 + 3 2^-25 not."""
    arrays = {"x": np.full(LANES, 3 * 2.0**-25, np.float32), "out": np.zeros(LANES, np.float32)}
    body = [
        isa.global_load_b32(vdst=v[2], addr=v[1], saddr=X),
        isa.s_waitcnt(simm16=0),
        isa.v_add_f32_e32(v[3], 1.0, v[2]),
        store(3),
    ]
    clean(body, arrays)
    assert (arrays["out"] == np.float32(1.0 + 2.0**-23)).all()
    refusal = ""
    try:
        run(body, arrays, float_mode=0xF3)
    except emulator.EmulatorError as error:
        refusal = str(error).lower()
    assert "round" in refusal or (arrays["out"] == 1.0).all()


def test_instructions_without_a_result():
    """Waits, hints, priorities, messages and cache controls run and change nothing."""
    code = [
        isa.s_nop(simm16=5),
        isa.s_sleep(simm16=1),
        isa.s_clause(simm16=1),
        isa.s_delay_alu(simm16=0x91),
        isa.s_setprio(simm16=2),
        isa.s_waitcnt(simm16=0),
        isa.s_waitcnt_depctr(simm16=0),
        isa.s_waitcnt_vscnt(sdst=isa.NULL, simm16=0),
        isa.s_waitcnt_vmcnt(sdst=isa.NULL, simm16=0),
        isa.s_waitcnt_expcnt(sdst=isa.NULL, simm16=0),
        isa.s_waitcnt_lgkmcnt(sdst=isa.NULL, simm16=0),
        isa.s_set_inst_prefetch_distance(simm16=3),
        isa.s_icache_inv(),
        isa.s_dcache_inv(),
        isa.buffer_gl0_inv(),
        isa.buffer_gl1_inv(),
        isa.SMEM(isa.SMEMOp.S_GL1_INV),
        *(
            isa.SOPP(isa.SOPPOp[f"S_{name}"], simm16=0)
            for name in (
                "WAIT_IDLE WAIT_EVENT INCPERFLEVEL DECPERFLEVEL TTRACEDATA TTRACEDATA_IMM "
                "CBRANCH_CDBGSYS CBRANCH_CDBGUSER ROUND_MODE"
            ).split()
        ),
        isa.SOPP(isa.SOPPOp.S_DENORM_MODE, simm16=15),
        isa.s_sendmsg(simm16=3),  # deallocate vector registers
    ]
    case = scalar_case(code, SCC=1, VCC=5, M0=7)
    (outcome,) = run_batch([case])
    assert np.array_equal(outcome.scalars, case.scalars)


def test_real_time_message():
    """s_sendmsg_rtn returns a clock: two readings do not go backwards."""
    real_time = 131
    code = [
        isa.SOP1(isa.SOP1Op.S_SENDMSG_RTN_B64, sdst=s[20:21], ssrc0=isa.src[real_time]),
        isa.s_waitcnt(simm16=0),
        isa.SOP1(isa.SOP1Op.S_SENDMSG_RTN_B64, sdst=s[22:23], ssrc0=isa.src[real_time]),
        isa.s_waitcnt(simm16=0),
    ]
    after = scalars_after(code)
    first = after["s20"] | after["s21"] << 32
    assert (after["s22"] | after["s23"] << 32) >= first


def test_an_unknown_instruction_is_named():
    with pytest.raises(emulator.UnsupportedInstructionError, match="0x"):
        run([bytes.fromhex("ffffffff"), isa.s_nop(simm16=0)], buffers())


@pytest.mark.parametrize(
    "instruction",
    [
        isa.DS(isa.DSOp.DS_GWS_BARRIER, data0=v[0], gds=1),
        isa.MUBUF(isa.MUBUFOp.BUFFER_LOAD_FORMAT_X, vdata=v[2], vaddr=v[1], srsrc=s[8:11]),
        isa.SOPP(isa.SOPPOp.S_SETHALT, simm16=1),
        isa.VOP3(isa.VOP3Op.V_CNDMASK_B32_E64, v[2], v[0], v[1], v[3]),  # no mask in v3
    ],
)
def test_an_unimplemented_instruction_is_named(instruction):
    """What is not built raises with its name, at its place; it never gives a guess."""
    name = instruction.op_name.lower()
    with pytest.raises(emulator.EmulatorError) as caught:
        run([instruction, isa.s_nop(simm16=0)], buffers())
    assert name in str(caught.value).lower()


@pytest.mark.parametrize(
    "instruction",
    [
        isa.SOP1(isa.SOP1Op.S_MOV_B64, isa.src[2:3], isa.src[127:128]),
        isa.SOP1(isa.SOP1Op.S_MOV_B64, isa.src[127:128], isa.src[2:3]),
        isa.SOP1(isa.SOP1Op.S_NOT_B64, isa.src[127:128], isa.src[2:3]),
        isa.SOP2(isa.SOP2Op.S_AND_B64, isa.src[2:3], isa.src[127:128], isa.src[2:3]),
        isa.SOPC(isa.SOPCOp.S_CMP_EQ_U64, isa.src[127:128], isa.src[2:3]),
    ],
)
def test_a_pair_behind_the_last_scalar_register_is_refused(instruction):
    with pytest.raises(emulator.UnsupportedInstructionError, match=instruction.op_name):
        run([isa.s_mov_b64(s[2:3], 0), instruction, isa.s_nop(simm16=0)], buffers())


@pytest.mark.parametrize(
    "instruction, place",
    [
        (isa.VOP1_SDST(isa.VOP1Op.V_READFIRSTLANE_B32_E32, s[3], v[0]), 17),
        (isa.VOP3_SDST(isa.VOP3Op.V_READLANE_B32, s[3], v[0], 1), 0),
        (isa.VOP3_SDST(isa.VOP3Op.V_CMP_LT_U32_E64, s[3], v[0], v[1]), 0),
    ],
)
def test_a_constant_as_destination_is_refused(instruction, place):
    word = int.from_bytes(instruction.to_bytes(), "little") | 128 << place
    code = word.to_bytes(len(instruction.to_bytes()), "little")
    name = instruction.op_name.removesuffix("_E32").removesuffix("_E64")
    with pytest.raises(emulator.UnsupportedInstructionError, match=name):
        run([code, isa.s_nop(simm16=0)], buffers())


def test_code_that_runs_off_its_end():
    """Without s_endpgm the program meets the padding, which is an error and no loop."""
    from emulator_witness.code_object import Kernel, build_code_object

    code = to_bytes([isa.s_nop(simm16=0)])
    with pytest.raises(emulator.EmulatorError):
        emulator.run(build_code_object(Kernel(code, "endless")), "endless", 1, 32, [])
