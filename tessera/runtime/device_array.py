"""Tensors in device memory that belong to nobody else's library: results of foreign arrays."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from tessera.errors import LaunchError
from tessera.runtime import dlpack, hip
from tessera.runtime.hip_memory import DeviceMemory
from tessera.runtime.prepared import ELEMENT_BYTES, contiguous_strides, extent
from tessera.runtime.tensors import NUMPY_DTYPES, ArrayKind, TensorArgument


class DeviceArray:
    """A strided tensor in HIP memory; exports `__cuda_array_interface__` and DLPack.

    `strides` are in elements. `owner` keeps the memory at `address` alive.
    """

    def __init__(
        self,
        shape: Sequence[int],
        strides: Sequence[int],
        dtype: str,
        address: int,
        device: int,
        owner: Any,
    ) -> None:
        self.shape, self.strides = tuple(shape), tuple(strides)
        self.dtype, self.address, self.device, self.owner = dtype, address, device, owner
        self._where = f"hip:{device}"

    @staticmethod
    def empty(shape: Sequence[int], dtype: str, device: int = 0) -> DeviceArray:
        """A contiguous tensor with undefined content."""
        strides = contiguous_strides(shape)
        size = extent(shape, strides) * ELEMENT_BYTES[dtype]
        memory = DeviceMemory(_library(), device, size)
        return DeviceArray(shape, strides, dtype, memory.address, device, memory)

    @staticmethod
    def from_host(array: np.ndarray, device: int = 0) -> DeviceArray:
        """A contiguous copy of a NumPy array on a device."""
        names = {numpy_dtype: name for name, numpy_dtype in NUMPY_DTYPES.items()}
        result = DeviceArray.empty(array.shape, names[array.dtype], device)
        source = np.ascontiguousarray(array)
        _copy(result, result.address, source, hip.COPY_HOST_TO_DEVICE)
        return result

    def to_host(self) -> np.ndarray:
        """A NumPy array with a copy of the tensor, after the work of the default stream."""
        landing = np.empty(extent(self.shape, self.strides), NUMPY_DTYPES[self.dtype])
        _copy(self, self.address, landing, hip.COPY_DEVICE_TO_HOST)
        strides = [stride * landing.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(landing, self.shape, strides).copy()

    def view(self, shape: Sequence[int], strides: Sequence[int]) -> DeviceArray:
        """The same memory under another shape."""
        return DeviceArray(shape, strides, self.dtype, self.address, self.device, self)

    def argument(self) -> TensorArgument:
        """The description that launches work with."""
        return TensorArgument(self.shape, self.strides, self.dtype, self.address, self._where, self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        dtype = NUMPY_DTYPES[self.dtype]
        return {
            "shape": self.shape,
            "strides": tuple(stride * dtype.itemsize for stride in self.strides),
            "typestr": dtype.str,
            "data": (self.address, False),
            "version": 3,
            "stream": None,
        }

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        if stream not in (None, -1, 0):
            # Our work is on the default stream; a consumer on another one must not overtake it.
            _library().check("hipStreamSynchronize", 0)
        where = (dlpack.ROCM, self.device)
        return dlpack.export_capsule(
            self.shape, self.strides, self.dtype, self.address, where, self
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.ROCM, self.device


def _library() -> hip.HipLibrary:
    library = hip.library()
    if library is None:
        raise LaunchError(f"no device memory: {hip.unavailable_reason()}")
    return library


def _copy(array: DeviceArray, address: int, host: np.ndarray, direction: int) -> None:
    if not host.nbytes:
        return
    library, there = _library(), host.ctypes.data
    pair = (address, there) if direction == hip.COPY_HOST_TO_DEVICE else (there, address)
    with library.on_device(array.device):
        library.check("hipMemcpyAsync", *pair, host.nbytes, direction, 0)
        library.check("hipStreamSynchronize", 0)


def _host_array(value: Any) -> np.ndarray:
    raise LaunchError(f"a tensor on {value.device} is not in host memory")


DEVICE = ArrayKind(
    "device",
    lambda value, name: value.argument(),
    lambda shape, dtype, device: DeviceArray.empty(shape, dtype, int(device.partition(":")[2])),
    _host_array,
    DeviceArray.view,
    stream=lambda device: 0,
    address=attrgetter("address"),
    # Our memory is freed by hipFree, which waits for the device.
    orders_frees=True,
)
