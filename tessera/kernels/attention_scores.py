"""Products q.k to logits in units of log2, with softcap, bias and ALiBi, and their derivative."""

from __future__ import annotations

import math

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tessera.dialects import wave
from tessera.kernels.attention_geometry import Heads, Visibility
from tessera.kernels.attention_problem import AttentionProblem
from tessera.kernels.program import KernelProgram

LOG2_E = math.log2(math.e)
LARGE_SOFTCAP = 256.0
"""From here on small tanh are summed as a series: 1 - 2 / (1 + e^2u) has lost their digits."""


class ScoreRule:
    """What becomes of one product: softcap * tanh(scale * q.k / softcap) + bias - slope * distance.

    Results carry a factor log2(e), so that weights are powers of 2.
    """

    def __init__(
        self,
        program: KernelProgram,
        problem: AttentionProblem,
        heads: Heads,
        visibility: Visibility,
    ) -> None:
        p = self.program = program
        self.problem, self.heads, self.visibility = problem, heads, visibility
        self.scale_log2 = p.multiply(p["scale"], p.float_constant(LOG2_E))
        if problem.softcap is not None:
            # tanh(u) = 1 - 2 / (1 + 2^(2 u log2 e))
            factor = 2.0 * LOG2_E / problem.softcap
            self.tanh_exponent = p.multiply(p["scale"], p.float_constant(factor))
        if problem.has_bias:
            place = p.add(
                p.mul(p.wide(heads.sequence.index), p["bias_batch"]),
                p.mul(p.wide(heads.head), p["bias_head"]),
            )
            self.bias = p.offset(p["bias"], place)
        if problem.has_alibi:
            place = p.add(
                p.mul(p.wide(heads.sequence.index), p["alibi_slopes_batch"]),
                p.wide(heads.head),
            )
            slope = p.insert(wave.LoadElementOp(p["alibi_slopes"], place))
            self.slope_log2 = p.multiply(slope, p.float_constant(LOG2_E))

    @property
    def needs_coordinates(self) -> bool:
        """Whether a logit depends on which query and key it belongs to."""
        return self.problem.has_bias or self.problem.has_alibi

    @property
    def is_plain(self) -> bool:
        """Whether a logit is nothing but a scaled product."""
        return self.problem.softcap is None and not self.needs_coordinates

    def logit(self, product: SSAValue, query: SSAValue | None, key: SSAValue | None) -> SSAValue:
        """The logit times log2(e) of one product."""
        p = self.program
        if self.problem.softcap is None:
            value = p.multiply(product, self.scale_log2)
        else:
            height = p.float_constant(self.problem.softcap * LOG2_E)
            value = p.multiply(self._tanh(product), height)
        if self.problem.has_bias:
            assert query is not None
            assert key is not None
            value = p.plus(value, self._bias(query, key))
        if self.problem.has_alibi:
            assert query is not None
            assert key is not None
            distance = p.sub(self.visibility.position(query), key)
            away = p.insert(arith.SIToFPOp(distance, f32))
            away = p.insert(math_dialect.AbsFOp(away))
            value = p.minus(value, p.multiply(self.slope_log2, away))
        return value

    def derivative(self, product: SSAValue) -> SSAValue | None:
        """d(logit) / d(scale * q.k); None where it is 1."""
        if self.problem.softcap is None:
            return None
        p = self.program
        capped = self._tanh(product)
        return p.minus(p.float_constant(1.0), p.multiply(capped, capped))

    def _tanh(self, product: SSAValue) -> SSAValue:
        """tanh(scale * product / softcap), exact to parts of 1, or of itself under a large cap."""
        p = self.program
        exponent = p.multiply(product, self.tanh_exponent)
        one = p.float_constant(1.0)
        value = p.minus(one, p.divide(p.float_constant(2.0), p.plus(one, p.exp2(exponent))))
        assert self.problem.softcap is not None
        if self.problem.softcap < LARGE_SOFTCAP:
            return value
        u = p.multiply(exponent, p.float_constant(0.5 / LOG2_E))
        square = p.multiply(u, u)
        series = p.plus(p.multiply(square, p.float_constant(2 / 15)), p.float_constant(-1 / 3))
        series = p.multiply(u, p.plus(one, p.multiply(square, series)))
        is_small = p.insert(arith.CmpfOp(square, p.float_constant(0.01), "olt"))
        return p.select(is_small, series, value)

    def _bias(self, query: SSAValue, key: SSAValue) -> SSAValue:
        """The bias of a pair times log2(e); of a pair past the end, that of the last one."""
        p, sequence = self.program, self.heads.sequence
        row = p.min(query, p.sub(sequence.seq_q, 1))
        column = p.min(key, p.sub(sequence.seq_k, 1))
        place = p.add(p.mul(p.wide(row), p["bias_row"]), p.mul(p.wide(column), p["bias_column"]))
        value = p.insert(wave.LoadElementOp(self.bias, place))
        if value.type != f32:
            value = p.insert(arith.ExtFOp(value, f32))
        return p.multiply(value, p.float_constant(LOG2_E))
