"""Rows of attention operands to LDS tiles of a workgroup and fragments of a wave."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue

from tessera.dialects import wave
from tessera.dialects.wave_types import FragmentType, LdsType, StagedType
from tessera.kernels.program import KernelProgram
from tessera.kernels.schedules import LDS_PADDING, padded

TILE = 16


@dataclass(frozen=True)
class Rows:
    """The rows of one operand for one head: `count` rows of `channels` elements, `stride` apart."""

    pointer: SSAValue
    stride: SSAValue
    count: SSAValue
    channels: int
    element: Attribute
    alignment: int


def row_pointer(
    p: KernelProgram, rows: Rows, row: SSAValue, channel: SSAValue | int = 0
) -> SSAValue:
    """Pointer to one row, moved along it by `channel` elements."""
    place = p.mul(p.wide(row), p.wide(rows.stride))
    if channel != 0:
        place = p.add(place, p.wide(p.value(channel)))
    return p.offset(rows.pointer, place)


class SharedTile:
    """`size` rows at a time, through registers into LDS, for all waves of the workgroup.

    In LDS they lie as in memory, [row][channel] (`natural`), or with axes swapped, [channel][row]
    (`transposed`), or both, from one fetch. Transposed, the 16 rows of each group lie in `order`,
    that of a converted accumulator.
    """

    def __init__(
        self,
        program: KernelProgram,
        rows: Rows,
        size: int,
        order: Sequence[int],
        natural: bool = False,
        transposed: bool = False,
        columns: int | None = None,
    ) -> None:
        """`columns` are the channels with their padding; by default to whole instruction tiles."""
        self.program = program
        self.rows = rows
        self.order = tuple(order) if transposed else None
        columns = padded(rows.channels) if columns is None else columns
        self.columns = columns
        self.staged_type = StagedType(
            size, columns, rows.element, "blocks" if transposed else "rows"
        )
        self.natural = self._alloc(size, columns) if natural else None
        self.transposed = self._alloc(columns, size) if transposed else None

    def of(self, rows: Rows) -> SharedTile:
        """The same LDS, filled from the rows of another head."""
        other = copy(self)
        other.rows = rows
        return other

    def _alloc(self, outer: int, inner: int) -> SSAValue:
        lds = LdsType(outer, inner, self.rows.element, inner + LDS_PADDING)
        return self.program.insert(wave.AllocLdsOp(lds))

    def stage(self, first_row: SSAValue) -> SSAValue:
        """Fetch rows from `first_row` on; those past the end are zero and not read.

        Zero and not anything, because weight 0 does not silence a NaN; for the same reason padding
        channels are zero where they are contracted. Bounds are the hardware's, at no cost.
        """
        p, rows = self.program, self.rows
        partial = rows.channels != self.columns
        return p.insert(
            wave.StageOp(
                row_pointer(p, rows, first_row),
                rows.stride,
                self.staged_type,
                p.threads,
                rows.alignment,
                row_limit=p.sub(rows.count, first_row),
                column_limit=p.constant(rows.channels) if partial else None,
                zero_rows=True,
                any_columns=partial and self.natural is None,
                order=self.order,
            )
        )

    def commit(self, staged: SSAValue) -> None:
        """Put a fetched tile into LDS; barriers are the caller's."""
        p = self.program
        if self.natural is not None:
            p.effect(wave.CommitOp(staged, self.natural, p.threads, order=self.order))
        if self.transposed is not None:
            p.effect(
                wave.CommitOp(staged, self.transposed, p.threads, transposed=True, order=self.order)
            )

    def fragment(
        self, type_: FragmentType, row: SSAValue | int, channel: SSAValue | int
    ) -> SSAValue:
        """16 rows from `row` on, 16 channels from `channel` on, contracted along the channels."""
        assert self.natural is not None
        return _lds_fragment(self.program, self.natural, row, channel, type_)

    def transposed_fragment(
        self, type_: FragmentType, channel: SSAValue | int, row: int
    ) -> SSAValue:
        """16 channels and 16 rows, contracted along the rows."""
        assert self.transposed is not None
        return _lds_fragment(self.program, self.transposed, channel, row, type_)


def _lds_fragment(
    p: KernelProgram,
    lds: SSAValue,
    outer: SSAValue | int,
    inner: SSAValue | int,
    type_: FragmentType,
) -> SSAValue:
    return p.insert(wave.LoadFragmentOp(lds, p.value(outer), p.value(inner), type_))


class OwnedRows:
    """The rows that a wave owns for the whole kernel, one per lane, as `b` fragments.

    They stay in registers, or (`in_lds`) in LDS where they are read again for every use: slower,
    but the only way once head_dim fills the register file. Rows past the end repeat the last one.
    """

    def __init__(
        self,
        program: KernelProgram,
        rows: Rows,
        first_row: SSAValue,
        tiles: int,
        fragment: FragmentType,
        in_lds: tuple[SSAValue, SSAValue, int] | None = None,
        channels: Sequence[SSAValue | int] | None = None,
    ) -> None:
        """`in_lds` is (the workgroup's first row, this wave's first row in it, rows of it).

        `channels` are the first channels of the tiles that the wave owns; by default all.
        """
        self.program, self.rows, self.type = program, rows, fragment
        self.tile: SharedTile | None = None
        if in_lds is None:
            if channels is None:
                channels = range(0, padded(rows.channels), TILE)
            self.registers = [
                [self._load(program.add(first_row, TILE * tile), c) for c in channels]
                for tile in range(tiles)
            ]
            return
        workgroup_row, self.wave_row, size = in_lds
        self.tile = SharedTile(program, rows, size, (), natural=True)
        self.tile.commit(self.tile.stage(workgroup_row))
        # Without a barrier here: the first one of the kernel's loop comes before any read.

    def _load(self, first: SSAValue, channel: SSAValue | int) -> SSAValue:
        p, rows = self.program, self.rows
        row = p.min(first, p.sub(rows.count, 1))
        if isinstance(channel, int):
            left = rows.channels - channel
            inner_limit = p.constant(left) if left < TILE else None
        else:
            inner_limit = p.sub(rows.channels, channel)
        return p.insert(
            wave.LoadGlobalFragmentOp(
                row_pointer(p, rows, row, channel),
                rows.stride,
                self.type,
                rows.alignment,
                outer_limit=p.sub(rows.count, row),
                inner_limit=inner_limit,
            )
        )

    def negate_if(self, condition: SSAValue) -> None:
        """Flip the sign of all rows where a uniform condition holds; they must be in registers."""
        p = self.program
        assert self.tile is None
        self.registers = [
            [p.insert(wave.NegateOp(one, condition)) for one in row] for row in self.registers
        ]

    def fragment(self, tile: int, channel_tile: int) -> SSAValue:
        """Row tile and channel tile, contracted along the channels."""
        if self.tile is None:
            return self.registers[tile][channel_tile]
        row = self.program.add(self.wave_row, TILE * tile)
        return self.tile.fragment(self.type, row, TILE * channel_tile)


def store_transposed(
    p: KernelProgram,
    rows: Rows,
    fragment: SSAValue,
    first_row: SSAValue,
    channel: SSAValue | int,
) -> None:
    """Write an accumulator of 16 channels x 16 rows into rows of memory, as far as they exist."""
    limits = p.sub(rows.channels, p.value(channel)), p.sub(rows.count, first_row)
    p.effect(
        wave.StoreOp(
            fragment,
            row_pointer(p, rows, first_row, channel),
            rows.stride,
            limits,
            rows.alignment,
            transposed=True,
        )
    )
