"""Keyword options of a compilation to one frozen record, with every name and value checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from tessera.errors import OptionError, supported

OPT_LEVELS = (0, 1, 2, 3)
ALIGNMENTS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class CompileOptions:
    """What a compilation may be told beside its target.

    `opt_level` is LLVM's -O level. `alignment`, in bytes, is the most that any kernel may demand of
    a row's start (but at least its element); None leaves what the levels above have found.
    """

    opt_level: int = 3
    alignment: int | None = None

    def __post_init__(self) -> None:
        _check("opt_level", self.opt_level, OPT_LEVELS)
        if self.alignment is not None:
            _check("alignment", self.alignment, ALIGNMENTS)

    def to_dict(self) -> dict[str, int | None]:
        """Every option by name, JSON-ready."""
        return asdict(self)

    @staticmethod
    def of(options: CompileOptions | Mapping[str, object] | None) -> CompileOptions:
        """Options from keywords; OptionError names an unknown one and lists the known."""
        if isinstance(options, CompileOptions):
            return options
        known = [field.name for field in fields(CompileOptions)]
        for name in options or {}:
            if name not in known:
                raise OptionError(f"unknown option {name!r}; " + supported(known))
        return CompileOptions(**(options or {}))  # type: ignore[arg-type]


def _check(name: str, value: object, allowed: tuple[int, ...]) -> None:
    if isinstance(value, bool) or value not in allowed:
        raise OptionError(f"{name} = {value!r} is not allowed; " + supported(allowed))
