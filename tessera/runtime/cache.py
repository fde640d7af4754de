"""Cache keys to stored compilations: one folder per key, written at once, checked when read."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tessera import __imported_at__, env
from tessera.errors import ArtifactError, CompileError
from tessera.runtime.cache_key import CacheKey, sources_changed_since

INDEX = "entry.json"
KEY_FILE = "key.txt"
CODE_OBJECT = "kernels.hsaco"
_TEMPORARY = "tmp-"
_STALE_SECONDS = 3600.0
# Files are stamped by a clock that lags behind the one that processes read.
_CLOCK_LAG_SECONDS = 0.1


@dataclass(frozen=True)
class Entry:
    """A stored compilation: the code object and the launch plan's dictionary."""

    hsaco: bytes
    plan: dict[str, Any]


@dataclass(frozen=True)
class EntryInfo:
    """One folder of the cache, for listings; `problem` is empty when its files are intact."""

    name: str
    chip: str
    bytes: int
    last_used: float
    problem: str


def folder() -> Path:
    """The cache's folder, whether it exists or not; OSError where the user has no home."""
    chosen = env.read("TESSERA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "tessera"
    except RuntimeError as error:
        raise OSError(f"{error}; set TESSERA_CACHE_DIR") from error


def lookup(key: CacheKey) -> Entry | None:
    """The entry for a key, or None: absent, damaged, or the cache is off.

    Raises CompileError on a miss when TESSERA_CACHE is `require`.
    """
    mode = env.read("TESSERA_CACHE")
    if mode == "off":
        return None
    try:
        place = folder() / key.digest
        entry = _read(place, key.text)
    except (OSError, ArtifactError) as error:
        if mode == "require":
            message = f"TESSERA_CACHE=require: no intact entry {key.digest}: {error}"
            raise CompileError(message) from error
        return None
    try:
        os.utime(place / INDEX)
    except OSError:
        pass  # A cache that cannot be written to is still good to read.
    return entry


def store(key: CacheKey, files: Mapping[str, bytes], plan: Mapping[str, Any]) -> bool:
    """Write an entry; False, after one warning, when that is not possible.

    `files` maps file names to contents, one per stage, among them `kernels.hsaco`.
    """
    if env.read("TESSERA_CACHE") == "off" or sources_changed_since(
        __imported_at__ - _CLOCK_LAG_SECONDS
    ):
        return False
    try:
        root = folder()
        root.mkdir(parents=True, exist_ok=True)
        _sweep(root)
        _write(root, key, {**files, KEY_FILE: key.text.encode()}, plan)
        _evict(root, env.read_number("TESSERA_CACHE_LIMIT_MB") * 2**20, keep=key.digest)
    except OSError as error:
        _warn_once(f"the compile cache cannot be written, compiling without it: {error}")
        return False
    return True


def entries() -> Iterator[EntryInfo]:
    """All entries, least recently used first, each checked against its hashes."""
    root = folder()
    for place in sorted(_entry_folders(root), key=_last_used):
        problem, chip = "", "?"
        try:
            index = _read_index(place)
            chip = index["chip"]
            for name in index["files"]:
                _read_file(place, index, name)
        except (OSError, ArtifactError) as error:
            problem = str(error)
        yield EntryInfo(place.name, chip, _size(place), _last_used(place), problem)


def remove(name: str) -> None:
    """Remove one entry; another process may have done so already."""
    _discard(folder(), folder() / name)


def clear() -> int:
    """Remove all entries and what killed processes left; returns how many entries there were."""
    root, count = folder(), 0
    for place in _entry_folders(root):
        _discard(root, place)
        count += 1
    for place in _temporary_folders(root):
        shutil.rmtree(place, ignore_errors=True)
    return count


# Reading.


def _read(place: Path, key_text: str) -> Entry:
    index = _read_index(place)
    if _read_file(place, index, KEY_FILE).decode() != key_text:
        raise ArtifactError(f"{place}: is of another key")
    return Entry(_read_file(place, index, CODE_OBJECT), index["plan"])


def _read_index(place: Path) -> dict[str, Any]:
    try:
        index = json.loads((place / INDEX).read_bytes())
    except ValueError as error:
        raise ArtifactError(f"{place / INDEX}: {error}") from error
    if not isinstance(index, dict) or index.pop("sha256", None) != _index_hash(index):
        raise ArtifactError(f"{place / INDEX}: damaged")
    return index


def _read_file(place: Path, index: Mapping[str, Any], name: str) -> bytes:
    content = (place / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != index["files"].get(name):
        raise ArtifactError(f"{place / name}: damaged")
    return content


def _index_hash(index: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()


# Writing.


def _write(root: Path, key: CacheKey, files: Mapping[str, bytes], plan: Mapping[str, Any]) -> None:
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    # Through JSON, so that the hash is that of what a reader will see.
    index = json.loads(json.dumps({"chip": key.chip, "plan": plan, "files": hashes}))
    index["sha256"] = _index_hash(index)
    temporary = _temporary(root)
    try:
        for name, content in {**files, INDEX: json.dumps(index, indent=1).encode()}.items():
            (temporary / name).write_bytes(content)
        _publish(root, temporary, root / key.digest, key.text)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _publish(root: Path, temporary: Path, place: Path, key_text: str) -> None:
    """Put a complete folder in place; one that is there already stays, if it is intact."""
    for _ in range(2):
        try:
            os.rename(temporary, place)
            return
        except OSError:
            if not place.is_dir():
                raise
        try:
            _read(place, key_text)
            return
        except (OSError, ArtifactError):
            _discard(root, place)
    # Somebody else put an entry there twice in the meantime: theirs is as good.


def _temporary(root: Path) -> Path:
    """A folder of our own; its name says whose it is, so that others know when it is stale."""
    prefix = f"{_TEMPORARY}{socket.gethostname()}-{os.getpid()}-"
    place = Path(tempfile.mkdtemp(dir=root, prefix=prefix))
    place.chmod(0o755)
    return place


def _discard(root: Path, place: Path) -> None:
    """Take an entry away at once, then delete its files."""
    temporary = _temporary(root)
    try:
        os.rename(place, temporary / place.name)
    except FileNotFoundError:
        pass
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _sweep(root: Path) -> None:
    """Delete what processes left that were killed while they wrote."""
    for place in _temporary_folders(root):
        host, process = place.name.removeprefix(_TEMPORARY).rsplit("-", 2)[:2]
        is_here = host == socket.gethostname() and process.isdecimal()
        if is_here and not _is_running(int(process)):
            shutil.rmtree(place, ignore_errors=True)
        elif not is_here and _age(place) > _STALE_SECONDS:
            shutil.rmtree(place, ignore_errors=True)


def _evict(root: Path, limit: int, keep: str) -> None:
    """Remove the least recently used entries until the rest fits; the new one stays."""
    sizes = {place: _size(place) for place in _entry_folders(root)}
    total = sum(sizes.values())
    for place in sorted(sizes, key=_last_used):
        if total <= limit:
            return
        if place.name != keep:
            _discard(root, place)
            total -= sizes[place]


def _entry_folders(root: Path) -> list[Path]:
    try:
        return [p for p in root.iterdir() if p.is_dir() and not p.name.startswith(_TEMPORARY)]
    except OSError:
        return []


def _temporary_folders(root: Path) -> list[Path]:
    return list(root.glob(f"{_TEMPORARY}*-*-*"))


def _is_running(process: int) -> bool:
    if os.name == "nt":
        return True  # Signal 0 would end the process there; age alone decides.
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _age(place: Path) -> float:
    try:
        return time.time() - place.stat().st_mtime
    except OSError:
        return 0.0


def _last_used(place: Path) -> float:
    try:
        return (place / INDEX).stat().st_mtime
    except OSError:
        return 0.0


def _size(place: Path) -> int:
    try:
        return sum(file.stat().st_size for file in place.iterdir())
    except OSError:
        return 0


_warned: set[str] = set()


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, RuntimeWarning, stacklevel=3)
