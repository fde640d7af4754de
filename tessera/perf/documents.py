"""Ladder documents to and from files, checked against the schema, and what moved between two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tessera.errors import OptionError

SCHEMA_FILE = Path(__file__).with_name("ladder.schema.json")


def validate(document: dict[str, Any]) -> None:
    """Raise OptionError where a document does not follow `ladder.schema.json`."""
    try:
        import jsonschema
    except ImportError as error:
        raise OptionError("ladder documents need jsonschema: install tessera[bench]") from error
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    try:
        jsonschema.validate(document, schema)
    except jsonschema.ValidationError as error:
        where = "/".join(str(part) for part in error.absolute_path)
        raise OptionError(f"ladder document, at {where or 'its root'}: {error.message}") from error


def save(document: dict[str, Any], path: Path) -> None:
    """Write a valid document; raises OptionError for another."""
    validate(document)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def load(path: Path) -> dict[str, Any]:
    """Read a document; OptionError when it is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{str(path)!r} is no ladder document: {error}") from error
    validate(document)
    return document


def row_key(row: dict[str, Any]) -> tuple[Any, ...]:
    """What identifies a row in two documents: shape, dtype and the schedule's name."""
    return (*sorted(row["shape"].items()), row["dtype"], row["schedule"]["name"])


def moved(old: dict[str, Any], new: dict[str, Any]) -> dict[tuple[Any, ...], float]:
    """New speed over old speed for every row that both documents timed.

    Raises OptionError when they are of different ladders or their times of different sources.
    """
    for name in ("ladder", "time_source"):
        if old[name] != new[name]:
            raise OptionError(f"compare: {name} is {old[name]!r} there and {new[name]!r} here")
    before = {row_key(row): row["seconds"] for row in old["rows"] if row["status"] == "ok"}
    return {
        row_key(row): before[row_key(row)] / row["seconds"]
        for row in new["rows"]
        if row["status"] == "ok" and row_key(row) in before
    }
