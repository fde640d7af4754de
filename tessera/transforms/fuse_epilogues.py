"""Graph IR -> Graph IR: elementwise ops on a matmul's result become the matmul's epilogue.

relu(matmul(a, b) + bias) --> matmul(a, b, bias) {bias = "column", activation = "relu"}
Only where every intermediate has one use. The kernel rounds once, at the end: an intermediate's
rounding to its own dtype falls away with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tessera.contracts import ACTIVATIONS
from tessera.dialects.attributes import options_of
from tessera.dialects.graph import ElementwiseOp, MatmulOp, ReshapeOp
from tessera.dialects.tensors import spec_of, tensor_type

OPERANDS = ("addend", "bias", "gate", "residual")
"""The epilogue's operands in the order of the contract."""
ALPHA, ADDEND, BIAS, ACTIVATION, GATE, RESIDUAL = range(6)
"""The steps of the epilogue: what is fused must come after what is there already."""


@dataclass(frozen=True)
class FuseEpiloguesPass(ModulePass):
    """Fuse as far as the steps come in the epilogue's order; what does not fit stays."""

    name = "fuse-epilogues"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every matmul of the module in place."""
        # Products of tensors come second: by then it shows which of two matmuls has the activation.
        rounded: set[MatmulOp] = set()
        for products in (False, True):
            for one in list(op.walk()):
                if isinstance(one, MatmulOp) and one not in rounded:
                    _Fusion(one, products, rounded).run()


@dataclass
class _Fused:
    """What one elementwise op adds to the epilogue: options, and operands by name."""

    step: int
    options: dict[str, object] = field(default_factory=dict)
    operands: dict[str, SSAValue] = field(default_factory=dict)


class _Fusion:
    """Takes up one user of a matmul after the other."""

    def __init__(self, matmul: MatmulOp, products: bool, rounded: set[MatmulOp]) -> None:
        self.matmul = matmul
        self.products = products
        self.rounded = rounded
        options = options_of(matmul)
        names = [
            name
            for name, option in zip(OPERANDS, ("beta", "bias", "gate", "residual"), strict=True)
            if option in options and options[option] is not False
        ]
        self.factors = tuple(matmul.operands[: len(matmul.operands) - len(names)])
        self.extra = dict(zip(names, matmul.operands[len(self.factors) :], strict=True))
        self.step = _last_step(options, names)

    def run(self) -> None:
        """Fuse until a user does not fit."""
        while (user := self._only_user()) is not None:
            fused = self._match(user)
            if fused is None:
                return
            is_cast = options_of(user)["function"] == "cast"
            self._replace(user, fused)
            if is_cast:
                # What follows asks for the rounded value.
                self.rounded.add(self.matmul)
                return

    def _only_user(self) -> ElementwiseOp | None:
        uses = list(self.matmul.results[0].uses)
        if len(uses) != 1 or not isinstance(uses[0].operation, ElementwiseOp):
            return None
        user = uses[0].operation
        is_nearby = user.parent is self.matmul.parent
        shapes = [spec_of(op.results[0].type).shape for op in (self.matmul, user)]
        return user if is_nearby and shapes[0] == shapes[1] else None

    def _match(self, user: ElementwiseOp) -> _Fused | None:
        options = options_of(user)
        function, number = str(options["function"]), options.get("scalar")
        others = [value for value in user.operands if value is not self.matmul.results[0]]
        if function == "cast":
            return _Fused(self.step)
        if function in ACTIVATIONS:
            return _Fused(ACTIVATION, {"activation": function}) if self._may(ACTIVATION) else None
        if number is not None:
            return self._scaled(number) if function == "mul" else None
        return RULES[function](self, others[0]) if function in RULES else None

    def _may(self, step: int) -> bool:
        return self.step < step

    def _scaled(self, number: object) -> _Fused | None:
        if self.step > ALPHA:
            return None
        alpha = options_of(self.matmul).get("alpha", 1.0)
        return _Fused(ALPHA, {"alpha": float(str(alpha)) * float(str(number))})

    def _added(self, other: SSAValue) -> _Fused | None:
        result, spec = spec_of(self.matmul.results[0].type), spec_of(other.type)
        if None in result.shape or None in spec.shape:
            return None
        if spec.shape == result.shape:
            if self._may(ADDEND):
                source, beta = _unscaled(other)
                return _Fused(ADDEND, {"beta": beta}, {"addend": source})
            return (
                _Fused(RESIDUAL, {"residual": True}, {"residual": other})
                if (self._may(RESIDUAL))
                else None
            )
        if not self._may(BIAS):
            return None
        if spec.shape == result.shape[-1:]:
            return _Fused(BIAS, {"bias": "column"}, {"bias": other})
        if spec.shape == (*result.shape[-2:-1], 1) and len(result.shape) == 2:
            return _Fused(BIAS, {"bias": "row"}, {"bias": other})
        return None

    def _multiplied(self, other: SSAValue) -> _Fused | None:
        result, spec = spec_of(self.matmul.results[0].type), spec_of(other.type)
        fits = None not in result.shape and spec.shape == result.shape
        if not (fits and self.products and self._may(GATE)):
            return None
        if isinstance(other.owner, MatmulOp) and len(list(other.uses)) == 1:
            if _is_pair(self.matmul, other.owner):
                return _Fused(GATE, {"pair": True}, {"pair": other.owner.operands[1]})
            if _is_pair(other.owner, self.matmul):
                # It is this one that is the other's gate.
                return None
        return _Fused(GATE, {"gate": True}, {"gate": other})

    def _replace(self, user: ElementwiseOp, fused: _Fused) -> None:
        """Put the grown matmul where its user was, so that the user's operands are at hand."""
        old = self.matmul
        extra = self.extra | fused.operands
        if "pair" in extra:
            self.factors = (*self.factors[:2], extra.pop("pair"), *self.factors[2:])
        if fused.options.get("bias") == "row":
            column = spec_of(extra["bias"].type)
            flat = ReshapeOp(
                extra["bias"],
                tensor_type(type(column)(column.shape[:1], column.dtype)),
                [-1 if size is None else size for size in column.shape[:1]],
            )
            user.parent_block().insert_op_before(flat, user)  # type: ignore[union-attr]
            extra["bias"] = flat.results[0]
        self.extra = {name: extra[name] for name in OPERANDS if name in extra}
        self.step = fused.step
        result = user.results[0].type
        options = options_of(old) | fused.options | {"out_dtype": spec_of(result).dtype}
        grown = MatmulOp([*self.factors, *self.extra.values()], [result], options)
        Rewriter.replace_op(user, grown)
        old.parent_block().erase_op(old)  # type: ignore[union-attr]
        self.matmul = grown


RULES: dict[str, Callable[[_Fusion, SSAValue], _Fused | None]] = {
    "add": _Fusion._added,
    "mul": _Fusion._multiplied,
}
"""Functions of two tensors to what they become, if they fit."""


def _is_pair(matmul: MatmulOp, gate: MatmulOp) -> bool:
    """Whether `gate` is nothing but the product of the same first operand and a like second one."""
    options, plain = options_of(matmul), options_of(gate)
    layout = ("transpose_a", "transpose_b")
    is_alike = all(bool(options.get(name)) == bool(plain.get(name)) for name in layout)
    sources = [spec_of(one.operands[1].type) for one in (matmul, gate)]
    return (
        is_alike
        and set(plain) <= {*layout, "out_dtype"}
        and not {"weight", "grouped", "pair"} & set(options)
        and matmul.operands[0] is gate.operands[0]
        and sources[0] == sources[1]
        and bool(options.get("activation"))
    )


def _last_step(options: dict[str, object], names: list[str]) -> int:
    """How far the epilogue of a matmul goes that has one already."""
    steps = {"addend": ADDEND, "bias": BIAS, "gate": GATE, "residual": RESIDUAL}
    last = max((steps[name] for name in names), default=ALPHA)
    if options.get("pair"):
        last = max(last, GATE)
    return max(last, ACTIVATION) if options.get("activation") else last


def _unscaled(value: SSAValue) -> tuple[SSAValue, float]:
    """What `value` is a multiple of, and the factor, if nobody else wants the multiple."""
    owner = value.owner
    if isinstance(owner, Operation) and isinstance(owner, ElementwiseOp):
        options = options_of(owner)
        is_multiple = options["function"] == "mul" and options.get("scalar") is not None
        same = spec_of(owner.operands[0].type) == spec_of(value.type)
        if is_multiple and same and len(list(value.uses)) == 1:
            return owner.operands[0], float(str(options["scalar"]))
    return value, 1.0
