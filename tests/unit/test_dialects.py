"""All dialects: effects, documentation and tests for every operation; attributes and views."""

import re
from pathlib import Path

import pytest
from xdsl.traits import MemoryEffect
from xdsl.utils.exceptions import VerifyException

from tessera.contracts import TensorSpec
from tessera.dialects.attributes import from_attribute, to_attribute
from tessera.dialects.graph import Graph, last_two_swapped
from tessera.dialects.rocm import Rocm
from tessera.dialects.spec import LEVELS, SPEC
from tessera.dialects.tensors import compatible, spec_of, tensor_type
from tessera.dialects.tile import Tile
from tessera.dialects.views import view_shape
from tessera.dialects.wave import Wave
from tessera.errors import OptionError, ShapeError
from tessera.transforms import PASSES, PIPELINES

FILECHECK = Path(__file__).parents[1] / "filecheck"
OURS = (Graph, Tile, Rocm, Wave)
OPERATIONS = [operation for dialect in OURS for operation in dialect.operations]
# An allocation is neither pure nor an access: two of them must not become one.
WITHOUT_EFFECT = {"wave.alloc_lds"}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_every_operation_declares_its_effects(operation):
    declared = any(isinstance(trait, MemoryEffect) for trait in operation.traits)
    assert declared is (operation.name not in WITHOUT_EFFECT)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_every_operation_says_what_it_means(operation):
    assert len((operation.__doc__ or "").strip()) > 20


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_every_operation_has_a_round_trip_test(operation):
    texts = [path.read_text() for path in (FILECHECK / "dialects").glob("*.mlir")]
    pattern = re.compile(rf'^[^/]*\b{re.escape(operation.name)}(?=["( {{]|$)', re.MULTILINE)
    assert any(pattern.search(text) and "| tessera-opt |" in text for text in texts)


@pytest.mark.parametrize("name", [*PASSES, *PIPELINES])
def test_every_pass_and_pipeline_has_a_filecheck_test(name):
    texts = [path.read_text() for path in (FILECHECK / "transforms").glob("*.mlir")]
    assert any(re.search(rf"RUN: .*-p [^|]*\b{name}\b", text) for text in texts)


def test_every_operation_is_legal_at_some_level():
    for operation in OPERATIONS:
        assert any(SPEC[level].allows(operation.name) for level in LEVELS), operation.name


@pytest.mark.parametrize(
    "value",
    [True, False, 0, -3, 2**40, 0.5, -1e300, "text", (1, 2, 3), {"a": 1, "b": True, "c": "x"}],
)
def test_attributes_give_back_their_value(value):
    found = from_attribute(to_attribute(value))
    assert found == value
    assert type(found) is type(value)


def test_values_and_attributes_of_other_kinds_are_refused():
    with pytest.raises(TypeError, match="no attribute for"):
        to_attribute(None)
    with pytest.raises(VerifyException, match="is no bool, integer"):
        from_attribute(tensor_type(TensorSpec((2,), "f16")))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("shape", [(), (3,), (None, 4), (0, None, 1)])
def test_tensor_types_give_back_their_spec(shape, dtype):
    spec = TensorSpec(shape, dtype)
    assert spec_of(tensor_type(spec)) == spec


@pytest.mark.parametrize(
    "left, right, fits",
    [
        ((2, 3), (2, 3), True),
        ((None, 3), (2, None), True),
        ((2, 3), (2, 4), False),
        ((2,), (2, 1), False),
    ],
)
def test_unknown_sizes_fit_every_size(left, right, fits):
    assert compatible(TensorSpec(left, "f16"), TensorSpec(right, "f16")) is fits
    assert not compatible(TensorSpec(left, "f16"), TensorSpec(left, "f32"))


@pytest.mark.parametrize(
    "kind, parameters, shape, expected",
    [
        ("reshape", (6,), (2, 3), (6,)),
        ("reshape", (1, -1, 2), (4, 3), (1, 6, 2)),
        ("reshape", (-1, 2), (None, 3), (None, 2)),
        ("reshape", (-1, -1), (2, 3), (None, None)),
        ("reshape", (0, 5), (0, 3), (0, 5)),
        ("reshape", (), (1, 1), ()),
        ("permute", (1, 2, 0), (2, None, 4), (None, 4, 2)),
        ("permute", (), (), ()),
    ],
)
def test_shapes_of_views(kind, parameters, shape, expected):
    assert view_shape(kind, parameters, shape) == expected


@pytest.mark.parametrize(
    "kind, parameters, shape",
    [
        ("reshape", (7,), (2, 3)),
        ("reshape", (-1, 4), (2, 3)),
        ("reshape", (-1, 0), (0, 3)),
        ("reshape", (-2, 3), (2, 3)),
        ("permute", (0,), (2, 3)),
        ("permute", (0, 2), (2, 3)),
        ("permute", (1, 1), (2, 3)),
    ],
)
def test_views_that_do_not_fit(kind, parameters, shape):
    with pytest.raises(ShapeError, match=kind):
        view_shape(kind, parameters, shape)


def test_unknown_view_kind():
    with pytest.raises(OptionError, match="'slice'; supported: reshape, permute"):
        view_shape("slice", (), ())


@pytest.mark.parametrize("rank, axes", [(0, ()), (1, (0,)), (2, (1, 0)), (4, (0, 1, 3, 2))])
def test_last_two_axes_swapped(rank, axes):
    assert last_two_swapped(rank) == axes
