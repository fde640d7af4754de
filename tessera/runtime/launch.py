"""An artifact and tensors to results: checked, specialized once, then run by an executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tessera import env
from tessera.artifact import Artifact
from tessera.errors import LaunchError
from tessera.runtime.executors import Call, check_rows, executor_for
from tessera.runtime.prepare import prepare
from tessera.runtime.prepared import INPUT, OUTPUT, PreparedLaunch, Value
from tessera.runtime.record import remember
from tessera.runtime.rules import UnalignedError
from tessera.runtime.sequence_starts import check_starts, find_starts
from tessera.runtime.tensors import (
    ALIGNMENT_CLASS,
    HOST,
    NUMPY,
    ArrayKind,
    TensorArgument,
    kind_of,
)


class Launcher:
    """One specialization of an artifact on one executor: sizes, strides and alignments are fixed.

    Calling it launches without looking at shapes again: the tensors must have those that it was
    made for. `is_relaxed` tells that it runs the variant which demands no alignment.
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
        # The artifact keeps its launchers, so nothing here keeps the artifact: device memory shall
        # go with the last user of either, and not when the garbage collector comes by.
        code, self.prepared = _prepare(artifact, arguments, outputs)
        self.is_relaxed = code is not artifact
        check_rows(self.prepared, executor)
        self.device = arguments[0].device if arguments else HOST
        self.kind = kinds[0] if kinds else NUMPY
        if self.kind.name == "foreign" and self.device == HOST:
            self.kind = NUMPY
        self.runner = runs_on.make(code, self.prepared)
        self._starts = find_starts(self.prepared)
        self._buffers = tuple(zip(self.prepared.outputs, self.prepared.given, strict=True))
        # The common case: every result is a buffer of its own, made here.
        self._is_plain = [
            (slot.role, value.shape, value.strides) == (OUTPUT, slot.shape, slot.strides)
            for value in self.prepared.results
            for slot in (self.prepared.slots[value.slot],)
        ]

    def __call__(self, *args: Any, out: Any = None, stream: Any = None) -> Any:
        """Launch on tensors of the specialization; one result, or a tuple of several."""
        kinds = [kind_of(value, "") for value in args]
        arguments = [kind.describe(value, "") for kind, value in zip(kinds, args)]
        return self.run(arguments, kinds, _as_sequence(out), stream)

    def run(
        self,
        arguments: Sequence[TensorArgument],
        kinds: Sequence[ArrayKind],
        out: Sequence[Any] | None,
        stream: Any = None,
        is_timed: bool = False,
    ) -> Any:
        """Launch on tensors that are described already."""
        if self._starts:
            check_starts(self._starts, arguments, kinds)
        kind, device = self.kind, self.device
        storages, results, result_kinds = [], [], []
        for slot, given in self._buffers:
            if given is None:
                storage, its_kind = kind.empty(slot.shape, slot.dtype, device), kind
            else:
                assert out is not None
                storage, its_kind = out[given], kind_of(out[given], "out")
            storages.append(storage)
            result_kinds.append(its_kind)
            results.append(its_kind.describe(storage, "out"))
        handle = _stream_handle(stream, kind, device)
        record = self.runner(Call(arguments, kinds, results, result_kinds, handle, is_timed))
        remember(record)
        values = [
            storages[self.prepared.slots[value.slot].index]
            if is_plain
            else self._view(value, arguments, storages)
            for value, is_plain in zip(self.prepared.results, self._is_plain)
        ]
        return values[0] if len(values) == 1 else tuple(values)

    def _view(
        self, value: Value, arguments: Sequence[TensorArgument], storages: Sequence[Any]
    ) -> Any:
        """A result that is a view of an argument or of another result's buffer."""
        slot = self.prepared.slots[value.slot]
        source = arguments[slot.index].value if slot.role == INPUT else storages[slot.index]
        if (value.shape, value.strides) == (slot.shape, slot.strides):
            return source
        return self.kind.view(source, value.shape, value.strides)


def launch(
    artifact: Artifact,
    *args: Any,
    executor: str | None = None,
    out: Any = None,
    stream: Any = None,
    is_timed: bool = False,
) -> Any:
    """Run an artifact on tensors; one result, or a tuple of several, in the arguments' kind.

    args: NumPy arrays, torch tensors, or objects with DLPack or `__cuda_array_interface__`, with
    the shapes, dtypes and strides that the plan's contracts allow. `out` is the tensor to write the
    result to, or a sequence of them (None for a fresh one). `executor`: "auto" (a matching device,
    else the emulator), "hip", "emulator" or "reference"; None asks the environment. `stream` is a
    stream of torch or the handle of a HIP stream; None is torch's current stream for its tensors,
    else the default one. `is_timed` measures the kernels by events, which waits for them.

    All checks come before anything is allocated or written. Raises ShapeError, DtypeError,
    LaunchError; HipError, which is a LaunchError, for what HIP reports.
    """
    outputs = _as_sequence(out)
    arguments, kinds = _describe(artifact, args)
    name = executor or env.read("TESSERA_EXECUTOR")
    key = (name, kinds[0].name if kinds else "", *[_key(argument) for argument in arguments])
    described = None
    if outputs is not None:
        described = _describe_outputs(outputs)
        key += tuple([one and _key(one) for one in described])
    found = artifact.launchers.get(key)
    if found is None:
        _check_devices([*arguments, *(one for one in described or () if one)])
        chosen = choose_executor(artifact, arguments) if name == "auto" else name
        found = Launcher(artifact, chosen, arguments, kinds, described)
        artifact.launchers[key] = found
    if described is not None:
        _check_overlap(arguments, described)
    return found.run(arguments, kinds, outputs, stream, is_timed)


def launcher(artifact: Artifact, *args: Any, executor: str = "auto", out: Any = None) -> Launcher:
    """A prepared launch for tensors like these, to call many times with least overhead."""
    arguments, kinds = _describe(artifact, args)
    outputs = _as_sequence(out)
    described = None if outputs is None else _describe_outputs(outputs)
    _check_devices([*arguments, *(one for one in described or () if one)])
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


def _key(tensor: TensorArgument) -> tuple[object, ...]:
    """What a launch is specialized on: all but the address above its alignment class."""
    shape, strides, dtype, address, device, _ = tensor
    return (shape, strides, dtype, address % ALIGNMENT_CLASS, device)


def _describe(
    artifact: Artifact, args: Sequence[Any]
) -> tuple[list[TensorArgument], list[ArrayKind]]:
    inputs = artifact.plan.inputs
    arguments, kinds = [], []
    for index, value in enumerate(args):
        name = inputs[index].name if index < len(inputs) else f"argument {index}"
        kind = kind_of(value, name)
        kinds.append(kind)
        arguments.append(kind.describe(value, name))
    return arguments, kinds


def _check_devices(tensors: Sequence[TensorArgument]) -> None:
    devices = {tensor.device for tensor in tensors}
    if len(devices) > 1:
        raise LaunchError(f"tensors lie on several devices: {', '.join(sorted(devices))}")


def _stream_handle(stream: Any, kind: ArrayKind, device: str) -> int:
    if device == HOST:
        return 0
    if stream is None:
        return kind.stream(device)
    return int(getattr(stream, "cuda_stream", stream))


def _as_sequence(out: Any) -> Sequence[Any] | None:
    if out is None or isinstance(out, tuple | list):
        return out
    return (out,)


def _describe_outputs(outputs: Sequence[Any]) -> list[TensorArgument | None]:
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
