"""(Operation, chip family, dtype, executor) to whether and by what it runs: one explicit table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tessera.artifact import Artifact
from tessera.contracts import CONTRACTS, FLOAT_DTYPES
from tessera.errors import LaunchError, supported
from tessera.runtime.prepared import PreparedLaunch
from tessera.runtime.record import LaunchRecord
from tessera.runtime.tensors import ArrayKind, TensorArgument


class Call(NamedTuple):
    """The tensors of one call: arguments and results, with the library that each belongs to.

    `stream` is the handle of a HIP stream; 0 is the default one.
    """

    arguments: Sequence[TensorArgument]
    argument_kinds: Sequence[ArrayKind]
    results: Sequence[TensorArgument]
    result_kinds: Sequence[ArrayKind]
    stream: int = 0
    is_timed: bool = False


class Runner(Protocol):
    """A prepared launch, bound to an executor: reads arguments, writes results."""

    def __call__(self, call: Call) -> LaunchRecord:
        """Run all kernels of the launch in order."""
        ...


def _emulator(artifact: Artifact, prepared: PreparedLaunch) -> Runner:
    from tessera.runtime.emulator_executor import EmulatorRunner

    return EmulatorRunner(artifact, prepared)


def _reference(artifact: Artifact, prepared: PreparedLaunch) -> Runner:
    from tessera.runtime.reference_executor import ReferenceRunner

    return ReferenceRunner(artifact, prepared)


def _hip(artifact: Artifact, prepared: PreparedLaunch) -> Runner:
    from tessera.runtime.hip_executor import HipRunner

    return HipRunner(artifact, prepared)


@dataclass(frozen=True)
class Executor:
    """One way to run a launch; `make` binds it to a prepared launch."""

    name: str
    make: Callable[[Artifact, PreparedLaunch], Runner]
    chips: tuple[str, ...]


_RDNA3 = (
    "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153",
)  # fmt: skip

EXECUTORS: dict[str, Executor] = {
    executor.name: executor
    for executor in (
        Executor("hip", _hip, _RDNA3),
        Executor("emulator", _emulator, ("gfx1151",)),
        Executor("reference", _reference, _RDNA3),
    )
}
"""Every executor by name, and the chips whose artifacts it takes."""


@dataclass(frozen=True)
class ExecutionRow:
    """One operation that may be launched: by contract, chip family, operand dtype and executor."""

    op: str
    family: str
    dtype: str
    executor: str


_ELEMENTWISE = (("elementwise", FLOAT_DTYPES),)
_NAMED = tuple((op, contract.operands[0].dtypes) for op, contract in CONTRACTS.items())

EXECUTION_TABLE: tuple[ExecutionRow, ...] = tuple(
    ExecutionRow(op, "rocm", dtype, executor)
    for op, dtypes in (*_NAMED, *_ELEMENTWISE)
    for dtype in dtypes
    for executor in EXECUTORS
)
"""Everything that `launch` may run. `tessera.contracts` holds each operation's operands, shape
rules, options and results, which are checked before any launch."""

_ROWS = frozenset(EXECUTION_TABLE)


def executor_for(name: str, chip: str) -> Executor:
    """The executor called `name`, if it takes artifacts of `chip`; LaunchError otherwise."""
    executor = EXECUTORS.get(name)
    if executor is None:
        raise LaunchError(f"unknown executor {name!r}; " + supported(["auto", *EXECUTORS]))
    if chip not in executor.chips:
        raise LaunchError(
            f"executor {name!r} does not run artifacts for {chip}; " + supported(executor.chips)
        )
    return executor


def check_rows(prepared: PreparedLaunch, executor: str, family: str = "rocm") -> None:
    """Raise LaunchError for the first step that has no row in the table."""
    for step in prepared.steps:
        row = ExecutionRow(step.contract, family, step.operands[0].dtype, executor)
        if row not in _ROWS:
            rows = [one for one in EXECUTION_TABLE if one.op == row.op and one.family == family]
            raise LaunchError(
                f"{row.op} of {row.dtype} on {family} by executor {executor!r} is not in the "
                "execution table; " + supported(sorted({f"{r.dtype}/{r.executor}" for r in rows}))
            )
