"""The `executor` fixture: each kernel test has one body, run on the emulator and on a device."""

from __future__ import annotations

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every test that asks for `executor` the emulator and the attached device."""
    if "executor" in metafunc.fixturenames:
        executors = ["emulator", pytest.param("hip", marks=pytest.mark.device)]
        metafunc.parametrize("executor", executors, scope="session")


@pytest.fixture(autouse=True)
def _device_or_skip(request: pytest.FixtureRequest) -> None:
    """Skip a device test, with the reason, where no supported AMD GPU is attached."""
    if request.node.get_closest_marker("device") is not None:
        reason = request.getfixturevalue("no_device_reason")
        if reason:
            pytest.skip(reason)


@pytest.fixture(scope="session")
def no_device_reason() -> str:
    """Why no device test can run here; empty where one can."""
    from tessera.runtime import hip

    return hip.unavailable_reason() or ""
