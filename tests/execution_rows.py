"""Every row of the execution matrix, and the tests that prove it: operations, dtypes, options."""

from __future__ import annotations

from collections.abc import Iterator

from tessera.contracts import FLOAT_DTYPES, HALF_DTYPES, MATMUL_DTYPES
from tessera.runtime.matrix import (
    COMPILES,
    ON_DEVICE,
    ON_EMULATOR,
    UNSUPPORTED,
    Proof,
    Row,
)

CHIPS = (
    "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153",
)  # fmt: skip
EMULATED = "gfx1151"
ALL_DTYPES = (*MATMUL_DTYPES, "i4", "u4", "f32", "i32", "f64")
NONE = "none"

KERNELS = "tests/kernels/"
COMPILE = "tests/runtime/test_matrix_compiles.py::test_compiles_for_every_chip"
REFUSE = "tests/runtime/test_matrix_compiles.py::test_dtype_is_refused_by_name"

_MATMUL = KERNELS + "test_matmul.py::"
_INTEGERS = KERNELS + "test_gemm_integers.py::"
_EPILOGUE = KERNELS + "test_gemm_epilogue.py::test_each_step"
_BATCHES = KERNELS + "test_gemm_batches.py::"
_WEIGHTS = KERNELS + "test_gemm_weights.py::test_weights_are_dequantized_as_the_reference_does"
_GROUPS = KERNELS + "test_gemm_groups.py::test_each_group_has_its_matrix"
_BACKWARD = KERNELS + "test_attention_backward.py::"
_ATTENTION = KERNELS + "test_attention_backward.py::test_every_option_in_both_directions"
_PROGRAMS = KERNELS + "test_programs.py::"

TRANSPOSES = {
    "transpose_a": ("True-False",),
    "transpose_b": ("False-True",),
    "transpose_a, transpose_b": ("True-True",),
}
EPILOGUES = ("alpha", "addend", "column bias", "row bias", "relu", "gelu", "gate", "residual")
ATTENTION_OPTIONS = (
    "plain", "top_left", "bottom_right", "scale", "window", "window_left", "window_right",
    "softcap", "bias", "bias_per_key", "bias_matrix", "alibi", "alibi_batch", "packed",
    "packed_causal", "grouped", "one_key_head", "value_size", "strides",
)  # fmt: skip
COMPILED_OPTIONS = {
    ("matmul", ""): NONE,
    ("matmul", "i4"): "packed, two in a byte",
    ("matmul", "u4"): "packed, two in a byte",
    ("flash_attn", ""): "bottom_right",
    ("flash_attn_bwd", ""): "plain",
    ("elementwise", ""): "gelu",
}
"""The option of (operation, dtype) with which it is compiled for every chip."""
DIRECTIONS = {"flash_attn": "forward", "flash_attn_bwd": "backward"}


def matmul_proofs() -> Iterator[tuple[str, str, Proof]]:
    """(dtype, option, tests) of every matmul that is run."""
    for dtype in HALF_DTYPES:
        yield dtype, NONE, Proof(_MATMUL + "test_matmul_sizes", (f"-{dtype}-",))
        for out in FLOAT_DTYPES:
            tests = Proof(_MATMUL + "test_matmul_result_dtypes", (f"-{dtype}-{out}]",))
            yield dtype, f"out_dtype={out}", tests
        for option, fragments in TRANSPOSES.items():
            tests = Proof(_MATMUL + "test_matmul_transposed_operands", (f"-{dtype}-", *fragments))
            yield dtype, option, tests
        yield (
            dtype,
            "leading dimensions",
            Proof(_MATMUL + "test_matmul_leading_dimensions", (f"-{dtype}-",)),
        )
    for step in EPILOGUES:
        yield "f16", f"epilogue: {step}", Proof(_EPILOGUE, (f")-{step}-(",))
    yield "f16", "batches", Proof(_BATCHES + "test_batches_broadcast")
    for dtype in ("i8", "u8"):
        tests = Proof(_INTEGERS + "test_bytes_are_multiplied_exactly", (f"('{dtype}', '{dtype}')",))
        yield dtype, NONE, tests
    for weight in ("i4", "u4", "i8"):
        yield "f16", f"quantized weights: {weight}", Proof(_WEIGHTS, (f"-{weight}-",))
    for dtype, name in (("f16", "float16"), ("i8", "int8")):
        yield dtype, "groups", Proof(_GROUPS, (f"-{name}-",))
    yield "i8", "batches", Proof(_BATCHES + "test_batches_of_bytes")
    for dtype in ("i4", "u4"):
        yield (
            dtype,
            "packed, two in a byte",
            Proof(
                _INTEGERS + "test_packed_numbers_are_multiplied_exactly",
                (f"('{dtype}', '{dtype}')",),
            ),
        )


def elementwise_proofs() -> Iterator[tuple[str, str, Proof]]:
    """(dtype, function, tests) of every elementwise function that is run."""
    for function in ("relu", "gelu", "silu", "add", "mul", "cast"):
        for dtype in HALF_DTYPES:
            yield dtype, function, Proof(_PROGRAMS + "test_elementwise", (f"-{function}-{dtype}",))


def attention_proofs() -> Iterator[tuple[str, str, Proof]]:
    """(dtype, option, tests) of attention; each test runs both directions."""
    for option in ATTENTION_OPTIONS:
        for dtype in HALF_DTYPES:
            yield dtype, option, Proof(_ATTENTION, (f"-{option}-{dtype}]",))


def backward_proofs() -> Iterator[tuple[str, str, Proof]]:
    """(dtype, option, tests) of what only the backward direction has."""
    yield "f16", "bias_gradient", Proof(_BACKWARD + "test_gradient_of_the_bias")
    yield "f16", "lse computed again", Proof(_BACKWARD + "test_lse_computed_again")


def rows() -> list[Row]:
    """All rows, in the order of the document."""
    return [
        *_supported("matmul", "forward", matmul_proofs()),
        *[
            row
            for op, direction in DIRECTIONS.items()
            for row in _supported(op, direction, attention_proofs())
        ],
        *_supported("flash_attn_bwd", "backward", backward_proofs()),
        *_supported("elementwise", "forward", elementwise_proofs()),
        *_refused(),
    ]


def _supported(op: str, direction: str, proofs: Iterator[tuple[str, str, Proof]]) -> Iterator[Row]:
    for dtype, option, tests in proofs:
        emulated, on_hip = (
            Proof(tests.function, (f"[{executor}", *tests.fragments))
            for executor in ("emulator", "hip")
        )
        where = (op, dtype, direction, option)
        yield Row(*where, EMULATED, "emulator", ((ON_EMULATOR, emulated),))
        # What ran on the emulator is the code object that a device of this chip would get.
        yield Row(*where, EMULATED, "hip", ((ON_DEVICE, on_hip), (COMPILES, emulated)))
        if option == COMPILED_OPTIONS.get((op, dtype), COMPILED_OPTIONS[op, ""]):
            for chip in CHIPS:
                if chip != EMULATED:
                    proof = Proof(COMPILE, (f"[{chip}-{op}-{dtype}]",))
                    yield Row(*where, chip, "hip", ((COMPILES, proof),))


def _refused() -> Iterator[Row]:
    supported = {
        "matmul": (*MATMUL_DTYPES, "i4", "u4"),
        "flash_attn": HALF_DTYPES,
        "flash_attn_bwd": HALF_DTYPES,
        "elementwise": FLOAT_DTYPES,
    }
    for op, dtypes in supported.items():
        for dtype in ALL_DTYPES:
            if dtype not in dtypes:
                proof = ((UNSUPPORTED, Proof(REFUSE, (f"[{op}-{dtype}]",))),)
                direction = DIRECTIONS.get(op, "forward")
                yield Row(op, dtype, direction, NONE, EMULATED, "hip", proof)
