"""Passes from Python: names, pipelines, verification, and alignments against real memory."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from tessera.contracts import TensorSpec, reshape_strides
from tessera.dialects.spec import check_level, level_of, make_context
from tessera.errors import CompileError, OptionError
from tessera.frontend.arguments import alignment_of_argument
from tessera.frontend.jit import jit
from tessera.transforms import PASSES, PIPELINES, expand, make_pass, run_passes
from tessera.transforms.alignment import alignment_of
from tessera.transforms.kernel_names import KernelNames

DIRECTIVE = '"tessera_rocm.flash_attn"() {{name = "{}", head_dim = 64, dtype = "f16"}} : () -> ()\n'


def parse(text: str) -> ModuleOp:
    return Parser(make_context(), text).parse_module()


@pytest.mark.parametrize("name", PASSES)
def test_passes_are_called_what_the_table_says(name):
    made = make_pass(name, "gfx1100")
    assert made.name == name
    assert getattr(made, "target", "gfx1100") == "gfx1100"


def test_pipelines_name_passes_only():
    for name, passes in PIPELINES.items():
        assert list(expand([name])) == list(passes)
        assert set(passes) <= set(PASSES)
    with pytest.raises(OptionError, match="'lower'; supported: dce.*tessera-lower-to-rocm"):
        list(expand(["lower"]))


@pytest.mark.parametrize("name", PIPELINES)
def test_an_empty_module_goes_through_every_pipeline(name):
    module = ModuleOp([])
    run_passes(make_context(), module, name, target="gfx1151", verify=True)
    assert not list(module.body.block.ops)


def test_the_verifier_runs_after_a_pass_when_asked(monkeypatch):
    module = parse(DIRECTIVE.format("fa"))
    directive = module.body.block.first_op
    assert directive is not None
    del directive.attributes["dtype"]
    with pytest.raises(VerifyException):
        run_passes(make_context(), module, "dce", target="gfx1151", verify=True)
    run_passes(make_context(), module, "dce", target="gfx1151")


@pytest.mark.parametrize(
    "text, level",
    [
        ("builtin.module {\n}", "graph"),
        (DIRECTIVE.format("fa"), "target"),
        (
            "func.func @f(%x: tensor<2xf16>) {\n"
            '%y = tile.elementwise(%x) {name = "r", function = "relu"} : '
            "(tensor<2xf16>) -> tensor<2xf16>\nfunc.return\n}",
            "tile",
        ),
        ('"gpu.module"() <{sym_name = "kernels"}> ({}) : () -> ()', "kernel"),
    ],
)
def test_the_level_of_a_module(text, level):
    module = parse(text)
    assert level_of(module) == level
    check_level(module, level)


def test_two_kernels_of_one_name_are_refused_before_anything_is_generated():
    module = parse(DIRECTIVE.format("same") * 2)
    with pytest.raises(CompileError, match="'same' is used twice"):
        run_passes(make_context(), module, "tessera-lower-to-kernel", target="gfx1151")
    module = parse(DIRECTIVE.format("one") + DIRECTIVE.format("two"))
    run_passes(make_context(), module, "tessera-lower-to-kernel", target="gfx1151", verify=True)
    assert level_of(module) == "kernel"


def test_fresh_kernel_names():
    names = KernelNames()
    names.claim("matmul_1")
    assert [names.fresh("matmul") for _ in range(3)] == ["matmul_0", "matmul_2", "matmul_3"]
    assert names.fresh("relu") == "relu_0"


def allocated(shape, row_padding, offset):
    """An f16 array in padded rows, `offset` elements behind a 64-byte boundary."""
    *outer, row = shape or (1,)
    padded = (*outer, row + row_padding)
    raw = np.zeros(int(np.prod(padded)) * 2 + offset * 2 + 128, np.uint8)
    start = -raw.ctypes.data % 64 + 2 * offset
    count = int(np.prod(padded))
    array = raw[start : start + 2 * count].view(np.float16).reshape(padded)
    return array[..., :row].reshape(shape) if not shape else array[..., :row]


@st.composite
def views_of_arrays(draw):
    """(array, view kinds and parameters) with a shape whose rows are sometimes long enough."""
    sizes = st.sampled_from([1, 2, 3, 8, 16])
    shape: Any = tuple(draw(st.lists(sizes, min_size=1, max_size=3)))
    array = allocated(shape, draw(st.sampled_from([0, 1, 8])), draw(st.sampled_from([0, 1, 8])))
    steps = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["permute", "reshape"]))
        if kind == "permute":
            parameters = tuple(draw(st.permutations(range(len(shape)))))
            shape = tuple(shape[axis] for axis in parameters)
        else:
            factors = [
                draw(st.sampled_from([part for part in (1, 2, 8, size) if size % part == 0]))
                for size in shape
            ]
            split = [
                part for size, factor in zip(shape, factors) for part in (size // factor, factor)
            ]
            parameters = shape = tuple(split)
            if len(shape) > 4:
                parameters = shape = (int(np.prod(shape[:-1])), shape[-1])
        steps.append((kind, parameters))
    return array, steps


@settings(max_examples=200, deadline=None)
@given(views_of_arrays())
def test_a_promised_alignment_holds_in_memory(case):
    """Whatever views a function takes, the alignment that its kernels rely on is really there."""
    array, steps = case

    def function(x):
        for kind, parameters in steps:
            x = getattr(x, kind)(*parameters)
        return x

    module = jit(target="gfx1151")(function).trace(array)
    run_passes(make_context(), module, "graph-to-tile", target="gfx1151")
    host = module.body.block.first_op
    assert isinstance(host, FuncOp)
    last = host.body.block.last_op
    assert last is not None
    promised = alignment_of(last.operands[0])
    view = array
    for kind, parameters in steps:
        if kind == "permute":
            view = view.transpose(parameters)
            continue
        strides = reshape_strides(view.shape, view.strides, parameters)
        if strides is None:
            return
        view = np.lib.stride_tricks.as_strided(view, parameters, strides)
    if promised == 16 and view.strides[-1] == view.itemsize:
        assert alignment_of_argument(view) == 16


def test_alignment_is_not_given_away_where_it_is_sure():
    x = allocated((9, 80), 0, 0)
    texts = {
        "split heads": (lambda x: x.reshape(1, 9, 2, 40).permute(0, 2, 1, 3), 16),
        "other last axis": (lambda x: x.permute(1, 0), 2),
        "short rows": (lambda x: x.reshape(180, 4), 2),
    }
    for name, (function, alignment) in texts.items():
        module = jit(target="gfx1151")(function).trace(x)
        run_passes(make_context(), module, "graph-to-tile", target="gfx1151")
        host = module.body.block.first_op
        assert isinstance(host, FuncOp)
        last = host.body.block.last_op
        assert last is not None
        assert alignment_of(last.operands[0]) == alignment, name


def test_a_tensor_spec_promises_no_alignment():
    module = jit(target="gfx1151")(lambda x: x).trace(TensorSpec((4, 16), "f16"))
    host = module.body.block.first_op
    assert isinstance(host, FuncOp)
    assert alignment_of(host.body.block.args[0]) == 2
