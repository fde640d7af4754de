"""Tessera: Python functions to AMD RDNA code objects, and an emulator that runs the binaries.

Every public name is loaded on first use, so that `import tessera` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from time import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tessera import emulator, errors, ops, reference, runtime, testing
    from tessera.artifact import Artifact
    from tessera.compiler import compile
    from tessera.frontend.jit import jit
    from tessera.runtime.loading import load

__version__ = "0.1.0"

__imported_at__ = time()
"""When this process began to load the package, in seconds since the epoch."""

_NAMES = {
    "Artifact": "tessera.artifact",
    "compile": "tessera.compiler",
    "jit": "tessera.frontend.jit",
    "load": "tessera.runtime.loading",
}
"""Public functions and classes, and the module that each lives in."""

_MODULES = ("emulator", "errors", "ops", "reference", "runtime", "testing")
"""Public modules of this package."""

__all__ = [
    "Artifact",
    "compile",
    "emulator",
    "errors",
    "jit",
    "load",
    "ops",
    "reference",
    "runtime",
    "testing",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use; AttributeError for any other."""
    if name in _NAMES:
        value = getattr(import_module(_NAMES[name]), name)
    elif name in _MODULES:
        value = import_module(f"tessera.{name}")
    else:
        raise AttributeError(f"module 'tessera' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Public names, loaded or not."""
    return [*__all__, "__version__"]
