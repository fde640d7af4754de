"""A prepared launch to HIP launches on a device: arguments packed once, addresses filled in."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np

from tessera.artifact import Artifact, KernelInfo
from tessera.errors import LaunchError
from tessera.runtime import hip
from tessera.runtime.executors import Call
from tessera.runtime.hip_memory import BufferPool, DeviceModule, Event, load_module
from tessera.runtime.host_buffers import flat, numpy_dtype
from tessera.runtime.prepared import (
    INPUT,
    OUTPUT,
    TEMPORARY,
    KernelLaunch,
    PreparedLaunch,
    ScalarArgument,
    Slot,
    contiguous_strides,
)
from tessera.runtime.record import LaunchRecord
from tessera.runtime.rules import SCALAR_FORMATS
from tessera.runtime.tensors import HOST

_orders_frees = attrgetter("orders_frees")

_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 3  # HIP_LAUNCH_PARAM_*


class KernelCall:
    """One kernel launch with its argument block; only addresses change from call to call."""

    def __init__(
        self,
        module: DeviceModule,
        kernel: KernelInfo,
        launch: KernelLaunch,
        positions: Mapping[int, int],
    ) -> None:
        self.name = launch.kernel
        self._library = module.library
        self._struct, constants = argument_layout(kernel, launch)
        self._block = ctypes.create_string_buffer(max(self._struct.size, 1))
        self._size = ctypes.c_size_t(self._struct.size)
        self._extra = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER,
            ctypes.addressof(self._block),
            _BUFFER_SIZE,
            ctypes.addressof(self._size),
            _END,
        )
        # Values are picked from [addresses, constants] in the order of the arguments; the last is
        # picked twice, since a getter of one item would not give a tuple.
        self._constants = constants
        following = iter(range(len(positions), len(positions) + len(constants)))
        indices = [
            positions[argument] if isinstance(argument, int) else next(following)
            for argument in launch.arguments
        ]
        self._pick = itemgetter(*indices, *indices[-1:]) if indices else lambda values: ()
        self._head = (
            ctypes.c_void_p(module.function(launch.kernel)),
            *[ctypes.c_uint(size) for size in (*launch.grid, *launch.block)],
            ctypes.c_uint(0),
        )
        self._lock = threading.Lock()

    def launch(self, addresses: list[int], stream: ctypes.c_void_p) -> None:
        """Enqueue the kernel; HipError names it."""
        picked = self._pick(addresses + self._constants)[:-1]
        # HIP copies the arguments before it returns; until then no other thread may pack its own.
        with self._lock:
            self._struct.pack_into(self._block, 0, *picked)
            code = self._library.launch_kernel(*self._head, stream, None, self._extra)
        if code:
            raise self._library.error(f"hipModuleLaunchKernel of {self.name}", code)


def argument_layout(
    kernel: KernelInfo, launch: KernelLaunch
) -> tuple[struct.Struct, list[int | float]]:
    """How the argument block is packed as the code object's metadata says, and its constants.

    Raises LaunchError where the rule's arguments do not fit that layout.
    """
    if len(kernel.arguments) != len(launch.arguments):
        raise LaunchError(
            f"kernel {kernel.name}: {len(launch.arguments)} arguments for a code object that takes "
            f"{len(kernel.arguments)}"
        )
    text, end = "<", 0
    constants: list[int | float] = []
    for found, given in zip(kernel.arguments, launch.arguments, strict=True):
        code = "Q"
        if isinstance(given, ScalarArgument):
            code = SCALAR_FORMATS[given.dtype]
            constants.append(given.value)
        is_buffer = found.kind == "global_buffer"
        if is_buffer == isinstance(given, ScalarArgument) or struct.calcsize(code) != found.size:
            stated = given.dtype if isinstance(given, ScalarArgument) else "buffer"
            raise LaunchError(
                f"kernel {kernel.name}: argument {found.name!r} is {found.kind} of {found.size} "
                f"bytes in the code object, {stated} in the launch rule"
            )
        if found.offset < end:
            raise LaunchError(f"kernel {kernel.name}: argument {found.name!r} overlaps another")
        text += f"{found.offset - end}x{code}"
        end = found.offset + found.size
    return struct.Struct(text), constants


class _Code(NamedTuple):
    """What is launched from: an artifact's parts, without its own launchers."""

    chip: str
    hsaco: bytes
    kernels: tuple[KernelInfo, ...]


class _Bound:
    """The launch on one device: module, kernels, and the buffers that it needs there."""

    def __init__(
        self, library: hip.HipLibrary, device: int, code: _Code, prepared: PreparedLaunch
    ) -> None:
        chip = library.chip(device)
        if chip != code.chip:
            raise LaunchError(
                f"the artifact is compiled for {code.chip}, but HIP device {device} is {chip}"
            )
        self.device = device
        self.lock = threading.Lock()
        self.module = load_module(library, device, code.hsaco)
        kernels = {kernel.name: kernel for kernel in code.kernels}
        positions = {slot: position for position, slot in enumerate(slots_in_order(prepared))}
        self.kernels = [
            KernelCall(self.module, kernels[launch.kernel], launch, positions)
            for launch in prepared.kernels
        ]
        slots = [prepared.slots[index] for index in slots_in_order(prepared)]
        temporaries = [slot for slot in slots if slot.role == TEMPORARY]
        self.temporaries = BufferPool(library, device, temporaries)
        self.all_buffers = BufferPool(library, device, slots)


def slots_in_order(prepared: PreparedLaunch) -> list[int]:
    """Slot numbers as addresses are listed: inputs, then outputs, then temporaries."""
    order = {INPUT: 0, OUTPUT: 1, TEMPORARY: 2}
    return sorted(range(len(prepared.slots)), key=lambda n: order[prepared.slots[n].role])


class HipRunner:
    """Runs the kernels of one prepared launch through HIP.

    Tensors on a device are used where they lie, asynchronously on the call's stream. Tensors in
    host memory are copied to the first device of the artifact's chip and back.
    """

    def __init__(self, artifact: Artifact, prepared: PreparedLaunch) -> None:
        library = hip.library()
        if library is None:
            raise LaunchError(f"executor hip: {hip.unavailable_reason()}")
        self.library = library
        self.code = _Code(artifact.chip, artifact.hsaco, artifact.kernels)
        self.prepared = prepared
        self.record = LaunchRecord(
            "hip", artifact.chip, tuple(kernel.kernel for kernel in prepared.kernels)
        )
        self._bound: dict[str, _Bound] = {}
        self._streams: dict[int, ctypes.c_void_p] = {}
        self._in_use: deque[tuple[Event, Any]] = deque()
        slots = [prepared.slots[index] for index in slots_in_order(prepared)]
        self._inputs = [slot for slot in slots if slot.role == INPUT]
        self._outputs = [slot for slot in slots if slot.role == OUTPUT]

    def __call__(self, call: Call) -> LaunchRecord:
        """Launch all kernels in order; HipError carries HIP's own name and text."""
        tensors = call.arguments or call.results
        where = tensors[0].device if tensors else HOST
        bound = self._bound.get(where) or self._bind(where)
        run = self._run_on_copies if where == HOST else self._run_in_place
        if self.library.has_one_device():
            return run(bound, call)
        with self.library.on_device(bound.device):
            return run(bound, call)

    def enqueue(self, addresses: list[int], where: str, stream: int) -> LaunchRecord:
        """Launch on the addresses of arguments and results on a device, whose owners see to it
        that the memory stays until the stream is done."""
        bound = self._bound.get(where) or self._bind(where)
        if self.library.has_one_device():
            return self._launch(bound, addresses, stream)
        with self.library.on_device(bound.device):
            return self._launch(bound, addresses, stream)

    def _bind(self, where: str) -> _Bound:
        device = self._device_for_host() if where == HOST else int(where.partition(":")[2])
        bound = self._bound[where] = _Bound(self.library, device, self.code, self.prepared)
        return bound

    def _device_for_host(self) -> int:
        chips = hip.attached_chips()
        if self.code.chip not in chips:
            attached = ", ".join(chips) or "none"
            raise LaunchError(
                f"the artifact is for {self.code.chip}; attached HIP devices: {attached}"
            )
        return chips.index(self.code.chip)

    def _run_in_place(self, bound: _Bound, call: Call) -> LaunchRecord:
        addresses = [tensor.address for tensor in call.arguments]
        addresses += [tensor.address for tensor in call.results]
        record = self._launch(bound, addresses, call.stream, call.is_timed)
        if not all(map(_orders_frees, call.argument_kinds)):
            self._keep_until_done(call)
        return record

    def _run_on_copies(self, bound: _Bound, call: Call) -> LaunchRecord:
        # After an error the buffers are not given back but freed, which waits for the device.
        buffers = bound.all_buffers.take()
        addresses = [buffer.address for buffer in buffers]
        # Until the stream is done, the uploads' arrays keep the caller's memory.
        uploads = [
            flat(kind.host_array(tensor.value), slot)
            for slot, tensor, kind in zip(self._inputs, call.arguments, call.argument_kinds)
        ]
        for address, source in zip(addresses, uploads):
            self._copy(address, source, call.stream, hip.COPY_HOST_TO_DEVICE)
        record = self._launch(bound, addresses, call.stream, call.is_timed)
        landings = [
            self._download(address, slot, call, index)
            for index, (slot, address) in enumerate(
                zip(self._outputs, addresses[len(self._inputs) :])
            )
        ]
        self._synchronize(call.stream)
        for target, landed in landings:
            if target is not landed:
                target[...] = landed
        bound.all_buffers.give_back(buffers)
        return record

    def _download(
        self, address: int, slot: Slot, call: Call, index: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Start a copy to the host: (the result, where the copy lands).

        A result with gaps between its rows lands beside it, since the gaps belong to others.
        """
        target = call.result_kinds[index].host_array(call.results[index].value)
        if slot.strides == contiguous_strides(slot.shape):
            self._copy(address, flat(target, slot), call.stream, hip.COPY_DEVICE_TO_HOST)
            return target, target
        landing = np.empty(slot.elements, numpy_dtype(slot.dtype))
        self._copy(address, landing, call.stream, hip.COPY_DEVICE_TO_HOST)
        strides = [stride * landing.itemsize for stride in slot.strides]
        return target, np.lib.stride_tricks.as_strided(landing, slot.shape, strides)

    def _copy(self, address: int, host: np.ndarray, stream: int, direction: int) -> None:
        """Start a copy between a device address and flat host memory."""
        if not host.nbytes:
            return
        there = host.__array_interface__["data"][0]
        pair = (address, there) if direction == hip.COPY_HOST_TO_DEVICE else (there, address)
        self.library.check("hipMemcpyAsync", *pair, host.nbytes, direction, stream)

    def _launch(
        self, bound: _Bound, addresses: list[int], stream: int, is_timed: bool = False
    ) -> LaunchRecord:
        """Launch on addresses in the order of `slots_in_order`; temporaries may be left out."""
        if bound.temporaries.slots and len(addresses) < len(self.prepared.slots):
            addresses = [*addresses, *[memory.address for memory in bound.temporaries.kept(stream)]]
        handle = self._streams.get(stream)
        if handle is None:
            handle = self._streams[stream] = ctypes.c_void_p(stream)
        if is_timed:
            return self._launch_timed(bound, addresses, handle)
        if len(bound.kernels) == 1:
            bound.kernels[0].launch(addresses, handle)
            return self.record
        # The temporaries of a stream serve one launch after the other: none may come in between.
        with bound.lock:
            for kernel in bound.kernels:
                kernel.launch(addresses, handle)
        return self.record

    def _launch_timed(
        self, bound: _Bound, addresses: list[int], stream: ctypes.c_void_p
    ) -> LaunchRecord:
        """Launch between two events and wait for the second."""
        first, last = Event(self.library), Event(self.library)
        with bound.lock:
            self.library.check("hipEventRecord", first.handle, stream)
            for kernel in bound.kernels:
                kernel.launch(addresses, stream)
            self.library.check("hipEventRecord", last.handle, stream)
        self._wait("hipEventSynchronize", last.handle)
        milliseconds = ctypes.c_float()
        self.library.check(
            "hipEventElapsedTime", ctypes.byref(milliseconds), first.handle, last.handle
        )
        return replace(self.record, time_source="hip events", seconds=milliseconds.value * 1e-3)

    def _synchronize(self, stream: int) -> None:
        self._wait("hipStreamSynchronize", stream)

    def _wait(self, name: str, handle: int) -> None:
        """Wait; an error that a kernel caused shows only here, so the message names them."""
        try:
            self.library.check(name, handle)
        except hip.HipError as error:
            error.add_note(f"launched before: {', '.join(self.record.kernels) or 'no kernel'}")
            raise

    def _keep_until_done(self, call: Call) -> None:
        """Hold the call's tensors until its kernels have run, and drop those whose have."""
        if self.library.is_capturing(call.stream):
            return  # A graph runs later and many times: its tensors are the caller's to keep.
        while self._in_use and not self.library.is_pending(self._in_use[0][0].handle):
            self._in_use.popleft()
        event = Event(self.library)
        self.library.check("hipEventRecord", event.handle, call.stream)
        self._in_use.append((event, (call.arguments, call.results)))
