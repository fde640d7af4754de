"""An artifact and tensors to results: checked, specialized once, then run by an executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tessera import env
from tessera.artifact import Artifact
from tessera.errors import LaunchError
from tessera.runtime.executors import Call, check_rows, executor_for
from tessera.runtime.prepare import prepare
from tessera.runtime.prepared import INPUT, OUTPUT, PreparedLaunch, Value
from tessera.runtime.record import LaunchRecord, remember
from tessera.runtime.rules import UnalignedError
from tessera.runtime.sequence_starts import check_starts, find_starts
from tessera.runtime.tensors import (
    ALIGNMENT_CLASS,
    HOST,
    NUMPY,
    ArrayKind,
    TensorArgument,
    device_kind,
    kind_of,
)

Enqueue = Callable[[list[int], str, int], LaunchRecord]
"""Launch on (addresses of arguments and results, device, stream) without waiting."""


LAUNCHERS_PER_ARTIFACT = 64
_RELAXED = "relaxed"


class Outputs(NamedTuple):
    """The caller's own result tensors, in order; None where a fresh one is wanted."""

    kinds: Sequence[Any]
    described: Sequence[Any]


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
        if self.kind.name == "foreign":
            self.kind = NUMPY if self.device == HOST else device_kind()
        self.runner = runs_on.make(code, self.prepared)
        self._has_streams = runs_on.name == "hip"
        self._starts = find_starts(self.prepared)
        self._buffers = tuple(zip(self.prepared.outputs, self.prepared.given, strict=True))
        # The common case: every result is a buffer of its own, made here.
        self._bytes = {
            role: [slot.bytes for slot in self.prepared.slots if slot.role == role]
            for role in (INPUT, OUTPUT)
        }
        self._all_fresh = all(given is None for given in self.prepared.given)
        self._results = [
            (
                value,
                slot.index,
                (slot.role, value.shape, value.strides) == (OUTPUT, slot.shape, slot.strides),
            )
            for value in self.prepared.results
            for slot in (self.prepared.slots[value.slot],)
        ]
        # The common case: one result, in a buffer of its own.
        (_, index, is_plain), *others = self._results or [(None, 0, False)]
        self._only = index if is_plain and not others else None
        takes_short_way = self._only == 0 and len(self._buffers) == 1 and not self._starts
        self._enqueue: Enqueue | None = None
        if takes_short_way and self.device != HOST and all(kind.orders_frees for kind in kinds):
            self._enqueue = getattr(self.runner, "enqueue", None)

    def __call__(self, *args: Any, out: Any = None, stream: Any = None) -> Any:
        """Launch on tensors of the specialization; one result, or a tuple of several.

        Whether results share memory with arguments is not looked at.
        """
        if self._enqueue is not None:
            return self._launch_in_place(self._enqueue, args, out, stream)
        kinds = [kind_of(value, "") for value in args]
        arguments = [kind.describe(value, "") for kind, value in zip(kinds, args)]
        return self.run(arguments, kinds, _describe_outputs(out), stream)

    def _launch_in_place(self, enqueue: Enqueue, args: Sequence[Any], out: Any, stream: Any) -> Any:
        """The shortest way: addresses to a device whose buffers need no care of ours."""
        kind, address = self.kind, self.kind.address
        addresses = [address(value) for value in args]
        outs = out if type(out) in (tuple, list) else (out,)
        ((slot, given),) = self._buffers
        result = kind.empty(slot.shape, slot.dtype, self.device) if given is None else outs[given]
        addresses.append(address(result))
        handle = kind.stream(self.device) if stream is None else _stream_handle(stream)
        remember(enqueue(addresses, self.device, handle))
        return result

    def run(
        self,
        arguments: Sequence[TensorArgument],
        kinds: Sequence[ArrayKind],
        outputs: Outputs | None,
        stream: Any = None,
        is_timed: bool = False,
    ) -> Any:
        """Launch on tensors that are described already."""
        if self._starts:
            check_starts(self._starts, arguments, kinds)
        kind, device = self.kind, self.device
        results, result_kinds = [], []
        for slot, given in self._buffers:
            if given is None:
                fresh = kind.empty(slot.shape, slot.dtype, device)
                result_kinds.append(kind)
                results.append(kind.describe(fresh, "out"))
            else:
                assert outputs is not None
                result_kinds.append(outputs.kinds[given])
                results.append(outputs.described[given])
        if not self._all_fresh:
            self._check_overlap(arguments, results)
        if stream is not None:
            if not self._has_streams:
                raise LaunchError("stream= goes with executor hip; others have no streams")
            handle = _stream_handle(stream)
        else:
            handle = 0 if device == HOST else kind.stream(device)
        if self._enqueue is not None and not is_timed:
            addresses = [tensor.address for tensor in (*arguments, *results)]
            remember(self._enqueue(addresses, device, handle))
            return results[0].value
        remember(self.runner(Call(arguments, kinds, results, result_kinds, handle, is_timed)))
        if self._only is not None:
            return results[self._only].value
        values = [
            results[index].value if is_plain else self._view(value, arguments, results, kinds)
            for value, index, is_plain in self._results
        ]
        return values[0] if len(values) == 1 else tuple(values)

    def _check_overlap(
        self, arguments: Sequence[TensorArgument], results: Sequence[TensorArgument]
    ) -> None:
        """Refuse results whose memory an argument or another result shares."""
        argument_bytes, result_bytes = self._bytes[INPUT], self._bytes[OUTPUT]
        for index, result in enumerate(results):
            first = result.address
            last = first + result_bytes[index]
            for other, size in zip(arguments, argument_bytes):
                if first < other.address + size and other.address < last:
                    position = [one is other for one in arguments].index(True)
                    raise LaunchError(f"out[{index}] shares memory with argument {position}")
            for before, size in zip(results[:index], result_bytes):
                if first < before.address + size and before.address < last:
                    raise LaunchError(f"out[{index}] shares memory with another of out")

    def _view(
        self,
        value: Value,
        arguments: Sequence[TensorArgument],
        results: Sequence[TensorArgument],
        kinds: Sequence[ArrayKind],
    ) -> Any:
        """A result that is a view of an argument or of another result's buffer."""
        slot = self.prepared.slots[value.slot]
        is_input = slot.role == INPUT
        source = (arguments if is_input else results)[slot.index].value
        if (value.shape, value.strides) == (slot.shape, slot.strides):
            return source
        kind = kinds[slot.index] if is_input else self.kind
        return kind.view(source, value.shape, value.strides)


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
    else the emulator), "hip", "emulator" or "reference"; None asks the environment, once for
    tensors of one kind, shape and alignment. `stream` is a stream of torch or the handle of a HIP
    stream; None is torch's current stream for its tensors, else the default one. `is_timed`
    measures the kernels by events, which waits for them.

    All checks come before anything is allocated or written. Raises ShapeError, DtypeError,
    LaunchError; HipError, which is a LaunchError, for what HIP reports.
    """
    arguments, kinds = _describe(artifact, args)
    outputs = _describe_outputs(out)
    key = (executor, kinds[0].name if kinds else "", *[_key(argument) for argument in arguments])
    if outputs is not None:
        key += tuple([one and _key(one) for one in outputs.described])
    found = artifact.launchers.get(key)
    if found is None:
        found = _make(artifact, executor, arguments, kinds, outputs)
        _remember_launcher(artifact, key, found)
    return found.run(arguments, kinds, outputs, stream, is_timed)


def _remember_launcher(artifact: Artifact, key: object, made: Launcher) -> None:
    """Keep a launcher for later calls, in place of the oldest one where there are many.

    A launcher holds buffers: a program whose sizes never repeat must not fill memory with them.
    """
    launchers = artifact.launchers
    while len(launchers) >= LAUNCHERS_PER_ARTIFACT:
        oldest = next((one for one in list(launchers) if one != _RELAXED), None)
        if oldest is None or launchers.pop(oldest, None) is None:
            break
    launchers[key] = made


def launcher(
    artifact: Artifact, *args: Any, executor: str | None = None, out: Any = None
) -> Launcher:
    """A prepared launch for tensors like these, to call many times with least overhead."""
    arguments, kinds = _describe(artifact, args)
    return _make(artifact, executor, arguments, kinds, _describe_outputs(out))


def _make(
    artifact: Artifact,
    executor: str | None,
    arguments: Sequence[TensorArgument],
    kinds: Sequence[ArrayKind],
    outputs: Outputs | None,
) -> Launcher:
    described = None if outputs is None else outputs.described
    devices = {one.device for one in (*arguments, *(described or ())) if one is not None}
    if len(devices) > 1:
        raise LaunchError(f"tensors lie on several devices: {', '.join(sorted(devices))}")
    name = executor or env.read("TESSERA_EXECUTOR")
    if name == "auto":
        name = choose_executor(artifact, arguments)
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
        relaxed = artifact.launchers.get(_RELAXED) or artifact.relaxed()
        artifact.launchers[_RELAXED] = relaxed
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


def _stream_handle(stream: Any) -> int:
    handle = getattr(stream, "cuda_stream", stream)
    if not isinstance(handle, int):
        raise LaunchError(f"stream = {stream!r} is no stream of torch and no handle of one")
    return handle


def _describe_outputs(out: Any) -> Outputs | None:
    if out is None:
        return None
    kinds: list[Any] = []
    described: list[Any] = []
    for index, value in enumerate(out if type(out) in (tuple, list) else (out,)):
        name = f"out[{index}]"
        kind = None if value is None else kind_of(value, name)
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            raise LaunchError(f"{name} is read-only")
        kinds.append(kind)
        described.append(None if kind is None else kind.describe(value, name))
    return Outputs(kinds, described)
