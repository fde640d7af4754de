"""The search for ld.lld in its documented order, and its errors."""

import os
import sys
from pathlib import Path

import pytest

from tessera.codegen import link as module
from tessera.errors import CompileError, LinkerNotFoundError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses POSIX programs as linkers")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without any linker: nothing on PATH, no ROCm, no wheel."""
    monkeypatch.delenv("TESSERA_LLD", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    monkeypatch.setattr(module, "_ziglang", lambda: None)
    module._find_linker.cache_clear()
    yield tmp_path
    module._find_linker.cache_clear()


def program(path: Path, script: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_no_linker_states_the_three_ways(machine):
    with pytest.raises(LinkerNotFoundError) as caught:
        module.find_linker()
    message = str(caught.value)
    assert all(way in message for way in ("tessera[lld]", "apt install lld", "TESSERA_LLD"))


def test_search_order_is_option_rocm_path_wheel(machine, monkeypatch):
    monkeypatch.setattr(module, "_ziglang", lambda: "/wheel/zig")
    assert module.find_linker() == module.Linker(("/wheel/zig", "ld.lld"), "ziglang wheel")

    program(machine / "bin/ld.lld-9")
    program(machine / "bin/ld.lld-19")
    module._find_linker.cache_clear()
    assert module.find_linker().command == (str(machine / "bin/ld.lld-19"),)

    plain = program(machine / "bin/ld.lld")
    module._find_linker.cache_clear()
    assert module.find_linker() == module.Linker((str(plain),), "PATH")

    rocm = program(machine / "rocm/llvm/bin/ld.lld")
    module._find_linker.cache_clear()
    assert module.find_linker() == module.Linker((str(rocm),), "ROCm")

    own = program(machine / "own/lld")
    monkeypatch.setenv("TESSERA_LLD", str(own))
    assert module.find_linker() == module.Linker((str(own),), "TESSERA_LLD")


def test_option_that_names_no_program_is_an_error(machine, monkeypatch):
    program(machine / "bin/ld.lld")
    monkeypatch.setenv("TESSERA_LLD", str(machine / "absent"))
    with pytest.raises(LinkerNotFoundError, match=r"TESSERA_LLD='.*absent'"):
        module.find_linker()


def test_linker_failure_carries_its_message(machine, monkeypatch):
    failing = program(machine / "lld", "echo 'lld: error: bad relocation' >&2; exit 1")
    monkeypatch.setenv("TESSERA_LLD", str(failing))
    with pytest.raises(CompileError, match="lld: error: bad relocation"):
        module.link(b"not an object")


def test_linker_without_output_is_a_failure(machine, monkeypatch):
    monkeypatch.setenv("TESSERA_LLD", str(program(machine / "lld")))
    with pytest.raises(CompileError, match="exit status 0"):
        module.link(b"anything")


def test_version_is_read_from_the_linker(machine):
    lld = program(machine / "lld", "echo 'Debian LLD 19.1.7 (compatible with GNU linkers)'")
    assert module.linker_version(module.Linker((str(lld),), "PATH")) == "LLD 19.1.7"


def test_wheel_is_found_when_it_is_installed():
    pytest.importorskip("ziglang")
    zig = module._ziglang()
    assert zig is not None
    assert os.access(zig, os.X_OK)
