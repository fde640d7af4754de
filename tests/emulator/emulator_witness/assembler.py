"""tinygrad's generated instruction classes as one untyped name, and their operand tables."""

from __future__ import annotations

import importlib
from typing import Any

# The module re-exports its register names from a star import, which type checkers do not follow.
isa: Any = importlib.import_module("tinygrad.runtime.autogen.amd.rdna3.ins")
v, s = isa.v, isa.s


def to_bytes(instructions: Any) -> bytes:
    """Machine code of a sequence of instructions; raw bytes pass through."""
    return b"".join(x if isinstance(x, bytes) else x.to_bytes() for x in instructions)
