"""A range of tiles to the loop that fetches, shares and computes them, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Attribute, SSAValue

from tessera.dialects import wave
from tessera.kernels.program import KernelProgram


def walk_tiles(
    p: KernelProgram,
    bounds: tuple[SSAValue, SSAValue],
    state: Sequence[SSAValue],
    staged_types: Sequence[Attribute],
    fetch: Callable[[SSAValue], list[SSAValue]],
    commit: Callable[[Sequence[SSAValue]], None],
    compute: Callable[[Sequence[SSAValue], SSAValue], Sequence[SSAValue]],
    prefetch: bool = True,
) -> list[SSAValue]:
    """Carry `state` through compute(state, index) for every index in bounds[0] .. bounds[1] - 1.

    Before it, the tile that fetch(index) reads into registers is put into LDS by `commit`, between
    two barriers. With `prefetch` the next tile is fetched while this one is computed, which hides
    the latency of memory and keeps a tile in registers all the time.
    """

    def share(staged: Sequence[SSAValue]) -> None:
        p.barrier()
        commit(staged)
        p.barrier()

    if not prefetch:

        def plain_step(index: SSAValue, *carried: SSAValue) -> Sequence[SSAValue]:
            share(fetch(index))
            return compute(carried, index)

        return p.loop(*bounds, state, plain_step)

    count = len(staged_types)
    last = p.sub(bounds[1], 1)

    def step(index: SSAValue, *carried: SSAValue) -> Sequence[SSAValue]:
        share(carried[-count:])
        ahead = fetch(p.min(p.add(index, 1), last))
        return [*compute(carried[:-count], index), *ahead]

    first = p.when(
        p.compare("slt", *bounds),
        lambda: fetch(bounds[0]),
        lambda: [p.insert(wave.UndefinedOp(type_)) for type_ in staged_types],
        staged_types,
    )
    return p.loop(*bounds, [*state, *first], step)[: len(state)]
