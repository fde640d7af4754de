"""The exceptions of Tessera: each names what was refused and what is supported instead."""

from __future__ import annotations

from collections.abc import Iterable


class TesseraError(Exception):
    """Base of every error that Tessera raises on purpose."""


class ShapeError(TesseraError, ValueError):
    """A tensor's rank or a dimension does not fit the operation; names operation and operand."""


class DtypeError(TesseraError, TypeError):
    """An element type that the operation or chip does not support; lists the supported ones."""


class OptionError(TesseraError, ValueError):
    """An unknown option, or a value outside what an option allows; lists the allowed ones."""


class TargetError(TesseraError, ValueError):
    """An unknown chip, or something that the named chip cannot do."""


class ResourceError(TesseraError, ValueError):
    """A kernel needs more LDS or registers than the chip has; gives both numbers."""


class CompileError(TesseraError, RuntimeError):
    """The compiler's own output was refused further down (verifier, LLVM, linker)."""


class LinkerNotFoundError(CompileError):
    """No `ld.lld` was found; the message lists the ways to get one."""


class LaunchError(TesseraError, RuntimeError):
    """A launch was refused before, or failed while, running; names kernel and rule."""


class ArtifactError(TesseraError, ValueError):
    """A saved artifact or code object is damaged, foreign or of another version."""


def supported(values: Iterable[object]) -> str:
    """The tail of an error message that lists what is supported, in the given order."""
    return "supported: " + ", ".join(str(value) for value in values)
