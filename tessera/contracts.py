"""Operation contracts: operand shapes and dtypes to bound dimension symbols and result types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from tessera.errors import DtypeError, OptionError, ShapeError, supported

HALF_DTYPES = ("f16", "bf16")
FLOAT_DTYPES = ("f16", "bf16", "f32")
DTYPE_BYTES: Mapping[str, int] = MappingProxyType({"f16": 2, "bf16": 2, "f32": 4})
"""Bytes of one element, for every dtype that a tensor may have."""

MAX_HEAD_DIM = 256
ELEMENTWISE_RANK = 4
"""Elementwise kernels see every tensor at this rank: leading 1s, stride 0 where broadcast."""

CAUSAL_MODES = ("none", "top_left", "bottom_right")

Size = int | None
"""A dimension's size in elements; None while it is not known."""


@dataclass(frozen=True)
class TensorSpec:
    """Shape (None for a size that is not known yet) and dtype name of one tensor."""

    shape: tuple[Size, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join('?' if s is None else str(s) for s in self.shape)}]"


@dataclass(frozen=True)
class OperandContract:
    """One operand: its dimension symbols from outermost to innermost and its allowed dtypes.

    `transposed_by` names the boolean option under which the dimensions stand in reverse order.
    """

    name: str
    dims: tuple[str, ...]
    dtypes: tuple[str, ...]
    transposed_by: str | None = None

    def dims_under(self, options: Mapping[str, object]) -> tuple[str, ...]:
        """The dimension symbols in the order in which memory has them under `options`."""
        if self.transposed_by is not None and options.get(self.transposed_by):
            return self.dims[::-1]
        return self.dims


@dataclass(frozen=True)
class ResultContract:
    """One result: its dimension symbols, and its dtype as a name or as that of an operand.

    `dtype_option` names the option that overrides the dtype, `dtypes` what it may ask for.
    """

    name: str
    dims: tuple[str, ...]
    dtype: str = ""
    dtype_of: str = ""
    dtype_option: str = ""
    dtypes: tuple[str, ...] = FLOAT_DTYPES


@dataclass(frozen=True)
class OpContract:
    """What one operation takes and gives.

    `same_dtype` operands share one dtype. `limits` are (symbol, smallest, largest) sizes;
    `multiples` are (symbol, divisor symbol) pairs that must divide evenly.
    """

    name: str
    operands: tuple[OperandContract, ...]
    results: tuple[ResultContract, ...]
    same_dtype: tuple[str, ...] = ()
    limits: tuple[tuple[str, int, int], ...] = ()
    multiples: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Binding:
    """The outcome of `bind`: a size (or None) per symbol, and operands and results by name."""

    symbols: Mapping[str, Size]
    operands: Mapping[str, TensorSpec]
    results: Mapping[str, TensorSpec] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether no result has an element, so that there is nothing to launch."""
        return all(0 in spec.shape for spec in self.results.values())


CONTRACTS: Mapping[str, OpContract] = MappingProxyType(
    {
        "matmul": OpContract(
            name="matmul",
            operands=(
                OperandContract("a", ("m", "k"), HALF_DTYPES, transposed_by="transpose_a"),
                OperandContract("b", ("k", "n"), HALF_DTYPES, transposed_by="transpose_b"),
            ),
            results=(ResultContract("c", ("m", "n"), dtype="f32", dtype_option="out_dtype"),),
            same_dtype=("a", "b"),
        ),
        "flash_attn": OpContract(
            name="flash_attn",
            operands=(
                OperandContract("q", ("batch", "heads", "seq_q", "head_dim"), HALF_DTYPES),
                OperandContract("k", ("batch", "heads_k", "seq_k", "head_dim"), HALF_DTYPES),
                OperandContract("v", ("batch", "heads_k", "seq_k", "head_dim_v"), HALF_DTYPES),
            ),
            results=(
                ResultContract("o", ("batch", "heads", "seq_q", "head_dim_v"), dtype_of="q"),
                ResultContract("lse", ("batch", "heads", "seq_q"), dtype="f32"),
            ),
            same_dtype=("q", "k", "v"),
            limits=(("head_dim", 1, MAX_HEAD_DIM), ("head_dim_v", 1, MAX_HEAD_DIM)),
            multiples=(("heads", "heads_k"),),
        ),
    }
)
"""The operations with named dimensions. `elementwise` broadcasts instead; `bind` knows both."""

ELEMENTWISE_FUNCTIONS: Mapping[str, int] = MappingProxyType(
    {"add": 2, "mul": 2, "relu": 1, "gelu": 1, "gelu_tanh": 1, "silu": 1, "cast": 1}
)
"""Elementwise functions and their number of inputs, of which one may be a scalar constant."""


def bind(
    op: str, operands: Sequence[TensorSpec], options: Mapping[str, object] | None = None
) -> Binding:
    """Bind the dimension symbols of `op` to its operands' sizes and derive the result types.

    Options read: `transpose_a`, `transpose_b`, `out_dtype` (matmul: f32 when absent);
    `function`, `out_dtype`, `scalar` (elementwise). For elementwise the symbols are
    `size0`..`size3` of the broadcast shape, the operands `x0`, `x1`, the result `out`.
    Raises ShapeError, DtypeError or OptionError that name op, operand, dimension and both sizes.
    """
    options = options or {}
    if op == "elementwise":
        return _bind_elementwise(operands, options)
    if op not in CONTRACTS:
        raise OptionError(f"unknown operation {op!r}; " + supported([*CONTRACTS, "elementwise"]))
    contract = CONTRACTS[op]
    if len(operands) != len(contract.operands):
        names = ", ".join(operand.name for operand in contract.operands)
        raise ShapeError(
            f"{op}: takes {len(contract.operands)} operands ({names}), got {len(operands)}"
        )
    symbols = _bind_symbols(contract, operands, options)
    _check_dtypes(contract, operands)
    _check_sizes(contract, symbols)
    named = {one.name: spec for one, spec in zip(contract.operands, operands, strict=True)}
    results = {
        result.name: TensorSpec(
            tuple(symbols[dim] for dim in result.dims), _result_dtype(op, result, named, options)
        )
        for result in contract.results
    }
    return Binding(symbols, named, results)


def _bind_symbols(
    contract: OpContract, operands: Sequence[TensorSpec], options: Mapping[str, object]
) -> dict[str, Size]:
    symbols: dict[str, Size] = {}
    origin: dict[str, str] = {}
    for operand, spec in zip(contract.operands, operands, strict=True):
        dims = operand.dims_under(options)
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


def _check_dtypes(contract: OpContract, operands: Sequence[TensorSpec]) -> None:
    for operand, spec in zip(contract.operands, operands, strict=True):
        if spec.dtype not in operand.dtypes:
            raise DtypeError(
                f"{contract.name}: operand {operand.name!r} has dtype {spec.dtype}; "
                + supported(operand.dtypes)
            )
    shared = {
        operand.name: spec.dtype
        for operand, spec in zip(contract.operands, operands, strict=True)
        if operand.name in contract.same_dtype
    }
    if len(set(shared.values())) > 1:
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


def broadcast_shapes(op: str, operands: Sequence[TensorSpec]) -> tuple[Size, ...]:
    """The shape that the operands broadcast to, by NumPy's rule; ShapeError names both sizes.

    An unknown size beside a known one other than 1 is taken to be that one or 1.
    """
    rank = max(len(spec.shape) for spec in operands)
    shape: list[Size] = []
    for axis in range(rank):
        result: Size = 1
        owner = ""
        for index, spec in enumerate(operands):
            position = axis - (rank - len(spec.shape))
            size = 1 if position < 0 else spec.shape[position]
            if size == 1 or size == result:
                continue
            if size is None:
                result = None if result == 1 else result
            elif result in (1, None):
                result, owner = size, f"x{index}"
            else:
                raise ShapeError(
                    f"{op}: operand x{index} has size {size} on axis {position}, which does not "
                    f"broadcast with {result} of {owner}; got "
                    + " and ".join(str(one) for one in operands)
                )
        shape.append(result)
    return tuple(shape)


def broadcast_strides(
    shape: Sequence[int], strides: Sequence[int], sizes: Sequence[int]
) -> tuple[int, ...]:
    """Strides (in the unit of `strides`) of a tensor seen at the broadcast shape `sizes`."""
    missing = len(sizes) - len(shape)
    expanded = (*(0 for _ in range(missing)), *strides)
    known = (*(1 for _ in range(missing)), *shape)
    return tuple(
        0 if size == 1 and wanted != 1 else stride
        for size, stride, wanted in zip(known, expanded, sizes, strict=True)
    )


def reshape_strides(
    shape: Sequence[int], strides: Sequence[int], new_shape: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides of a reshaped view of the same memory, or None when only a copy could do it.

    Sizes of `new_shape` are all known and have the product of `shape`.
    """
    if 0 in new_shape:
        return tuple(0 for _ in new_shape)
    kept = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    # Runs of old axes that step through memory as one axis would, innermost first.
    runs: list[tuple[int, int]] = []
    for size, stride in reversed(kept):
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * size, runs[-1][1])
        else:
            runs.append((size, stride))
    result: list[int] = []
    run, left = 0, runs[0][0] if runs else 1
    step = runs[0][1] if runs else 1
    for size in reversed(new_shape):
        if size != 1 and left == 1:
            run += 1
            left, step = runs[run]
        if left % size:
            return None
        result.append(step)
        step *= size
        left //= size
    return tuple(reversed(result))
