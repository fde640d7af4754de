"""Objects with `__cuda_array_interface__` or DLPack to descriptions of launches, without a copy."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tessera.errors import DtypeError, LaunchError, supported
from tessera.runtime import dlpack, hip
from tessera.runtime.device_array import DeviceArray
from tessera.runtime.tensors import HOST, NUMPY, NUMPY_DTYPES, ArrayKind, TensorArgument

# NumPy writes its types without a standard character, bfloat16 among them, as raw bytes.
_TYPE_STRINGS = {
    dtype.str: name
    for name, dtype in NUMPY_DTYPES.items()
    if not dtype.str.startswith(("<V", "|V"))
}


def _describe(value: Any, name: str) -> TensorArgument:
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None and interface["typestr"] in _TYPE_STRINGS:
        return _from_interface(value, interface)
    if not hasattr(value, "__dlpack__"):
        assert interface is not None
        raise DtypeError(
            f"argument {name!r} has type string {interface['typestr']!r}; "
            + supported(_TYPE_STRINGS)
        )
    return _from_dlpack(value, name)


def _from_interface(value: Any, interface: Mapping[str, Any]) -> TensorArgument:
    """numba's CUDA Array Interface, version 3, which ROCm builds of array libraries export."""
    dtype = _TYPE_STRINGS[interface["typestr"]]
    shape = tuple(interface["shape"])
    size = NUMPY_DTYPES[dtype].itemsize
    if interface.get("strides") is None:
        strides = dlpack.row_major(shape)
    else:
        strides = tuple(stride // size for stride in interface["strides"])
    library = hip.library()
    if library is None:
        raise LaunchError(f"a tensor in device memory: {hip.unavailable_reason()}")
    stream = interface.get("stream")
    if stream not in (None, 1):
        # 1 is the default stream, on which we launch; others must have finished their work.
        library.check("hipStreamSynchronize", stream)
    current = ctypes.c_int()
    library.check("hipGetDevice", ctypes.byref(current))
    address = interface["data"][0] or 0
    return TensorArgument(shape, strides, dtype, address, f"hip:{current.value}", value)


def _from_dlpack(value: Any, name: str) -> TensorArgument:
    device_type, _ = value.__dlpack_device__()
    if device_type == dlpack.CPU:
        imported = dlpack.import_capsule(value.__dlpack__(), name)
        where = HOST
    elif device_type == dlpack.ROCM:
        imported = dlpack.import_capsule(value.__dlpack__(stream=0), name)
        where = f"hip:{imported.device_id}"
    else:
        raise LaunchError(
            f"argument {name!r} lies on DLPack device type {device_type}; "
            + supported(["1 (CPU)", "10 (ROCm)"])
        )
    holder: Any = imported
    if where == HOST:
        holder = _host_view(imported)
    return TensorArgument(
        imported.shape, imported.strides, imported.dtype, imported.address, where, holder
    )


def _host_view(imported: dlpack.Imported) -> np.ndarray:
    """A NumPy array over the memory of an imported tensor, which it keeps alive."""
    dtype = NUMPY_DTYPES[imported.dtype]
    reach = sum(
        (size - 1) * stride for size, stride in zip(imported.shape, imported.strides, strict=True)
    )
    elements = 0 if 0 in imported.shape else 1 + reach
    array = np.empty(0, dtype)
    if elements:
        memory = (ctypes.c_uint8 * (elements * dtype.itemsize)).from_address(imported.address)
        memory.owner = imported  # type: ignore[attr-defined]
        array = np.asarray(memory).view(dtype)
    strides = [stride * dtype.itemsize for stride in imported.strides]
    return np.lib.stride_tricks.as_strided(array, imported.shape, strides)


def _empty(shape: Sequence[int], dtype: str, device: str) -> Any:
    if device == HOST:
        return NUMPY.empty(shape, dtype, device)
    return DeviceArray.empty(shape, dtype, int(device.partition(":")[2]))


def _host_array(value: Any) -> np.ndarray:
    assert isinstance(value, np.ndarray)
    return value


def _view(value: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
    if isinstance(value, np.ndarray):
        return NUMPY.view(value, shape, strides)
    if isinstance(value, DeviceArray):
        return value.view(shape, strides)
    argument = _describe(value, "result")
    device = int(argument.device.partition(":")[2])
    return DeviceArray(shape, strides, argument.dtype, argument.address, device, value)


FOREIGN = ArrayKind(
    "foreign",
    _describe,
    _empty,
    _host_array,
    _view,
    stream=lambda device: 0,
    address=lambda value: _describe(value, "").address,
)
