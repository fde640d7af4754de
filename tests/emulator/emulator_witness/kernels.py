"""Short instruction lists to kernels with named buffer arguments, and one call that runs them.

At the first instruction of the body s[4 + 2 i : 5 + 2 i] hold argument i, s2 the workgroup's
x index, v0 the lane's work-item id in the workgroup and v1 four times that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from emulator_witness.assembler import isa, s, to_bytes, v
from emulator_witness.code_object import Kernel, KernelArgument, build_code_object

FIRST_ARGUMENT = 4
NAME = "witness"


def wait_loads() -> Any:
    """s_waitcnt vmcnt(0) lgkmcnt(0)."""
    return isa.s_waitcnt(simm16=0)


def prologue(arguments: int) -> list[Any]:
    code: list[Any] = []
    for index in range(arguments):
        first = FIRST_ARGUMENT + 2 * index
        code.append(
            isa.s_load_b64(
                sdata=s[first : first + 1], sbase=s[0:1], offset=8 * index, soffset=isa.NULL
            )
        )
    return [*code, wait_loads(), isa.v_lshlrev_b32_e32(v[1], 2, v[0])]


def kernel_of(body: Sequence[Any], names: Sequence[str], **options: Any) -> Kernel:
    """A kernel whose arguments are buffers with the given names."""
    code = to_bytes([*prologue(len(names)), *body, isa.s_endpgm()])
    arguments = [KernelArgument(name, 8, True) for name in names]
    return Kernel(code, NAME, arguments, **options)


def address_of(body: Sequence[Any], names: Sequence[str], index: int) -> int:
    """Bytes from the kernel's entry to instruction `index` of its body."""
    return len(to_bytes([*prologue(len(names)), *list(body)[:index]]))


def run(
    body: Sequence[Any],
    buffers: dict[str, np.ndarray],
    block: int = 32,
    grid: int = 1,
    run_options: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Run a body over named buffers; returns the emulator's report."""
    from tessera import emulator

    code_object = build_code_object(kernel_of(body, list(buffers), **options))
    return emulator.run(
        code_object, NAME, (grid, 1, 1), (block, 1, 1), list(buffers.values()),
        **(run_options or {}),
    )  # fmt: skip
