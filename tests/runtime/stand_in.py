"""The stand-in HIP library from Python: launches to the emulator, and failures on request."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from tessera import emulator

OUT_OF_MEMORY, NO_BINARY, ILLEGAL_ADDRESS, LAUNCH_FAILURE = 2, 209, 700, 719

_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_uint32),
    ctypes.POINTER(ctypes.c_uint32),
    ctypes.c_uint32,
    ctypes.c_void_p,
    ctypes.c_size_t,
)


class StandIn:
    """Control of the stand-in. `launched` lists the kernels that have run."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.launched: list[str] = []
        self.errors: list[str] = []
        self._callback = _Callback(self._run)
        library.stand_in_set_callback(self._callback)
        library.stand_in_pending.restype = ctypes.c_size_t
        library.stand_in_pending.argtypes = (ctypes.c_void_p,)
        library.stand_in_allocation.argtypes = (
            ctypes.c_uint64,
            ctypes.POINTER(ctypes.c_uint64),
            ctypes.POINTER(ctypes.c_uint64),
        )
        for name in ("stand_in_begin_capture", "stand_in_end_capture"):
            getattr(library, name).argtypes = (ctypes.c_void_p,)

    def reset(self) -> None:
        """One gfx1151 without faults."""
        self.library.stand_in_reset()

    def set_devices(self, *chips: str) -> None:
        """The attached chips."""
        self.library.stand_in_set_device_count(len(chips))
        for index, chip in enumerate(chips):
            self.library.stand_in_set_device(index, chip.encode())

    def fail(self, function: str, code: int, after: int = 0) -> None:
        """Let one call of a HIP function fail, after some that do not."""
        self.library.stand_in_fail(function.encode(), code, after)

    def fail_kernel(self, code: int) -> None:
        """Let the next kernel that runs fail; the error sticks to the device."""
        self.library.stand_in_fail_kernel(code)

    def pending(self, stream: int = 0) -> int:
        """Operations that a stream holds and has not run."""
        return self.library.stand_in_pending(stream or None)

    def count(self, what: str) -> int:
        """Live "allocations", "modules" or "events"."""
        return getattr(self.library, f"stand_in_live_{what}")()

    def _run(
        self,
        code: int,
        code_size: int,
        kernel: bytes,
        grid: Any,
        block: Any,
        lds: int,
        arguments: int,
        arguments_size: int,
    ) -> int:
        """Run a kernel on the emulator, its arguments found by the code object's metadata."""
        code_object = ctypes.string_at(code, code_size)
        packed = ctypes.string_at(arguments, arguments_size)
        name = kernel.decode()
        try:
            values = self._arguments(code_object, name, packed)
            emulator.run(code_object, name, grid[:3], block[:3], values, dynamic_lds=lds)
        except Exception as error:
            self.errors.append(f"{name}: {error}")
            return ILLEGAL_ADDRESS
        self.launched.append(name)
        return 0

    def _arguments(self, code_object: bytes, kernel: str, packed: bytes) -> list[Any]:
        values: list[Any] = []
        for argument in emulator.load(code_object).kernels[kernel].explicit_arguments:
            field = packed[argument.offset : argument.offset + argument.size]
            if argument.kind != "global_buffer":
                values.append(field)
                continue
            (address,) = struct.unpack("<Q", field)
            values.append(self._memory(address))
        return values

    def _memory(self, address: int) -> np.ndarray | None:
        """The allocation from an address to its end, as bytes."""
        base, size = ctypes.c_uint64(), ctypes.c_uint64()
        if not self.library.stand_in_allocation(address, base, size):
            if address:
                raise ValueError(f"address {address:#x} is in no allocation")
            return None
        count = base.value + size.value - address
        return np.asarray((ctypes.c_uint8 * count).from_address(address))
