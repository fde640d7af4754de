"""Products over all channels from waves that hold a part of the channels each."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tessera.dialects import wave
from tessera.dialects.wave_types import LdsType
from tessera.kernels.attention_problem import AttentionProblem
from tessera.kernels.program import KernelProgram
from tessera.kernels.row_tiles import TILE, OwnedRows, SharedTile

ELEMENTS = TILE * TILE
"""Numbers of one accumulator."""


class ChannelSplit:
    """`parts` neighbouring waves own the same rows, and each a part of their channels.

    Operands and gradients of long rows then fit the registers of several waves. A product that
    contracts the channels is a sum over the parts: each wave puts its partial sums into LDS and
    adds up all of them, in the same order in every wave.
    """

    def __init__(
        self, program: KernelProgram, problem: AttentionProblem, parts: int, exchanged: int
    ) -> None:
        """`exchanged` is how many accumulators `products` gives at once."""
        p = self.program = program
        self.problem, self.parts = problem, parts
        wave_id = p.insert(wave.WaveIdOp())
        self.row_group = p.div(wave_id, parts) if parts > 1 else wave_id
        if parts == 1:
            return
        self.part = p.rem(wave_id, parts)
        self.wave_id, self.exchanged = wave_id, exchanged
        count = p.threads // 32 * exchanged * ELEMENTS
        self.lds = p.insert(wave.AllocLdsOp(LdsType(1, count, f32, count)))

    def tiles(self, channel_tiles: int) -> int:
        """Channel tiles that one wave owns; the last wave's may lie past the end."""
        return -(-channel_tiles // self.parts)

    def columns(self, channel_tiles: int) -> int:
        """Channels of all parts together, those past the end included."""
        return TILE * self.parts * self.tiles(channel_tiles)

    def channels(self, channel_tiles: int) -> list[SSAValue | int]:
        """First channels of the tiles that this wave owns."""
        count = self.tiles(channel_tiles)
        if self.parts == 1:
            return [TILE * tile for tile in range(count)]
        p = self.program
        first = p.mul(self.part, TILE * count)
        return [p.add(first, TILE * tile) for tile in range(count)]

    def products(
        self,
        pairs: Sequence[tuple[SharedTile, OwnedRows, Sequence[SSAValue | int]]],
        row_tiles: range,
    ) -> list[list[SSAValue]]:
        """Shared rows times owned rows over all channels: per pair one accumulator a row tile.

        A pair is (shared rows, owned rows, first channels of the tiles that this wave owns).
        """
        p = self.program
        partial = [
            self._partial(tile, owned, TILE * row, channels)
            for tile, owned, channels in pairs
            for row in row_tiles
        ]
        p.schedule_barrier()
        sums = self._complete(partial)
        count = len(row_tiles)
        return [sums[first : first + count] for first in range(0, len(sums), count)]

    def _partial(
        self, tile: SharedTile, owned: OwnedRows, row: int, channels: Sequence[SSAValue | int]
    ) -> SSAValue:
        """16 shared rows times the owned rows, contracted along the owned channels."""
        p, problem = self.program, self.problem
        p.schedule_barrier()
        total = p.zero(problem.accumulator)
        for number, channel in enumerate(channels):
            fragment = tile.fragment(problem.fragment("a"), row, channel)
            total = p.mma(fragment, owned.fragment(0, number), total)
        return total

    def _complete(self, partial: Sequence[SSAValue]) -> list[SSAValue]:
        """The sums over all parts of accumulators that are partial sums in each wave."""
        if self.parts == 1:
            return list(partial)
        p = self.program
        assert len(partial) == self.exchanged
        for index, one in enumerate(partial):
            place = self._place(self.wave_id, index)
            p.effect(wave.StoreAccumulatorOp(one, self.lds, place))
        p.barrier()
        first = p.sub(self.wave_id, self.part)
        sums: list[SSAValue] = []
        for index, one in enumerate(partial):
            if self.parts == 2:
                # The sum of two numbers is the same in either order: the own part stays here.
                partner = p.add(first, p.sub(1, self.part))
                place = self._place(partner, index)
                other = p.insert(wave.LoadAccumulatorOp(self.lds, place, one.type))
                sums.append(p.map([one, other], p.plus))
                continue
            total: SSAValue | None = None
            for part in range(self.parts):
                place = self._place(p.add(first, part), index)
                other = p.insert(wave.LoadAccumulatorOp(self.lds, place, one.type))
                total = other if total is None else p.map([total, other], p.plus)
            assert total is not None
            sums.append(total)
        return sums

    def _place(self, wave_id: SSAValue, index: int) -> SSAValue:
        p = self.program
        return p.mul(p.add(p.mul(wave_id, self.exchanged), index), ELEMENTS)
