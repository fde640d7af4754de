"""`tessera doctor`: what this machine has, what will be used, and how to get what is missing."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from tessera import __version__, env
from tessera.errors import LinkerNotFoundError, TesseraError

MISSING_COMPILER = 1
"""Exit status where nothing can be compiled, or what was compiled cannot be run."""


@dataclass(frozen=True)
class Finding:
    """One line of the report: `state` is "ok", "absent" (not needed) or "missing" (needed)."""

    subject: str
    state: str
    text: str


def command() -> int:
    """Report what was found; exit status 0 if compiling and running works, else 1."""
    from rich.console import Console
    from rich.table import Table

    findings = examine()
    console = Console()
    table = Table("", "state")
    table.add_column("what was found", overflow="fold")
    colors = {"ok": "green", "absent": "yellow", "missing": "red"}
    for finding in findings:
        color = colors[finding.state]
        table.add_row(finding.subject, f"[{color}]{finding.state}[/{color}]", finding.text)
    console.print(table)
    switches = Table("switch", "value", "what it does")
    for name, switch in env.SWITCHES.items():
        is_set = bool(os.environ.get(name))
        value = os.environ.get(name, switch.default)
        switches.add_row(name, value if is_set else f"{value or '-'} (default)", switch.description)
    console.print(switches)
    return MISSING_COMPILER if any(one.state == "missing" for one in findings) else 0


def examine() -> list[Finding]:
    """Everything that is looked at, in the order of the report."""
    return [
        Finding("tessera", "ok", f"{__version__} on Python {platform.python_version()}"),
        _package("xdsl", "missing", "pip install tessera"),
        _package("llvmlite", "missing", "pip install tessera"),
        _linker(),
        _device(),
        _emulator(),
        _package("torch", "absent", "pip install 'tessera[torch]'"),
        _cache(),
        *_switches(),
    ]


def _package(name: str, otherwise: str, hint: str) -> Finding:
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, otherwise, f"not installed; {hint}")


def _linker() -> Finding:
    from tessera.codegen.link import find_linker, linker_version

    try:
        linker = find_linker()
        text = f"{linker_version(linker)}: {' '.join(linker.command)} ({linker.source})"
        return Finding("linker", "ok", text)
    except LinkerNotFoundError as error:
        return Finding("linker", "missing", str(error))
    except TesseraError as error:
        return Finding("linker", "missing", f"does not work: {error}")


def _device() -> Finding:
    from tessera.runtime import hip

    try:
        reason = hip.unavailable_reason()
        if reason is None:
            chips = ", ".join(hip.attached_chips())
            found = hip.library()
            assert found is not None
            text = f"{chips} through {found.path}; launches use executor hip"
            return Finding("device", "ok", text)
    except TesseraError as error:
        reason = str(error)
    return Finding("device", "absent", f"{reason}; launches use executor emulator")


def _emulator() -> Finding:
    from tessera.runtime import hip

    if find_spec("tinygrad") is not None:
        return Finding(
            "emulator", "ok", f"gfx1151, instruction tables of tinygrad {version('tinygrad')}"
        )
    state = "absent" if hip.attached_chips() else "missing"
    return Finding("emulator", state, "not installed; pip install 'tessera[emulator]'")


def _switches() -> list[Finding]:
    wrong = []
    for name in env.SWITCHES:
        try:
            env.read(name)
        except TesseraError as error:
            wrong.append(Finding(name, "missing", str(error)))
    return wrong


def _cache() -> Finding:
    try:
        if env.read("TESSERA_CACHE") == "off":
            return Finding("cache", "absent", "turned off by TESSERA_CACHE")
    except TesseraError as error:
        return Finding("cache", "absent", str(error))
    from tessera.runtime import cache

    try:
        place = cache.folder()
    except OSError as error:
        return Finding("cache", "absent", str(error))
    existing = place if place.exists() else next(p for p in place.parents if p.exists())
    if not os.access(existing, os.W_OK):
        return Finding("cache", "absent", f"{place} cannot be written; set TESSERA_CACHE_DIR")
    return Finding("cache", "ok", str(place))
