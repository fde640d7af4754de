"""Saved artifacts in C and C++: the header against the Python launch, and the example itself."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera import ops
from tessera.c_header import c_header, c_name
from tessera.codegen.code_object import KernelInfo
from tessera.contracts import TensorSpec, bind
from tessera.errors import ArtifactError
from tessera.launch_rule import SCALAR, ArgumentRule, LaunchRule
from tessera.plan import LaunchStep, Plan
from tessera.runtime.hip_executor import argument_layout
from tessera.runtime.prepare import prepare
from tessera.runtime.prepared import INPUT
from tessera.runtime.rules import Scope
from tessera.runtime.tensors import NUMPY

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples/ahead_of_time"


def compiler(name: str, default: str) -> str:
    found = shutil.which(os.environ.get(name, default))
    if found is None:
        pytest.skip(f"no {default} to compile with")
    return found


def attention(q, k, v):
    return ops.flash_attn(q, k, v, causal=True, return_lse=True)


def network(x, w1, w2):
    return ops.matmul(ops.gelu(ops.matmul(x, w1, out_dtype="f16")), w2)


def half(*shape):
    return np.zeros(shape, np.float16)


def gradients(q, k, v, o, lse, do, bias):
    return ops.flash_attn_bwd(q, k, v, o, lse, do, bias=bias, bias_gradient=True)


QKV = [half(1, 2, 20, 32)] * 3
CALLS = {
    "gradients": (
        gradients,
        [*QKV, QKV[0], np.zeros((1, 2, 20), np.float32), QKV[0], half(1, 1, 20, 20)],
    ),
    "attention": (attention, (half(2, 4, 33, 64), half(2, 2, 70, 64), half(2, 2, 70, 64))),
    "strided": (attention, [half(1, 40, 3, 64).transpose(0, 2, 1, 3)] * 3),
    "network": (network, (half(33, 40), half(40, 72), half(72, 16))),
}


@pytest.mark.parametrize("name", CALLS)
def test_header_prepares_what_python_prepares(name, tmp_path):
    function, arrays = CALLS[name]
    artifact = tessera.compile(function, *arrays, target="gfx1151")
    arguments = [NUMPY.describe(array, "x") for array in arrays]
    prepared = prepare(artifact.plan, arguments)
    header = c_header(artifact.plan, artifact.chip, artifact.kernels)
    launched = [launch for step in prepared.steps for launch in step.kernels]
    exported = "".join(
        f"const char *{rule.kernel}(const {artifact.plan.name}_{rule.kernel}_sizes *s,"
        f" {artifact.plan.name}_{rule.kernel}_arguments *a, uint32_t *g)"
        f" {{ return {artifact.plan.name}_{rule.kernel}_prepare(s, a, g); }}\n"
        for step in artifact.plan.launches
        for rule in step.rules
    )
    library = compile_c(tmp_path, header + exported)
    rules = {rule.kernel: (step, bound) for step, bound in
             zip(artifact.plan.launches, prepared.steps, strict=True)
             for rule in step.rules}  # fmt: skip
    assert [launch.kernel for launch in launched] == list(rules)
    for launch in launched:
        scope = scope_of(*rules[launch.kernel])
        fields = fields_of(header, f"{artifact.plan.name}_{launch.kernel}_sizes")
        sizes = [value_of(scope, field) for field in fields]
        layout, constants = argument_layout(artifact.kernel(launch.kernel), launch)
        addresses = iter(range(4096, 4096 * 40, 4096))
        block = ctypes.create_string_buffer(layout.size)
        values = iter(constants)
        expected = [next(addresses) if isinstance(a, int) else next(values)
                    for a in launch.arguments]  # fmt: skip
        blank = [v if isinstance(a, int) else 0
                 for a, v in zip(launch.arguments, expected, strict=True)]  # fmt: skip
        layout.pack_into(block, 0, *blank)
        grid = (ctypes.c_uint32 * 3)()
        prepare_in_c = getattr(library, launch.kernel)
        prepare_in_c.restype = ctypes.c_char_p
        assert prepare_in_c((ctypes.c_int64 * len(sizes))(*sizes), block, grid) is None
        assert tuple(grid) == launch.grid
        assert block.raw == layout.pack(*expected)


def compile_c(folder, text):
    (folder / "header.c").write_text(text)
    command = [compiler("CC", "cc"), "-std=c99", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", folder / "header.so", folder / "header.c"], check=True)
    return ctypes.CDLL(str(folder / "header.so"))


def fields_of(header, struct):
    body = header[: header.index(f"}} {struct};")].rpartition("typedef struct {")[2]
    return [line.split()[1].rstrip(";") for line in body.strip().splitlines()]


def scope_of(step, bound):
    """What the expressions of a step's rules may name."""
    specs = [TensorSpec(value.shape, value.dtype) for value in bound.operands]
    binding = bind(step.contract, specs, step.options)
    names = [*binding.operands, *binding.results]
    tensors = dict(zip(names, [*bound.operands, *bound.results], strict=True))
    return Scope(step.contract, binding, tensors)


def value_of(scope, field):
    function, _, rest = field.partition("_")
    if function in ("stride", "size"):
        operand, _, axis = rest.rpartition("_")
        return scope.functions[function](operand, int(axis))
    return scope.symbols[field]


def test_names_that_c_does_not_take_are_changed():
    assert [c_name(name) for name in ("do", "q", "<lambda>", "größe")] == [
        "do_", "q", "_lambda_", "gr__e",
    ]  # fmt: skip


def test_header_refuses_what_the_rule_refuses(tmp_path):
    artifact = tessera.compile(
        '"tessera_rocm.flash_attn"() {name = "fa", head_dim = 32 : i64, dtype = "f16", '
        "alignment = 16 : i64} : () -> ()",
        target="gfx1151",
    )
    assert artifact.plan.launches == ()
    # A directive without operands has no plan, and so nothing to prepare.
    assert "_prepare" not in c_header(artifact.plan, "gfx1151", artifact.kernels)


def test_rule_without_counterpart_in_c_is_refused():
    arguments = (ArgumentRule("n", SCALAR, "i32", "n"),)
    rule = LaunchRule("k", ("n if n else unknown(n)", "1", "1"), (32, 1, 1), arguments)
    info = KernelInfo("k", "gfx1151", (), (32, 1, 1), 0, 1, 1, 0, 0, 0, 4, 32)
    plan = Plan("f", (), (LaunchStep("matmul", {}, (), (), (rule,)),), ())
    with pytest.raises(ArtifactError, match=r"no C for unknown\(\)"):
        c_header(plan, "gfx1151", [info])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    subprocess.run([sys.executable, EXAMPLE / "matmul.py", folder], check=True)
    return folder


def test_example_saves_all_chips(saved):
    names = {path.name for path in saved.iterdir()}
    assert {"artifact.json", "gfx1100.hsaco", "gfx1150.h", "gfx1151.hsaco"} <= names
    a, b = np.ones((17, 40), np.float16), np.ones((40, 33), np.float16)
    artifact = tessera.load(saved, "gfx1151")
    np.testing.assert_array_equal(
        tessera.runtime.launch(artifact, a, b, executor="emulator"), np.full((17, 33), 40.0)
    )


def test_example_in_cpp_launches_from_the_header(saved, stand_in, stand_in_path, tmp_path):
    program = tmp_path / "launch.so"
    subprocess.run(
        [
            compiler("CXX", "c++"), "-std=c++11", "-Wall", "-Werror", "-Dmain=example_main",
            "-shared", "-fPIC", f"-I{saved}", f"-I{HERE}", EXAMPLE / "launch.cpp",
            stand_in_path, "-o", program,
        ],
        check=True,
    )  # fmt: skip
    arguments = (ctypes.c_char_p * 2)(b"launch", str(saved / "gfx1151.hsaco").encode())
    function = "_Z12example_mainiPPc"
    assert ctypes.CDLL(str(program))[function](2, arguments) == 0
    assert stand_in.launched == ["matmul_0"]
    assert stand_in.errors == []


def test_input_slots_are_numbered_by_argument():
    artifact = tessera.compile(network, target="gfx1151")
    arrays = CALLS["network"][1]
    prepared = prepare(artifact.plan, [NUMPY.describe(array, "x") for array in arrays])
    assert [slot.index for slot in prepared.slots if slot.role == INPUT] == [0, 1, 2]
