"""Matmul options to a refusal where its operands do not fit them."""

from __future__ import annotations

from collections.abc import Mapping

from tessera.contracts.model import (
    ACTIVATIONS,
    BIAS_AXES,
    BYTE_DTYPES,
    FLOAT_DTYPES,
    GROUP_SIZES,
    PACKED_DTYPES,
    WEIGHT_DTYPES,
    TensorSpec,
)
from tessera.errors import DtypeError, OptionError, ShapeError, supported


def check_matmul_options(operands: Mapping[str, TensorSpec], options: Mapping[str, object]) -> None:
    """Check what matmul's options ask of its operands; raises DtypeError or OptionError."""
    for name, allowed in (("activation", ACTIVATIONS), ("bias", BIAS_AXES)):
        value = options.get(name)
        if value and value not in allowed:
            raise OptionError(f"matmul: {name} = {value!r} is not allowed; " + supported(allowed))
    packed = {name: options.get(f"packed_{name}") for name in ("a", "b")}
    _check_inner_size(operands, options)
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
    if "pair" in operands:
        _check_pair(operands, options)
    if options.get("grouped"):
        _check_groups(operands, options)
    if options.get("weight"):
        _check_weight(operands, options)
        return
    is_integer = operands["a"].dtype in BYTE_DTYPES
    scaled = options.get("alpha") not in (None, 1.0)
    has_extra = {"pair", "addend", "bias", "gate", "residual"} & set(operands)
    computes = scaled or options.get("activation") or has_extra
    if options.get("out_dtype") == "i32" and not is_integer:
        raise DtypeError("matmul: out_dtype = 'i32' is for i8, u8 and packed operands")
    if is_integer and computes and options.get("out_dtype") in (None, "i32"):
        raise OptionError(
            "matmul: alpha, beta, bias, activation, gate and residual compute in f32; with integer "
            "operands ask for out_dtype " + supported(FLOAT_DTYPES)
        )


def _check_inner_size(operands: Mapping[str, TensorSpec], options: Mapping[str, object]) -> None:
    """Check a stated count of packed numbers against the bytes that hold them."""
    size = options.get("inner_size")
    if size is None:
        return
    if not options.get("packed_a"):
        raise OptionError(f"matmul: inner_size = {size!r} is for packed operands only")
    columns = operands["a"].shape[-1]
    if columns is not None and (int(str(size)) + 1) // 2 != columns:
        raise ShapeError(
            f"matmul: inner_size = {size} packed numbers do not fill the {columns} bytes of each "
            "row of operand 'a'"
        )


def _check_weight(operands: Mapping[str, TensorSpec], options: Mapping[str, object]) -> None:
    """Check a matmul whose second operand is dequantized: its dtype, sizes and groups."""
    weight, group = options["weight"], options.get("group_size")
    if weight not in WEIGHT_DTYPES:
        raise OptionError(f"matmul: weight = {weight!r}; " + supported(WEIGHT_DTYPES))
    if group not in GROUP_SIZES:
        raise OptionError(f"matmul: group_size = {group!r}; " + supported(GROUP_SIZES))
    for option in ("transpose_a", "packed_a", "packed_b"):
        if options.get(option):
            raise OptionError(f"matmul: {option} does not go with quantized weights")
    stored = "i8" if weight == "i8" else "u8"
    for name, dtype in (("a", "f16"), ("b", stored)):
        if operands[name].dtype != dtype:
            raise DtypeError(
                f"matmul: with {weight} weights operand {name!r} must be {dtype}, got "
                f"{operands[name].dtype}"
            )
    k, columns = operands["a"].shape[-1], operands["b"].shape[-1]
    groups = operands["scale"].shape[-1]
    if k is not None and k % int(str(group)):
        raise ShapeError(f"matmul: k = {k} is no multiple of group_size = {group}")
    if k is not None and columns is not None and columns * (2 if stored == "u8" else 1) != k:
        raise ShapeError(f"matmul: operand 'b' has {columns} columns of {weight}, expected k = {k}")
    if k is not None and groups is not None and groups * int(str(group)) != k:
        raise ShapeError(
            f"matmul: operand 'scale' has {groups} groups of {group}, expected k = {k}"
        )


def _check_pair(operands: Mapping[str, TensorSpec], options: Mapping[str, object]) -> None:
    """Check a matmul whose gate is the product of the same first operand and another second one."""
    for option in ("grouped", "weight", "gate"):
        if options.get(option):
            raise OptionError(f"matmul: {option} does not go with pair")
    b, pair = operands["b"], operands["pair"]
    if len(b.shape) != len(pair.shape) or b.dtype != pair.dtype:
        raise ShapeError(f"matmul: operand 'pair' must be as 'b' is, {b}, got {pair}")


def _check_groups(operands: Mapping[str, TensorSpec], options: Mapping[str, object]) -> None:
    """Check a matmul of several problems whose rows lie one after the other."""
    for option in ("transpose_a", "weight", "packed_a"):
        if options.get(option):
            raise OptionError(f"matmul: {option} does not go with grouped")
    if options.get("bias") == "row":
        raise OptionError("matmul: bias 'row' does not go with grouped")
    if len(operands["a"].shape) != 2:
        raise ShapeError(f"matmul: grouped operand 'a' must be [m, k], got {operands['a']}")
    groups, starts = operands["b"].shape[0], operands["starts"].shape[0]
    if groups is not None and starts is not None and starts != groups + 1:
        raise ShapeError(
            f"matmul: operand 'starts' has {starts} entries, expected {groups + 1}: the first row "
            f"of each of {groups} groups, and where the last one ends"
        )
