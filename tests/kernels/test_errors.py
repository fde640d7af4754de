"""What is not supported raises, names itself, lists what is supported, and writes nothing."""

from typing import Any

import numpy as np
import pytest
from kernel_runs import CHIP, attention_function, matmul_function

import tessera
from tessera import ops, testing
from tessera.errors import DtypeError, OptionError, ShapeError, TargetError, TesseraError

F16 = np.float16


def zeros(*shape: int, dtype: Any = F16) -> np.ndarray:
    return np.zeros(shape, dtype)


MATMUL_CASES = {
    "float64": (DtypeError, (zeros(4, 4, dtype=np.float64),) * 2, "'a'.*float64|'a'.*f64"),
    "int32": (DtypeError, (zeros(4, 4, dtype=np.int32),) * 2, "'a'.*i32.*supported"),
    "mixed": (DtypeError, (zeros(4, 4), zeros(4, 4, dtype=np.float32)), "'b'.*f32.*supported"),
    "rank 4": (ShapeError, (zeros(1, 2, 4, 4), zeros(4, 4)), "'a'.*rank 2.*rank 4"),
    "rank 1": (ShapeError, (zeros(4, 4), zeros(4)), "'b'.*rank 2.*rank 1"),
    "inner sizes": (ShapeError, (zeros(4, 5), zeros(6, 7)), "'b'.*'k'.*= 6.*expected 5.*'a'"),
}


@pytest.mark.parametrize("case", MATMUL_CASES)
def test_matmul_operands_that_do_not_fit(case):
    error, operands, message = MATMUL_CASES[case]
    with pytest.raises(error, match=f"(?s)matmul.*(?:{message})"):
        matmul_function().lower(*operands)


def qkv(q=(1, 2, 16, 64), k=(1, 2, 16, 64), v=(1, 2, 16, 64), dtype: Any = F16):
    return zeros(*q, dtype=dtype), zeros(*k, dtype=dtype), zeros(*v, dtype=dtype)


ATTENTION_CASES = {
    "float32": (DtypeError, qkv(dtype=np.float32), "'q'.*f32.*supported: f16, bf16"),
    "head_dim 257": (
        ShapeError, qkv((1, 1, 4, 257), (1, 1, 4, 257), (1, 1, 4, 64)), "head_dim = 257.*1 to 256",
    ),
    "head_dim 0": (
        ShapeError, qkv((1, 1, 4, 0), (1, 1, 4, 0), (1, 1, 4, 64)), "head_dim = 0.*1 to 256",
    ),
    "values of 300": (ShapeError, qkv(v=(1, 2, 16, 300)), "head_dim_v = 300.*1 to 256"),
    "rank": (ShapeError, (zeros(16, 64), *qkv()[1:]), "'q'.*rank 4.*rank 2"),
    "head_dim differs": (ShapeError, qkv(k=(1, 2, 16, 32)), "'k'.*'head_dim'.*32.*64.*'q'"),
    "seq_k differs": (ShapeError, qkv(v=(1, 2, 15, 64)), "'v'.*'seq_k'.*15.*16.*'k'"),
    "batch differs": (ShapeError, qkv(k=(2, 2, 16, 64)), "'k'.*'batch'.*2.*1.*'q'"),
    "heads do not divide": (
        ShapeError, qkv(q=(1, 3, 16, 64)), "heads = 3 is not a multiple of heads_k = 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ATTENTION_CASES)
def test_attention_operands_that_do_not_fit(case):
    error, operands, message = ATTENTION_CASES[case]
    with pytest.raises(error, match=f"(?s)flash_attn.*{message}"):
        attention_function().lower(*operands)


@pytest.mark.parametrize("causal", ["left", 2, "Bottom_Right", None])
def test_unknown_causal_mode(causal):
    with pytest.raises(OptionError, match="(?s)causal.*top_left.*bottom_right"):
        attention_function(causal).lower(*qkv())


def test_unknown_result_dtype():
    with pytest.raises(DtypeError, match=r"(?s)out_dtype.*f64.*supported: .*f16.*bf16.*f32"):
        matmul_function("f64").lower(zeros(4, 4), zeros(4, 4))


def test_unknown_option_of_an_operation():
    @tessera.jit(target=CHIP)
    def dropped(q, k, v):
        return ops.flash_attn(q, k, v, dropout=0.5)  # pyright: ignore[reportCallIssue]

    with pytest.raises((OptionError, TypeError), match="dropout"):
        dropped.lower(*qkv())


@pytest.mark.parametrize("chip", ["gfx906", "gfx942", "sm_90", "strix", ""])
def test_unknown_chip(chip):
    with pytest.raises(TargetError, match=f"(?s)'{chip}'.*supported: .*gfx1151"):
        tessera.jit(target=chip)(lambda a, b: ops.matmul(a, b)).lower(zeros(4, 4), zeros(4, 4))


def test_unknown_chip_of_a_module():
    text = (
        '"tessera_rocm.flash_attn"() {name = "fa", head_dim = 64 : i64, dtype = "f16"} : () -> ()'
    )
    with pytest.raises(TargetError, match=r"(?s)gfx9999.*supported: .*gfx1151"):
        tessera.compile(text, target="gfx9999")
    assert tessera.compile(text, target=CHIP).hsaco[:4] == b"\x7fELF"


def test_unknown_compile_option():
    text = (
        '"tessera_rocm.flash_attn"() {name = "fa", head_dim = 64 : i64, dtype = "f16"} : () -> ()'
    )
    with pytest.raises((OptionError, TypeError), match="unroll_everything"):
        tessera.compile(text, target=CHIP, unroll_everything=True)  # pyright: ignore[reportCallIssue]


def test_unknown_executor():
    a = zeros(16, 16)
    artifact = matmul_function().lower(a, a)
    with pytest.raises(TesseraError, match=r"(?s)'gpu'.*emulator.*reference"):
        tessera.runtime.launch(artifact, a, a, executor="gpu")


def test_a_stream_without_streams_is_refused():
    a = zeros(16, 16)
    artifact = matmul_function().lower(a, a)
    for executor in ("emulator", "reference"):
        with pytest.raises(TesseraError, match="stream= goes with executor hip"):
            tessera.runtime.launch(artifact, a, a, executor=executor, stream=7)


WRONG_LAUNCHES = {
    "too few operands": lambda a: (a,),
    "other rank": lambda a: (a, zeros(16)),
    "other inner size": lambda a: (a, zeros(17, 16)),
    "other dtype": lambda a: (a, zeros(16, 16, dtype=np.float32)),
}


@pytest.mark.parametrize("case", WRONG_LAUNCHES)
def test_a_refused_launch_writes_nothing(case):
    a = zeros(16, 16)
    artifact = matmul_function().lower(a, a)
    out = testing.guarded_empty((16, 16), np.float32)
    before = out.array.tobytes()
    with pytest.raises(TesseraError):
        tessera.runtime.launch(
            artifact, *WRONG_LAUNCHES[case](a), out=out.array, executor="emulator"
        )
    assert out.array.tobytes() == before
    out.check("out")


@pytest.mark.parametrize("shape, dtype", [((16, 17), np.float32), ((16, 16), np.float16)])
def test_a_result_that_does_not_fit_is_refused(shape, dtype):
    a = zeros(16, 16)
    artifact = matmul_function().lower(a, a)
    out = np.full(shape, 3, dtype)
    with pytest.raises(TesseraError):
        tessera.runtime.launch(artifact, a, a, out=out, executor="emulator")
    assert (out == 3).all()


def test_reference_runs_only_when_named():
    a = np.ones((16, 16), F16)
    artifact = matmul_function().lower(a, a)
    tessera.runtime.launch(artifact, a, a)
    assert tessera.runtime.last_launch().executor in ("hip", "emulator")
    tessera.runtime.launch(artifact, a, a, executor="reference")
    assert tessera.runtime.last_launch().executor == "reference"
