"""A Python function called with tracers to a graph module with one host function.

Without arguments, ranks and dtypes of the parameters are guessed (rank 2, f16) and corrected from
what the operations need: tracing starts over whenever an operation disproves a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tessera.contracts import CONTRACTS, FLOAT_DTYPES, Binding, OpContract, Size, TensorSpec, bind
from tessera.dialects.graph import (
    ElementwiseOp,
    FlashAttnBwdOp,
    FlashAttnOp,
    MatmulOp,
    PermuteOp,
    ReshapeOp,
)
from tessera.dialects.tensor_op import TensorOp
from tessera.dialects.tensors import ELEMENT_TYPES, tensor_type
from tessera.dialects.views import view_shape
from tessera.errors import DtypeError, OptionError, supported
from tessera.frontend.tracer import Tracer
from tessera.transforms.alignment import ARGUMENT_ATTRIBUTE

GUESSED_RANK = 2
GUESSED_DTYPE = "f16"
GUESSED_HEAD_DIM = 64
"""head_dim of attention that is traced without arguments: kernels need it at compile time."""

_TENSOR_OPS: Mapping[str, type[TensorOp]] = {
    "matmul": MatmulOp,
    "flash_attn": FlashAttnOp,
    "flash_attn_bwd": FlashAttnBwdOp,
    "elementwise": ElementwiseOp,
}
_VIEWS = {"reshape": ReshapeOp, "permute": PermuteOp}


@dataclass(frozen=True)
class Parameter:
    """One tensor parameter of the traced function.

    `alignment` (bytes) divides the start of each of its rows; `is_guess` says that the spec is not
    an argument's but what tracing without arguments assumes.
    """

    name: str
    spec: TensorSpec
    alignment: int = 1
    is_guess: bool = False


class _GuessDisproved(Exception):
    """An operation needs another shape or dtype of a guessed parameter: start over with it."""

    def __init__(self, index: int, spec: TensorSpec) -> None:
        super().__init__(f"parameter {index} must be {spec}")
        self.index = index
        self.spec = spec


def guessed_parameter(name: str) -> Parameter:
    """A parameter of a function that is traced without arguments."""
    spec = TensorSpec((None,) * GUESSED_RANK, GUESSED_DTYPE)
    return Parameter(name, spec, is_guess=True)


def trace_function(
    function: Callable[[Sequence[Tracer]], Any], name: str, parameters: Sequence[Parameter]
) -> ModuleOp:
    """A verified graph module with one host function called `name`.

    `function` takes one tracer per parameter and returns a tracer or a tuple or list of them.
    Raises the operations' errors, and OptionError for another kind of result.
    """
    current = list(parameters)
    # Every restart fixes the rank, head size or dtype of at least one parameter.
    for _ in range(4 * len(current) + 1):
        trace = Trace(current)
        try:
            trace.finish(function(trace.arguments))
        except _GuessDisproved as need:
            current[need.index] = replace(current[need.index], spec=need.spec)
            continue
        return trace.module(name)
    raise OptionError(
        f"{name}: shapes and dtypes cannot be guessed; call it, or lower it with arguments"
    )


class Trace:
    """One run of the traced function: collects operations in a block."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.parameters = parameters
        # A dtype that no tensor can have is refused by the operation that meets it, by name.
        self.block = Block(
            arg_types=[
                tensor_type(parameter.spec if parameter.spec.dtype in ELEMENT_TYPES else
                            replace(parameter.spec, dtype=GUESSED_DTYPE))
                for parameter in parameters
            ]
        )  # fmt: skip
        for argument, parameter in zip(self.block.args, parameters, strict=True):
            argument.name_hint = parameter.name
        self.arguments = [
            Tracer(
                self,
                argument,
                parameter.spec,
                frozenset({index} if parameter.is_guess else ()),
                frozenset({index} if parameter.is_guess else ()),
            )
            for index, (argument, parameter) in enumerate(
                zip(self.block.args, parameters, strict=True)
            )
        ]

    def tensor_op(
        self, op: str, operands: Sequence[Tracer], options: Mapping[str, object]
    ) -> list[Tracer]:
        """Append an operation with a contract; raises ShapeError, DtypeError or OptionError."""
        if op in CONTRACTS:
            self._refine_shapes(CONTRACTS[op], operands, options)
        self._refine_dtypes(op, operands, options)
        binding = bind(op, [operand.spec for operand in operands], options)
        result_types = [tensor_type(spec) for spec in binding.results.values()]
        built = _TENSOR_OPS[op](self._values(op, operands), result_types, options)
        self.block.add_op(built)
        return self._wrap(op, built, operands, binding)

    def view(self, kind: str, operand: Tracer, parameters: Sequence[int]) -> Tracer:
        """Append a view; raises ShapeError when the parameters do not fit the operand."""
        spec = operand.spec
        if spec.dtype not in ELEMENT_TYPES:
            raise DtypeError(f"{kind}: operand has dtype {spec.dtype}; " + supported(FLOAT_DTYPES))
        if kind == "permute" and operand.shape_guess and len(parameters) != len(spec.shape):
            self._disprove(operand.shape_guess, shape=(None,) * len(parameters))
        shape = view_shape(kind, parameters, spec.shape)
        result = TensorSpec(shape, spec.dtype)
        if kind == "reshape":
            parameters = [-1 if size is None else size for size in shape]
        built = _VIEWS[kind](self._values(kind, [operand])[0], tensor_type(result), parameters)
        self.block.add_op(built)
        return Tracer(self, built.results[0], result, frozenset(), operand.dtype_guess)

    def finish(self, returned: Any) -> None:
        """Append the return; OptionError for what is no tracer of this trace."""
        results = list(returned) if isinstance(returned, tuple | list) else [returned]
        for index, result in enumerate(results):
            if not isinstance(result, Tracer):
                raise OptionError(
                    f"a traced function returns tensors; result {index} is a "
                    f"{type(result).__name__}"
                )
        self.block.add_op(ReturnOp(*self._values("return", results)))

    def module(self, name: str) -> ModuleOp:
        """The module; DtypeError for a parameter of an unsupported dtype that nothing used."""
        for parameter in self.parameters:
            if parameter.spec.dtype not in ELEMENT_TYPES:
                raise DtypeError(
                    f"argument {parameter.name!r} has dtype {parameter.spec.dtype}; "
                    + supported(FLOAT_DTYPES)
                )
        last = self.block.last_op
        assert last is not None
        function = FuncOp(
            re.sub(r"\W", "", name) or "traced",
            ([value.type for value in self.block.args], [value.type for value in last.operands]),
            Region(self.block),
            arg_attrs=ArrayAttr(
                DictionaryAttr({ARGUMENT_ATTRIBUTE: IntegerAttr(parameter.alignment, i64)})
                if parameter.alignment > 1
                else DictionaryAttr({})
                for parameter in self.parameters
            ),
        )
        module = ModuleOp([function])
        module.verify()
        return module

    def _values(self, op: str, operands: Sequence[Tracer]) -> list[SSAValue]:
        values: list[SSAValue] = []
        for index, operand in enumerate(operands):
            if operand.trace is not self or operand.value is None:
                raise OptionError(f"{op}: operand {index} ({operand}) is of another traced call")
            values.append(operand.value)
        return values

    def _wrap(
        self, op: str, built: Operation, operands: Sequence[Tracer], binding: Binding
    ) -> list[Tracer]:
        """Tracers of an operation's results; elementwise results share their operands' guesses."""
        shape_guess: frozenset[int] = frozenset()
        dtype_guess: frozenset[int] = frozenset()
        names = list(binding.operands)
        if op == "elementwise":
            if all(operand.shape_guess for operand in operands):
                shape_guess = frozenset().union(*(one.shape_guess for one in operands))
            if "out_dtype" not in built.attributes:
                dtype_guess = frozenset().union(*(one.dtype_guess for one in operands))
        elif op in ("flash_attn", "flash_attn_bwd"):
            dtype_guess = operands[names.index("q")].dtype_guess
        for value, name in zip(built.results, binding.results, strict=True):
            value.name_hint = name
        return [
            Tracer(self, value, spec, shape_guess, dtype_guess if name != "lse" else frozenset())
            for value, (name, spec) in zip(built.results, binding.results.items(), strict=True)
        ]

    def _refine_shapes(
        self, contract: OpContract, operands: Sequence[Tracer], options: Mapping[str, object]
    ) -> None:
        """Give guessed operands the contract's rank, and attention its static head sizes."""
        static = {symbol for symbol, _, _ in contract.limits}
        known: dict[str, int] = {}
        present = contract.operands_under(options)
        for operand, one in zip(operands, present):
            if len(operand.spec.shape) == len(one.dims):
                for dim, size in zip(one.dims, operand.spec.shape, strict=True):
                    if size is not None:
                        known.setdefault(dim, size)
        for operand, one in zip(operands, present):
            if not operand.shape_guess:
                continue
            shape = operand.spec.shape
            if len(shape) != len(one.dims):
                shape = (None,) * len(one.dims)
            needed = tuple(
                known.get(dim, GUESSED_HEAD_DIM) if dim in static and size is None else size
                for dim, size in zip(one.dims, shape, strict=True)
            )
            if needed != operand.spec.shape:
                self._disprove(operand.shape_guess, shape=needed)

    def _refine_dtypes(
        self, op: str, operands: Sequence[Tracer], options: Mapping[str, object]
    ) -> None:
        """Give guessed operands the dtype of the first operand whose dtype is no guess."""
        if op != "elementwise" and op not in CONTRACTS:
            return
        if op in CONTRACTS:
            operands = self._alike(CONTRACTS[op], operands, options)
        sure = [operand.spec.dtype for operand in operands if not operand.dtype_guess]
        if options.get("packed_a") or options.get("packed_b"):
            sure = ["u8"]
        for operand in operands:
            if operand.dtype_guess and sure and operand.spec.dtype != sure[0]:
                self._disprove(operand.dtype_guess, dtype=sure[0])

    def _alike(
        self, contract: OpContract, operands: Sequence[Tracer], options: Mapping[str, object]
    ) -> list[Tracer]:
        """The operands that share one dtype; guessed others get the first one they may have."""
        alike = []
        for operand, one in zip(operands, contract.operands_under(options)):
            if one.name in contract.same_dtype:
                alike.append(operand)
            elif operand.dtype_guess and operand.spec.dtype not in one.dtypes:
                self._disprove(operand.dtype_guess, dtype=one.dtypes[0])
        return alike

    def _disprove(
        self,
        guesses: frozenset[int],
        shape: tuple[Size, ...] | None = None,
        dtype: str | None = None,
    ) -> None:
        """Start over with another shape or dtype for the first parameter that has not got it."""
        for index in sorted(guesses):
            spec = self.parameters[index].spec
            needed = TensorSpec(spec.shape if shape is None else shape, dtype or spec.dtype)
            if needed != spec:
                raise _GuessDisproved(index, needed)
