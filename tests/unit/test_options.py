"""Compile options: defaults, unknown names, and values that are refused."""

import pytest

from tessera.errors import OptionError
from tessera.options import CompileOptions


def test_defaults_and_keywords():
    assert CompileOptions.of(None) == CompileOptions(opt_level=3, alignment=None)
    assert CompileOptions.of({"opt_level": 1}).opt_level == 1
    options = CompileOptions(alignment=4)
    assert CompileOptions.of(options) is options
    assert CompileOptions.of(options.to_dict()) == options


def test_unknown_option_lists_the_known():
    with pytest.raises(OptionError, match="unknown option 'fast'; supported: opt_level, alignment"):
        CompileOptions.of({"fast": True})


@pytest.mark.parametrize(
    "options", [{"opt_level": 4}, {"opt_level": True}, {"alignment": 3}, {"alignment": 0}]
)
def test_value_outside_the_allowed_is_refused(options):
    (name, value), *_ = options.items()
    with pytest.raises(OptionError, match=f"{name} = {value} is not allowed; supported: "):
        CompileOptions.of(options)
