"""Scalar loads and structured buffer loads, whose addresses come from scalar registers."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.assembler import isa, s, v
from emulator_witness.sanitized import LANES, X, clean, store

SCALAR_LOADS = [("b32", 1), ("b64", 2), ("b128", 4), ("b256", 8), ("b512", 16)]


@pytest.mark.parametrize("suffix, count", SCALAR_LOADS)
@pytest.mark.parametrize("family", ["s_load", "s_buffer_load"])
@pytest.mark.parametrize("soffset", [False, True])
def test_scalar_loads(suffix, count, family, soffset):
    x = np.random.default_rng(count).integers(0, 2**32, 64, dtype=np.uint32)
    arrays = {"x": x, "out": np.zeros(LANES, np.uint32)}
    descriptor = [
        isa.s_mov_b64(s[8:9], X),
        isa.s_mov_b32(s[10], 256),
        isa.s_mov_b32(s[11], 0x31004000),
        isa.s_mov_b32(s[12], 32),
    ]
    base = X if family == "s_load" else s[8:11]
    target = s[32] if count == 1 else s[32 : 32 + count - 1]
    offset = 64 if soffset else 96
    load = getattr(isa, f"{family}_{suffix}")(
        sdata=target, sbase=base, offset=offset, soffset=s[12] if soffset else isa.NULL
    )
    body = [*descriptor, load, isa.s_waitcnt(simm16=0)]
    for word in range(count):
        body += [
            isa.v_mov_b32_e32(v[2], s[32 + word]),
            isa.v_mov_b32_e32(v[3], 4 * word),
            isa.s_mov_b32(isa.EXEC_LO, 1),
            store(2, address=v[3]),
            isa.s_mov_b32(isa.EXEC_LO, -1),
        ]
    clean(body, arrays)
    assert np.array_equal(arrays["out"][:count], x[24 : 24 + count])


def test_scalar_load_with_a_negative_offset():
    arrays = {"x": np.arange(64, dtype=np.uint32), "out": np.zeros(LANES, np.uint32)}
    body = [
        isa.s_add_u32(s[8], s[4], 128),
        isa.s_addc_u32(s[9], s[5], 0),
        isa.s_load_b32(sdata=s[20], sbase=s[8:9], offset=-64 & 0x1FFFFF, soffset=isa.NULL),
        isa.s_waitcnt(simm16=0),
        isa.v_mov_b32_e32(v[2], s[20]),
        store(2),
    ]
    clean(body, arrays)
    assert (arrays["out"] == 16).all()


@pytest.mark.parametrize("select, records", [(3, 20), (1, 20), (0, 20)])
def test_buffer_loads_with_a_stride(select, records):
    """idxen multiplies the index by the stride; OOB_SELECT says whether records are counted."""
    x = np.arange(128, dtype=np.uint32)
    arrays = {"x": x, "out": np.zeros(LANES, np.uint32)}
    body = [
        isa.s_mov_b32(s[8], s[4]),
        isa.s_or_b32(s[9], s[5], 12 << 16),  # stride of 12 bytes
        isa.s_mov_b32(s[10], records),
        isa.s_mov_b32(s[11], 0x01004000 | select << 28),
        isa.buffer_load_b32(vdata=v[2], vaddr=v[0], srsrc=s[8:11], soffset=0, idxen=1, offset=4),
        isa.s_waitcnt(simm16=0),
        store(2),
    ]
    clean(body, arrays)
    index = np.arange(32)
    inside = 12 * index + 8 <= records if select == 3 else index < records
    assert np.array_equal(arrays["out"], np.where(inside, index * 3 + 1, 0))
