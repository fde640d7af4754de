"""Attention options to a refusal where they or their operands do not fit, and counted sequences."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tessera.contracts.model import CAUSAL_MODES, Size, TensorSpec
from tessera.errors import DtypeError, OptionError, ShapeError, supported

ATTENTION_LIMITS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"scale": (-1e20, 1e20), "softcap": (1e-10, 1e20)}
)
"""Least and most of the options that are numbers; within them no factor leaves the range of f32."""


def check_attention_options(
    op: str, operands: Mapping[str, TensorSpec], options: Mapping[str, object]
) -> None:
    """Check the options of `op` on their own and against its operands.

    Raises OptionError or DtypeError that name the option.
    """
    causal = options.get("causal")
    if causal is not None and causal not in CAUSAL_MODES:
        raise OptionError(f"{op}: causal = {causal!r} is not allowed; " + supported(CAUSAL_MODES))
    for name in ("window_left", "window_right"):
        keys = options.get(name)
        if keys is not None and (not isinstance(keys, int) or not 0 <= keys < 2**31):
            raise OptionError(
                f"{op}: {name} = {keys!r} must be a number of keys from 0 to 2^31 - 1"
            )
    for name, (least, most) in ATTENTION_LIMITS.items():
        value = options.get(name)
        if value is not None and not (isinstance(value, float) and least <= value <= most):
            raise OptionError(
                f"{op}: {name} = {value!r} is not supported; supported: {least:g} to {most:g}"
            )
    if "bias" in operands:
        if options.get("variable_lengths"):
            raise OptionError(
                f"{op}: bias together with cu_seqlens_q and cu_seqlens_k is not built"
            )
        stated, found = options["bias_dtype"], operands["bias"].dtype
        if stated != found:
            raise DtypeError(f"{op}: bias_dtype = {stated}, but operand 'bias' is {found}")
    elif options.get("bias_gradient"):
        raise OptionError(f"{op}: bias_gradient without a bias")


def bind_sequences(op: str, symbols: dict[str, Size]) -> None:
    """Bind `sequences` from the entries of cu_seqlens; ShapeError unless the batch is 1."""
    if "sequence_starts" not in symbols:
        return
    starts, batch = symbols["sequence_starts"], symbols["batch"]
    if batch not in (None, 1):
        raise ShapeError(
            f"{op}: batch = {batch}, expected 1: with cu_seqlens_q the sequences lie one behind "
            "the other along the rows"
        )
    if starts == 0:
        raise ShapeError(f"{op}: cu_seqlens_q is empty; it holds 0 and the end of each sequence")
    symbols["sequences"] = None if starts is None else starts - 1
