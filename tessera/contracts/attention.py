"""Attention options to a refusal where they or their operands do not fit, and counted sequences."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tessera.contracts.model import CAUSAL_MODES, Size, TensorSpec
from tessera.errors import DtypeError, OptionError, ShapeError, supported


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
    softcap = options.get("softcap")
    if softcap is not None and not (
        isinstance(softcap, float) and softcap > 0 and math.isfinite(softcap)
    ):
        raise OptionError(f"{op}: softcap = {softcap!r} must be a finite positive number")
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
