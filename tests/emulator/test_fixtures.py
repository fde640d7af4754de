"""Kernels of another compiler (Triton), with inputs and float64 expectations, run under sanitizers.

The bounds are derived from the data and the number formats, not taken from the fixtures.
"""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("tinygrad")

from tessera import emulator
from tessera.testing import attention_bound, matmul_bound, rounding_bound

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "third_party"
NAMES = sorted(path.stem for path in FOLDER.glob("*.hsaco"))
DTYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i8": np.int8,
    "i32": np.int32,
}
SCALARS = {"i32": np.int32, "fp32": np.float32}
U = 2.0**-24
# A result that no kernel writes by chance: what stays of it was not written.
POISON = {"f32": np.float32(np.nan), "f16": np.float16(np.nan), "i32": np.int32(-1234567)}


class Fixture:
    """One stored kernel: its arguments as arrays and scalars, and the expected outputs."""

    def __init__(self, name):
        self.description = json.loads((FOLDER / f"{name}.json").read_text())
        self.code_object = (FOLDER / f"{name}.hsaco").read_bytes()
        arrays = np.load(FOLDER / f"{name}.npz")
        self.inputs, self.expected, self.outputs, self.arguments = {}, {}, {}, []
        for argument in self.description["args"]:
            label, dtype = argument["name"], argument["dtype"]
            if argument["kind"] == "scalar":
                self.inputs[label] = argument["value"]
                self.arguments.append(SCALARS[dtype](argument["value"]))
            elif argument["direction"] == "in":
                data = arrays[f"in_{label}"]
                self.inputs[label] = data.view(DTYPES[dtype]) if dtype == "bf16" else data
                self.arguments.append(self.inputs[label])
            else:
                self.expected[label] = arrays[f"out_{label}"]
                output = np.full(self.expected[label].shape, POISON[dtype], DTYPES[dtype])
                self.outputs[label] = output
                self.arguments.append(emulator.uninitialized(output))
        if self.description["trailing_null_pointers"]:
            kernel = emulator.load(self.code_object).kernels[self.description["kernel"]]
            self.arguments += [None] * (len(kernel.arguments) - len(self.arguments))

    def run(self, **options):
        return emulator.run(
            self.code_object,
            self.description["kernel"],
            self.description["grid"],
            self.description["block"],
            self.arguments,
            dynamic_lds=self.description["dynamic_lds_bytes"],
            **options,
        )


def vector_add_bound(fixture):
    return {"o": rounding_bound(fixture.expected["o"], np.float32)}


def row_softmax_bound(fixture):
    """exp2((x - max) log2 e): four roundings relative to the argument, then a sum and a quotient.

    `v_exp_f32` and the reciprocal are good to one unit in the last place, 2 u.
    """
    x = fixture.inputs["x"].astype(np.float64)
    argument = np.abs(x - x.max(axis=1, keepdims=True)) + np.abs(x).max(axis=1, keepdims=True)
    relative = (4.0 * argument + 4.0) * U
    weights = fixture.expected["o"]
    mean = (weights * relative).sum(axis=1, keepdims=True)
    terms = x.shape[1]
    return {"o": weights * (relative + mean + (terms + 8.0) * U) + 2.0**-126}


def layer_norm_bound(fixture):
    """Mean and variance are float32 sums of `cols` terms; the result is rounded to f16 once."""
    x, w, b = (fixture.inputs[name].astype(np.float64) for name in ("x", "w", "b"))
    terms, eps = x.shape[1], fixture.inputs["eps"]
    deviation = x - x.mean(axis=1, keepdims=True)
    sigma = np.sqrt(x.var(axis=1, keepdims=True) + eps)
    mean_error = (terms + 1) * U * np.abs(x).mean(axis=1, keepdims=True)
    # d(1 / sigma) / (1 / sigma) is half of the relative error of the variance.
    variance_error = (terms + 4) * U + 2.0 * mean_error / sigma
    relative = variance_error / 2.0 + 8.0 * U
    error = np.abs(w) / sigma * (np.abs(deviation) * relative + mean_error)
    error = error + 4.0 * U * (np.abs(fixture.expected["o"]) + np.abs(b))
    return {"o": error + rounding_bound(np.abs(fixture.expected["o"]) + error, np.float16)}


def float_matmul_bound(fixture):
    return {"c": matmul_bound(fixture.inputs["a"], fixture.inputs["b"], np.float32)}


def exact(fixture):
    return {name: np.zeros(value.shape) for name, value in fixture.expected.items()}


def attention_f16_bound(fixture):
    q, k, v = (fixture.inputs[name][None] for name in "QKV")
    o, lse = attention_bound(q, k, v, False, fixture.inputs["scale"])
    # The sum's logarithm is scaled by ln 2: two more roundings than the bound counts.
    return {"O": o[0], "L": lse[0] + 4.0 * U * np.abs(fixture.expected["L"])}


BOUNDS = {
    "vector_add": vector_add_bound,
    "row_softmax": row_softmax_bound,
    "layer_norm": layer_norm_bound,
    "matmul_f16": float_matmul_bound,
    "matmul_f16_aligned": float_matmul_bound,
    "matmul_bf16": float_matmul_bound,
    "matmul_i8": exact,
    "attention_f16": attention_f16_bound,
}


def test_every_fixture_has_a_bound():
    assert set(NAMES) == set(BOUNDS)


@pytest.mark.parametrize("name", NAMES)
def test_fixture_matches_with_sanitizers(name):
    fixture = Fixture(name)
    before = {k: np.array(v, copy=True) for k, v in fixture.inputs.items()}
    report = fixture.run()
    assert report.findings == []
    assert report.instructions > 0
    assert report.chip == "gfx1151"
    bounds = BOUNDS[name](fixture)
    for label, output in fixture.outputs.items():
        got = output.astype(np.float64)
        assert np.isfinite(got).all(), f"{label}: not finite"
        error = np.abs(got - fixture.expected[label])
        excess = error - bounds[label]
        assert (excess <= 0).all(), (
            f"{label}: off by {error.max():.3g} at {np.unravel_index(excess.argmax(), error.shape)}"
        )
        # A bound that everything satisfies would prove nothing.
        assert bounds[label].max() < 0.05 * max(1.0, np.abs(fixture.expected[label]).max())
    for label, value in before.items():
        assert np.array_equal(np.asarray(fixture.inputs[label]), value), f"{label} was changed"


@pytest.mark.parametrize("name", NAMES)
def test_fixture_gives_the_same_bits_without_sanitizers(name):
    watched, plain = Fixture(name), Fixture(name)
    first, second = watched.run(), plain.run(sanitize=False)
    assert first.instructions == second.instructions
    for label, output in watched.outputs.items():
        assert output.tobytes() == plain.outputs[label].tobytes()


@pytest.mark.parametrize("name", ["vector_add", "matmul_f16", "attention_f16"])
def test_a_short_output_buffer_is_found(name):
    """One element less than the kernel writes: the sanitizer names the buffer."""
    fixture = Fixture(name)
    label = next(iter(fixture.outputs))
    index = [a["name"] for a in fixture.description["args"]].index(label)
    flat = fixture.outputs[label].reshape(-1)
    fixture.arguments[index] = emulator.uninitialized(flat[:-1].copy())
    with pytest.raises(emulator.MemoryAccessError) as caught:
        fixture.run()
    finding = caught.value.finding
    assert finding.kind == "out_of_bounds"
    assert finding.kernel == fixture.description["kernel"]
    assert "store" in finding.instruction
    # The metadata gives no names: the buffer is called by the argument's number.
    assert finding.buffer == f"arg{index}"
    assert f"arg{index}" in str(finding)
