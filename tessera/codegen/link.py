"""A relocatable AMDGPU object to a loadable code object, by whichever ld.lld the machine has."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tessera import env
from tessera.errors import CompileError, LinkerNotFoundError

_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Linker:
    """The command that starts ld.lld, and where it was found."""

    command: tuple[str, ...]
    source: str


def link(object_bytes: bytes) -> bytes:
    """The shared object (hsaco) for one relocatable object.

    Raises LinkerNotFoundError when the machine has no linker, CompileError with the linker's own
    message when it refuses the object.
    """
    command = find_linker().command
    with tempfile.TemporaryDirectory(prefix="tessera-link-") as folder:
        source, result = Path(folder, "kernels.o"), Path(folder, "kernels.hsaco")
        source.write_bytes(object_bytes)
        try:
            done = subprocess.run(
                # No build id and no path in the output: equal input gives equal bytes.
                [*command, "-shared", "--build-id=none", str(source), "-o", str(result)],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(f"linker {' '.join(command)} did not run: {error}") from error
        if done.returncode or not result.is_file():
            message = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
            raise CompileError(f"linker {' '.join(command)}: {message}")
        return result.read_bytes()


def find_linker() -> Linker:
    """The first ld.lld of: TESSERA_LLD, ROCm, PATH, the `ziglang` wheel.

    Raises LinkerNotFoundError that states the three ways to get one.
    """
    return _find_linker(env.read("TESSERA_LLD"), os.environ.get("PATH", ""), _rocm_folder())


def linker_version(linker: Linker) -> str:
    """The version line of a linker, as in "LLD 22.1.8"."""
    return _version(linker.command)


@lru_cache(maxsize=8)
def _version(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"linker {' '.join(command)} did not run: {error}") from error
    found = re.search(r"LLD \d[\w.]*", done.stdout)
    return found[0] if found else done.stdout.strip()


def _rocm_folder() -> str:
    return os.environ.get("ROCM_PATH", "") or "/opt/rocm"


@lru_cache(maxsize=8)
def _find_linker(chosen: str, path: str, rocm: str) -> Linker:
    if chosen:
        found = shutil.which(chosen, path=path)
        if found is None:
            raise LinkerNotFoundError(f"TESSERA_LLD={chosen!r} is not an executable file")
        return Linker((found,), "TESSERA_LLD")
    for place in ("llvm/bin/ld.lld", "lib/llvm/bin/ld.lld"):
        candidate = Path(rocm, place)
        if os.access(candidate, os.X_OK):
            return Linker((str(candidate),), "ROCm")
    found = shutil.which("ld.lld", path=path) or _newest_numbered(path)
    if found is not None:
        return Linker((found,), "PATH")
    wheel = _ziglang()
    if wheel is not None:
        return Linker((wheel, "ld.lld"), "ziglang wheel")
    raise LinkerNotFoundError(
        "no ld.lld was found, which links AMD code objects. Any of three ways gives one: "
        "`pip install 'tessera[lld]'` (the ziglang wheel); "
        "your system's package (`apt install lld`, or ROCm, whose own is found under ROCM_PATH); "
        "or set TESSERA_LLD to the path of an ld.lld"
    )


def _newest_numbered(path: str) -> str | None:
    """ld.lld-22 rather than ld.lld-19, as Debian names them; None without any."""
    found: list[tuple[int, str]] = []
    for folder in path.split(os.pathsep):
        for candidate in Path(folder).glob("ld.lld-*") if folder else ():
            version = candidate.name.removeprefix("ld.lld-")
            if version.isdecimal() and os.access(candidate, os.X_OK):
                found.append((int(version), str(candidate)))
    return max(found)[1] if found else None


def _ziglang() -> str | None:
    """The zig program of the `ziglang` wheel: `python -m ziglang` without a second Python."""
    spec = importlib.util.find_spec("ziglang")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in ("zig", "zig.exe"):
            if Path(folder, name).is_file():
                return str(Path(folder, name))
    return None
