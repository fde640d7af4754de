"""Launches of small kernels: results, kinds of arrays, out, contract checks, alignment variants."""

import threading

import ml_dtypes
import numpy as np
import pytest
from small_kernels import (
    reshaped_plan,
    scale_artifact,
    scale_code_object,
    scale_plan,
    through_json,
)

from tessera import runtime
from tessera.artifact import Artifact
from tessera.contracts import TensorSpec
from tessera.errors import DtypeError, LaunchError, ShapeError
from tessera.plan import InputSlot, LaunchStep, Plan
from tessera.runtime.emulator_executor import EmulatorRunner
from tessera.runtime.executors import EXECUTORS, Executor
from tessera.runtime.launch import LAUNCHERS_PER_ARTIFACT
from tessera.runtime.record import LaunchRecord

EXECUTABLE = ("emulator", "reference")
ALIGNED = ("address(x0) % 16 == 0", "x0 must start at a multiple of 16 bytes")


def matrix(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1


@pytest.mark.parametrize("executor", EXECUTABLE)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (9, 31), (2, 64)])
def test_kernels_of_a_plan_run_in_order(executor, shape):
    artifact = scale_artifact(2.0, 0.25, 3.0)
    result = runtime.launch(artifact, matrix(*shape), executor=executor)
    np.testing.assert_array_equal(result, matrix(*shape) * 1.5)
    record = runtime.last_launch()
    assert (record.executor, record.chip) == (executor, "gfx1151")


def test_the_emulator_ran_the_kernels_of_the_code_object():
    runtime.launch(scale_artifact(2.0, 0.25), matrix(3, 5), executor="emulator")
    record = runtime.last_launch()
    assert record.kernels == ("scale_0", "scale_1")
    assert [report.kernel for report in record.reports] == ["scale_0", "scale_1"]
    assert record.time_source == "host clock of the emulator"
    # A code object with other factors gives other numbers: nothing is computed beside it.
    plan = scale_plan((2.0, 0.25))
    other = Artifact.of("gfx1151", scale_code_object((10.0, 10.0)), plan)
    np.testing.assert_array_equal(
        runtime.launch(other, matrix(3, 5), executor="emulator"), matrix(3, 5) * 100
    )


def test_auto_uses_the_emulator_where_no_device_is(monkeypatch):
    monkeypatch.setattr("tessera.runtime.hip.attached_chips", lambda: ())
    runtime.launch(scale_artifact(2.0), matrix(2, 2))
    assert runtime.last_launch().executor == "emulator"


def test_last_launch_belongs_to_the_thread():
    runtime.launch(scale_artifact(2.0), matrix(2, 2), executor="reference")
    caught = []

    def other():
        try:
            runtime.last_launch()
        except LaunchError as error:
            caught.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert caught == ["nothing has been launched in this thread"]


@pytest.mark.parametrize("executor", EXECUTABLE)
def test_views_are_views_and_inputs_pass_through(executor):
    artifact = Artifact.of("gfx1151", scale_code_object((2.0,)), through_json(reshaped_plan()))
    x = matrix(3, 5)
    scaled, transposed, seen_flat = runtime.launch(artifact, x, executor=executor)
    np.testing.assert_array_equal(scaled, x * 2)
    np.testing.assert_array_equal(transposed, x.T * 2)
    assert np.shares_memory(scaled, transposed)
    np.testing.assert_array_equal(seen_flat, x.reshape(-1))
    assert np.shares_memory(seen_flat, x)


def test_intermediates_are_made_once_and_poisoned(monkeypatch):
    artifact = scale_artifact(2.0, 0.5)
    launcher = runtime.launcher(artifact, matrix(4, 4), executor="emulator")
    sets = []
    assert isinstance(launcher.runner, EmulatorRunner)
    pool, take = launcher.runner.pool, launcher.runner.pool.take
    monkeypatch.setattr(pool, "take", lambda: sets.append(take()) or sets[-1])
    for _ in range(3):
        np.testing.assert_array_equal(launcher(matrix(4, 4)), matrix(4, 4))
    assert sets[0] is sets[1] is sets[2]
    (intermediate,) = sets[0].values()
    assert intermediate.shape == (16,)


def test_results_of_earlier_calls_stay():
    artifact = scale_artifact(2.0)
    first = runtime.launch(artifact, matrix(2, 3), executor="emulator")
    second = runtime.launch(artifact, matrix(2, 3) * 10, executor="emulator")
    np.testing.assert_array_equal(first, matrix(2, 3) * 2)
    np.testing.assert_array_equal(second, matrix(2, 3) * 20)


def test_torch_tensors_in_and_out():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(matrix(3, 5))
    result = runtime.launch(scale_artifact(2.0), x, executor="emulator")
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, x * 2)
    out = torch.zeros(3, 5)
    assert runtime.launch(scale_artifact(2.0), x, out=out, executor="emulator") is out
    assert torch.equal(out, x * 2)


def test_torch_bfloat16_is_seen_without_a_copy():
    torch = pytest.importorskip("torch")
    from tessera.runtime.torch_tensors import TORCH

    x = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    array = TORCH.host_array(x)
    assert array.dtype == ml_dtypes.bfloat16
    array[1, 2] = 9
    assert x[1, 2] == 9
    made = TORCH.empty((2, 2), "bf16", "cpu")
    assert (made.dtype, tuple(made.shape)) == (torch.bfloat16, (2, 2))


def test_dlpack_objects_come_in_and_numpy_goes_out():
    class Exporter:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    result = runtime.launch(scale_artifact(2.0), Exporter(matrix(3, 5)), executor="emulator")
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result, matrix(3, 5) * 2)


def test_out_is_written_and_returned():
    out = np.zeros((3, 5), np.float32)
    result = runtime.launch(scale_artifact(2.0, 2.0), matrix(3, 5), out=out, executor="emulator")
    assert result is out
    np.testing.assert_array_equal(out, matrix(3, 5) * 4)


def wrong_outs():
    read_only = np.zeros((3, 5), np.float32)
    read_only.flags.writeable = False
    overlapping = np.lib.stride_tricks.as_strided(np.zeros(9, np.float32), (3, 5), (4, 4))
    return [
        (np.zeros((3, 4), np.float32), ShapeError, r"f32\[3, 4\], expected f32\[3, 5\]"),
        (np.zeros((3, 5), np.float16), DtypeError, "dtype f16, expected f32"),
        (read_only, LaunchError, "read-only"),
        (overlapping, LaunchError, "overlap"),
        ((np.zeros((3, 5), np.float32),) * 2, LaunchError, "2 tensors, expected 1"),
    ]


@pytest.mark.parametrize("out, error, message", wrong_outs())
def test_wrong_out_is_refused_untouched(out, error, message):
    with pytest.raises(error, match=message):
        runtime.launch(scale_artifact(2.0), matrix(3, 5), out=out, executor="emulator")
    assert not np.any(out)


def test_out_that_shares_memory_with_an_argument_is_refused():
    storage = matrix(4, 5)
    with pytest.raises(LaunchError, match=r"out\[0\] shares memory with argument 0"):
        runtime.launch(scale_artifact(2.0), storage[:3], out=storage[1:], executor="emulator")
    np.testing.assert_array_equal(storage, matrix(4, 5))


def test_out_for_a_view_is_refused():
    artifact = Artifact.of("gfx1151", scale_code_object((2.0,)), reshaped_plan())
    with pytest.raises(LaunchError, match="result 1 is a view"):
        runtime.launch(
            artifact, matrix(2, 3), out=(None, np.zeros((3, 2), np.float32), None),
            executor="emulator",
        )  # fmt: skip


@pytest.mark.parametrize(
    "argument, error, message",
    [
        (np.zeros((2, 2, 2), np.float32), ShapeError, r"'x' is f32\[2, 2, 2\], expected f32\[\?"),
        (np.zeros((2, 2), np.float16), DtypeError, "'x' has dtype f16, expected f32"),
        (np.zeros((2, 2), np.int64), DtypeError, "element type int64; supported: f16"),
        (np.zeros((2, 4), np.float32)[:, ::2], LaunchError, "rows must be contiguous"),
        (np.zeros((4, 2), np.float32)[::-1], LaunchError, "negative strides"),
        ([[1.0]], LaunchError, "builtins.list; supported: numpy.ndarray"),
    ],
)
def test_wrong_arguments_are_refused_before_any_launch(argument, error, message, monkeypatch):
    monkeypatch.setitem(EXECUTORS, "emulator", Executor("emulator", never, ("gfx1151",)))
    out = np.full((2, 2), 7, np.float32)
    with pytest.raises(error, match=message):
        runtime.launch(scale_artifact(2.0), argument, out=out, executor="emulator")
    assert (out == 7).all()


def never(artifact, prepared):
    raise AssertionError("nothing may be launched")


def test_wrong_number_of_arguments_names_them():
    with pytest.raises(LaunchError, match=r"takes 1 arguments \(x\), got 2"):
        runtime.launch(scale_artifact(2.0), matrix(2, 2), matrix(2, 2), executor="emulator")


def test_unknown_executor_and_foreign_chip():
    with pytest.raises(LaunchError, match="unknown executor 'cuda'; supported: auto, hip"):
        runtime.launch(scale_artifact(2.0), matrix(2, 2), executor="cuda")
    with pytest.raises(LaunchError, match="does not run artifacts for gfx1100; supported: gfx1151"):
        runtime.launch(scale_artifact(2.0, chip="gfx1100"), matrix(2, 2), executor="emulator")


def test_step_outside_the_execution_table_is_refused():
    step = scale_plan((2.0,)).steps[0]
    assert isinstance(step, LaunchStep)
    options = {**step.options, "out_dtype": "f32"}
    half = Plan(
        "half",
        (InputSlot("x", TensorSpec((None, None), "f16")),),
        (LaunchStep("elementwise", options, (0,), (1,), step.rules),),
        (1,),
    )
    artifact = Artifact.of("gfx1151", scale_code_object((2.0,)), half)
    from tessera.runtime import executors

    rows = executors._ROWS - {
        row for row in executors.EXECUTION_TABLE if (row.op, row.dtype) == ("elementwise", "f16")
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors, "_ROWS", rows)
        with pytest.raises(LaunchError, match="elementwise of f16 on rocm by executor 'emulator'"):
            runtime.launch(artifact, np.zeros((2, 2), np.float16), executor="emulator")


# Alignment.


def offset_by_one(array):
    storage = np.zeros(array.size + 5, array.dtype)
    start = (-storage.ctypes.data % 16) // array.dtype.itemsize + 1
    view = storage[start : start + array.size].reshape(array.shape)
    view[...] = array
    return view


def test_unaligned_tensor_without_a_variant_names_pointer_alignment():
    artifact = scale_artifact(2.0, requires=(ALIGNED,))
    np.testing.assert_array_equal(
        runtime.launch(artifact, matrix(3, 4), executor="reference"), matrix(3, 4) * 2
    )
    with pytest.raises(LaunchError, match=r"multiple of 16 bytes.*pointer alignment"):
        runtime.launch(artifact, offset_by_one(matrix(3, 4)), executor="reference")


def test_unaligned_tensor_falls_to_the_relaxed_variant_once():
    made = []

    def relaxed():
        made.append(scale_artifact(2.0))
        return made[-1]

    strict = scale_artifact(2.0, requires=(ALIGNED,))
    artifact = Artifact.of("gfx1151", strict.hsaco, strict.plan, relaxed=relaxed)
    for shape in ((3, 4), (5, 4), (3, 4)):
        x = offset_by_one(matrix(*shape))
        np.testing.assert_array_equal(runtime.launch(artifact, x, executor="emulator"), x * 2)
    runtime.launch(artifact, matrix(3, 4), executor="emulator")
    assert len(made) == 1


def test_address_beyond_the_alignment_class_is_refused():
    artifact = scale_artifact(2.0, requires=(("address(x0) % 64 == 0", "too wide"),))
    with pytest.raises(LaunchError, match="n dividing 16"):
        runtime.launch(artifact, matrix(3, 4), executor="reference")


def test_specializations_are_made_once():
    artifact = scale_artifact(2.0)
    made = []

    def make(artifact, prepared):
        made.append(prepared)
        return lambda call: LaunchRecord("emulator", "gfx1151", ())

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXECUTORS, "emulator", Executor("emulator", make, ("gfx1151",)))
        for shape in ((2, 3), (2, 3), (3, 2), (2, 3)):
            runtime.launch(artifact, matrix(*shape), executor="emulator")
    assert len(made) == 2


def test_launchers_of_sizes_that_never_repeat_do_not_pile_up():
    artifact = scale_artifact(2.0, 3.0)
    for columns in range(1, LAUNCHERS_PER_ARTIFACT + 20):
        runtime.launch(artifact, matrix(1, columns), executor="reference")
    assert len(artifact.launchers) == LAUNCHERS_PER_ARTIFACT
    result = runtime.launch(artifact, matrix(1, 1), executor="reference")
    np.testing.assert_array_equal(result, [[6.0]])


def test_empty_tensors_launch_nothing():
    result = runtime.launch(scale_artifact(2.0), np.zeros((0, 5), np.float32), executor="emulator")
    assert result.shape == (0, 5)
    assert runtime.last_launch().kernels == ()


def test_grid_limit_and_scalar_range_are_checked():
    from dataclasses import replace

    def with_rule(**changes):
        plan = scale_plan((2.0,))
        (step,) = plan.launches
        step = replace(step, rules=(replace(step.rules[0], **changes),))
        return Artifact.of("gfx1151", scale_code_object((2.0,)), replace(plan, steps=(step,)))

    with pytest.raises(LaunchError, match="grid y = 65536 workgroups"):
        runtime.launch(with_rule(grid=("1", "65536", "1")), matrix(2, 2), executor="emulator")
    rule = scale_plan((2.0,)).launches[0].rules[0]
    count = replace(rule.arguments[2], dtype="i32", value="2**31")
    arguments = (*rule.arguments[:2], count)
    with pytest.raises(LaunchError, match="'n' = 2147483648 does not fit i32.*64-bit"):
        runtime.launch(with_rule(arguments=arguments), matrix(2, 2), executor="emulator")
