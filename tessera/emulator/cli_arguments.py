"""Words such as `out=zeros:f32:1000` to the values of a kernel's arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tessera.emulator.arguments import uninitialized
from tessera.emulator.code_object import KernelArgument, KernelDescription
from tessera.emulator.errors import LaunchArgumentError

# bf16 is kept as its bits: numpy has no such type.
TYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(np.uint16),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
}
FILLS = ("zeros", "ones", "empty", "random")
LARGEST_BUFFER_BYTES = 1 << 34
RANDOM_SEED = 0


@dataclass(frozen=True)
class ArgumentWord:
    """One word: the argument's name (None: the next in order), its value as text."""

    name: str | None
    text: str

    @property
    def is_output(self) -> bool:
        """Whether the word makes a buffer of its own."""
        return self.text.split(":")[0] in FILLS


def parse_argument(word: str) -> ArgumentWord:
    """Split NAME=VALUE; a word without `=` is a value for the next argument."""
    name, separator, text = word.partition("=")
    if not separator:
        return ArgumentWord(None, word)
    if not name or not text:
        raise LaunchArgumentError(f"--arg {word!r}: give NAME=VALUE")
    return ArgumentWord(name, text)


def values_for(kernel: KernelDescription, words: Sequence[ArgumentWord]) -> dict[str, Any]:
    """The value of every explicit argument by name, in order; pointers not named are null."""
    expected = kernel.explicit_arguments
    names = [argument.name for argument in expected]
    by_place: dict[int, ArgumentWord] = {}
    for word in words:
        place = _place(kernel, names, by_place, word)
        if place in by_place:
            raise LaunchArgumentError(
                f"--arg {word.name}: argument {names[place]!r} is given twice"
            )
        by_place[place] = word
    values: dict[str, Any] = {}
    for place, argument in enumerate(expected):
        given = by_place.get(place)
        if given is None and not argument.is_pointer:
            raise LaunchArgumentError(
                f"argument {argument.name!r} of kernel {kernel.name!r} is missing; "
                f"it takes: {', '.join(names)}"
            )
        values[argument.name] = None if given is None else _value(argument, given.text)
    return values


def _place(
    kernel: KernelDescription,
    names: list[str],
    taken: dict[int, ArgumentWord],
    word: ArgumentWord,
) -> int:
    if word.name is None:
        place = next((i for i in range(len(names)) if i not in taken), None)
        if place is None:
            raise LaunchArgumentError(f"kernel {kernel.name!r} takes {len(names)} arguments")
        return place
    if word.name in names:
        return names.index(word.name)
    numbered = re.fullmatch(r"arg(\d+)", word.name)
    if numbered and int(numbered[1]) < len(names):
        return int(numbered[1])
    known = ", ".join(names) or "none"
    raise LaunchArgumentError(
        f"kernel {kernel.name!r} has no argument {word.name!r}; it takes: {known}"
    )


def _value(argument: KernelArgument, text: str) -> Any:
    """An array, a number or None from the text behind the name."""
    where = f"argument {argument.name!r}: {text!r}"
    if text in ("null", "none"):
        return None
    if text.endswith(".npy"):
        return _file(where, text)
    parts = text.split(":")
    if parts[0] in FILLS:
        return _filled(where, parts)
    if argument.is_pointer:
        raise LaunchArgumentError(
            f"{where} is not a buffer: give FILE.npy, null, or one of {', '.join(FILLS)} "
            "as zeros:f32:1000"
        )
    return _number(where, argument, parts)


def _file(where: str, text: str) -> np.ndarray:
    if not Path(text).is_file():
        raise LaunchArgumentError(f"{where}: no such file")
    try:
        return np.load(text, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise LaunchArgumentError(f"{where} is not an .npy file of numbers ({error})") from None


def _type(where: str, name: str) -> np.dtype[Any]:
    if name not in TYPES:
        raise LaunchArgumentError(f"{where}: unknown type {name!r}; supported: {', '.join(TYPES)}")
    return TYPES[name]


def _filled(where: str, parts: list[str]) -> Any:
    if len(parts) != 3:
        raise LaunchArgumentError(f"{where}: give {parts[0]}:TYPE:SIZE, as {parts[0]}:f32:1000")
    dtype = _type(where, parts[1])
    try:
        shape = tuple(int(n) for n in re.split("[x,]", parts[2]))
    except ValueError:
        raise LaunchArgumentError(f"{where}: size {parts[2]!r} is not as 1000 or 4x256") from None
    size = dtype.itemsize
    for length in shape:
        size *= length
    if min(shape) < 0 or size > LARGEST_BUFFER_BYTES:
        raise LaunchArgumentError(f"{where}: a buffer of {size} bytes is out of range")
    if parts[0] == "ones":
        one = 0x3F80 if parts[1] == "bf16" else 1
        return np.full(shape, one, dtype)
    if parts[0] == "random":
        return _random(shape, parts[1], dtype)
    array = np.zeros(shape, dtype)
    return uninitialized(array) if parts[0] == "empty" else array


def _random(shape: tuple[int, ...], name: str, dtype: np.dtype[Any]) -> np.ndarray:
    """Standard normal floats, or integers over the whole range, from a fixed seed."""
    generator = np.random.default_rng(RANDOM_SEED)
    if name == "bf16":
        bits = generator.standard_normal(shape).astype(np.float32).view(np.uint32)
        return (bits >> 16).astype(np.uint16)
    if dtype.kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def _number(where: str, argument: KernelArgument, parts: list[str]) -> Any:
    """A number, with its type in front or taken from how it is written."""
    text = parts[-1]
    try:
        if len(parts) == 2:
            dtype = _type(where, parts[0])
            if parts[0] == "bf16":
                raise LaunchArgumentError(f"{where}: give bf16 numbers as u16 bits")
            number = float(text) if dtype.kind == "f" else int(text, 0)
            return np.array(number, dtype)[()]
        if len(parts) == 1:
            return int(text, 0) if re.fullmatch(r"[+-]?(0[xX])?[0-9a-fA-F]+", text) else float(text)
    except (ValueError, OverflowError):
        pass
    raise LaunchArgumentError(f"{where} is not a number of {argument.size} bytes, as 7 or f32:0.5")
