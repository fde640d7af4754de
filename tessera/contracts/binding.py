"""Operand shapes and dtypes to bound dimension symbols and result types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tessera.contracts.attention import bind_sequences, check_attention_options
from tessera.contracts.matmul import check_matmul_options
from tessera.contracts.model import (
    BYTE_DTYPES,
    ELEMENTWISE_RANK,
    FLOAT_DTYPES,
    Binding,
    OpContract,
    OperandContract,
    ResultContract,
    Size,
    TensorSpec,
)
from tessera.contracts.strides import broadcast_shapes
from tessera.contracts.table import CONTRACTS, ELEMENTWISE_FUNCTIONS
from tessera.errors import DtypeError, OptionError, ShapeError, supported


def bind(
    op: str, operands: Sequence[TensorSpec], options: Mapping[str, object] | None = None
) -> Binding:
    """Bind the dimension symbols of `op` to its operands' sizes and derive the result types.

    Options read by matmul: `transpose_a`, `transpose_b`; `out_dtype` (absent: f32, of integers
    i32); `packed_a`, `packed_b` ("i4", "u4": k counts bytes); `beta`, `bias` ("row", "column"),
    `gate`, `residual`, each of which adds an operand; `activation`. By attention: `causal`,
    `scale`, `window_left`, `window_right`, `softcap`; `bias_dtype`, `alibi`, `variable_lengths`,
    which add operands, `compute_lse`, which takes lse away, and `bias_gradient`, which adds a
    result. By elementwise: `function`,
    `out_dtype`, `scalar`; its symbols are `size0`..`size3` of the broadcast shape, its operands
    `x0`, `x1`, its result `out`.
    Raises ShapeError, DtypeError or OptionError that name op, operand, dimension and both sizes.
    """
    options = options or {}
    if op == "elementwise":
        return _bind_elementwise(operands, options)
    if op not in CONTRACTS:
        raise OptionError(f"unknown operation {op!r}; " + supported([*CONTRACTS, "elementwise"]))
    contract = CONTRACTS[op]
    present = contract.operands_under(options)
    if len(operands) != len(present):
        names = ", ".join(operand.name for operand in present)
        raise ShapeError(f"{op}: takes {len(present)} operands ({names}), got {len(operands)}")
    named = {one.name: spec for one, spec in zip(present, operands, strict=True)}
    symbols = _bind_symbols(contract, operands, options)
    _check_dtypes(contract, present, operands, options)
    if op == "matmul":
        check_matmul_options(named, options)
    else:
        check_attention_options(op, named, options)
        bind_sequences(op, symbols)
    _check_sizes(contract, symbols)
    batch = (symbols["batch"],) if "batch" in symbols else ()
    results = {
        result.name: TensorSpec(
            named[result.shape_of].shape
            if result.shape_of
            else (*(batch if result.batched else ()), *(symbols[dim] for dim in result.dims)),
            _result_dtype(op, result, named, options),
        )
        for result in contract.results_under(options)
    }
    return Binding(symbols, named, results)


def _bind_symbols(
    contract: OpContract, operands: Sequence[TensorSpec], options: Mapping[str, object]
) -> dict[str, Size]:
    symbols: dict[str, Size] = {}
    origin: dict[str, str] = {}
    for operand, spec in zip(contract.operands_under(options), operands, strict=True):
        dims = operand.dims_under(options)
        if operand.batched and len(spec.shape) == len(dims) + 1:
            spec = _bind_batch(contract, operand, spec, symbols, origin)
        if operand.broadcast:
            dims, spec = _without_broadcast_axes(operand, dims, spec)
        if len(spec.shape) != len(dims):
            raise ShapeError(
                f"{contract.name}: operand {operand.name!r} must have rank {len(dims)} "
                f"[{', '.join(dims)}], got rank {len(spec.shape)}: {spec}"
            )
        for axis, (dim, size) in enumerate(zip(dims, spec.shape, strict=True)):
            known = symbols.get(dim)
            if known is None:
                symbols[dim] = size
                origin[dim] = f"axis {axis} of operand {operand.name!r}"
            elif size is not None and size != known:
                raise ShapeError(
                    f"{contract.name}: operand {operand.name!r} has dimension {dim!r} "
                    f"(axis {axis}) = {size}, expected {known} from {origin[dim]}; "
                    f"{operand.name} is {spec}"
                )
    return symbols


def _without_broadcast_axes(
    operand: OperandContract, dims: tuple[str, ...], spec: TensorSpec
) -> tuple[tuple[str, ...], TensorSpec]:
    """The dimensions and sizes that bind: those that broadcast, or are absent in front, do not."""
    missing = dims[: max(len(dims) - len(spec.shape), 0)]
    if any(dim not in operand.broadcast for dim in missing):
        return dims, spec
    kept = [
        (dim, size)
        for dim, size in zip(dims[len(missing) :], spec.shape, strict=False)
        if not (size == 1 and dim in operand.broadcast)
    ]
    if len(spec.shape) > len(dims):
        return dims, spec
    return tuple(dim for dim, _ in kept), TensorSpec(tuple(size for _, size in kept), spec.dtype)


def _bind_batch(
    contract: OpContract,
    operand: OperandContract,
    spec: TensorSpec,
    symbols: dict[str, Size],
    origin: dict[str, str],
) -> TensorSpec:
    """Bind the batch axis in front, as `batch` and as that of this operand; the rest of the spec.

    The symbol `batch_<operand>` is the operand's own count of entries: 1 repeats for all of them.
    """
    size = spec.shape[0]
    symbols[f"batch_{operand.name}"] = size
    known = symbols.get("batch", 1)
    if known == 1 or known is None:
        symbols["batch"] = size if known == 1 or size not in (None, 1) else None
        origin["batch"] = f"operand {operand.name!r}"
    elif size not in (None, 1, known):
        raise ShapeError(
            f"{contract.name}: operand {operand.name!r} has {size} batch entries, expected 1 or "
            f"{known} from {origin['batch']}; {operand.name} is {spec}"
        )
    return TensorSpec(spec.shape[1:], spec.dtype)


def _check_dtypes(
    contract: OpContract,
    present: Sequence[OperandContract],
    operands: Sequence[TensorSpec],
    options: Mapping[str, object],
) -> None:
    for operand, spec in zip(present, operands, strict=True):
        if spec.dtype not in operand.dtypes:
            raise DtypeError(
                f"{contract.name}: operand {operand.name!r} has dtype {spec.dtype}; "
                + supported(operand.dtypes)
            )
    shared = {
        operand.name: spec.dtype
        for operand, spec in zip(present, operands, strict=True)
        if operand.name in contract.same_dtype
    }
    if options.get("weight"):
        return
    # Signed and unsigned bytes are multiplied by one instruction, which is told the signs.
    if len({BYTE_DTYPES if one in BYTE_DTYPES else one for one in shared.values()}) > 1:
        listing = ", ".join(f"{name} is {dtype}" for name, dtype in shared.items())
        raise DtypeError(
            f"{contract.name}: operands {', '.join(shared)} must share one dtype, got {listing}; "
            "use cast"
        )


def _check_sizes(contract: OpContract, symbols: Mapping[str, Size]) -> None:
    for symbol, smallest, largest in contract.limits:
        size = symbols[symbol]
        if size is not None and not smallest <= size <= largest:
            raise ShapeError(
                f"{contract.name}: {symbol} = {size} is not supported; "
                f"supported: {smallest} to {largest}"
            )
    for symbol, divisor in contract.multiples:
        count, group = symbols[symbol], symbols[divisor]
        if count is None or group is None or (group and count % group == 0):
            continue
        if count or group:
            raise ShapeError(
                f"{contract.name}: {symbol} = {count} is not a multiple of {divisor} = {group}"
            )


def _result_dtype(
    op: str,
    result: ResultContract,
    operands: Mapping[str, TensorSpec],
    options: Mapping[str, object],
) -> str:
    dtype = operands[result.dtype_of].dtype if result.dtype_of else result.dtype
    if op == "matmul" and operands["a"].dtype in BYTE_DTYPES:
        dtype = "i32"
    asked = options.get(result.dtype_option) if result.dtype_option else None
    if asked is None:
        return dtype
    if asked not in result.dtypes:
        raise DtypeError(
            f"{op}: {result.dtype_option} = {asked!r} is not supported; " + supported(result.dtypes)
        )
    return str(asked)


def _bind_elementwise(operands: Sequence[TensorSpec], options: Mapping[str, object]) -> Binding:
    function = str(options.get("function"))
    if function not in ELEMENTWISE_FUNCTIONS:
        raise OptionError(
            f"elementwise: unknown function {function!r}; " + supported(ELEMENTWISE_FUNCTIONS)
        )
    has_scalar = options.get("scalar") is not None
    if has_scalar and ELEMENTWISE_FUNCTIONS[function] != 2:
        raise OptionError(f"{function}: takes one tensor and no scalar")
    expected = ELEMENTWISE_FUNCTIONS[function] - int(has_scalar)
    if len(operands) != expected:
        beside = " beside the scalar" if has_scalar else ""
        raise ShapeError(
            f"{function}: number of operands must be {expected}{beside}, got {len(operands)}"
        )
    dtypes = [spec.dtype for spec in operands]
    for index, spec in enumerate(operands):
        if spec.dtype not in FLOAT_DTYPES:
            raise DtypeError(
                f"{function}: operand x{index} has dtype {spec.dtype}; " + supported(FLOAT_DTYPES)
            )
        if len(spec.shape) > ELEMENTWISE_RANK:
            raise ShapeError(
                f"{function}: operand x{index} has rank {len(spec.shape)}: {spec}; "
                f"supported: ranks 0 to {ELEMENTWISE_RANK}"
            )
    if len(set(dtypes)) > 1:
        raise DtypeError(
            f"{function}: operands must share one dtype, got {', '.join(dtypes)}; use cast"
        )
    shape = broadcast_shapes(function, operands)
    out_dtype = options.get("out_dtype") or dtypes[0]
    if out_dtype not in FLOAT_DTYPES:
        raise DtypeError(
            f"{function}: out_dtype = {out_dtype!r} is not supported; " + supported(FLOAT_DTYPES)
        )
    padded = (1,) * (ELEMENTWISE_RANK - len(shape)) + shape
    return Binding(
        symbols={f"size{axis}": size for axis, size in enumerate(padded)},
        operands={f"x{index}": spec for index, spec in enumerate(operands)},
        results={"out": TensorSpec(shape, str(out_dtype))},
    )
