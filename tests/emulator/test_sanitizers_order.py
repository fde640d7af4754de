"""Order sanitizers: missing waits, LDS races, barriers, hangs and traps."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.assembler import isa, s, v
from emulator_witness.kernels import NAME, run, wait_loads
from emulator_witness.sanitized import X, buffers, clean, finding_of, load, store

from tessera import emulator

VMCNT_1 = 1 << 10 | 0x3F << 4 | 7  # wait until one vector load is outstanding
VMCNT_0 = 0 << 10 | 0x3F << 4 | 7
LGKMCNT_0 = 0x3F << 10 | 0 << 4 | 7


# Use before the wait


def test_vector_load_used_before_its_wait():
    body = [load(2), isa.v_add_f32_e32(v[3], v[2], v[2]), wait_loads()]
    finding = finding_of(emulator.MissingWaitError, body, buffers(), 1)
    assert finding.kind == "missing_wait"
    assert "v2" in finding.message
    clean([body[0], isa.s_waitcnt(simm16=VMCNT_0), body[1]], buffers())


def test_loads_return_in_order():
    arrays = buffers(64)
    body = [load(2), load(3, offset=64), isa.s_waitcnt(simm16=VMCNT_1)]
    clean([*body, isa.v_mov_b32_e32(v[4], v[2]), wait_loads()], arrays)
    faulty = [*body, isa.v_mov_b32_e32(v[4], v[3]), wait_loads()]
    finding = finding_of(emulator.MissingWaitError, faulty, arrays, 3)
    assert "v3" in finding.message


def test_the_wrong_counter_does_not_help():
    body = [load(2), isa.s_waitcnt(simm16=LGKMCNT_0), store(2), wait_loads()]
    finding = finding_of(emulator.MissingWaitError, body, buffers(), 2)
    assert "v2" in finding.message


def test_scalar_load_used_before_its_wait():
    body = [
        isa.s_load_b32(sdata=s[20], sbase=X, offset=0, soffset=isa.NULL),
        isa.s_add_u32(s[21], s[20], 1),
        wait_loads(),
    ]
    finding = finding_of(emulator.MissingWaitError, body, buffers(), 1)
    assert "s20" in finding.message
    clean([body[0], wait_loads(), body[1]], buffers())


def test_lds_load_used_before_its_wait():
    body = [
        isa.v_mov_b32_e32(v[2], 0),
        isa.ds_store_b32(addr=v[1], data0=v[2]),
        isa.ds_load_b32(vdst=v[3], addr=v[1]),
        isa.v_mov_b32_e32(v[4], v[3]),
        wait_loads(),
    ]
    finding = finding_of(emulator.MissingWaitError, body, buffers(), 3, lds_bytes=128)
    assert "v3" in finding.message
    clean([*body[:3], wait_loads(), body[3]], buffers(), lds_bytes=128)


def test_a_load_whose_target_is_overwritten_before_its_wait():
    """The load may land after the move: what v2 holds then is not defined."""
    body = [load(2), isa.v_mov_b32_e32(v[2], 0), wait_loads()]
    finding = finding_of(emulator.MissingWaitError, body, buffers(), 1)
    assert "v2" in finding.message


def test_scalar_loads_return_in_any_order():
    """Waiting until one of two is left says nothing about which."""
    body = [
        isa.s_load_b32(sdata=s[20], sbase=X, offset=0, soffset=isa.NULL),
        isa.s_load_b32(sdata=s[21], sbase=X, offset=64, soffset=isa.NULL),
        isa.s_waitcnt(simm16=0x3F << 10 | 1 << 4 | 7),
        isa.s_add_u32(s[22], s[20], 1),
        wait_loads(),
    ]
    finding = finding_of(emulator.MissingWaitError, body, buffers(), 3)
    assert "s20" in finding.message


def test_a_flat_load_needs_both_counters():
    address = [
        isa.v_add_co_u32(v[2], s[96], s[4], v[1]),
        isa.VOP3SD(isa.VOP3SDOp.V_ADD_CO_CI_U32, v[3], s[97], s[5], 0, s[96]),
        isa.flat_load_b32(vdst=v[4], addr=v[2:3]),
    ]
    use = [isa.v_mov_b32_e32(v[5], v[4]), wait_loads()]
    for wait in (VMCNT_0, LGKMCNT_0):
        body = [*address, isa.s_waitcnt(simm16=wait), *use]
        finding = finding_of(emulator.MissingWaitError, body, buffers(), 4)
        assert "v4" in finding.message
    both = [isa.s_waitcnt(simm16=VMCNT_0), isa.s_waitcnt(simm16=LGKMCNT_0)]
    clean([*address, *both, *use], buffers())


def test_what_needs_no_wait():
    """Store data is read when the store issues; loads may be outstanding at the end."""
    arrays = buffers()
    body = [
        isa.v_mov_b32_e32(v[2], 1.0),
        store(2),
        isa.v_mov_b32_e32(v[2], 2.0),
        load(3),
        isa.v_mov_b32_e32(v[4], v[2]),
    ]
    clean(body, arrays)
    assert (arrays["out"] == 1.0).all()


# LDS races and barriers


def exchange(*between):
    """Each lane stores its slot, then reads the slot of the same lane in the other wave."""
    return [
        isa.ds_store_b32(addr=v[1], data0=v[0]),
        wait_loads(),
        *between,
        isa.v_xor_b32_e32(v[2], 128, v[1]),
        isa.ds_load_b32(vdst=v[3], addr=v[2]),
        wait_loads(),
        store(3),
    ]


def test_lds_race_between_waves():
    """The reading wave may run first: also a read of never-written LDS, so fill it first."""
    fill = [
        isa.v_mov_b32_e32(v[5], 0),
        isa.v_xor_b32_e32(v[2], 128, v[1]),
        isa.ds_store_b32(addr=v[1], data0=v[5]),
        wait_loads(),
        isa.s_barrier(),
    ]
    arrays = buffers(64)
    faulty = [*fill, *exchange()]
    with pytest.raises(emulator.LdsRaceError) as caught:
        run(faulty, arrays, block=64, lds_bytes=256)
    finding = caught.value.finding
    assert finding.kind == "lds_race"
    assert finding.kernel == NAME
    assert finding.instruction.startswith("ds_")
    assert finding.wave in (0, 1)
    assert finding.address in range(256)
    assert "LDS" in finding.message
    clean([*fill, *exchange(isa.s_barrier())], arrays, block=64, lds_bytes=256)
    assert np.array_equal(arrays["out"].view(np.uint32), (np.arange(64) + 32) % 64)


def test_a_store_after_the_read_of_another_wave():
    """Write after read: the barrier is behind the store instead of in front of it."""
    fill = [
        isa.ds_store_b32(addr=v[1], data0=v[0]),
        wait_loads(),
        isa.s_barrier(),
    ]
    turn = [
        isa.v_xor_b32_e32(v[2], 128, v[1]),
        isa.ds_load_b32(vdst=v[3], addr=v[2]),
        wait_loads(),
    ]
    overwrite = [isa.ds_store_b32(addr=v[1], data0=v[3]), wait_loads()]
    with pytest.raises(emulator.LdsRaceError):
        run([*fill, *turn, *overwrite, isa.s_barrier()], buffers(64), block=64, lds_bytes=256)
    clean([*fill, *turn, isa.s_barrier(), *overwrite], buffers(64), block=64, lds_bytes=256)


def test_accesses_of_different_sizes_race_where_they_overlap():
    """Wave 0 stores bytes 0 to 7, wave 1 one byte: byte 7 races, byte 8 does not."""

    def body(place):
        return [
            isa.v_mov_b32_e32(v[2], 0),
            isa.v_mov_b32_e32(v[3], 0),
            isa.v_readfirstlane_b32_e32(s[20], v[0]),
            isa.s_mov_b32(isa.EXEC_LO, 1),
            isa.s_cmp_lg_u32(s[20], 0),
            isa.s_cbranch_scc1(simm16=3),
            isa.ds_store_b64(addr=v[2], data0=v[2:3]),
            isa.s_branch(simm16=2),
            isa.ds_store_b8(addr=v[2], data0=v[2], offset0=place),
            wait_loads(),
        ]

    with pytest.raises(emulator.LdsRaceError) as caught:
        run(body(7), buffers(64), block=64, lds_bytes=16)
    assert caught.value.finding.instruction.startswith("ds_store")
    clean(body(8), buffers(64), block=64, lds_bytes=16)


def test_lanes_of_one_wave_and_waves_of_two_workgroups_do_not_race():
    body = [
        isa.v_mov_b32_e32(v[2], 0),
        isa.ds_store_b32(addr=v[2], data0=v[0]),
        isa.ds_load_b32(vdst=v[3], addr=v[2]),
        wait_loads(),
        store(3),
    ]
    clean(body, buffers(), grid=3, lds_bytes=4)


def test_two_waves_storing_to_one_address():
    body = [
        isa.v_mov_b32_e32(v[2], 0),
        isa.ds_store_b32(addr=v[2], data0=v[0]),
        wait_loads(),
    ]
    with pytest.raises(emulator.LdsRaceError):
        run(body, buffers(), block=64, lds_bytes=256)


def test_lds_atomics_of_two_waves_are_no_race():
    arrays = {"x": np.zeros(1, np.uint32), "out": np.zeros(1, np.uint32)}
    body = [
        isa.v_mov_b32_e32(v[2], 0),
        isa.v_cmp_eq_u32_e32(0, v[0]),
        isa.s_and_saveexec_b32(s[20], isa.VCC_LO),
        isa.ds_store_b32(addr=v[2], data0=v[2]),
        isa.s_mov_b32(isa.EXEC_LO, -1),
        wait_loads(),
        isa.s_barrier(),
        isa.v_mov_b32_e32(v[3], 1),
        isa.ds_add_u32(addr=v[2], data0=v[3]),
        wait_loads(),
        isa.s_barrier(),
        isa.ds_load_b32(vdst=v[4], addr=v[2]),
        wait_loads(),
        isa.v_cmp_eq_u32_e32(0, v[0]),
        isa.s_and_saveexec_b32(s[20], isa.VCC_LO),
        store(4, address=v[2]),
    ]
    clean(body, arrays, block=64, lds_bytes=4)
    assert arrays["out"][0] == 64


def test_waves_that_meet_at_different_barriers():
    """Wave 1 jumps to a barrier of its own: on hardware both arrive, which hides the fault."""
    body = [
        isa.v_readfirstlane_b32_e32(s[20], v[0]),
        isa.s_cmp_lg_u32(s[20], 0),
        isa.s_cbranch_scc1(simm16=2),
        isa.s_barrier(),
        isa.s_branch(simm16=1),
        isa.s_barrier(),
        isa.s_nop(simm16=0),
    ]
    with pytest.raises(emulator.BarrierError) as caught:
        run(body, buffers(), block=64)
    assert caught.value.finding.kind == "barrier"
    assert "s_barrier" in caught.value.finding.instruction


def test_a_barrier_that_one_wave_never_reaches():
    body = [
        isa.v_readfirstlane_b32_e32(s[20], v[0]),
        isa.s_cmp_lg_u32(s[20], 0),
        isa.s_cbranch_scc1(simm16=1),
        isa.s_barrier(),
        isa.s_nop(simm16=0),
    ]
    with pytest.raises(emulator.BarrierError) as caught:
        run(body, buffers(), block=64)
    assert "s_barrier" in str(caught.value)


# Hangs and traps


def test_infinite_loop():
    body = [isa.s_nop(simm16=0), isa.s_branch(simm16=0xFFFE)]
    with pytest.raises(emulator.InstructionLimitError) as caught:
        run(body, buffers(), run_options={"max_instructions": 5000})
    message = str(caught.value)
    assert "5000" in message.replace(",", "").replace("_", "")
    assert NAME in message


def test_trap():
    with pytest.raises(emulator.TrapError, match="trap"):
        run([isa.s_trap(simm16=2)], buffers())


# Options


def test_findings_can_be_collected():
    read = isa.v_add_f32_e32(v[4], v[9], v[9])
    body = [load(2), isa.v_mov_b32_e32(v[3], v[2]), wait_loads(), read]
    report = run(body, buffers(), run_options={"on_finding": "collect"})
    assert [finding.kind for finding in report.findings] == ["missing_wait", "uninitialized"]
    assert all(str(finding).count(NAME) == 1 for finding in report.findings)
    assert report.findings[0].kind in str(report)


def test_sanitizers_can_be_switched_off():
    body = [load(2), isa.v_mov_b32_e32(v[3], v[2]), wait_loads(), store(3)]
    arrays = buffers()
    report = run(body, arrays, run_options={"sanitize": False})
    assert report.findings == []
    assert (arrays["out"] == 1.0).all()


def test_memory_outside_of_all_buffers_is_never_touched_without_sanitizers():
    arrays = {"x": np.ones(31, np.float32), "out": np.zeros(31, np.float32)}
    with pytest.raises(emulator.MemoryAccessError):
        run([load(2), wait_loads()], arrays, run_options={"sanitize": False})
