"""One tile of scores after another to weights, their sum and rescaled accumulators."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from tessera.dialects import wave
from tessera.dialects.wave_types import StatisticType
from tessera.kernels.program import KernelProgram

LAZY_GROWTH = 8.0
"""Weights may pass 1 by this many powers of 2 before sums and accumulators are rescaled.

2^8 is far from overflow in every storage type, and rescaling is exact up to rounding whenever it
happens, so only the number of rescalings depends on this.
"""

HUGE_LOGIT = 2.0**26
"""Logits (times log2 e) from here on are so coarse that one fused rounding is not close to two."""

TRUNCATION_LOSS = {"f16": 0.72 * 2.0**-11, "bf16": 0.72 * 2.0**-8}
"""What rounding toward zero takes from a weight on average, relative to it."""


class OnlineSoftmax:
    """The running maximum, sum and output of each query (Milakov and Gimelshein, 2018).

    Weights are 2^(score * scale - maximum), with the maximum in the same units, rounded, so that
    equal logits get equal weights. With `scale` None scores come scaled. Weights are rounded toward
    zero to `dtype` for the second product; they are made larger beforehand by what that takes on
    average, and `finish` divides the sum by the same factor. A weight of exactly 1 stays exact.
    """

    def __init__(
        self,
        program: KernelProgram,
        statistic: StatisticType,
        scale: SSAValue | None,
        dtype: str | None,
    ) -> None:
        """`dtype` is what weights are rounded to, None where they are only summed."""
        self.program, self.statistic, self.scale = program, statistic, scale
        self.gain = math.log2(1.0 + TRUNCATION_LOSS[dtype]) if dtype is not None else 0.0

    def initial(self) -> list[SSAValue]:
        """(maximum, sum) of a query that has seen no key."""
        p = self.program
        return [p.splat(p.float_constant(x), self.statistic) for x in (-math.inf, 0.0)]

    def update(
        self, scores: Sequence[SSAValue], state: Sequence[SSAValue]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """([maximum, sum, *accumulators], weights) after a tile of scores."""
        p = self.program
        maximum, total, *accumulators = state
        largest = p.combine(p.reduce(scores, "max"), "max")
        if self.scale is not None:
            largest = p.map([largest, self.scale], p.multiply)
        bound = p.map([maximum], lambda x: p.plus(x, p.float_constant(LAZY_GROWTH)))

        def rescale() -> list[SSAValue]:
            grown = p.map([maximum, largest], p.maximum)
            shift = p.map([grown], self.finite)
            decay = p.map([maximum, shift], lambda old, new: p.exp2(p.minus(old, new)))
            return [grown, *(p.map([one, decay], p.multiply) for one in (total, *accumulators))]

        maximum, total, *accumulators = p.when(
            p.insert(wave.AnyGreaterOp(largest, bound)),
            rescale,
            lambda: list(state),
            [one.type for one in state],
        )
        weights = self._weights(scores, maximum)
        total = p.map([total, p.reduce(weights, "sum")], p.plus)
        return [maximum, total, *accumulators], weights

    def _weights(self, scores: Sequence[SSAValue], maximum: SSAValue) -> list[SSAValue]:
        p, scale = self.program, self.scale
        gain = p.float_constant(self.gain)
        shift = p.map([maximum], lambda x: p.minus(self.finite(x), gain))
        if scale is None:
            return [p.map([x, shift], lambda s, m: p.exp2(p.minus(s, m))) for x in scores]

        def fused() -> list[SSAValue]:
            return [
                p.map([x, scale, shift], lambda s, c, m: p.exp2(p.fused_minus(s, c, m)))
                for x in scores
            ]

        def separate() -> list[SSAValue]:
            return [
                p.map([x, scale, shift], lambda s, c, m: p.exp2(p.minus(p.multiply(s, c), m)))
                for x in scores
            ]

        limit = p.splat(p.float_constant(HUGE_LOGIT), self.statistic)
        huge = p.insert(wave.AnyGreaterOp(p.map([shift], p.absolute), limit))
        return p.when(huge, separate, fused, [x.type for x in scores])

    def finite(self, maximum: SSAValue) -> SSAValue:
        """0 for the maximum of a row that has seen no key yet: -inf - (-inf) would be NaN."""
        p = self.program
        lowest = p.float_compare("oeq", maximum, p.float_constant(-math.inf))
        return p.select(lowest, p.float_constant(0.0), maximum)

    def finish(self, maximum: SSAValue, total: SSAValue) -> tuple[SSAValue, SSAValue]:
        """(sum of the true weights, lse in natural log) from the lane-partial sum."""
        p = self.program
        loss = p.float_constant(2.0**-self.gain)
        total = p.map([p.combine(total, "sum"), loss], p.multiply)
        lse = p.map(
            [maximum, total],
            lambda high, sum_: p.multiply(
                p.plus(self.finite(high), p.log2(sum_)), p.float_constant(math.log(2.0))
            ),
        )
        return total, lse
