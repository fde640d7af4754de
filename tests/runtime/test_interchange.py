"""Tensors of other libraries: DLPack in and out, __cuda_array_interface__, without copies."""

import ctypes
import gc

import ml_dtypes
import numpy as np
import pytest
from small_kernels import reshaped_plan, scale_artifact, scale_code_object

import tessera
from tessera import runtime
from tessera.artifact import Artifact
from tessera.errors import DtypeError, LaunchError
from tessera.runtime import dlpack
from tessera.runtime.device_array import DeviceArray
from tessera.runtime.foreign_arrays import FOREIGN
from tessera.runtime.tensors import kind_of


class Exporter:
    """An object of an unknown library that exports one capsule."""

    def __init__(self, capsule, device=(dlpack.CPU, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


def capsule_of(array, strides=None, dtype="f32", device=(dlpack.CPU, 0)):
    if strides is None:
        strides = [stride // array.itemsize for stride in array.strides]
    return dlpack.export_capsule(array.shape, strides, dtype, array.ctypes.data, device, array)


# Capsules.


@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 3, 4)])
def test_capsule_comes_back_as_it_went(shape):
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    imported = dlpack.import_capsule(capsule_of(array), "x")
    assert imported.shape == shape
    assert imported.address == array.ctypes.data
    assert (imported.dtype, imported.device_type, imported.device_id) == ("f32", dlpack.CPU, 0)


@pytest.mark.parametrize("dtype", dlpack.TYPE_CODES)
def test_every_dtype_has_a_type_code(dtype):
    array = np.zeros(4, np.uint8)
    capsule = dlpack.export_capsule((1,), (1,), dtype, array.ctypes.data, (1, 0), array)
    assert dlpack.import_capsule(capsule, "x").dtype == dtype


def test_numpy_reads_our_capsules_and_we_read_numpys():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)[:, 1:3]
    ours = np.from_dlpack(Exporter(capsule_of(array)))
    np.testing.assert_array_equal(ours, array)
    assert np.shares_memory(ours, array)
    theirs = dlpack.import_capsule(array.__dlpack__(), "x")
    assert theirs.strides == (4, 1)
    assert theirs.address == array.ctypes.data


def test_torch_tensors_whose_memory_is_not_their_value_are_refused():
    torch = pytest.importorskip("torch")
    double = tessera.jit(target="gfx1151")(lambda x: x * 2)
    tensor = torch.ones((2, 8), dtype=torch.float16)
    with pytest.raises(LaunchError, match="'x' is a negated view"):
        double(torch._neg_view(tensor))
    with pytest.raises(LaunchError, match="layout torch.sparse_coo"):
        double(tensor.to_sparse())


def test_torch_reads_our_capsules_and_we_read_torchs():
    torch = pytest.importorskip("torch")
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert torch.equal(torch.from_dlpack(capsule_of(array)), torch.from_numpy(array))
    tensor = torch.arange(8, dtype=torch.bfloat16).reshape(2, 4)[:, 1:]
    imported = dlpack.import_capsule(tensor.__dlpack__(), "x")
    assert (imported.dtype, imported.shape) == ("bf16", (2, 3))
    assert imported.address == tensor.data_ptr()


def managed_of(capsule):
    pointer = dlpack._api.PyCapsule_GetPointer(capsule, b"dltensor")
    return ctypes.cast(pointer, ctypes.POINTER(dlpack._Managed)).contents


def test_null_strides_and_byte_offset():
    array = np.arange(24, dtype=np.float32)
    capsule = dlpack.export_capsule((2, 3), (3, 1), "f32", array.ctypes.data, (1, 0), array)
    tensor = managed_of(capsule).tensor
    tensor.strides = None
    tensor.byte_offset = 20
    seen = FOREIGN.host_array(FOREIGN.describe(Exporter(capsule), "x").value)
    np.testing.assert_array_equal(seen, array[5:11].reshape(2, 3))


def test_memory_lives_as_long_as_the_capsule_or_its_importer():
    before = len(dlpack._exported)
    array = np.arange(4, dtype=np.float32)
    capsule = capsule_of(array)
    assert len(dlpack._exported) == before + 1
    del capsule  # never imported: the capsule itself lets go
    gc.collect()
    assert len(dlpack._exported) == before
    imported = dlpack.import_capsule(capsule_of(array), "x")
    gc.collect()
    assert len(dlpack._exported) == before + 1
    del imported
    gc.collect()
    assert len(dlpack._exported) == before


def test_capsule_is_used_once():
    capsule = capsule_of(np.zeros(2, np.float32))
    dlpack.import_capsule(capsule, "x")
    with pytest.raises(LaunchError, match="argument 'x': not an unused DLPack capsule"):
        dlpack.import_capsule(capsule, "x")
    with pytest.raises(LaunchError, match="not an unused"):
        dlpack.import_capsule("no capsule", "x")


def test_unsupported_types_and_devices_are_named():
    double = np.zeros(2)
    with pytest.raises(DtypeError, match="type code 2 of 64 bits in 1 lanes; supported: f16"):
        dlpack.import_capsule(double.__dlpack__(), "x")
    cuda = Exporter(None, (2, 0))
    with pytest.raises(LaunchError, match=r"DLPack device type 2; supported: 1 \(CPU\), 10"):
        FOREIGN.describe(cuda, "x")


# Launches.


def test_launch_on_a_strided_capsule_of_the_host():
    storage = np.arange(24, dtype=np.float32).reshape(4, 6)
    artifact = scale_artifact(2.0)
    result = runtime.launch(artifact, Exporter(capsule_of(storage[1:3])), executor="emulator")
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result, storage[1:3] * 2)
    with pytest.raises(LaunchError, match="rows must be contiguous"):
        runtime.launch(artifact, Exporter(capsule_of(storage[:, ::2])), executor="emulator")


def test_launch_on_a_rocm_capsule(stand_in, matrix):
    x = DeviceArray.from_host(matrix)
    result = runtime.launch(scale_artifact(2.0), Exporter(x.__dlpack__(), x.__dlpack_device__()))
    assert isinstance(result, DeviceArray)
    np.testing.assert_array_equal(result.to_host(), matrix * 2)
    again = dlpack.import_capsule(result.__dlpack__(), "x")
    assert (again.address, again.device_type) == (result.address, dlpack.ROCM)


class WithInterface:
    """An array of a library that knows `__cuda_array_interface__` only."""

    def __init__(self, array, **changes):
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changes}


def test_launch_on_a_cuda_array_interface(stand_in, matrix):
    x = DeviceArray.from_host(matrix)
    for changes in ({}, {"strides": None}, {"stream": 1}):
        result = runtime.launch(scale_artifact(2.0), WithInterface(x, **changes))
        assert isinstance(result, DeviceArray)
        np.testing.assert_array_equal(result.to_host(), matrix * 2)
    with pytest.raises(DtypeError, match="type string '<f8'; supported: <f2"):
        runtime.launch(scale_artifact(2.0), WithInterface(x, typestr="<f8"))


def test_views_of_device_arrays_share_memory(stand_in, matrix):
    artifact = Artifact.of("gfx1151", scale_code_object((2.0,)), reshaped_plan())
    x = DeviceArray.from_host(matrix)
    scaled, transposed, seen_flat = runtime.launch(artifact, WithInterface(x))
    np.testing.assert_array_equal(transposed.to_host(), matrix.T * 2)
    assert transposed.address == scaled.address
    assert seen_flat.address == x.address
    np.testing.assert_array_equal(seen_flat.to_host(), matrix.reshape(-1))


def test_device_array_keeps_bfloat16_and_zero_sizes(stand_in):
    array = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    there = DeviceArray.from_host(array)
    assert there.to_host().dtype == array.dtype
    np.testing.assert_array_equal(there.to_host(), array)
    assert kind_of(there, "x").describe(there, "x").dtype == "bf16"
    empty = DeviceArray.from_host(np.zeros((0, 3), np.float32))
    assert empty.address == 0
    assert empty.to_host().shape == (0, 3)
    assert runtime.launch(scale_artifact(2.0), empty).shape == (0, 3)
