"""Stores that are still on their way at a barrier to findings."""

import pytest

pytest.importorskip("tinygrad")

from emulator_witness.assembler import isa, v
from emulator_witness.sanitized import buffers, clean, finding_of

from tessera import emulator

STORE = [
    isa.v_lshlrev_b32_e32(v[1], 2, v[0]),
    isa.v_mov_b32_e32(v[2], 0),
    isa.ds_store_b32(addr=v[1], data0=v[2]),
]


def test_an_lds_store_must_be_complete_at_the_barrier():
    body = [*STORE, isa.s_barrier()]
    finding = finding_of(emulator.MissingWaitError, body, buffers(), 3, lds_bytes=256)
    assert finding.kind == "missing_wait"
    assert "LDS store is outstanding" in finding.message
    clean([*STORE, isa.s_waitcnt(simm16=0), isa.s_barrier()], buffers(), lds_bytes=256)


def test_an_lds_load_may_be_outstanding_at_the_barrier():
    load = isa.ds_load_b32(vdst=v[3], addr=v[1])
    wait = isa.s_waitcnt(simm16=0)
    clean([*STORE, wait, load, isa.s_barrier(), wait], buffers(), lds_bytes=256)


def test_atomics_of_several_waves_on_one_word_are_no_race():
    """Both waves compare and store, exchange and add at LDS byte 0."""
    wait = isa.s_waitcnt(simm16=0)
    body = [
        isa.v_mov_b32_e32(v[1], 0),
        isa.v_mov_b32_e32(v[2], 0),
        isa.ds_storexchg_rtn_b32(vdst=v[4], addr=v[1], data0=v[2], offset0=128),
        isa.ds_add_u32(addr=v[1], data0=v[2], offset0=128),
        isa.ds_cmpstore_b32(addr=v[1], data0=v[2], data1=v[2], offset0=128),
        wait,
    ]
    finding = finding_of(
        emulator.UninitializedReadError, body, buffers(), 2, lds_bytes=256, block=64
    )
    assert finding.kind == "uninitialized"
    fill = [
        isa.v_lshlrev_b32_e32(v[1], 2, v[0]),
        isa.v_mov_b32_e32(v[2], 0),
        isa.ds_store_b32(addr=v[1], data0=v[2]),
        wait,
        isa.s_barrier(),
    ]
    clean([*fill, *body], buffers(), lds_bytes=256, block=64)
