"""Fixtures for tests of the HIP executor: a stand-in library, or the machine's own device."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from stand_in import StandIn

from tessera.runtime import hip


@pytest.fixture(scope="session")
def stand_in_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in libamdhip64, compiled once per session; skips without a C compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in libamdhip64 with")
    path = tmp_path_factory.mktemp("hip") / "libamdhip64.so"
    source = Path(__file__).with_name("stand_in_hip.c")
    subprocess.run(
        [compiler, "-O1", "-Wall", "-shared", "-fPIC", "-o", str(path), str(source)], check=True
    )
    return path


@pytest.fixture
def stand_in(stand_in_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """The stand-in as the HIP library of this process, launching on the emulator."""
    monkeypatch.setenv("TESSERA_HIP", str(stand_in_path))
    hip._chips.cache_clear()
    library = StandIn(ctypes.CDLL(str(stand_in_path)))
    library.reset()
    yield library
    library.reset()
    hip._chips.cache_clear()


@pytest.fixture(params=["stand-in", pytest.param("device", marks=pytest.mark.device)])
def hip_runtime(request: pytest.FixtureRequest) -> str:
    """Runs a test through the stand-in, and on the attached device where there is one."""
    if request.param == "stand-in":
        request.getfixturevalue("stand_in")
    else:
        reason = hip.unavailable_reason()
        if reason:
            pytest.skip(reason)
    return request.param


@pytest.fixture
def matrix() -> np.ndarray:
    """A small f32 matrix with distinct values."""
    return np.arange(15, dtype=np.float32).reshape(3, 5) + 1
