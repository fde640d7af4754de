"""Device memory and loaded modules of HIP as Python objects that free themselves."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Sequence

from tessera.errors import LaunchError
from tessera.runtime.hip import HipError, HipLibrary
from tessera.runtime.prepared import Slot


class DeviceMemory:
    """One allocation on a device: `address` is 0 for no bytes."""

    def __init__(self, library: HipLibrary, device: int, size: int) -> None:
        self.library, self.device, self.bytes = library, device, size
        self.address = 0
        if size:
            with library.on_device(device):
                self.address = library.created("hipMalloc", size)
            _release_with(self, library, device, "hipFree", self.address)


class DeviceModule:
    """A code object loaded on one device, and its kernels' handles by name."""

    def __init__(self, library: HipLibrary, device: int, hsaco: bytes) -> None:
        self.library = library
        self._functions: dict[str, int] = {}
        with library.on_device(device):
            self.handle = library.created("hipModuleLoadData", hsaco)
        _release_with(self, library, device, "hipModuleUnload", self.handle)

    def function(self, name: str) -> int:
        """The handle of a kernel, valid as long as this module lives."""
        if name not in self._functions:
            self._functions[name] = self.library.created(
                "hipModuleGetFunction", self.handle, name.encode()
            )
        return self._functions[name]


class Event:
    """A HIP event, destroyed with this object."""

    def __init__(self, library: HipLibrary) -> None:
        self.handle = library.created("hipEventCreate")
        _release_with(self, library, None, "hipEventDestroy", self.handle)


def _release_with(
    holder: object, library: HipLibrary, device: int | None, name: str, handle: int
) -> None:
    """Release a handle when its holder goes; at the end of the process HIP does so itself."""
    weakref.finalize(holder, _release, library, device, name, handle).atexit = False


def _release(library: HipLibrary, device: int | None, name: str, handle: int) -> None:
    try:
        if device is None:
            library.check(name, handle)
            return
        with library.on_device(device):
            # Code and memory may still be in use by kernels on any stream.
            library.check("hipDeviceSynchronize")
            library.check(name, handle)
    except HipError:
        pass  # A finalizer has nobody to tell; an error of the device shows at the next call.


_modules: weakref.WeakValueDictionary[tuple[str, int, str], DeviceModule]
_modules = weakref.WeakValueDictionary()
_modules_lock = threading.Lock()


def load_module(library: HipLibrary, device: int, hsaco: bytes) -> DeviceModule:
    """The module of a code object on a device, loaded once while anybody holds it.

    The key is the code object's hash, not its address or a kernel's name: both get reused.
    """
    key = (library.path, device, hashlib.sha256(hsaco).hexdigest())
    with _modules_lock:
        module = _modules.get(key)
        if module is None:
            module = _modules[key] = DeviceModule(library, device, hsaco)
    return module


class BufferPool:
    """Sets of device buffers for some slots of a prepared launch.

    `kept` are sets for one stream, used by launches that follow each other there. `take` and
    `give_back` lend a set to one call at a time.
    """

    def __init__(self, library: HipLibrary, device: int, slots: Sequence[Slot]) -> None:
        self.library, self.device, self.slots = library, device, slots
        self._kept: dict[int, list[DeviceMemory]] = {}
        self._free: list[list[DeviceMemory]] = []

    def kept(self, stream: int) -> Sequence[DeviceMemory]:
        """The set of a stream, in the order of `slots`, allocated at its first use."""
        found = self._kept.get(stream)
        if found is None:
            if self.slots and self.library.is_capturing(stream):
                raise LaunchError(
                    "the stream is capturing a graph, in which nothing can be allocated; launch "
                    "once on this stream before the capture"
                )
            found = self._kept[stream] = self._allocate()
        return found

    def take(self) -> list[DeviceMemory]:
        """A set that nobody else uses until it is given back."""
        try:
            return self._free.pop()
        except IndexError:
            return self._allocate()

    def give_back(self, buffers: list[DeviceMemory]) -> None:
        """Return a set whose work is done."""
        self._free.append(buffers)

    def _allocate(self) -> list[DeviceMemory]:
        return [DeviceMemory(self.library, self.device, slot.bytes) for slot in self.slots]
