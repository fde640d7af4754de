"""Jitted functions: specializations, options, levels before and after a call, the call's cost."""

import time
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera.compiler
import tessera.runtime
from tessera import ops
from tessera.contracts import TensorSpec
from tessera.errors import OptionError, ShapeError, TargetError
from tessera.frontend.jit import JittedFunction, jit
from tessera.options import CompileOptions

ALTERNATIVES = {"opt_level": 1, "alignment": 2}


def zeros(*shape, dtype: Any = np.float16):
    return np.zeros(shape, dtype)


@pytest.fixture
def compiled(monkeypatch):
    """Every compilation as (graph text, chip, options), in place of the compiler's back end."""
    calls = []

    def record(module, target, options):
        calls.append((str(module), target.chip, options))
        return SimpleNamespace(number=len(calls), text=lambda level: f"{level} of {len(calls)}")

    monkeypatch.setattr(tessera.compiler, "compile_module", record)
    return calls


@pytest.fixture
def launched(monkeypatch):
    """Every launch as (artifact, arguments, keywords), in place of the runtime."""
    calls = []

    def record(artifact, *arguments, **keywords):
        calls.append((artifact, arguments, keywords))
        return arguments[0]

    monkeypatch.setattr(tessera.runtime, "launch", record)
    return calls


@jit(target="gfx1151")
def product(a, b):
    """A plain matmul."""
    return ops.matmul(a, b)


def fresh(function: Any = product, **options: Any) -> Any:
    return JittedFunction(function.function, "gfx1151", options=CompileOptions(**options))


def test_looks_like_the_function():
    assert getattr(product, "__name__", "") == product.name == "product"
    assert product.__doc__ == "A plain matmul."


def test_one_compilation_per_kind_of_arguments(compiled):
    function = fresh()
    first = function.lower(zeros(16, 16), zeros(16, 16))
    assert function.lower(zeros(16, 16), b=zeros(16, 16)) is first
    others = [
        function.lower(zeros(16, 32), zeros(32, 16)),
        function.lower(*[zeros(16, 16, dtype=ml_dtypes.bfloat16)] * 2),
        function.lower(zeros(16, 17)[:, 1:], zeros(16, 16)),
        function.lower(TensorSpec((None, 16), "f16"), TensorSpec((16, 16), "f16")),
        function.lower(),
    ]  # fmt: skip
    assert len({first.number, *(one.number for one in others)}) == 6
    assert len(compiled) == 6


@pytest.mark.parametrize("field", [field.name for field in fields(CompileOptions)])
def test_every_compile_option_makes_another_specialization(compiled, field):
    function = fresh()
    value = ALTERNATIVES[field]
    first = function.lower(zeros(16, 16), zeros(16, 16))
    other = function.lower(zeros(16, 16), zeros(16, 16), **{field: value})
    assert other is not first
    assert compiled[-1][2] == replace(CompileOptions(), **{field: value})
    assert function.lower(**{field: value}) is not function.lower()
    # The decorator's options are the defaults of every compilation.
    fresh(**{field: value}).lower(zeros(16, 16), zeros(16, 16))
    assert compiled[-1][2] == replace(CompileOptions(), **{field: value})


def test_arguments_that_are_no_arrays_are_compile_time_options(compiled):
    @jit(target="gfx1151")
    def scaled(x, factor=2.0, *, negate=False, bias=None):
        y = x * (-factor if negate else factor)
        return y if bias is None else y + bias

    x = zeros(4, 4)
    texts = {}
    for name, call in {
        "default": lambda: scaled.lower(x),
        "position": lambda: scaled.lower(x, 3),
        "float": lambda: scaled.lower(x, 3.0),
        "keyword": lambda: scaled.lower(x, negate=True),
        "array": lambda: scaled.lower(x, bias=zeros(4)),
    }.items():
        call()
        texts[name] = compiled[-1][0]
    assert len(compiled) == 5
    assert "scalar = 2.000000e+00" in texts["default"]
    assert "scalar = 3.000000e+00" in texts["position"]
    assert "scalar = -2.000000e+00" in texts["keyword"]
    assert '(%out, %bias) {function = "add"}' in texts["array"]


def test_symbolic_tracing_takes_options_by_name(compiled):
    @jit(target="gfx1151")
    def power(x, *, count):
        for _ in range(count):
            x = x * x
        return x

    power.lower(count=3)
    assert compiled[-1][0].count("tessera.elementwise") == 3
    with pytest.raises(OptionError, match="power: option 'count' has no default"):
        power.lower()


def test_an_option_must_be_hashable(compiled):
    @jit(target="gfx1151")
    def function(x, option):
        return x

    with pytest.raises(OptionError, match="must be hashable"):
        function.lower(zeros(2), {1, 2})


def test_arguments_that_do_not_fit_the_signature():
    with pytest.raises(TypeError, match="'b'"):
        product.lower(zeros(2, 2))
    with pytest.raises(TypeError, match="too many"):
        product.lower(zeros(2, 2), zeros(2, 2), zeros(2, 2))


def test_a_call_launches_its_specialization(compiled, launched):
    function = fresh()
    a, b = zeros(16, 16), zeros(16, 16)
    assert function(a, b) is a
    assert function(a, b=b) is a
    assert len(compiled) == 1
    (artifact, arguments, keywords), again = launched
    assert artifact is function.lower(a, b)
    assert [id(one) for one in arguments] == [id(a), id(b)]
    assert again[1][1] is b
    assert keywords == {}


def test_the_executor_of_the_decorator_is_that_of_the_launch(compiled, launched):
    jit(target="gfx1151", executor="emulator")(product.function)(zeros(2, 2), zeros(2, 2))
    assert launched[-1][2] == {"executor": "emulator"}


def test_levels_are_symbolic_before_a_call_and_of_the_last_call_after(compiled, launched):
    function = fresh()
    assert function.graph_ir == "graph of 1"
    assert "tensor<?x?xf16>" in compiled[0][0]
    function.lower(zeros(4, 4), zeros(4, 4))
    assert function.tile_ir == "tile of 2", "closed over the count at the time of asking"
    function(zeros(8, 8), zeros(8, 8))
    assert "tensor<8x8xf16>" in compiled[2][0]
    assert [function.target_ir, function.kernel_ir] == ["target of 3", "kernel of 3"]
    assert [function.llvm_ir, function.asm] == ["llvm of 3", "asm of 3"]


def test_a_jitted_function_inside_another_becomes_part_of_it(compiled):
    @jit(target="gfx1151")
    def twice(x, y):
        return product(ops.cast(product(x, y), "f16"), y)

    twice.lower(zeros(4, 4), zeros(4, 4))
    assert compiled[-1][0].count("tessera.matmul") == 2
    assert len(compiled) == 1


def test_errors_at_trace_time_leave_nothing_behind(compiled):
    function = fresh()
    with pytest.raises(ShapeError, match="operand 'b'"):
        function.lower(zeros(4, 5), zeros(4, 5))
    assert compiled == []
    function.lower(zeros(4, 5), zeros(5, 4))
    assert len(compiled) == 1


def test_python_errors_of_symbolic_tracing_say_that_it_was_symbolic():
    def unpacks(x):
        batch, heads, seq, size = x.shape
        return x.reshape(batch * heads, seq, size)

    with pytest.raises(ValueError, match="not enough values") as caught:
        jit(target="gfx1151")(unpacks).trace()
    assert "traced without arguments" in " ".join(caught.value.__notes__)
    assert "tensor<6x4x5xf16>" in str(jit(target="gfx1151")(unpacks).trace(zeros(2, 3, 4, 5)))


def test_unknown_targets_and_options_list_what_is_supported():
    with pytest.raises(TargetError, match="'gfx906'; supported: rocm, gfx1100"):
        jit(target="gfx906")
    with pytest.raises(OptionError, match="unknown option 'unroll'; supported: opt_level"):
        jit(target="gfx1151", unroll=4)
    with pytest.raises(OptionError, match="with parentheses"):
        jit(product.function)  # type: ignore[arg-type]


def test_plain_matmul_down_to_the_code_object():
    function = fresh()
    assert function.hsaco[:4] == b"\x7fELF"
    assert [kernel.name for kernel in function.lower().kernels] == ["matmul_0"]
    for text, mark in (
        (function.graph_ir, "tessera.matmul"),
        (function.tile_ir, "tile.matmul"),
        (function.target_ir, "tessera_rocm.wmma_gemm"),
        (function.kernel_ir, "wave.mma"),
        (function.llvm_ir, "define amdgpu_kernel void @matmul_0"),
        (function.asm, "v_wmma_f32_16x16x16_f16"),
    ):
        assert mark in text


def test_a_repeated_call_costs_less_than_a_millisecond_before_the_launch(compiled, launched):
    function = fresh()
    operands = [zeros(64, 64), zeros(64, 64)]
    function(*operands)
    seconds = []
    for _ in range(50):
        started = time.perf_counter()
        function(*operands)
        seconds.append(time.perf_counter() - started)
    assert sorted(seconds)[25] < 1e-3
    assert len(compiled) == 1
