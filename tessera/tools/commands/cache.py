"""`tessera cache`: what the compile cache holds; checks and removals."""

from __future__ import annotations

import time

import typer

from tessera.runtime import cache

app = typer.Typer(help="Look at the compile cache, check it, or empty it.", no_args_is_help=True)


@app.command("list")
def list_entries() -> None:
    """List all entries, least recently used first."""
    from rich.console import Console
    from rich.table import Table

    table = Table("entry", "chip", "KiB", "last used", "state", title=str(cache.folder()))
    for info in cache.entries():
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.last_used))
        state = "damaged" if info.problem else "intact"
        table.add_row(info.name, info.chip, f"{info.bytes / 1024:.1f}", used, state)
    Console(width=max(100, Console().width)).print(table)


@app.command("verify")
def verify() -> int:
    """Check every file against its hash and remove damaged entries; status 1 if there were any."""
    damaged, count = 0, 0
    for info in list(cache.entries()):
        count += 1
        if info.problem:
            damaged += 1
            cache.remove(info.name)
            print(f"{info.name}: removed: {info.problem}")
    print(f"{count} entries, {damaged} damaged")
    return 1 if damaged else 0


@app.command("clear")
def clear() -> None:
    """Remove all entries."""
    count = cache.clear()
    print(f"removed {count} entr{'y' if count == 1 else 'ies'} from {cache.folder()}")
