"""A Python function to a jitted one: traced and compiled once per kind of arguments, then launched.

The way of a call: arguments -> specialization key -> artifact (compiled on a miss) -> launch.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from tessera.errors import OptionError, TesseraError
from tessera.frontend.arguments import (
    Call,
    alignment_of_argument,
    argument_key,
    is_tensor,
    spec_of_argument,
)
from tessera.frontend.captured import captured_key
from tessera.frontend.tracer import Tracer
from tessera.options import CompileOptions
from tessera.targets import resolve_target

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tessera.artifact import Artifact

COMPILE_OPTIONS = tuple(field.name for field in fields(CompileOptions))


def jit(
    target: str = "rocm", executor: str | None = None, **options: Any
) -> Callable[[Callable[..., Any]], JittedFunction]:
    """A decorator that compiles a function of tensors for `target`, a chip's name or "rocm".

    "rocm" is the attached AMD chip, else gfx1151. `executor` and the compile options are those of
    `tessera.runtime.launch` and `tessera.compile`. Parameters that get arrays (NumPy or PyTorch)
    are traced; other arguments are compile-time options, and each value is compiled for itself; so
    are the numbers that the function captures from outside.
    Raises TargetError for an unknown target and OptionError for an unknown option.
    """
    if callable(target):
        raise OptionError("write @tessera.jit() or @tessera.jit(target=...), with parentheses")
    resolve_target(target)
    chosen = CompileOptions.of(options)

    def decorate(function: Callable[..., Any]) -> JittedFunction:
        return JittedFunction(function, target, executor, chosen)

    return decorate


class JittedFunction:
    """A traced function with one compiled artifact per specialization.

    The levels (`graph_ir` to `hsaco`) are those of the last call. Before any call they are of the
    function traced without arguments: unknown sizes, f16, and a head_dim of 64 for attention.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        target: str,
        executor: str | None = None,
        options: CompileOptions | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = getattr(function, "__name__", "traced")
        self.target = target
        self.executor = executor
        self.options = options or CompileOptions()
        self._signature = inspect.signature(function)
        self._artifacts: dict[tuple[object, ...], Artifact] = {}
        self._last: Artifact | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arrays; the results are of the arguments' kind (NumPy or PyTorch).

        Called with traced tensors, the function becomes part of the function that is traced.
        """
        if any(isinstance(value, Tracer) for value in (*args, *kwargs.values())):
            return self.function(*args, **kwargs)
        call = Call(self._signature.bind(*args, **kwargs))
        artifact = self._artifact(call, self.options)
        self._last = artifact
        from tessera import runtime

        tensors = [value for _, value in call.tensors]
        if self.executor is None:
            return runtime.launch(artifact, *tensors)
        return runtime.launch(artifact, *tensors, executor=self.executor)

    def lower(self, *args: Any, **kwargs: Any) -> Artifact:
        """The artifact for these arguments, compiled but not run; symbolic without arguments.

        Arguments may be `TensorSpec`s. Keywords that are compile options (and no parameters of the
        function) override those of `jit`.
        """
        overrides = {
            name: kwargs.pop(name)
            for name in COMPILE_OPTIONS
            if name in kwargs and name not in self._signature.parameters
        }
        options = self.options
        if overrides:
            options = CompileOptions.of({**options.to_dict(), **overrides})
        if not args and not any(map(is_tensor, kwargs.values())):
            return self._symbolic_artifact(kwargs, options)
        return self._artifact(Call(self._signature.bind(*args, **kwargs)), options)

    @property
    def graph_ir(self) -> str:
        """Graph IR: what is computed on tensors."""
        return self._current().text("graph")

    @property
    def tile_ir(self) -> str:
        """Tile IR: one op per kernel launch, with its schedule."""
        return self._current().text("tile")

    @property
    def target_ir(self) -> str:
        """Target IR: directives and contract ops of the chip family."""
        return self._current().text("target")

    @property
    def kernel_ir(self) -> str:
        """Kernel IR: what one wave does."""
        return self._current().text("kernel")

    @property
    def llvm_ir(self) -> str:
        """LLVM IR of all kernels."""
        return self._current().text("llvm")

    @property
    def asm(self) -> str:
        """Machine code as text."""
        return self._current().text("asm")

    @property
    def hsaco(self) -> bytes:
        """The code object."""
        return self._current().hsaco

    def trace(self, *args: Any, **kwargs: Any) -> ModuleOp:
        """The graph module for these arguments, without compiling it; symbolic without any."""
        if not args and not any(map(is_tensor, kwargs.values())):
            return self._trace_symbolic(kwargs)
        return self._trace(Call(self._signature.bind(*args, **kwargs)))

    def _current(self) -> Artifact:
        return self._last if self._last is not None else self.lower()

    def _artifact(self, call: Call, options: CompileOptions) -> Artifact:
        return self._specialization(options, call.key, lambda: self._trace(call))

    def _symbolic_artifact(self, keywords: Mapping[str, Any], options: CompileOptions) -> Artifact:
        key = tuple((name, argument_key(keywords[name])) for name in sorted(keywords))
        return self._specialization(options, key, lambda: self._trace_symbolic(keywords))

    def _specialization(
        self, options: CompileOptions, arguments: object, trace: Callable[[], ModuleOp]
    ) -> Artifact:
        """The artifact for a key of arguments; traced and compiled when it is not there yet."""
        key = (options, captured_key(self.function), arguments)
        try:
            found = self._artifacts.get(key)
        except TypeError as error:
            raise OptionError(
                f"{self.name}: an argument that is no array must be hashable: {error}"
            ) from error
        if found is None:
            found = self._artifacts[key] = self._compile(trace(), options)
        return found

    def _compile(self, module: ModuleOp, options: CompileOptions) -> Artifact:
        from tessera.compiler import attached_target, compile_module

        return compile_module(module, attached_target(self.target), options)

    def _trace(self, call: Call) -> ModuleOp:
        from tessera.frontend.trace import Parameter, trace_function

        parameters = [
            Parameter(name, spec_of_argument(value), alignment_of_argument(value))
            for name, value in call.tensors
        ]
        return trace_function(
            lambda tracers: call.run(self.function, tracers), self.name, parameters
        )

    def _trace_symbolic(self, keywords: Mapping[str, Any]) -> ModuleOp:
        from tessera.frontend.trace import guessed_parameter, trace_function

        names: list[str] = []
        for name, parameter in self._signature.parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            if parameter.default is parameter.empty and name not in keywords:
                if parameter.kind is parameter.KEYWORD_ONLY:
                    raise OptionError(
                        f"{self.name}: option {name!r} has no default; "
                        f"lower the function with {name}=..."
                    )
                names.append(name)
        try:
            return trace_function(
                lambda tracers: self._run_by_name(names, tracers, keywords),
                self.name,
                [guessed_parameter(name) for name in names],
            )
        except TesseraError:
            raise
        except Exception as error:
            error.add_note(
                f"{self.name} was traced without arguments; "
                "call it, or lower it with arguments, to trace it with theirs"
            )
            raise

    def _run_by_name(self, names: list[str], tracers: Any, keywords: Mapping[str, Any]) -> Any:
        bound = self._signature.bind_partial()
        bound.arguments.update(zip(names, tracers, strict=True))
        bound.arguments.update(keywords)
        return self.function(*bound.args, **bound.kwargs)
