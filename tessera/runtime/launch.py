"""An artifact and tensors to results: checked, specialized once, then run by an executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tessera import env
from tessera.artifact import Artifact
from tessera.errors import LaunchError
from tessera.runtime.executors import Call, check_rows, executor_for
from tessera.runtime.prepare import prepare
from tessera.runtime.prepared import INPUT, PreparedLaunch, Value
from tessera.runtime.record import remember
from tessera.runtime.rules import UnalignedError
from tessera.runtime.tensors import HOST, NUMPY, ArrayKind, TensorArgument, kind_of


class Launcher:
    """One specialization of an artifact on one executor: sizes, strides and alignments are fixed.

    Calling it launches without looking at shapes again: the tensors must have those that it was
    made for.
    """

    def __init__(
        self,
        artifact: Artifact,
        executor: str,
        arguments: Sequence[TensorArgument],
        kinds: Sequence[ArrayKind],
        outputs: Sequence[TensorArgument | None] | None,
    ) -> None:
        runs_on = executor_for(executor, artifact.chip)
        self.artifact, self.prepared = _prepare(artifact, arguments, outputs)
        check_rows(self.prepared, executor)
        self.result_kind = NUMPY if not kinds or kinds[0].name == "dlpack" else kinds[0]
        self.device = arguments[0].device if arguments else HOST
        self.runner = runs_on.make(self.artifact, self.prepared)

    def __call__(self, *args: Any, out: Any = None, stream: Any = None) -> Any:
        """Launch on tensors of the specialization; one result, or a tuple of several."""
        arguments, kinds = _describe(self.artifact, args)
        return self.run(arguments, kinds, _as_sequence(out), stream)

    def run(
        self,
        arguments: Sequence[TensorArgument],
        kinds: Sequence[ArrayKind],
        out: Sequence[Any] | None,
        stream: Any,
    ) -> Any:
        """Launch on tensors that are described already."""
        kind = self.result_kind
        storages = []
        for slot, given in zip(self.prepared.outputs, self.prepared.given, strict=True):
            if given is None:
                storages.append(kind.empty(slot.shape, slot.dtype, self.device))
            else:
                assert out is not None
                storages.append(out[given])
        results = [kind.describe(storage, "out") for storage in storages]
        remember(self.runner(Call(arguments, kinds, results, kind, stream)))
        values = tuple(
            self._result(value, arguments, storages, out, index)
            for index, value in enumerate(self.prepared.results)
        )
        return values[0] if len(values) == 1 else values

    def _result(
        self,
        value: Value,
        arguments: Sequence[TensorArgument],
        storages: Sequence[Any],
        out: Sequence[Any] | None,
        index: int,
    ) -> Any:
        slot = self.prepared.slots[value.slot]
        if slot.role == INPUT:
            source = arguments[slot.index].value
        elif out is not None and self.prepared.given[slot.index] == index:
            return out[index]
        else:
            source = storages[slot.index]
        if (value.shape, value.strides) == (slot.shape, slot.strides):
            return source
        return self.result_kind.view(source, value.shape, value.strides)


def launch(
    artifact: Artifact, *args: Any, executor: str | None = None, out: Any = None, stream: Any = None
) -> Any:
    """Run an artifact on tensors; one result, or a tuple of several, in the arguments' kind.

    args: NumPy arrays, torch tensors, or objects with DLPack, with the shapes, dtypes and strides
    that the plan's contracts allow. `out` is the tensor to write the result to, or a sequence of
    them (None for a fresh one). `executor`: "auto" (a matching device, else the emulator), "hip",
    "emulator" or "reference"; None asks the environment. `stream` is a HIP stream of the device.

    All checks come before anything is allocated or written. Raises ShapeError, DtypeError,
    LaunchError.
    """
    outputs = _as_sequence(out)
    arguments, kinds = _describe(artifact, args)
    described = _describe_outputs(outputs)
    name = executor or env.read("TESSERA_EXECUTOR")
    key = (
        name,
        *[argument.key for argument in arguments],
        *([one and one.key for one in described] if described is not None else ()),
        kinds[0].name if kinds else "",
    )
    found = artifact.launchers.get(key)
    if found is None:
        chosen = choose_executor(artifact, arguments) if name == "auto" else name
        found = Launcher(artifact, chosen, arguments, kinds, described)
        artifact.launchers[key] = found
    if described is not None:
        _check_overlap(arguments, described)
    return found.run(arguments, kinds, outputs, stream)


def launcher(artifact: Artifact, *args: Any, executor: str = "auto", out: Any = None) -> Launcher:
    """A prepared launch for tensors like these, to call many times with least overhead."""
    arguments, kinds = _describe(artifact, args)
    described = _describe_outputs(_as_sequence(out))
    name = choose_executor(artifact, arguments) if executor == "auto" else executor
    return Launcher(artifact, name, arguments, kinds, described)


def choose_executor(artifact: Artifact, arguments: Sequence[TensorArgument]) -> str:
    """What "auto" means here: `hip` where a device of the artifact's chip is, else `emulator`."""
    from tessera.runtime import hip

    if any(argument.device != HOST for argument in arguments):
        return "hip"
    return "hip" if artifact.chip in hip.attached_chips() else "emulator"


def _prepare(
    artifact: Artifact,
    arguments: Sequence[TensorArgument],
    outputs: Sequence[TensorArgument | None] | None,
) -> tuple[Artifact, PreparedLaunch]:
    """The prepared launch, of a variant that demands no alignment where the tensors have none."""
    try:
        return artifact, prepare(artifact.plan, arguments, outputs)
    except UnalignedError as error:
        if artifact.relaxed is None:
            raise LaunchError(
                f"{error}: pointer alignment; copy the tensor, or compile with alignment=1"
            ) from error
        relaxed = artifact.launchers.get("relaxed") or artifact.relaxed()
        artifact.launchers["relaxed"] = relaxed
        return relaxed, prepare(relaxed.plan, arguments, outputs)


def _describe(
    artifact: Artifact, args: Sequence[Any]
) -> tuple[list[TensorArgument], list[ArrayKind]]:
    names = [slot.name for slot in artifact.plan.inputs]
    names += [f"argument {index}" for index in range(len(names), len(args))]
    kinds = [kind_of(value, name) for name, value in zip(names, args, strict=False)]
    arguments = [
        kind.describe(value, name) for kind, value, name in zip(kinds, args, names, strict=False)
    ]
    devices = {argument.device for argument in arguments}
    if len(devices) > 1:
        raise LaunchError(f"arguments lie on several devices: {', '.join(sorted(devices))}")
    return arguments, kinds


def _as_sequence(out: Any) -> Sequence[Any] | None:
    if out is None or isinstance(out, tuple | list):
        return out
    return (out,)


def _describe_outputs(
    outputs: Sequence[Any] | None,
) -> list[TensorArgument | None] | None:
    if outputs is None:
        return None
    described: list[TensorArgument | None] = []
    for index, value in enumerate(outputs):
        name = f"out[{index}]"
        described.append(None if value is None else kind_of(value, name).describe(value, name))
        flags = getattr(value, "flags", None)
        if flags is not None and not flags.writeable:
            raise LaunchError(f"{name} is read-only")
    return described


def _check_overlap(
    arguments: Sequence[TensorArgument], outputs: Sequence[TensorArgument | None]
) -> None:
    """Refuse results whose memory an argument or another result shares."""
    spans = [(f"argument {index}", *_span(one)) for index, one in enumerate(arguments)]
    for index, output in enumerate(outputs):
        if output is None:
            continue
        name, (first, last) = f"out[{index}]", _span(output)
        for other, start, end in spans:
            if first < end and start < last:
                raise LaunchError(f"{name} shares memory with {other}")
        spans.append((name, first, last))


def _span(tensor: TensorArgument) -> tuple[int, int]:
    from tessera.runtime.prepared import ELEMENT_BYTES, extent

    size = extent(tensor.shape, tensor.strides) * ELEMENT_BYTES[tensor.dtype]
    return tensor.address, tensor.address + size
