"""The HIP executor: results, argument layout, HIP's own errors, several devices."""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_kernels import scale_artifact, scale_code_object, scale_plan
from stand_in import ILLEGAL_ADDRESS, LAUNCH_FAILURE, NO_BINARY, OUT_OF_MEMORY

import tessera
from tessera import ops, runtime
from tessera.artifact import Artifact
from tessera.codegen.link import link
from tessera.codegen.llvm import compile_llvm
from tessera.contracts import TensorSpec
from tessera.errors import LaunchError
from tessera.launch_rule import BUFFER, SCALAR, ArgumentRule, LaunchRule
from tessera.plan import InputSlot, LaunchStep, Plan
from tessera.runtime import hip
from tessera.runtime.device_array import DeviceArray
from tessera.targets import resolve_target

needs_chip = pytest.mark.usefixtures("hip_runtime")


# Results, on the stand-in and on a device. The chip of the device is that of the artifact.


def artifact_for_chip(*factors):
    chip = hip.attached_chip()
    assert chip is not None
    return scale_artifact(*factors, chip=chip)


@needs_chip
def test_host_arrays_are_copied_there_and_back(matrix):
    artifact = artifact_for_chip(2.0, 0.5, 3.0)
    result = runtime.launch(artifact, matrix, executor="hip")
    np.testing.assert_array_equal(result, matrix * 3)
    record = runtime.last_launch()
    assert (record.executor, record.chip) == ("hip", artifact.chip)
    assert record.kernels == ("scale_0", "scale_1", "scale_2")


@needs_chip
def test_auto_takes_the_device(matrix):
    runtime.launch(artifact_for_chip(2.0), matrix)
    assert runtime.last_launch().executor == "hip"


@needs_chip
def test_device_arrays_stay_on_the_device(matrix):
    x = DeviceArray.from_host(matrix)
    result = runtime.launch(artifact_for_chip(2.0, 2.0), x)
    assert isinstance(result, DeviceArray)
    np.testing.assert_array_equal(result.to_host(), matrix * 4)
    out = DeviceArray.from_host(np.zeros_like(matrix))
    assert runtime.launch(artifact_for_chip(2.0, 2.0), x, out=out) is out
    np.testing.assert_array_equal(out.to_host(), matrix * 4)


@needs_chip
def test_gaps_of_a_strided_result_are_not_written():
    function = tessera.jit()(ops.matmul)
    a = np.ones((3, 8), np.float16)
    b = np.arange(40, dtype=np.float16).reshape(8, 5)
    storage = np.full((3, 9), 77, np.float32)
    artifact = function.lower(a, b)
    runtime.launch(artifact, a, b, out=storage[:, 2:7], executor="hip")
    np.testing.assert_array_equal(storage[:, 2:7], a.astype(float) @ b.astype(float))
    assert (storage[:, :2] == 77).all()
    assert (storage[:, 7:] == 77).all()


@needs_chip
def test_time_comes_from_events(matrix):
    runtime.launch(artifact_for_chip(2.0, 2.0), matrix, executor="hip", is_timed=True)
    record = runtime.last_launch()
    assert record.time_source == "hip events"
    assert record.seconds is not None
    assert record.seconds > 0


@needs_chip
def test_two_code_objects_with_kernels_of_one_name_run_their_own_code(matrix):
    first, second = artifact_for_chip(2.0), artifact_for_chip(5.0)
    for artifact, factor in ((first, 2), (second, 5), (first, 2)):
        result = runtime.launch(artifact, matrix, executor="hip")
        np.testing.assert_array_equal(result, matrix * factor)


@needs_chip
def test_attention_through_the_device():
    @tessera.jit()
    def attention(q, k, v):
        return ops.flash_attn(q, k, v, causal=True, return_lse=True)

    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 33, 64)).astype(np.float16)
    artifact = attention.lower(q, k, v)
    o, lse = runtime.launch(artifact, q, k, v, executor="hip")
    expected_o, expected_lse = tessera.reference.flash_attn(q, k, v, causal=True)
    assert np.abs(o - expected_o).max() < 2e-2
    assert np.abs(lse - expected_lse).max() < 1e-4


_MIXED = """
define amdgpu_kernel void @mixed(ptr addrspace(1) %out, i32 %a, i64 %b, float %c,
    ptr addrspace(1) %x, i8 %d, i64 %e, double %f) #0 {{
  {stores}
  %in = load float, ptr addrspace(1) %x
  %wide = fpext float %in to double
  %p7 = getelementptr double, ptr addrspace(1) %out, i64 7
  store double %wide, ptr addrspace(1) %p7
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="32,32" "uniform-work-group-size"="true" }}
"""


@needs_chip
def test_mixed_arguments_arrive_as_they_were_sent():
    scalars = [("a", "i32", -1), ("b", "i64", 2**40 + 3), ("c", "f32", 0.5), ("d", "i8", 7),
               ("e", "i64", -(2**41)), ("f", "f64", 0.25)]  # fmt: skip
    lines = []
    for index, (name, dtype, _) in enumerate(scalars):
        cast = {"f32": "fpext float", "f64": "fadd double"}.get(dtype, "sitofp " + dtype)
        tail = f"%{name}, 0.0" if dtype == "f64" else f"%{name} to double"
        lines += [
            f"%v{index} = {cast} {tail}",
            f"%p{index} = getelementptr double, ptr addrspace(1) %out, i64 {index}",
            f"store double %v{index}, ptr addrspace(1) %p{index}",
        ]
    chip = hip.attached_chip()
    assert chip is not None
    text = _MIXED.format(stores="\n  ".join(lines))
    hsaco = link(compile_llvm(text, resolve_target(chip)).object)
    rules = {name: ArgumentRule(name, SCALAR, dtype, str(value)) for name, dtype, value in scalars}
    rules |= {"out": ArgumentRule("out", BUFFER, "f32", "out")}
    rules |= {"x": ArgumentRule("x", BUFFER, "f32", "x0")}
    order = ("out", "a", "b", "c", "x", "d", "e", "f")
    rule = LaunchRule("mixed", ("1", "1", "1"), (32, 1, 1), tuple(rules[name] for name in order))
    options = {"function": "mul", "scalar": 1.0, "out_dtype": "f32", "dtype": "f32"}
    inputs = (InputSlot("x", TensorSpec((16,), "f32")),)
    plan = Plan("mixed", inputs, (LaunchStep("elementwise", options, (0,), (1,), (rule,)),), (1,))
    x = np.full(16, 42, np.float32)
    result = runtime.launch(Artifact.of(chip, hsaco, plan), x, executor="hip")
    values = result.view(np.float64)
    np.testing.assert_array_equal(values[:6], [value for _, _, value in scalars])
    assert values[7] == 42


def test_rule_that_does_not_fit_the_code_object_is_refused(stand_in, matrix):
    from dataclasses import replace

    plan = scale_plan((2.0,))
    (step,) = plan.launches
    (rule,) = step.rules
    for dtype, message in (("i32", "by_value of 8 bytes.*i32 in"), ("f64", None)):
        arguments = (*rule.arguments[:2], replace(rule.arguments[2], dtype=dtype))
        changed = replace(step, rules=(replace(rule, arguments=arguments),))
        artifact = Artifact.of(
            "gfx1151", scale_code_object((2.0,)), replace(plan, steps=(changed,))
        )
        if message is None:
            runtime.launcher(artifact, matrix, executor="hip")
            continue
        with pytest.raises(LaunchError, match=message):
            runtime.launch(artifact, matrix, executor="hip")
    swapped = (rule.arguments[2], rule.arguments[1], rule.arguments[0])
    changed = replace(step, rules=(replace(rule, arguments=swapped),))
    artifact = Artifact.of("gfx1151", scale_code_object((2.0,)), replace(plan, steps=(changed,)))
    with pytest.raises(LaunchError, match="'x' is global_buffer of 8 bytes"):
        runtime.launch(artifact, matrix, executor="hip")


# Chips and devices, with the stand-in's.


def test_code_for_another_chip_is_refused_with_both_names(stand_in, matrix):
    artifact = scale_artifact(2.0, chip="gfx1100")
    gc.collect()
    before = stand_in.count("modules")
    with pytest.raises(LaunchError, match="is for gfx1100; attached HIP devices: gfx1151"):
        runtime.launch(artifact, matrix, executor="hip")
    with pytest.raises(LaunchError, match="compiled for gfx1100, but HIP device 0 is gfx1151"):
        runtime.launch(artifact, DeviceArray.from_host(matrix))
    assert stand_in.launched == []
    assert stand_in.count("modules") == before


def test_artifact_finds_its_device_among_several(stand_in, matrix):
    stand_in.set_devices("gfx906", "gfx1151", "gfx1100")
    hip._chips.cache_clear()
    assert hip.attached_chips() == ("gfx906", "gfx1151", "gfx1100")
    assert hip.attached_chip() == "gfx1151"
    np.testing.assert_array_equal(runtime.launch(scale_artifact(2.0), matrix), matrix * 2)
    assert runtime.last_launch().executor == "hip"
    # The caller's current device is what it was.
    assert stand_in.library.stand_in_current_device() == 0
    x = DeviceArray.from_host(matrix, device=1)
    assert runtime.launch(scale_artifact(2.0), x).device == 1
    mixed = DeviceArray.from_host(matrix, device=0)
    with pytest.raises(LaunchError, match="several devices: hip:0, hip:1"):
        runtime.launch(scale_artifact(2.0), x, out=mixed)


def test_no_device_and_no_library(stand_in, matrix, monkeypatch):
    stand_in.set_devices()
    hip._chips.cache_clear()
    assert hip.unavailable_reason() == "HIP sees no GPU"
    runtime.launch(scale_artifact(2.0), matrix)
    assert runtime.last_launch().executor == "emulator"
    monkeypatch.setenv("TESSERA_HIP", "/absent/libamdhip64.so")
    reason = hip.unavailable_reason()
    assert reason is not None
    assert "'/absent/libamdhip64.so' is no file" in reason
    with pytest.raises(LaunchError, match="executor hip: no HIP runtime library was found"):
        runtime.launch(scale_artifact(2.0), matrix, executor="hip")


# Failures.


@pytest.mark.parametrize(
    "function, code, name",
    [
        ("hipMalloc", OUT_OF_MEMORY, r"hipMalloc: hipErrorOutOfMemory \(2\): out of memory"),
        ("hipModuleLoadData", NO_BINARY, "hipModuleLoadData: hipErrorNoBinaryForGpu"),
        ("hipModuleLaunchKernel", LAUNCH_FAILURE, "hipModuleLaunchKernel of scale_0: hipErrorLau"),
        ("hipMemcpyAsync", ILLEGAL_ADDRESS, "hipMemcpyAsync: hipErrorIllegalAddress"),
    ],
)
def test_failures_carry_hips_own_name_and_the_next_call_works(
    stand_in, matrix, function, code, name
):
    artifact = scale_artifact(2.0)
    gc.collect()  # modules that failed tests still hold through their tracebacks
    stand_in.fail(function, code)
    out = np.full_like(matrix, 7)
    with pytest.raises(hip.HipError, match=name) as caught:
        runtime.launch(artifact, matrix, out=out, executor="hip")
    assert caught.value.code == code
    assert (out == 7).all()
    np.testing.assert_array_equal(runtime.launch(artifact, matrix, executor="hip"), matrix * 2)


def test_asynchronous_error_is_reported_late_and_sticks(stand_in, matrix):
    artifact = scale_artifact(2.0)
    x = DeviceArray.from_host(matrix)
    stand_in.fail_kernel(ILLEGAL_ADDRESS)
    result = runtime.launch(artifact, x)  # nothing is known yet
    with pytest.raises(hip.HipError, match="hipStreamSynchronize: hipErrorIllegalAddress"):
        result.to_host()
    with pytest.raises(hip.HipError, match="hipErrorIllegalAddress"):
        runtime.launch(artifact, x)
    stand_in.reset()


def test_error_while_waiting_names_the_kernels(stand_in, matrix):
    stand_in.fail_kernel(LAUNCH_FAILURE)
    with pytest.raises(hip.HipError) as caught:
        runtime.launch(scale_artifact(2.0, 3.0), matrix, executor="hip")
    assert caught.value.__notes__ == ["launched before: scale_0, scale_1"]


def test_emulator_faults_come_through_the_executor(stand_in, matrix):
    """The stand-in checks what the executor packs: a wrong size would read out of bounds."""
    runtime.launch(scale_artifact(2.0), matrix, executor="hip")
    assert stand_in.errors == []
    x = DeviceArray.from_host(matrix)
    short = DeviceArray(x.shape, x.strides, x.dtype, x.address + 4, 0, x)
    artifact = scale_artifact(2.0)
    with pytest.raises(hip.HipError, match="hipErrorIllegalAddress"):
        runtime.launch(artifact, short).to_host()
    (error,) = stand_in.errors
    assert "scale_0" in error


_BOTH = """
import sys
sys.path.insert(0, {root!r})
{imports}
import numpy as np
import tessera
from tessera import ops

def scaled(x):
    return ops.mul(x, 2.0)

x = torch.ones(4, 8)
artifact = tessera.compile(scaled, x, target="gfx1151")
print(tessera.runtime.launch(artifact, x, executor="emulator").sum().item())
"""


@pytest.mark.parametrize(
    "imports", ["import torch, tessera.codegen.llvm", "import tessera.codegen.llvm, torch"]
)
def test_b69_torch_and_the_compiler_live_in_one_process(imports):
    pytest.importorskip("torch")
    root = str(Path(tessera.__file__).parents[1])
    code = _BOTH.format(root=root, imports=imports)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["64.0"]
