"""A matmul to code objects, C headers and a sidecar for three chips, which launch.cpp launches.

python examples/ahead_of_time/matmul.py saved
hipcc -Isaved examples/ahead_of_time/launch.cpp -o launch && ./launch saved/gfx1151.hsaco
"""

from __future__ import annotations

import sys

import tessera
from tessera import ops

CHIPS = ("gfx1100", "gfx1150", "gfx1151")


def matmul(a, b):
    """c [m, n] f32 = a [m, k] @ b [k, n], f16."""
    return ops.matmul(a, b)


def main() -> None:
    """Compile for every chip into the folder that the command line names."""
    folder = sys.argv[1] if len(sys.argv) > 1 else "saved"
    for chip in CHIPS:
        print(tessera.compile(matmul, target=chip).save(folder))


if __name__ == "__main__":
    main()
