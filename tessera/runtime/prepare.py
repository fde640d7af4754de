"""A launch plan and the tensors of one call to buffers, kernel launches and their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tessera.contracts import CONTRACTS, TensorSpec, bind
from tessera.errors import DtypeError, LaunchError, ShapeError
from tessera.launch_rule import LaunchRule
from tessera.plan import LaunchStep, Plan, ViewStep
from tessera.runtime.prepared import (
    INPUT,
    OUTPUT,
    TEMPORARY,
    KernelLaunch,
    PreparedLaunch,
    PreparedStep,
    Slot,
    Value,
    contiguous_strides,
    normal_strides,
)
from tessera.runtime.rules import Scope, bind_argument, check_grid, check_requirements
from tessera.runtime.tensors import ALIGNMENT_CLASS, TensorArgument
from tessera.runtime.views import view_of


def prepare(
    plan: Plan,
    arguments: Sequence[TensorArgument],
    outputs: Sequence[TensorArgument | None] | None = None,
) -> PreparedLaunch:
    """Bind a plan to the tensors of one call; nothing is allocated, read or written.

    `outputs` are the caller's own result tensors, in order. Raises ShapeError, DtypeError or
    LaunchError that name the operand and the rule, UnalignedError for demands on alignment.
    """
    return _Preparation(plan, arguments, outputs).run()


class _Preparation:
    """The walk over a plan's steps: slots and tensors found so far."""

    def __init__(
        self,
        plan: Plan,
        arguments: Sequence[TensorArgument],
        outputs: Sequence[TensorArgument | None] | None,
    ) -> None:
        self.plan = plan
        self.slots: list[Slot] = []
        self.values: dict[int, Value] = {}
        self.given: list[int | None] = []
        self.results_at = {number: index for index, number in enumerate(plan.outputs)}
        self.outputs = self._checked_outputs(outputs)
        self.escaping = _escaping(plan)
        self._bind_inputs(arguments)

    def run(self) -> PreparedLaunch:
        """Walk the steps in order."""
        steps = []
        for step in self.plan.steps:
            if isinstance(step, ViewStep):
                self.values[step.result] = view_of(step, self.values[step.operand])
            else:
                steps.append(self._launch(step))
        results = tuple(self.values[number] for number in self.plan.outputs)
        return PreparedLaunch(tuple(self.slots), tuple(steps), results, tuple(self.given))

    def _checked_outputs(
        self, outputs: Sequence[TensorArgument | None] | None
    ) -> Sequence[TensorArgument | None]:
        count = len(self.plan.outputs)
        if outputs is None:
            return [None] * count
        if len(outputs) != count:
            raise LaunchError(f"{self.plan.name}: out has {len(outputs)} tensors, expected {count}")
        launched = {number for step in self.plan.launches for number in step.results}
        for index, number in enumerate(self.plan.outputs):
            if outputs[index] is not None and (
                number not in launched or self.plan.outputs.count(number) > 1
            ):
                raise LaunchError(
                    f"{self.plan.name}: result {index} is a view or is returned twice, so it "
                    "cannot be written to out"
                )
        return outputs

    def _bind_inputs(self, arguments: Sequence[TensorArgument]) -> None:
        inputs = self.plan.inputs
        if len(arguments) != len(inputs):
            names = ", ".join(slot.name for slot in inputs)
            raise LaunchError(
                f"{self.plan.name}: takes {len(inputs)} arguments ({names}), got {len(arguments)}"
            )
        for index, (slot, argument) in enumerate(zip(inputs, arguments, strict=True)):
            where = f"{self.plan.name}: argument {slot.name!r}"
            _check_spec(where, slot.spec, argument)
            if any(stride < 0 for stride in argument.strides):
                raise LaunchError(f"{where} has negative strides {argument.strides}; copy it")
            self._add(INPUT, argument.dtype, argument.shape, argument.strides)
            self.values[index] = Value(
                index,
                argument.dtype,
                argument.shape,
                normal_strides(argument.shape, argument.strides),
                argument.address % ALIGNMENT_CLASS,
            )

    def _launch(self, step: LaunchStep) -> PreparedStep:
        operands = [self.values[number] for number in step.operands]
        specs = [TensorSpec(value.shape, value.dtype) for value in operands]
        binding = bind(step.contract, specs, step.options)
        results = [
            self._result(step.contract, name, spec, number)
            for (name, spec), number in zip(binding.results.items(), step.results, strict=True)
        ]
        names = [*binding.operands, *binding.results]
        tensors = dict(zip(names, [*operands, *results], strict=True))
        if step.contract in CONTRACTS:
            present = CONTRACTS[step.contract].operands_under(step.options)
            free = {operand.name for operand in present if operand.any_strides}
            for name, value in tensors.items():
                if name not in free:
                    _check_contiguous(step.contract, name, value)
        kernels: list[KernelLaunch] = []
        if not binding.empty:
            scope = Scope(step.contract, binding, tensors)
            for rule in step.rules:
                check_requirements(rule, scope)
            for rule in step.rules:
                kernels += self._kernel(rule, scope)
        return PreparedStep(
            step.contract, step.options, tuple(operands), tuple(results), tuple(kernels)
        )

    def _result(self, op: str, name: str, spec: TensorSpec, number: int) -> Value:
        shape = tuple(size for size in spec.shape if size is not None)
        given = self.outputs[self.results_at[number]] if number in self.results_at else None
        role = OUTPUT if number in self.escaping else TEMPORARY
        if given is None:
            strides, remainder = contiguous_strides(shape), 0
        else:
            where = f"{self.plan.name}: out for result {name!r} of {op}"
            _check_spec(where, spec, given)
            _check_writable(where, given)
            remainder = given.address % ALIGNMENT_CLASS
            strides = normal_strides(shape, given.strides)
        if role == OUTPUT:
            self.given.append(None if given is None else self.results_at[number])
        slot = self._add(role, spec.dtype, shape, strides)
        value = Value(slot, spec.dtype, shape, strides, remainder)
        self.values[number] = value
        return value

    def _add(self, role: str, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
        index = sum(slot.role == role for slot in self.slots)
        self.slots.append(Slot(role, index, dtype, shape, strides))
        return len(self.slots) - 1

    def _kernel(self, rule: LaunchRule, scope: Scope) -> Iterator[KernelLaunch]:
        grid = (
            scope.integer(rule, rule.grid[0]),
            scope.integer(rule, rule.grid[1]),
            scope.integer(rule, rule.grid[2]),
        )
        if min(grid) < 0:
            raise LaunchError(f"kernel {rule.kernel}: grid {grid} is negative")
        # Also of a kernel without workgroups: a later one may take its workspaces.
        for name, dtype, shape in rule.workspaces:
            if name not in scope.tensors:
                sizes = tuple(scope.integer(rule, size) for size in shape)
                strides = contiguous_strides(sizes)
                slot = self._add(TEMPORARY, dtype, sizes, strides)
                scope.tensors[name] = Value(slot, dtype, sizes, strides)
        if 0 in grid:
            return
        check_grid(rule, grid)
        arguments = tuple(bind_argument(rule, argument, scope) for argument in rule.arguments)
        yield KernelLaunch(rule.kernel, grid, rule.block, arguments)


def _check_spec(where: str, spec: TensorSpec, argument: TensorArgument) -> None:
    if argument.dtype != spec.dtype:
        raise DtypeError(f"{where} has dtype {argument.dtype}, expected {spec.dtype}")
    if len(argument.shape) != len(spec.shape) or any(
        expected not in (None, size)
        for size, expected in zip(argument.shape, spec.shape, strict=True)
    ):
        given = TensorSpec(argument.shape, argument.dtype)
        raise ShapeError(f"{where} is {given}, expected {spec}")


def _check_contiguous(op: str, name: str, value: Value) -> None:
    if value.shape and value.strides[-1] != 1:
        raise LaunchError(
            f"{op}: operand {name!r} has stride {value.strides[-1]} on its last axis; the last "
            "axis must be contiguous"
        )


def _escaping(plan: Plan) -> set[int]:
    """The tensors whose memory a result shows: they must be fresh in every call."""
    escaping = set(plan.outputs)
    for step in reversed(plan.steps):
        if isinstance(step, ViewStep) and step.result in escaping:
            escaping.add(step.operand)
    return escaping


def _check_writable(where: str, tensor: TensorArgument) -> None:
    """Refuse tensors in which two elements share memory."""
    axes = sorted(
        (stride, size)
        for size, stride in zip(tensor.shape, tensor.strides, strict=True)
        if size > 1
    )
    reach = 0
    for stride, size in axes:
        if 0 in tensor.shape:
            return
        if stride <= reach:
            raise LaunchError(f"{where}: strides {tensor.strides} make elements overlap")
        reach += (size - 1) * stride
