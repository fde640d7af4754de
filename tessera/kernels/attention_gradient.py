"""Products of one tile to P and dS, for both backward passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from tessera.dialects import wave
from tessera.kernels.attention_geometry import Visibility
from tessera.kernels.attention_problem import AttentionProblem
from tessera.kernels.attention_scores import ScoreRule
from tessera.kernels.program import KernelProgram

Place = Callable[[SSAValue, SSAValue], tuple[SSAValue, SSAValue]]
"""(row, column) of a tile's element to (query, key)."""

LOG2_E = math.log2(math.e)


def log2_lse(p: KernelProgram, lse: SSAValue) -> SSAValue:
    """lse in units of log2; +inf for a row that saw no key, so that its weights come out as 0."""
    lowest = p.float_compare("oeq", lse, p.float_constant(-math.inf))
    scaled = p.multiply(lse, p.float_constant(LOG2_E))
    return p.select(lowest, p.float_constant(math.inf), scaled)


class TileGradient:
    """P = 2^(logit - lse) and dS = P * (dP - delta), with lse and delta per row or per column."""

    def __init__(
        self,
        program: KernelProgram,
        problem: AttentionProblem,
        rule: ScoreRule,
        visibility: Visibility,
    ) -> None:
        self.program, self.problem = program, problem
        self.rule, self.visibility = rule, visibility

    def logits(
        self,
        products: Sequence[SSAValue],
        d_weights: Sequence[SSAValue],
        places: Sequence[Place],
        is_whole: SSAValue,
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """(logits, dP), where hidden pairs have -inf and 0.

        dP is cleared as well: weight 0 times an infinite dP would be NaN.
        """
        p, rule = self.program, self.rule
        count = len(products)
        plain: list[SSAValue] = []
        for product, place in zip(products, places, strict=True):
            if rule.needs_coordinates:
                plain.append(
                    p.map(
                        [product],
                        lambda row, column, x, place=place: rule.logit(x, *place(row, column)),
                        coordinates=True,
                    )
                )
            else:
                plain.append(p.map([product], lambda x: rule.logit(x, None, None)))
        flat = [*plain, *d_weights]

        def masked() -> list[SSAValue]:
            results = []
            for index, value in enumerate(flat):
                hidden = p.float_constant(-math.inf if index < count else 0.0)
                place = places[index % count]

                def visible(
                    row: SSAValue,
                    column: SSAValue,
                    x: SSAValue,
                    place: Place = place,
                    hidden: SSAValue = hidden,
                ) -> SSAValue:
                    return p.select(self.visibility.visible(*place(row, column)), x, hidden)

                results.append(p.map([value], visible, coordinates=True))
            return results

        chosen = p.when(is_whole, lambda: flat, masked, [one.type for one in flat])
        return chosen[:count], chosen[count:]

    def weights(self, logits: SSAValue, lse: SSAValue) -> SSAValue:
        """P of one tile."""
        p = self.program
        return p.map([logits, lse], lambda x, total: p.exp2(p.minus(x, total)))

    def d_products(
        self, weights: SSAValue, d_weights: SSAValue, delta: SSAValue, product: SSAValue
    ) -> SSAValue:
        """d(loss) / d(scale * q.k) of one tile."""
        p, rule = self.program, self.rule

        def gradient(weight: SSAValue, d_weight: SSAValue, own: SSAValue, x: SSAValue) -> SSAValue:
            d_logit = p.multiply(weight, p.minus(d_weight, own))
            slope = rule.derivative(x)
            return d_logit if slope is None else p.multiply(d_logit, slope)

        return p.map([weights, d_weights, delta, product], gradient)

    def as_operand(self, tile: SSAValue) -> SSAValue:
        """An accumulator as the second operand of a product that contracts its rows."""
        fragment = self.problem.fragment(self.problem.core.operand_from_accumulator)
        return self.program.insert(wave.ConvertOp(tile, fragment))
