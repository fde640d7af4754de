"""The host function of a kernel-level module to a launch plan: inputs, steps, outputs as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tessera.contracts import TensorSpec
from tessera.errors import ArtifactError, CompileError
from tessera.launch_rule import LaunchRule, rules_from_json

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

Number = int
"""A tensor of the plan: inputs come first, then every step's results in order."""


@dataclass(frozen=True)
class InputSlot:
    """One argument of the function: its name, and its shape where the plan fixes it."""

    name: str
    spec: TensorSpec


@dataclass(frozen=True)
class LaunchStep:
    """The kernels that compute one operation of `contract` under `options`, in launch order."""

    contract: str
    options: Mapping[str, Any]
    operands: tuple[Number, ...]
    results: tuple[Number, ...]
    rules: tuple[LaunchRule, ...]


@dataclass(frozen=True)
class ViewStep:
    """The same memory under another shape: "reshape" or "permute" with its parameters."""

    view: str
    parameters: tuple[int, ...]
    operand: Number
    result: Number


Step = LaunchStep | ViewStep


@dataclass(frozen=True)
class Plan:
    """What a call of the function does. `name` is the function's; `outputs` number tensors."""

    name: str
    inputs: tuple[InputSlot, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Number, ...]

    @property
    def launches(self) -> tuple[LaunchStep, ...]:
        """The steps that launch kernels."""
        return tuple(step for step in self.steps if isinstance(step, LaunchStep))

    def rule_of(self, kernel: str) -> LaunchRule | None:
        """The launch rule of a kernel, or None when no step launches it."""
        for step in self.launches:
            for rule in step.rules:
                if rule.kernel == kernel:
                    return rule
        return None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; `from_dict` is its inverse."""
        return {
            "name": self.name,
            "inputs": [
                {"name": slot.name, "shape": list(slot.spec.shape), "dtype": slot.spec.dtype}
                for slot in self.inputs
            ],
            "steps": [_step_to_dict(step) for step in self.steps],
            "outputs": list(self.outputs),
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Plan:
        """Rebuild a plan from JSON; ArtifactError when it is not one."""
        try:
            return Plan(
                name=data["name"],
                inputs=tuple(
                    InputSlot(slot["name"], TensorSpec(tuple(slot["shape"]), slot["dtype"]))
                    for slot in data["inputs"]
                ),
                steps=tuple(_step_from_dict(step) for step in data["steps"]),
                outputs=tuple(data["outputs"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"launch plan: unexpected content: {error!r}") from error


def _step_to_dict(step: Step) -> dict[str, Any]:
    if isinstance(step, ViewStep):
        return {
            "kind": "view",
            "view": step.view,
            "parameters": list(step.parameters),
            "operand": step.operand,
            "result": step.result,
        }
    return {
        "kind": "launch",
        "contract": step.contract,
        "options": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in step.options.items()
        },
        "operands": list(step.operands),
        "results": list(step.results),
        "rules": [rule.to_dict() for rule in step.rules],
    }


def _step_from_dict(data: Mapping[str, Any]) -> Step:
    if data["kind"] == "view":
        return ViewStep(data["view"], tuple(data["parameters"]), data["operand"], data["result"])
    if data["kind"] != "launch":
        raise ValueError(f"step kind {data['kind']!r}")
    options = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in data["options"].items()
    }
    return LaunchStep(
        contract=data["contract"],
        options=MappingProxyType(options),
        operands=tuple(data["operands"]),
        results=tuple(data["results"]),
        rules=tuple(LaunchRule.from_dict(rule) for rule in data["rules"]),
    )


EMPTY_PLAN = Plan("", (), (), ())
"""The plan of a module without a host function: its kernels are launched by name only."""


def plan_of(module: ModuleOp) -> Plan:
    """The plan of the one host function beside the kernels; EMPTY_PLAN when there is none.

    Raises CompileError for an operation of the host function that is no step of a plan.
    """
    from xdsl.dialects import func

    functions = [op for op in module.body.block.ops if isinstance(op, func.FuncOp)]
    if not functions:
        return EMPTY_PLAN
    if len(functions) > 1:
        names = ", ".join(function.sym_name.data for function in functions)
        raise CompileError(f"launch plan: one function per module, got {len(functions)}: {names}")
    return _plan_of_function(functions[0])


def _plan_of_function(function: Any) -> Plan:
    from xdsl.dialects import func

    from tessera.dialects.rocm import LaunchOp, ViewOp
    from tessera.dialects.tensors import spec_of

    arguments = function.body.block.args
    numbers: dict[Any, Number] = {value: index for index, value in enumerate(arguments)}
    inputs = tuple(
        InputSlot(value.name_hint or f"x{index}", spec_of(value.type))
        for index, value in enumerate(arguments)
    )
    steps: list[Step] = []
    outputs: tuple[Number, ...] = ()
    for op in function.body.block.ops:
        operands = tuple(numbers[value] for value in op.operands)
        for value in op.results:
            numbers[value] = len(numbers)
        results = tuple(numbers[value] for value in op.results)
        if isinstance(op, LaunchOp):
            options = MappingProxyType(op.option_values)
            rules = rules_from_json(op.rules.data)
            steps.append(LaunchStep(op.contract.data, options, operands, results, rules))
        elif isinstance(op, ViewOp):
            parameters = tuple(op.parameters.get_values())
            steps.append(ViewStep(op.kind.data, parameters, operands[0], results[0]))
        elif isinstance(op, func.ReturnOp):
            outputs = operands
        else:
            raise CompileError(f"launch plan: operation {op.name!r} is not a launch or a view")
    return Plan(function.sym_name.data, inputs, tuple(steps), outputs)
