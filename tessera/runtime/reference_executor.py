"""A prepared launch to float64 results of the oracles, rounded to each result's dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tessera import reference
from tessera.artifact import Artifact
from tessera.contracts import CONTRACTS
from tessera.errors import LaunchError
from tessera.runtime.executors import Call
from tessera.runtime.host_buffers import TemporaryPool, flat_buffers, tensor_view
from tessera.runtime.prepared import PreparedLaunch, PreparedStep
from tessera.runtime.record import LaunchRecord
from tessera.runtime.tensors import HOST

MATMUL_OPTIONS = (
    "transpose_a", "transpose_b", "packed_a", "packed_b", "inner_size", "weight", "group_size",
    "alpha", "beta", "activation",
)  # fmt: skip

Oracle = Callable[[PreparedStep, list[np.ndarray]], tuple[np.ndarray, ...]]


def _matmul(step: PreparedStep, operands: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    options = {name: step.options[name] for name in MATMUL_OPTIONS if name in step.options}
    if "bias" in step.options:
        options["bias_axis"] = step.options["bias"]
    present = CONTRACTS["matmul"].operands_under(step.options)
    named = {one.name: array for one, array in zip(present, operands, strict=True)}
    return (reference.fused_matmul(**named, **options),)


def _flash_attn(step: PreparedStep, operands: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    return reference.flash_attn(**_attention_arguments(step, operands))


def _flash_attn_bwd(step: PreparedStep, operands: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    arguments = {"lse": None, **_attention_arguments(step, operands)}
    gradients = reference.flash_attn_bwd(**arguments)
    return gradients[: len(step.results)]


def _attention_arguments(step: PreparedStep, operands: list[np.ndarray]) -> dict[str, Any]:
    """Operands and options by the oracles' names."""
    present = CONTRACTS[step.contract].operands_under(step.options)
    options = step.options
    return {
        **{one.name: array for one, array in zip(present, operands, strict=True)},
        "causal": options.get("causal", "none"),
        "scale": options.get("scale"),
        "window": (options.get("window_left"), options.get("window_right")),
        "softcap": options.get("softcap"),
    }


def _elementwise(step: PreparedStep, operands: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    function = str(step.options["function"])
    inputs: list[Any] = list(operands)
    if step.options.get("scalar") is not None:
        inputs.append(float(step.options["scalar"]))
    if function == "gelu_tanh":
        return (reference.gelu(*inputs, approximate="tanh"),)
    if function == "cast":
        return (inputs[0].astype(np.float64),)
    return (getattr(reference, function)(*inputs),)


ORACLES: Mapping[str, Oracle] = MappingProxyType(
    {
        "matmul": _matmul,
        "flash_attn": _flash_attn,
        "flash_attn_bwd": _flash_attn_bwd,
        "elementwise": _elementwise,
    }
)
"""The oracle of every contract."""


class ReferenceRunner:
    """Computes every step of one prepared launch in float64 and rounds its results."""

    def __init__(self, artifact: Artifact, prepared: PreparedLaunch) -> None:
        self.chip = artifact.chip
        self.prepared = prepared
        self.pool = TemporaryPool(prepared.slots)

    def __call__(self, call: Call) -> LaunchRecord:
        """Compute all steps in order."""
        for argument in call.arguments:
            if argument.device != HOST:
                raise LaunchError(
                    f"the reference takes tensors in host memory, got one on {argument.device}"
                )
        temporaries = self.pool.take()
        try:
            buffers = flat_buffers(self.prepared, call, temporaries)
            for step in self.prepared.steps:
                operands = [tensor_view(buffers, value) for value in step.operands]
                results = ORACLES[step.contract](step, operands)
                for value, result in zip(step.results, results, strict=True):
                    view = tensor_view(buffers, value)
                    with np.errstate(over="ignore", invalid="ignore"):
                        view[...] = result.astype(view.dtype)
        finally:
            self.pool.give_back(temporaries)
        steps = tuple(step.contract for step in self.prepared.steps)
        return LaunchRecord("reference", self.chip, steps)
