"""Kernel bodies to findings: what the sanitizer tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulator_witness.assembler import isa, s, v
from emulator_witness.kernels import NAME, address_of, run

X, OUT = s[4:5], s[6:7]
LANES = 32


def load(target: int, address: Any = v[1], offset: int = 0, base: Any = X) -> Any:
    """v[target] = the 32-bit word of `base` (default: argument x) at the lane's offset."""
    return isa.global_load_b32(vdst=v[target], addr=address, saddr=base, offset=offset)


def store(source: int, address: Any = v[1], offset: int = 0, base: Any = OUT) -> Any:
    """The 32-bit word of `base` (default: argument out) at the lane's offset = v[source]."""
    return isa.global_store_b32(addr=address, data=v[source], saddr=base, offset=offset)


def buffers(count: int = LANES, fill: float = 1.0) -> dict[str, Any]:
    """Arguments x and out of `count` float32 each."""
    return {
        "x": np.full(count, fill, np.float32),
        "out": np.zeros(count, np.float32),
    }


def finding_of(
    error_type: type[Exception], body: list[Any], arrays: dict[str, Any], index: int, **options: Any
) -> Any:
    """Run a faulty body; check what every report names; return the finding."""
    with pytest.raises(error_type) as caught:
        run(body, arrays, **options)
    finding = getattr(caught.value, "finding")  # noqa: B009
    assert finding.kernel == NAME
    assert finding.pc == address_of(body, list(arrays), index)
    text = body[index].op_name.lower().removesuffix("_e32")
    assert finding.instruction.startswith(text)
    for part in (finding.kernel, finding.instruction, hex(finding.pc)):
        assert part in str(caught.value)
    return finding


def clean(body: list[Any], arrays: dict[str, Any], **options: Any) -> Any:
    """Run a body that must not be flagged; returns the report."""
    report = run(body, arrays, **options)
    assert report.findings == []
    return report
