"""Environment variables to typed settings: every TESSERA_* switch stands in one table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tessera.errors import OptionError, supported


@dataclass(frozen=True)
class Switch:
    """One environment variable: its default, what it does, and the values that it allows.

    `choices` is empty for free text (paths, numbers); `is_number` asks for an integer >= 0.
    """

    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()
    is_number: bool = False


SWITCHES: Mapping[str, Switch] = MappingProxyType(
    {
        switch.name: switch
        for switch in (
            Switch("TESSERA_LLD", "", "path of the ld.lld that links code objects"),
            Switch(
                "TESSERA_CACHE",
                "on",
                "compile cache: on, off, or require (a miss is an error)",
                ("on", "off", "require"),
            ),
            Switch(
                "TESSERA_CACHE_DIR",
                "",
                "folder of the compile cache; empty: tessera under $XDG_CACHE_HOME or ~/.cache",
            ),
            Switch(
                "TESSERA_CACHE_LIMIT_MB",
                "512",
                "size in MiB above which the least recently used cache entries are removed",
                is_number=True,
            ),
            Switch(
                "TESSERA_EXECUTOR",
                "auto",
                "executor of launches that ask for none",
                ("auto", "hip", "emulator", "reference"),
            ),
            Switch("TESSERA_HIP", "", "path of libamdhip64.so (amdhip64.dll on Windows)"),
            Switch(
                "TESSERA_VERIFY",
                "0",
                "1: verify the module after every pass, and not only where levels change",
                ("0", "1"),
            ),
        )
    }
)
"""Every switch by name. `tessera doctor` prints this table with the values in force."""


def read(name: str) -> str:
    """The value of the switch `name`, or its default where it is unset or empty.

    Raises OptionError for a value that the switch does not allow.
    """
    switch = SWITCHES[name]
    value = os.environ.get(name, "") or switch.default
    if switch.choices and value not in switch.choices:
        raise OptionError(f"{name}={value!r} is not allowed; " + supported(switch.choices))
    if switch.is_number and not value.isdecimal():
        raise OptionError(f"{name}={value!r} is not an integer >= 0")
    return value


def read_number(name: str) -> int:
    """The value of a switch that is a number; OptionError when it is not one."""
    return int(read(name))
