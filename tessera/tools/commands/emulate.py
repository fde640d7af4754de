"""`tessera emulate`: arguments, as they are, to the emulator's own command line."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    context: typer.Context,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="see tessera emulate --help", metavar="[ARGUMENTS]")
    ] = None,
) -> int:
    """Run a kernel of any gfx1151 code object on the emulator."""
    from tessera.emulator.cli import emulate_main

    return emulate_main([*(arguments or ()), *context.args])
