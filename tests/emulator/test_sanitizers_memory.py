"""Memory sanitizers: out of bounds, misaligned, read-only and never-written memory."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.assembler import isa, s, v
from emulator_witness.kernels import run, wait_loads
from emulator_witness.sanitized import LANES, OUT, X, buffers, clean, finding_of, load, store

from tessera import emulator

# Out of bounds


@pytest.mark.parametrize("kind", ["load", "store"])
def test_global_access_behind_the_buffer(kind):
    arrays = {"x": np.ones(31, np.float32), "out": np.zeros(31, np.float32)}
    if kind == "load":
        body, index, name = [load(2), wait_loads()], 0, "x"
    else:
        body, index, name = [isa.v_mov_b32_e32(v[2], 0), store(2)], 1, "out"
    finding = finding_of(emulator.MemoryAccessError, body, arrays, index)
    assert (finding.kind, finding.lane, finding.buffer) == ("out_of_bounds", 31, name)
    assert isinstance(finding.address, int)
    assert hex(finding.address) in finding.message


def test_global_access_before_the_buffer():
    body = [load(2, offset=-4 & 0x1FFF), wait_loads()]
    finding = finding_of(emulator.MemoryAccessError, body, buffers(), 0)
    assert (finding.kind, finding.lane, finding.buffer) == ("out_of_bounds", 0, "x")


def test_null_pointer():
    body = [load(2), wait_loads()]
    finding = finding_of(emulator.MemoryAccessError, body, {"x": None, "out": None}, 0)
    assert (finding.kind, finding.lane, finding.address) == ("out_of_bounds", 0, 0)


def test_lanes_that_are_off_access_nothing():
    arrays = {"x": np.ones(31, np.float32), "out": np.zeros(31, np.float32)}
    body = [isa.s_mov_b32(isa.EXEC_LO, 0x7FFFFFFF), load(2), wait_loads(), store(2)]
    clean(body, arrays)
    assert (arrays["out"] == 1.0).all()


def test_the_whole_buffer_and_no_more():
    arrays = buffers()
    clean([load(2), wait_loads(), store(2)], arrays)
    assert (arrays["out"] == 1.0).all()


def test_lds_access_behind_the_allocation():
    body = [
        isa.v_mov_b32_e32(v[2], 0),
        isa.ds_store_b32(addr=v[1], data0=v[2], offset0=4),
        wait_loads(),
    ]
    finding = finding_of(emulator.MemoryAccessError, body, buffers(), 1, lds_bytes=128)
    assert (finding.kind, finding.lane, finding.address) == ("out_of_bounds", 31, 128)
    assert "LDS" in finding.message
    clean(body, buffers(), lds_bytes=132)


def test_scratch_access_behind_the_allocation():
    body = [
        isa.v_mov_b32_e32(v[2], 0),
        isa.scratch_store_b32(addr=v[0], data=v[2], saddr=isa.NULL, offset=64),
    ]
    finding = finding_of(emulator.MemoryAccessError, body, buffers(), 1, private_bytes=64)
    assert finding.kind == "out_of_bounds"
    clean(body, buffers(), private_bytes=68)


def test_scalar_load_behind_the_buffer():
    body = [
        isa.s_load_b64(sdata=s[20:21], sbase=X, offset=124, soffset=isa.NULL),
        wait_loads(),
    ]
    finding = finding_of(emulator.MemoryAccessError, body, buffers(), 0)
    assert (finding.kind, finding.buffer) == ("out_of_bounds", "x")


def test_buffer_descriptors_bound_their_accesses():
    """What lies behind num_records reads as 0 and is not written: defined, so no finding."""
    arrays = buffers()
    body = [
        isa.s_mov_b32(s[10], 64),
        isa.s_mov_b32(s[11], 0x31004000),
        isa.s_mov_b64(s[8:9], X),
        isa.buffer_load_b32(vdata=v[2], vaddr=v[1], srsrc=s[8:11], soffset=0, offen=1),
        wait_loads(),
        store(2),
    ]
    clean(body, arrays)
    assert (arrays["out"][:16] == 1.0).all()
    assert (arrays["out"][16:] == 0.0).all()


def test_write_to_a_read_only_array():
    arrays = buffers()
    arrays["out"].flags.writeable = False
    body = [isa.v_mov_b32_e32(v[2], 0), store(2)]
    finding = finding_of(emulator.MemoryAccessError, body, arrays, 1)
    assert (finding.kind, finding.buffer, finding.lane) == ("read_only", "out", 0)


# Misaligned


def test_misaligned_lds_access():
    body = [
        isa.v_mov_b32_e32(v[2], 0),
        isa.ds_store_b32(addr=v[1], data0=v[2], offset0=2),
        wait_loads(),
    ]
    finding = finding_of(emulator.MemoryAccessError, body, buffers(), 1, lds_bytes=256)
    assert (finding.kind, finding.lane, finding.address) == ("misaligned", 0, 2)


def test_misaligned_global_access():
    body = [load(2, offset=2), wait_loads()]
    finding = finding_of(emulator.MemoryAccessError, body, buffers(LANES + 1), 0)
    assert (finding.kind, finding.lane, finding.buffer) == ("misaligned", 0, "x")


# Never written


def test_read_of_a_register_that_was_never_written():
    body = [isa.v_add_f32_e32(v[2], v[7], v[7])]
    finding = finding_of(emulator.UninitializedReadError, body, buffers(), 0)
    assert finding.kind == "uninitialized"
    assert "v7" in finding.message
    clean([isa.v_mov_b32_e32(v[7], 0), *body], buffers())


def test_read_of_a_scalar_register_that_was_never_written():
    body = [isa.s_add_u32(s[20], s[21], s[21])]
    finding = finding_of(emulator.UninitializedReadError, body, buffers(), 0)
    assert "s21" in finding.message
    clean([isa.s_mov_b32(s[21], 0), *body], buffers())


def test_a_register_written_in_some_lanes_alone():
    """The lanes that were off when the register was written have no value."""
    body = [
        isa.s_mov_b32(isa.EXEC_LO, 0xFFFF),
        isa.v_mov_b32_e32(v[7], 0),
        isa.s_mov_b32(isa.EXEC_LO, -1),
        isa.v_add_f32_e32(v[2], v[7], v[7]),
    ]
    finding = finding_of(emulator.UninitializedReadError, body, buffers(), 3)
    assert finding.lane == 16
    clean([*body[:2], body[3]], buffers())


def test_read_of_lds_that_was_never_written():
    fill = [
        isa.v_mov_b32_e32(v[2], 0),
        isa.ds_store_b32(addr=v[1], data0=v[2]),
        wait_loads(),
    ]
    read = [isa.ds_load_b32(vdst=v[3], addr=v[1], offset0=128), wait_loads()]
    finding = finding_of(
        emulator.UninitializedReadError, [*fill, *read], buffers(), 3, lds_bytes=256
    )
    assert (finding.kind, finding.lane, finding.address) == ("uninitialized", 0, 128)
    clean([*fill, isa.ds_load_b32(vdst=v[3], addr=v[1]), wait_loads()], buffers(), lds_bytes=256)


def test_read_of_global_memory_that_was_never_written():
    arrays = {**buffers(), "out": emulator.uninitialized(np.zeros(LANES, np.float32))}
    read = [load(2, base=OUT), wait_loads()]
    finding = finding_of(emulator.UninitializedReadError, read, arrays, 0)
    assert (finding.kind, finding.lane, finding.buffer) == ("uninitialized", 0, "out")
    first_written = [isa.v_mov_b32_e32(v[3], 0), store(3), isa.s_waitcnt_vscnt(isa.NULL, 0)]
    clean([*first_written, *read], arrays)


# Other ways to the same memory


def test_atomics_are_bounded_too():
    body = [
        isa.v_mov_b32_e32(v[2], 1),
        isa.global_atomic_add_u32(addr=v[1], data=v[2], saddr=OUT),
    ]
    finding = finding_of(emulator.MemoryAccessError, body, {**buffers(), "out": ones(31)}, 1)
    assert (finding.kind, finding.lane, finding.buffer) == ("out_of_bounds", 31, "out")
    body[1] = isa.ds_add_u32(addr=v[1], data0=v[2], offset0=4)
    fill = [isa.ds_store_b32(addr=v[1], data0=v[2]), wait_loads()]
    code = [body[0], *fill, body[1], wait_loads()]
    finding = finding_of(emulator.MemoryAccessError, code, buffers(), 3, lds_bytes=128)
    assert (finding.kind, finding.lane, finding.address) == ("out_of_bounds", 31, 128)


def ones(count):
    return np.ones(count, np.float32)


def test_flat_access_behind_the_buffer():
    body = [
        isa.v_add_co_u32(v[2], s[96], s[4], v[1]),
        isa.VOP3SD(isa.VOP3SDOp.V_ADD_CO_CI_U32, v[3], s[97], s[5], 0, s[96]),
        isa.flat_load_b32(vdst=v[4], addr=v[2:3]),
        wait_loads(),
    ]
    finding = finding_of(emulator.MemoryAccessError, body, {"x": ones(31), "out": ones(1)}, 2)
    assert (finding.kind, finding.lane, finding.buffer) == ("out_of_bounds", 31, "x")
    clean(body, buffers())


def test_the_second_address_of_an_lds_pair():
    body = [
        isa.v_mov_b32_e32(v[2], 0),
        isa.ds_store_2addr_b32(addr=v[1], data0=v[2], data1=v[2], offset0=0, offset1=32),
        wait_loads(),
    ]
    finding = finding_of(emulator.MemoryAccessError, body, buffers(), 1, lds_bytes=252)
    assert (finding.kind, finding.lane, finding.address) == ("out_of_bounds", 31, 252)
    clean(body, buffers(), lds_bytes=256)


def test_a_descriptor_longer_than_its_buffer():
    """num_records of 2 GiB lets the access through: the memory behind it decides."""
    body = [
        isa.s_mov_b64(s[8:9], X),
        isa.s_mov_b32(s[10], 0x7FFFFFFF),
        isa.s_mov_b32(s[11], 0x31004000),
        isa.buffer_load_b32(vdata=v[2], vaddr=v[1], srsrc=s[8:11], soffset=0, offen=1),
        wait_loads(),
    ]
    finding = finding_of(emulator.MemoryAccessError, body, {"x": ones(31), "out": ones(1)}, 3)
    assert (finding.kind, finding.lane, finding.buffer) == ("out_of_bounds", 31, "x")
    clean(body, buffers())


def test_a_wide_access_of_which_a_part_was_never_written():
    arrays = {**buffers(), "out": emulator.uninitialized(np.zeros(64, np.float32))}
    write = [
        isa.v_mov_b32_e32(v[2], 0),
        isa.v_lshlrev_b32_e32(v[4], 3, v[0]),
        store(2, address=v[4]),
        isa.s_waitcnt_vscnt(isa.NULL, 0),
    ]
    wide = isa.global_load_b64(vdst=v[6:7], addr=v[4], saddr=OUT)
    finding = finding_of(emulator.UninitializedReadError, [*write, wide, wait_loads()], arrays, 4)
    assert (finding.lane, finding.buffer) == (0, "out")
    clean([*write, load(6, address=v[4], base=OUT), wait_loads()], arrays)


def test_scratch_that_was_never_written():
    read = isa.scratch_load_b32(vdst=v[3], addr=v[0], saddr=isa.NULL, offset=8)
    body = [read, wait_loads(), isa.v_add_f32_e32(v[4], v[3], v[3])]
    with pytest.raises(emulator.UninitializedReadError) as caught:
        run(body, buffers(), private_bytes=64)
    assert caught.value.finding.kind == "uninitialized"
    write = isa.scratch_store_b32(addr=v[0], data=v[0], saddr=isa.NULL, offset=8)
    clean([write, isa.s_waitcnt_vscnt(isa.NULL, 0), *body], buffers(), private_bytes=64)


def test_a_workgroup_does_not_see_the_lds_of_another():
    """Workgroup 0 fills its LDS; workgroup 1 reads its own, which nobody wrote."""
    body = [
        isa.s_cmp_lg_u32(s[2], 0),
        isa.s_cbranch_scc1(simm16=3),
        isa.ds_store_b32(addr=v[1], data0=v[0]),
        wait_loads(),
        isa.ds_load_b32(vdst=v[3], addr=v[1]),
        wait_loads(),
        store(3),
    ]
    with pytest.raises(emulator.UninitializedReadError) as caught:
        run(body, buffers(), grid=2, lds_bytes=128)
    assert caught.value.finding.workgroup == (1, 0, 0)
