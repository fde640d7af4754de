"""Buffer instructions whose lanes are in range, partly in range and beyond, in both ways to run."""

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.assembler import isa, s, v
from emulator_witness.kernels import run
from emulator_witness.sanitized import LANES

WAIT = isa.s_waitcnt(simm16=0)


def body(records):
    """out[lane] = four words at byte 16 * lane of x, as seen through `records` bytes of it."""
    return [
        isa.s_mov_b32(s[8], s[4]),
        isa.s_mov_b32(s[9], s[5]),
        isa.s_mov_b32(s[10], records),
        isa.s_mov_b32(s[11], 0x31004000),
        isa.v_lshlrev_b32_e32(v[1], 4, v[0]),
        isa.buffer_load_b128(vdata=v[4:7], vaddr=v[1], srsrc=s[8:11], soffset=0, offen=1),
        WAIT,
        isa.buffer_load_b128(vdata=v[8:11], vaddr=v[1], srsrc=s[8:11], soffset=0, offen=1),
        WAIT,
        isa.global_store_b128(addr=v[1], data=v[8:11], saddr=s[6:7]),
    ]


@pytest.mark.parametrize("sanitize", [False, True], ids=["fast", "sanitized"])
@pytest.mark.parametrize("records", [0, 4, 200, 208, 512])
def test_words_beyond_the_range_read_as_zero(records, sanitize):
    x = np.arange(1, 4 * LANES + 1, dtype=np.uint32)
    arrays = {"x": x, "out": np.ones(4 * LANES, np.uint32)}
    run(body(records), arrays, run_options={"sanitize": sanitize})
    expected = np.where(np.arange(4 * LANES) * 4 + 4 <= records, x, 0)
    np.testing.assert_array_equal(arrays["out"], expected)


@pytest.mark.parametrize("sanitize", [False, True], ids=["fast", "sanitized"])
@pytest.mark.parametrize("records", [0, 100, 128])
def test_stores_beyond_the_range_do_nothing(records, sanitize):
    code = [
        *body(512)[:2],
        isa.s_mov_b32(s[8], s[6]),
        isa.s_mov_b32(s[9], s[7]),
        isa.s_mov_b32(s[10], records),
        isa.s_mov_b32(s[11], 0x31004000),
        isa.v_lshlrev_b32_e32(v[1], 2, v[0]),
        isa.v_mov_b32_e32(v[2], 7),
        isa.buffer_store_b32(vdata=v[2], vaddr=v[1], srsrc=s[8:11], soffset=0, offen=1),
        isa.buffer_store_b32(vdata=v[2], vaddr=v[1], srsrc=s[8:11], soffset=0, offen=1),
    ]
    arrays = {"x": np.zeros(4, np.uint32), "out": np.zeros(LANES, np.uint32)}
    run(code, arrays, run_options={"sanitize": sanitize})
    expected = np.where(np.arange(LANES) * 4 + 4 <= records, 7, 0)
    np.testing.assert_array_equal(arrays["out"], expected)
