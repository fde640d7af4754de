"""Memory sanitizers: out of bounds, misaligned, read-only and never-written memory."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.assembler import isa, s, v
from emulator_witness.kernels import wait_loads
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
