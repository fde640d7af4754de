"""Everything that decides a compilation's result to one printable key and its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
FORMAT = 1
"""Version of the entries' layout on disk."""


@dataclass(frozen=True)
class CacheKey:
    """What an entry of the compile cache is found by.

    `ir` is the module's text as compilation got it, `sources` the hash of this package's files.
    """

    chip: str
    options: tuple[tuple[str, object], ...]
    versions: tuple[tuple[str, str], ...]
    sources: str
    ir: str
    format: int = FORMAT

    @staticmethod
    def of(
        ir: str, chip: str, options: Mapping[str, object], versions: Mapping[str, str]
    ) -> CacheKey:
        """The key for one compilation by this package as it is on disk."""
        return CacheKey(chip, tuple(options.items()), tuple(versions.items()), sources_hash(), ir)

    @property
    def text(self) -> str:
        """The whole key, for people: one line per field, the module last."""
        lines = [
            f"{field.name}: {getattr(self, field.name)}"
            for field in fields(self)
            if field.name not in ("ir", "options", "versions")
        ]
        lines += [f"option {name}: {value!r}" for name, value in self.options]
        lines += [f"version of {name}: {value}" for name, value in self.versions]
        return "\n".join([*lines, self.ir])

    @property
    def digest(self) -> str:
        """The entry's folder name: 40 hexadecimal digits of the SHA-256 of `text`."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:40]


def source_files() -> list[Path]:
    """Every Python file of this package, sorted."""
    return sorted(PACKAGE.rglob("*.py"))


@lru_cache(maxsize=1)
def sources_hash() -> str:
    """Hash of this package's Python files, names included: another compiler is another key."""
    digest = hashlib.sha256()
    for path in source_files():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def sources_changed_since(moment: float) -> bool:
    """Whether a file of this package was written after `moment` (seconds since the epoch).

    A process that loaded the files before such an edit runs code that their hash does not tell.
    """
    try:
        return any(path.stat().st_mtime > moment for path in source_files())
    except OSError:
        return True
