"""AMD's HIP runtime library to Python calls: found by ROCm's rules, every error by its own name."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes.util import find_library
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tessera import env
from tessera.errors import LaunchError

_PROPERTY_BYTES = 4096  # hipDeviceProp_t has grown over the years and has always been below this.
_ARCHITECTURE = re.compile(rb"gfx[0-9a-f]+")

SUCCESS = 0
ERROR_NO_DEVICE = 100
"""hipErrorNoDevice: the library is there, but no GPU that it can use."""


ERROR_NOT_READY = 600
"""hipErrorNotReady: the work that was asked about is still running."""


class HipError(LaunchError):
    """A HIP call failed; carries HIP's own code, name and text."""

    def __init__(self, call: str, code: int, name: str, text: str) -> None:
        super().__init__(f"{call}: {name} ({code}): {text}")
        self.call, self.code, self.name = call, code, name


_INT, _UINT, _SIZE, _POINTER, _TEXT = (
    ctypes.c_int,
    ctypes.c_uint,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_char_p,
)
SIGNATURES: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {
        "hipGetDeviceCount": (_POINTER,),
        "hipGetDevice": (_POINTER,),
        "hipSetDevice": (_INT,),
        "hipDeviceSynchronize": (),
        "hipModuleLoadData": (_POINTER, _TEXT),
        "hipModuleUnload": (_POINTER,),
        "hipModuleGetFunction": (_POINTER, _POINTER, _TEXT),
        "hipModuleLaunchKernel": (_POINTER, *[_UINT] * 7, _POINTER, _POINTER, _POINTER),
        "hipMalloc": (_POINTER, _SIZE),
        "hipFree": (_POINTER,),
        "hipMemcpyAsync": (_POINTER, _POINTER, _SIZE, _INT, _POINTER),
        "hipStreamCreate": (_POINTER,),
        "hipStreamDestroy": (_POINTER,),
        "hipStreamSynchronize": (_POINTER,),
        "hipStreamIsCapturing": (_POINTER, _POINTER),
        "hipEventCreate": (_POINTER,),
        "hipEventDestroy": (_POINTER,),
        "hipEventRecord": (_POINTER, _POINTER),
        "hipEventQuery": (_POINTER,),
        "hipEventSynchronize": (_POINTER,),
        "hipEventElapsedTime": (_POINTER, _POINTER, _POINTER),
    }
)
"""Argument types of the HIP functions that are used (hip_runtime_api.h); all return hipError_t."""

COPY_HOST_TO_DEVICE, COPY_DEVICE_TO_HOST = 1, 2


class HipLibrary:
    """One loaded HIP runtime. Functions are called through `check`, which raises HipError."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.handle = ctypes.CDLL(path)
        for name in ("hipGetErrorName", "hipGetErrorString"):
            getattr(self.handle, name).restype = _TEXT
            getattr(self.handle, name).argtypes = (_INT,)
        for name, types in SIGNATURES.items():
            getattr(self.handle, name).argtypes = types
        # A second object for the same function: its callers bring ctypes values of their own.
        self._count: int | None = None
        self.launch_kernel = self.handle["hipModuleLaunchKernel"]

    def check(self, name: str, *arguments: Any) -> None:
        """Call `name`; HipError unless it returns hipSuccess."""
        code = getattr(self.handle, name)(*arguments)
        if code != SUCCESS:
            raise self.error(name, code)

    def created(self, name: str, *arguments: Any) -> int:
        """Call a function whose first parameter receives a handle or pointer; returns that."""
        result = ctypes.c_void_p()
        self.check(name, ctypes.byref(result), *arguments)
        return result.value or 0

    @contextmanager
    def on_device(self, device: int) -> Iterator[None]:
        """Make `device` the thread's current one, and the one before it afterwards."""
        current = ctypes.c_int()
        self.check("hipGetDevice", ctypes.byref(current))
        if current.value == device:
            yield
            return
        self.check("hipSetDevice", device)
        try:
            yield
        finally:
            self.check("hipSetDevice", current.value)

    def is_capturing(self, stream: int) -> bool:
        """Whether a stream records into a graph, so that nothing may be allocated or awaited.

        The default stream cannot; asking it would spoil a capture on another one.
        """
        if stream == 0:
            return False
        status = ctypes.c_int()
        self.check("hipStreamIsCapturing", stream, ctypes.byref(status))
        return status.value != 0

    def is_pending(self, event: int) -> bool:
        """Whether the work before an event has not finished yet."""
        code = self.handle.hipEventQuery(event)
        if code not in (SUCCESS, ERROR_NOT_READY):
            raise self.error("hipEventQuery", code)
        return code == ERROR_NOT_READY

    def error(self, call: str, code: int) -> HipError:
        """The exception for a code that `call` returned."""
        name = self.handle.hipGetErrorName(code) or b"unknown error"
        text = self.handle.hipGetErrorString(code) or b""
        return HipError(call, code, name.decode(), text.decode())

    def device_count(self) -> int:
        """GPUs that HIP sees; 0 where it reports that there is none."""
        count = ctypes.c_int()
        code = self.handle.hipGetDeviceCount(ctypes.byref(count))
        if code == ERROR_NO_DEVICE:
            return 0
        if code != SUCCESS:
            raise self.error("hipGetDeviceCount", code)
        return count.value

    def has_one_device(self) -> bool:
        """Whether there is no device to choose; GPUs do not come and go in a running process."""
        if self._count is None:
            self._count = self.device_count()
        return self._count == 1

    def chip(self, device: int) -> str:
        """Architecture of a GPU, as in "gfx1151", without its feature suffixes."""
        properties = ctypes.create_string_buffer(_PROPERTY_BYTES)
        # Since ROCm 6 the entry point with the new layout has a name of its own.
        name = "hipGetDevicePropertiesR0600"
        if not hasattr(self.handle, name):
            name = "hipGetDeviceProperties"
        self.check(name, properties, device)
        # gcnArchName is found by its form, so that the layout of the struct does not matter.
        found = _ARCHITECTURE.search(properties.raw)
        if found is None:
            raise LaunchError(f"HIP device {device} states no architecture")
        return found[0].decode()


@dataclass(frozen=True)
class Search:
    """What came of looking for the HIP library: the library, or why there is none."""

    library: HipLibrary | None
    reason: str


def candidates() -> Iterator[str]:
    """Where the HIP library may be, in order: TESSERA_HIP alone if set, else ROCm, else by name."""
    chosen = env.read("TESSERA_HIP")
    if chosen:
        yield chosen
        return
    if sys.platform == "win32":
        # Adrenalin drivers and the HIP SDK put it on the search path, with a version in newer ones.
        yield from ("amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll")
        return
    for folder in (os.environ.get("ROCM_PATH", ""), os.environ.get("HIP_PATH", ""), "/opt/rocm"):
        if folder:
            yield from (str(Path(folder, lib, "libamdhip64.so")) for lib in ("lib", "lib64"))
    # A ROCm build of torch brings its own copy; a second one in the process would not see it.
    torch = sys.modules.get("torch")
    if torch is not None and torch.__file__:
        yield str(Path(torch.__file__).parent / "lib/libamdhip64.so")
    found = find_library("amdhip64")
    if found:
        yield found


def library() -> HipLibrary | None:
    """The HIP runtime of this machine, or None; `unavailable_reason` says why."""
    return _search(env.read("TESSERA_HIP")).library


@lru_cache(maxsize=4)
def _search(chosen: str) -> Search:
    tried = []
    for path in candidates():
        if os.sep in path and not Path(path).is_file():
            continue
        try:
            return Search(HipLibrary(path), "")
        except (OSError, AttributeError) as error:
            tried.append(f"{path}: {error}")
    if chosen and not tried:
        tried = [f"TESSERA_HIP={chosen!r} is no file"]
    return Search(None, "no HIP runtime library was found" + "".join(f"; {t}" for t in tried))


def attached_chips() -> tuple[str, ...]:
    """Architectures of all GPUs that HIP sees, by device number; empty without HIP."""
    found = library()
    return () if found is None else _chips(found)


@lru_cache(maxsize=4)
def _chips(found: HipLibrary) -> tuple[str, ...]:
    return tuple(found.chip(device) for device in range(found.device_count()))


def attached_chip() -> str | None:
    """The first attached GPU that Tessera has a target for, or None."""
    from tessera.runtime.executors import EXECUTORS

    chips = EXECUTORS["hip"].chips
    return next((chip for chip in attached_chips() if chip in chips), None)


def unavailable_reason() -> str | None:
    """Why no kernel can run on a device here; None where one can."""
    from tessera.runtime.executors import EXECUTORS

    if library() is None:
        return _search(env.read("TESSERA_HIP")).reason
    chips = attached_chips()
    if not chips:
        return "HIP sees no GPU"
    if attached_chip() is None:
        supported = ", ".join(EXECUTORS["hip"].chips)
        return f"attached: {', '.join(chips)}; supported: {supported}"
    return None
