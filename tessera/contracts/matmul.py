"""Matmul options to a refusal where its operands do not fit them."""

from __future__ import annotations

from collections.abc import Mapping

from tessera.contracts.model import (
    ACTIVATIONS,
    BIAS_AXES,
    BYTE_DTYPES,
    FLOAT_DTYPES,
    PACKED_DTYPES,
    TensorSpec,
)
from tessera.errors import DtypeError, OptionError, supported


def check_matmul_options(operands: Mapping[str, TensorSpec], options: Mapping[str, object]) -> None:
    """Check what matmul's options ask of its operands; raises DtypeError or OptionError."""
    for name, allowed in (("activation", ACTIVATIONS), ("bias", BIAS_AXES)):
        value = options.get(name)
        if value and value not in allowed:
            raise OptionError(f"matmul: {name} = {value!r} is not allowed; " + supported(allowed))
    packed = {name: options.get(f"packed_{name}") for name in ("a", "b")}
    if any(packed.values()):
        for name, dtype in packed.items():
            if dtype not in PACKED_DTYPES:
                raise OptionError(f"matmul: packed_{name} = {dtype!r}; " + supported(PACKED_DTYPES))
            if operands[name].dtype != "u8":
                raise DtypeError(
                    f"matmul: packed operand {name!r} must be u8 (two numbers in each byte), got "
                    f"{operands[name].dtype}"
                )
        if options.get("transpose_a") or not options.get("transpose_b"):
            raise OptionError(
                "matmul: packed operands must be [m, k] and [n, k] (transpose_a False, "
                "transpose_b True): each byte holds two numbers along k"
            )
    is_integer = operands["a"].dtype in BYTE_DTYPES
    scaled = options.get("alpha") not in (None, 1.0)
    computes = scaled or options.get("activation") or len(operands) > 2
    if options.get("out_dtype") == "i32" and not is_integer:
        raise DtypeError("matmul: out_dtype = 'i32' is for i8, u8 and packed operands")
    if is_integer and computes and options.get("out_dtype") in (None, "i32"):
        raise OptionError(
            "matmul: alpha, beta, bias, activation, gate and residual compute in f32; with integer "
            "operands ask for out_dtype " + supported(FLOAT_DTYPES)
        )
