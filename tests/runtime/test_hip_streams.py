"""The HIP executor over time: lifetimes of tensors and modules, streams, threads, graph capture."""

import gc
import threading

import numpy as np
import pytest
from small_kernels import scale_artifact

from tessera import runtime
from tessera.errors import LaunchError
from tessera.runtime import hip
from tessera.runtime.device_array import DeviceArray


def on_host(result):
    return result.to_host() if isinstance(result, DeviceArray) else result


def test_tensors_live_until_the_stream_is_done(stand_in, matrix):
    artifact = scale_artifact(2.0)
    results = []
    for index in range(50):
        results.append(runtime.launch(artifact, DeviceArray.from_host(matrix)))
        if index % 20 == 0:
            gc.collect()
        DeviceArray.from_host(np.full_like(matrix, np.nan))
    for result in results:
        np.testing.assert_array_equal(result.to_host(), matrix * 2)


def test_nothing_grows_over_many_launches_and_modules(stand_in, matrix):
    def once(factor):
        artifact = scale_artifact(factor)
        x = DeviceArray.from_host(matrix)
        for _ in range(3):
            np.testing.assert_array_equal(on_host(runtime.launch(artifact, x)), matrix * factor)
            runtime.launch(artifact, matrix, executor="hip")

    once(2.0)
    gc.collect()
    before = [stand_in.count(what) for what in ("allocations", "modules", "events")]
    for _ in range(20):
        once(2.0)
        once(3.0)
    gc.collect()
    assert [stand_in.count(what) for what in ("allocations", "modules", "events")] == before


def test_code_goes_with_its_artifact_and_only_after_its_last_launch(stand_in, matrix):
    gc.collect()
    gc.disable()
    try:
        before = stand_in.count("modules")
        x = DeviceArray.from_host(matrix)
        result = runtime.launch(scale_artifact(2.0, 3.0, 4.0), x)
        assert stand_in.count("modules") == before
        np.testing.assert_array_equal(result.to_host(), matrix * 24)
    finally:
        gc.enable()


def test_stream_of_the_caller_is_used(stand_in, matrix):
    library = hip.library()
    assert library is not None
    stream = library.created("hipStreamCreate")
    x = DeviceArray.from_host(matrix)
    artifact = scale_artifact(2.0, 2.0)
    result = runtime.launch(artifact, x, stream=stream)
    assert stand_in.pending(stream) >= 2
    assert stand_in.pending() == 0
    library.check("hipStreamSynchronize", stream)
    np.testing.assert_array_equal(result.to_host(), matrix * 4)


def test_streams_do_not_share_intermediates(stand_in, matrix):
    library = hip.library()
    assert library is not None
    streams = [library.created("hipStreamCreate") for _ in range(2)]
    artifact = scale_artifact(2.0, 2.0)
    arrays = [DeviceArray.from_host(matrix * factor) for factor in (1, 10)]
    results = [
        runtime.launch(artifact, x, stream=stream)
        for x, stream in zip(arrays, streams, strict=True)
    ]
    for stream in reversed(streams):
        library.check("hipStreamSynchronize", stream)
    np.testing.assert_array_equal(results[0].to_host(), matrix * 4)
    np.testing.assert_array_equal(results[1].to_host(), matrix * 40)


def test_capture_needs_one_launch_before_and_allocates_nothing(stand_in, matrix):
    library = hip.library()
    assert library is not None
    stream = library.created("hipStreamCreate")
    artifact = scale_artifact(2.0, 2.0)
    x, out = DeviceArray.from_host(matrix), DeviceArray.from_host(matrix)
    stand_in.library.stand_in_begin_capture(stream)
    with pytest.raises(LaunchError, match="capturing a graph.*launch once on this stream before"):
        runtime.launch(artifact, x, out=out, stream=stream)
    stand_in.library.stand_in_end_capture(stream)
    runtime.launch(artifact, x, out=out, stream=stream)
    allocations, events = stand_in.count("allocations"), stand_in.count("events")
    stand_in.library.stand_in_begin_capture(stream)
    runtime.launch(artifact, x, out=out, stream=stream)
    stand_in.library.stand_in_end_capture(stream)
    assert (stand_in.count("allocations"), stand_in.count("events")) == (allocations, events)


def test_threads_on_one_stream_do_not_share_intermediates(stand_in, matrix):
    artifact = scale_artifact(2.0, 2.0, 2.0)
    arrays = [DeviceArray.from_host(matrix * factor) for factor in range(1, 5)]
    results: dict[int, list[DeviceArray]] = {index: [] for index in range(len(arrays))}
    barrier = threading.Barrier(len(arrays))

    def run(index):
        barrier.wait()
        for _ in range(5):
            results[index].append(runtime.launch(artifact, arrays[index]))

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(arrays))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, found in results.items():
        for result in found:
            np.testing.assert_array_equal(result.to_host(), matrix * (index + 1) * 8)
