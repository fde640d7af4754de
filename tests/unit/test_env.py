"""TESSERA_* switches: defaults, values that are refused, and that no other one is read."""

import re
from pathlib import Path

import pytest

from tessera import env
from tessera.errors import OptionError

PACKAGE = Path(env.__file__).parent


@pytest.mark.parametrize("name", env.SWITCHES)
def test_default_is_allowed(name, monkeypatch):
    monkeypatch.delenv(name, raising=False)
    assert env.read(name) == env.SWITCHES[name].default
    monkeypatch.setenv(name, "")
    assert env.read(name) == env.SWITCHES[name].default


def test_value_outside_the_choices_is_named(monkeypatch):
    monkeypatch.setenv("TESSERA_CACHE", "sometimes")
    with pytest.raises(OptionError, match=r"TESSERA_CACHE='sometimes'.*on, off, require"):
        env.read("TESSERA_CACHE")


def test_number_is_checked(monkeypatch):
    monkeypatch.setenv("TESSERA_CACHE_LIMIT_MB", "-3")
    with pytest.raises(OptionError, match="not an integer"):
        env.read_number("TESSERA_CACHE_LIMIT_MB")
    monkeypatch.setenv("TESSERA_CACHE_LIMIT_MB", "7")
    assert env.read_number("TESSERA_CACHE_LIMIT_MB") == 7


def test_every_switch_in_the_sources_is_in_the_table():
    used = set()
    for path in PACKAGE.rglob("*.py"):
        used |= set(re.findall(r"TESSERA_[A-Z_]+", path.read_text()))
    assert used == set(env.SWITCHES)


def test_the_document_lists_every_switch():
    document = (PACKAGE.parent / "docs/runtime.md").read_text()
    table = document.partition("## Switches")[2].strip().splitlines()[2:]
    assert table == [
        f"| `{switch.name}` | {switch.default or '-'} | {switch.description} |"
        for switch in env.SWITCHES.values()
    ]
