"""DLPack capsules to shape, strides, dtype and address, and back, without any other library.

The structs are those of dlpack.h, version 0.8 (the unversioned capsule "dltensor").
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tessera.errors import DtypeError, LaunchError, supported

CPU, ROCM = 1, 10
"""kDLCPU and kDLROCM."""

_INTEGER, _UNSIGNED, _FLOAT, _BFLOAT = 0, 1, 2, 4
TYPE_CODES = {
    "f16": (_FLOAT, 16),
    "bf16": (_BFLOAT, 16),
    "f32": (_FLOAT, 32),
    "i8": (_INTEGER, 8),
    "u8": (_UNSIGNED, 8),
    "i32": (_INTEGER, 32),
}
"""(code, bits) of every dtype name."""
_NAMES = {code: name for name, code in TYPE_CODES.items()}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))

_NAME, _USED = b"dltensor", b"used_dltensor"
_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)
_CapsuleDestructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, _CapsuleDestructor)


@dataclass(eq=False)
class Imported:
    """A tensor taken over from a capsule: sizes and strides in elements, address in bytes.

    The producer's memory is released when this object goes.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    address: int
    device_type: int
    device_id: int


def import_capsule(capsule: Any, name: str) -> Imported:
    """Take a capsule over; it cannot be used again.

    NULL strides mean row-major; the byte offset is added to the address. Raises LaunchError for
    what is no fresh DLPack capsule, DtypeError for an unsupported element type.
    """
    if not _api.PyCapsule_IsValid(capsule, _NAME):
        raise LaunchError(f"argument {name!r}: not an unused DLPack capsule")
    managed = ctypes.cast(_api.PyCapsule_GetPointer(capsule, _NAME), ctypes.POINTER(_Managed))
    tensor = managed.contents.tensor
    dtype = _NAMES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise DtypeError(
            f"argument {name!r} has DLPack type code {tensor.code} of {tensor.bits} bits in "
            f"{tensor.lanes} lanes; " + supported(TYPE_CODES)
        )
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim))
    else:
        strides = row_major(shape)
    imported = Imported(
        shape,
        strides,
        dtype,
        (tensor.data or 0) + tensor.byte_offset,
        tensor.device_type,
        tensor.device_id,
    )
    _api.PyCapsule_SetName(capsule, _USED)
    if managed.contents.deleter:
        weakref.finalize(imported, managed.contents.deleter, managed)
    return imported


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


_exported: dict[int, tuple[Any, ...]] = {}
"""What capsules of ours point at, by the address of their managed tensor, until it is deleted."""


@_Deleter
def _delete(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


@_CapsuleDestructor
def _destroy(capsule: int) -> None:
    """An unused capsule still owns its tensor."""
    is_valid = ctypes.pythonapi.PyCapsule_IsValid
    get_pointer = _raw_get_pointer
    if _raw_is_valid(capsule, _NAME) and is_valid is not None:
        _exported.pop(get_pointer(capsule, _NAME), None)


# The destructor gets a capsule that is going away: it must not become a Python object again.
_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_raw_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def export_capsule(
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: str,
    address: int,
    device: tuple[int, int],
    owner: Any,
) -> Any:
    """A capsule over memory that `owner` keeps alive; `device` is (DLPack type, index)."""
    code, bits = TYPE_CODES[dtype]
    rank = len(shape)
    sizes = (ctypes.c_int64 * max(rank, 1))(*shape)
    steps = (ctypes.c_int64 * max(rank, 1))(*strides)
    managed = _Managed()
    managed.tensor = _Tensor(
        address, device[0], device[1], rank, code, bits, 1,
        ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64)),
        ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)),
        0,
    )  # fmt: skip
    managed.deleter = _delete
    place = ctypes.addressof(managed)
    _exported[place] = (managed, sizes, steps, owner)
    return _api.PyCapsule_New(place, _NAME, _destroy)
