"""The `tessera` command: a table of subcommands, and every error as one line with exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer

from tessera.errors import TesseraError

USAGE_ERROR = 2


@dataclass(frozen=True)
class Command:
    """One subcommand: the module and function that implement it.

    A `forwards` command gets its arguments as they are and parses them itself.
    """

    name: str
    module: str
    forwards: bool = False

    def add_to(self, app: typer.Typer) -> None:
        """Register with the application; a module's `command` function or `app` group."""
        module = import_module(self.module)
        if hasattr(module, "app"):
            app.add_typer(module.app, name=self.name)
        elif self.forwards:
            app.command(
                self.name,
                add_help_option=False,
                context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
            )(module.command)
        else:
            app.command(self.name)(module.command)


COMMANDS = (
    Command("compile", "tessera.tools.commands.compile"),
    Command("run", "tessera.tools.commands.run"),
    Command("emulate", "tessera.tools.commands.emulate", forwards=True),
    Command("matrix", "tessera.tools.commands.matrix"),
    Command("ladder", "tessera.tools.commands.ladder"),
    Command("cache", "tessera.tools.commands.cache"),
    Command("doctor", "tessera.tools.commands.doctor"),
)
"""Every subcommand, in the order of `tessera --help`."""


def make_app() -> typer.Typer:
    """The application with all subcommands."""
    app = typer.Typer(
        name="tessera",
        help="Compile functions to AMD RDNA code objects, and run the binaries.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for command in COMMANDS:
        command.add_to(app)
    return app


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit status."""
    command = typer.main.get_command(make_app())
    try:
        status = command.main(
            args=None if arguments is None else list(arguments),
            prog_name="tessera",
            standalone_mode=False,
        )
    except TesseraError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(str(error))
    except Exception as error:
        # Usage errors of the option parser; typer brings it along under changing module names.
        if type(error).__name__ == "NoArgsIsHelpError":
            return 0
        if not hasattr(error, "format_message"):
            raise
        return _fail(error.format_message())  # type: ignore[attr-defined]
    return status if isinstance(status, int) else 0


def _fail(message: str) -> int:
    print(f"tessera: error: {' '.join(message.split())}", file=sys.stderr)
    return USAGE_ERROR


def main() -> Any:
    """Entry point of the console script."""
    sys.exit(run())


if __name__ == "__main__":
    main()
