"""A workgroup's number to the group whose rows it multiplies, by a walk over the groups' starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tessera.dialects import wave
from tessera.kernels.program import KernelProgram


@dataclass(frozen=True)
class Group:
    """One tile of one group: its rows go from `first_row` on, those of the group to `end_row`."""

    index: SSAValue
    first_row: SSAValue
    end_row: SSAValue
    is_valid: SSAValue
    """Whether there is such a tile at all."""


def find_group(p: KernelProgram, tile: SSAValue, tile_m: int) -> Group:
    """The group that holds tile number `tile`, counted over all groups; no tile spans two.

    Group g has the rows from starts[g] up to starts[g + 1], but none past m.
    """

    def row_at(index: SSAValue) -> SSAValue:
        return p.min(p.insert(wave.LoadElementOp(p["starts"], p.wide(index))), p["m"])

    def step(index: SSAValue, *carried: SSAValue) -> Sequence[SSAValue]:
        left, group, first, end, found = carried
        begin, stop = row_at(index), row_at(p.add(index, 1))
        tiles = p.ceildiv(p.max(p.sub(stop, begin), 0), tile_m)
        fits = p.both(p.compare("sge", left, 0), p.compare("slt", left, tiles))
        return [
            p.sub(left, tiles),
            p.select(fits, index, group),
            p.select(fits, p.add(begin, p.mul(left, tile_m)), first),
            p.select(fits, stop, end),
            p.select(fits, p.constant(1), found),
        ]

    zero = p.constant(0)
    _, group, first, end, found = p.loop(0, p["groups"], [tile, zero, zero, zero, zero], step)
    return Group(group, first, end, p.compare("ne", found, 0))
