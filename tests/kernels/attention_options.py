"""Every option of attention as data, and runs of both directions through guarded buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
from kernel_runs import CHIP, HALF, launch

import tessera
from tessera import ops, reference, testing
from tessera.testing import random_tensor

TENSORS = ("bias", "alibi_slopes", "cu_seqlens_q", "cu_seqlens_k")
"""Options that are operands of the kernels; the others are compiled in."""
DIRECTIONS = ("forward", "backward")
STARTS_Q = np.array([0, 13, 13, 30, 33], np.int32)
STARTS_K = np.array([0, 20, 29, 29, 47], np.int32)


@dataclass(frozen=True)
class AttentionCase:
    """One option as users give it, and sizes on which it must matter.

    `options` are keywords of `tessera.ops.flash_attn`; tensors among them are arrays. `replaces`
    names what the plain result is computed with instead when it must differ (None: no such result).
    """

    label: str
    options: Mapping[str, Any] = field(default_factory=dict)
    batch: int = 1
    heads: int = 2
    heads_k: int = 2
    head_dim: int = 40
    head_dim_v: int = 40
    seq_q: int = 33
    seq_k: int = 47
    differs_from: Mapping[str, Any] | None = field(default_factory=dict)
    is_transposed: bool = False

    def inputs(self, dtype: Any, seed: int = 0) -> tuple[np.ndarray, ...]:
        """Standard normal q, k, v and do; [batch, seq, heads, head_dim] in memory if transposed."""
        shapes = (
            (self.batch, self.heads, self.seq_q, self.head_dim),
            (self.batch, self.heads_k, self.seq_k, self.head_dim),
            (self.batch, self.heads_k, self.seq_k, self.head_dim_v),
            (self.batch, self.heads, self.seq_q, self.head_dim_v),
        )
        drawn = [random_tensor(shape, dtype, seed + index) for index, shape in enumerate(shapes)]
        if not self.is_transposed:
            return tuple(drawn)
        return tuple(
            np.ascontiguousarray(one.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for one in drawn
        )


SLOPES = np.array([0.5, 0.125], np.float32)
BATCH_SLOPES = np.array([[0.5, 0.125], [0.03, 0.25]], np.float32)
BIAS = random_tensor((2, 2, 33, 47), np.float32, 9)
_PACKED = {"cu_seqlens_q": STARTS_Q, "cu_seqlens_k": STARTS_K}

CASES: Mapping[str, AttentionCase] = MappingProxyType(
    {
        "plain": AttentionCase("no option", differs_from=None),
        "top_left": AttentionCase('`causal="top_left"`', {"causal": "top_left"}),
        "bottom_right": AttentionCase('`causal="bottom_right"`, `True`', {"causal": True}),
        "scale": AttentionCase("`scale`, negative too", {"scale": -0.3}),
        "window": AttentionCase("`window=(left, right)`", {"window": (7, 3)}),
        "window_left": AttentionCase(
            "`window=(left, None)`, causal",
            {"causal": True, "window": (5, None)},
            differs_from={"causal": True},
        ),
        "window_right": AttentionCase("`window=(-1, right)`", {"window": (-1, 2)}),
        "softcap": AttentionCase("`softcap`", {"softcap": 1.5}),
        "bias": AttentionCase("`bias` `[batch, heads, seq_q, seq_k]` f32", {"bias": BIAS}, batch=2),
        "bias_per_key": AttentionCase(
            "`bias` `[batch, 1, 1, seq_k]` f16",
            {"bias": BIAS[:, :1, :1].astype(np.float16)},
            batch=2,
        ),
        "bias_matrix": AttentionCase(
            "`bias` `[seq_q, seq_k]` bf16, any strides",
            {"bias": BIAS[0, 0].T.astype(ml_dtypes.bfloat16).copy().T},
        ),
        "alibi": AttentionCase("`alibi_slopes` `[heads]`", {"alibi_slopes": SLOPES}),
        "alibi_batch": AttentionCase(
            "`alibi_slopes` `[batch, heads]`, top-left",
            {"alibi_slopes": BATCH_SLOPES, "causal": "top_left"},
            batch=2,
            differs_from={"causal": "top_left"},
        ),
        "packed": AttentionCase("`cu_seqlens_q`, `cu_seqlens_k`", _PACKED),
        "packed_causal": AttentionCase(
            "`cu_seqlens_q`, `cu_seqlens_k`, causal, window, ALiBi",
            {**_PACKED, "causal": True, "window": (9, None), "alibi_slopes": SLOPES},
            differs_from=_PACKED,
        ),
        "grouped": AttentionCase("grouped heads (GQA)", heads=6, differs_from=None),
        "one_key_head": AttentionCase(
            "one key head (MQA)", {"causal": True}, heads=3, heads_k=1, differs_from=None
        ),
        "value_size": AttentionCase("head_dim_v other than head_dim", head_dim_v=24,
                                    differs_from=None),
        "strides": AttentionCase(
            "`[batch, seq, heads, head_dim]` in memory", batch=2, is_transposed=True,
            differs_from=None,
        ),
    }
)  # fmt: skip
"""Every option of attention, alone; both directions run each, in f16 and bf16."""


@cache
def forward_function(names: tuple[str, ...], compiled_in: tuple[tuple[str, Any], ...]) -> Any:
    """A jitted (o, lse) that takes the tensors called `names` behind q, k, v."""

    @tessera.jit(target=CHIP)
    def attention(q, k, v, *extra):
        tensors = dict(zip(names, extra))
        return ops.flash_attn(q, k, v, return_lse=True, **tensors, **dict(compiled_in))

    return attention


@cache
def backward_function(
    names: tuple[str, ...], compiled_in: tuple[tuple[str, Any], ...], has_lse: bool = True
) -> Any:
    """A jitted (dq, dk, dv[, dbias]) of q, k, v, o, do, lse if there is one, and `names`."""

    @tessera.jit(target=CHIP)
    def attention_backward(q, k, v, o, do, *extra):
        lse, rest = (extra[0], extra[1:]) if has_lse else (None, extra)
        tensors = dict(zip(names, rest))
        return ops.flash_attn_bwd(q, k, v, o, lse, do, **tensors, **dict(compiled_in))

    return attention_backward


def parted(options: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[tuple[str, Any], ...]]:
    """(tensors by name, what is compiled in) of options."""
    tensors = {name: options[name] for name in TENSORS if options.get(name) is not None}
    return tensors, tuple((n, value) for n, value in options.items() if n not in TENSORS)


def guard(value: Any) -> Any:
    """A copy with the same strides inside canaries; what is guarded already stays as it is."""
    if isinstance(value, testing.GuardedBuffer):
        return value
    order = np.argsort([-stride for stride in value.strides], kind="stable")
    buffer = testing.guarded(np.array(value.transpose(order), order="C"))
    return replace(buffer, array=buffer.array.transpose(np.argsort(order)))


def empty_like(value: np.ndarray) -> testing.GuardedBuffer:
    """Poison with the shape, dtype and strides of `value`, inside canaries."""
    buffer = guard(value)
    buffer.array.view(f"u{value.itemsize}")[...] = testing.guarded_empty(
        value.shape, value.dtype
    ).array.view(f"u{value.itemsize}")
    return buffer


def run_forward(
    executor: str, q: Any, k: Any, v: Any, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(o, lse) of arrays or guarded buffers, canaries around all of them."""
    tensors, compiled_in = parted(options)
    operands = tuple(guard(x) for x in (q, k, v, *tensors.values()))
    arrays = [operand.array for operand in operands]
    o = testing.guarded_empty((*arrays[0].shape[:3], arrays[2].shape[3]), arrays[0].dtype)
    lse = testing.guarded_empty(arrays[0].shape[:3], np.float32)
    artifact = forward_function(tuple(tensors), compiled_in).lower(*arrays)
    launch(artifact, operands, (o, lse), executor)
    return o.array, lse.array


def run_backward(
    executor: str, q: Any, k: Any, v: Any, o: Any, lse: Any, do: Any, **options: Any
) -> tuple[np.ndarray, ...]:
    """(dq, dk, dv[, dbias]) of arrays or guarded buffers, canaries around all of them."""
    tensors, compiled_in = parted(options)
    statistics = () if lse is None else (lse,)
    operands = tuple(guard(x) for x in (q, k, v, o, do, *statistics, *tensors.values()))
    arrays = [operand.array for operand in operands]
    results = [empty_like(one) for one in arrays[:3]]
    if options.get("bias_gradient") and "bias" in tensors:
        bias = tensors["bias"]
        results.append(testing.guarded_empty(bias.shape, bias.dtype))
    function = backward_function(tuple(tensors), compiled_in, lse is not None)
    artifact = function.lower(*arrays)
    launch(artifact, operands, tuple(results), executor)
    return tuple(one.array for one in results)


def run_both(
    executor: str, q: Any, k: Any, v: Any, do: Any, **options: Any
) -> tuple[np.ndarray, ...]:
    """(o, lse, dq, dk, dv), the gradients from the kernel's own o and lse."""
    o, lse = run_forward(executor, q, k, v, **options)
    return (o, lse, *run_backward(executor, q, k, v, o, lse, do, **options))


def sequences(
    options: Mapping[str, Any], q: np.ndarray, k: np.ndarray, v: np.ndarray, do: np.ndarray
) -> list[tuple[list[np.ndarray], slice, slice, dict[str, Any]]]:
    """Each packed sequence on its own: ((q, k, v, do), its rows, its keys, the other options)."""
    rest = {name: value for name, value in options.items() if not name.startswith("cu_seqlens")}
    if "cu_seqlens_q" not in options:
        return [([q, k, v, do], slice(None), slice(None), rest)]
    starts_q, starts_k = options["cu_seqlens_q"], options["cu_seqlens_k"]
    parts = []
    for index in range(len(starts_q) - 1):
        rows = slice(starts_q[index], starts_q[index + 1])
        keys = slice(starts_k[index], starts_k[index + 1])
        arrays = [q[:, :, rows], k[:, :, keys], v[:, :, keys], do[:, :, rows]]
        parts.append((arrays, rows, keys, rest))
    return parts


def check_forward(o: np.ndarray, lse: np.ndarray, q: Any, k: Any, v: Any, **options: Any) -> None:
    """Hold (o, lse) against float64 within the derived bounds."""
    for (q1, k1, v1, _), rows, _, rest in sequences(options, q, k, v, q):
        expected_o, expected_lse = reference.flash_attn(q1, k1, v1, **rest)
        o_bound, lse_bound = testing.attention_bound(q1, k1, v1, **rest)
        testing.check(o[:, :, rows], expected_o, o_bound, "o")
        testing.check(lse[:, :, rows], expected_lse, lse_bound + 2e-6, "lse")


def check_backward(
    gradients: tuple[np.ndarray, ...], q: Any, k: Any, v: Any, do: Any, **options: Any
) -> None:
    """Hold (dq, dk, dv) against float64 within three times the same-dtype error."""
    for arrays, rows, keys, rest in sequences(options, q, k, v, do):
        q1, k1, v1, do1 = arrays
        expected = reference.flash_attn_bwd(q1, k1, v1, None, None, do1, **rest)
        bounds = testing.attention_gradient_bound(q1, k1, v1, do1, **rest)
        names = (("dq", rows), ("dk", keys), ("dv", keys))
        for (name, part), gradient, exact, bound in zip(names, gradients, expected, bounds):
            testing.check(gradient[:, :, part], exact, bound, name)


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Frobenius norm of the error over that of the expected value; 0 where both are 0."""
    error = float(np.linalg.norm(actual.astype(np.float64) - expected))
    return error / float(np.linalg.norm(expected)) if error else 0.0


@dataclass(frozen=True)
class Refusal:
    """What is not built: options that raise an error whose message `names` them."""

    label: str
    options: Mapping[str, Any]
    names: str
    directions: tuple[str, ...] = DIRECTIONS


REFUSALS: Mapping[str, Refusal] = MappingProxyType(
    {
        "packed_bias": Refusal(
            "`bias` together with `cu_seqlens_q`",
            {**_PACKED, "bias": np.zeros((33, 47), np.float32)},
            "bias together with cu_seqlens_q",
        ),
        "batched_packed": Refusal(
            "`cu_seqlens_q` for only one of q and k", {"cu_seqlens_q": STARTS_Q}, "cu_seqlens_k"
        ),
        "dropout": Refusal("dropout (`dropout_p`)", {"dropout_p": 0.5}, "dropout_p"),
        "sinks": Refusal("attention sinks (`sinks`)", {"sinks": 0.5}, "sinks"),
    }
)
"""What both directions refuse by name."""


def options_table() -> str:
    """The Markdown table of options, directions and dtypes that `docs/attention.md` shows.

    Every row of CASES is run in both directions and dtypes, every row of REFUSALS must raise.
    """
    columns = [(direction, dtype) for direction in DIRECTIONS for dtype in HALF]
    lines = [
        "| option | " + " | ".join(f"{direction} {dtype}" for direction, dtype in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for case in CASES.values():
        lines.append(f"| {case.label} |" + " yes |" * len(columns))
    for refusal in REFUSALS.values():
        cells = ["raises" if one in refusal.directions else "yes" for one, _ in columns]
        lines.append(f"| {refusal.label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "attention.md"
BEGIN, END = "<!-- options: begin -->", "<!-- options: end -->"


def with_table(text: str) -> str:
    """The document with the table between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{options_table()}\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text()))
