"""What a function captures is part of its specialization: closures, globals, helpers, partials."""

import functools
import types
from typing import Any

import numpy as np
import pytest

from tessera import ops as typed_ops
from tessera.frontend.captured import captured_key
from tessera.frontend.jit import jit

ops: Any = typed_ops
OFFSET = 1.0


def helper(x):
    return x + OFFSET


def uses_helper(x):
    return helper(x)


def uses_global(x):
    return next(one + OFFSET for one in (x,))


def scalar_of(function):
    """The first scalar in the traced function's graph."""
    text = str(function.trace(np.zeros((2, 2), np.float16)))
    return float(text.partition("scalar = ")[2].partition(" :")[0])


@pytest.mark.parametrize("function", [uses_global, helper, uses_helper])
def test_a_changed_global_changes_the_key(monkeypatch, function):
    before = captured_key(function)
    assert captured_key(function) == before
    monkeypatch.setitem(globals(), "OFFSET", 2.0)
    assert captured_key(function) != before
    # Equal numbers of other types are other numbers.
    monkeypatch.setitem(globals(), "OFFSET", 1)
    assert captured_key(function) != before
    monkeypatch.setitem(globals(), "OFFSET", 1.0)
    assert captured_key(function) == before


def test_b42_closure_value_that_changes_between_calls(monkeypatch):
    """x + c with c = 1, then c = 2, in one process."""
    compiled = []

    def record(module, target, options):
        compiled.append(str(module))
        return types.SimpleNamespace(text=str(module))

    monkeypatch.setattr("tessera.compiler.compile_module", record)
    c = 1.0

    @jit(target="gfx1151")
    def plus(x):
        return x + c

    x = np.zeros((2, 2), np.float16)
    first, symbolic = plus.lower(x), plus.lower()
    assert scalar_of(plus) == 1.0
    c = 2.0
    assert scalar_of(plus) == 2.0
    assert plus.lower(x) is not first
    assert plus.lower() is not symbolic
    c = 1.0
    assert plus.lower(x) is first
    assert len(compiled) == 4


def test_an_edited_helper_changes_the_key(monkeypatch):
    before = captured_key(uses_helper)
    monkeypatch.setitem(globals(), "helper", lambda x: x * OFFSET)
    assert captured_key(uses_helper) != before


def test_a_jitted_helper_is_looked_into(monkeypatch):
    inner = jit(target="gfx1151")(helper)

    def outer(x):
        return inner(x)

    before = captured_key(outer)
    monkeypatch.setitem(globals(), "OFFSET", 3.0)
    assert captured_key(outer) != before


def test_containers_are_compared_by_value_and_objects_by_identity():
    sizes, settings, thing = [1, 2], {"heads": 8}, object()

    def function(x):
        return x.reshape(sizes), settings["heads"], thing

    before = captured_key(function)
    sizes.append(3)
    assert captured_key(function) != before
    sizes.pop()
    settings["heads"] = 4
    assert captured_key(function) != before
    settings["heads"] = 8
    assert captured_key(function) == before
    thing = object()
    assert captured_key(function) != before


def test_partials_and_methods():
    def scaled(x, factor):
        return x * factor

    class Layer:
        def __call__(self, x):
            return x

        def run(self, x):
            return x

    assert captured_key(functools.partial(scaled, factor=2)) != captured_key(
        functools.partial(scaled, factor=3)
    )
    one, other = Layer(), Layer()
    assert captured_key(one.run) == captured_key(one.run)
    assert captured_key(one.run) != captured_key(other.run)
    assert captured_key(one) == ()


def test_recursion_and_unassigned_cells_end():
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert len(captured_key(even)) >= 2

    def early():
        return late

    before = captured_key(early)
    late = 1
    assert captured_key(early) != before


def test_other_packages_are_not_walked_through():
    def function(x):
        return ops.relu(np.broadcast_to(x, (2, 2)))

    from tessera.ops import relu

    def direct(x):
        return relu(x)

    assert len(captured_key(function)) == 1
    assert captured_key(direct) == (direct.__code__, relu.__code__)
