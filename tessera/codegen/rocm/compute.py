"""Fragment arithmetic (mma, map, reduce, combine, convert) to LLVM vectors and lane swaps."""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute, Operation, SSAValue

from tessera.codegen.llvm_text import FunctionEmitter
from tessera.codegen.llvm_types import fragment_core, fragment_layout, scalar_type
from tessera.codegen.rocm.lanes import (
    HIGH_HALVES,
    in_upper_half,
    lane_coordinate,
    permute_bytes,
    slot_coordinate,
    swap_halves,
    swap_halves_float,
)
from tessera.dialects.wave import (
    AnyGreaterOp,
    CombineOp,
    ConvertOp,
    DotOp,
    MapOp,
    MmaOp,
    NegateOp,
    ReduceOp,
    SplatOp,
    ZeroOp,
)
from tessera.dialects.wave_types import FragmentType, StatisticType, element_name
from tessera.errors import CompileError
from tessera.targets.matrix_core import COLUMN, ROW

BFLOAT_HALF = 0x8000
"""Half a unit in the last place of a bf16, in the bits of the f32 that it is cut from.

Adding it rounds to nearest with ties away from zero, in a fifth of what ties to even cost here.
"""

SIGN_BITS_OF_PAIR = 0x80008000 - (1 << 32)


def emit_zero(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.zero to a constant."""
    assert isinstance(operation, ZeroOp)
    emitter.bind(operation.result, "zeroinitializer")


def emit_mma(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.mma to the matrix intrinsic of the operands' row."""
    assert isinstance(operation, MmaOp)
    assert isinstance(operation.a.type, FragmentType)
    row = fragment_core(operation.a.type, emitter.target)
    arguments = []
    for value, wanted in ((operation.a, row.a_type), (operation.b, row.b_type)):
        carried, name = emitter.type(value), emitter.value(value)
        if carried != wanted:
            name = emitter.assign(f"bitcast {carried} {name} to {wanted}")
        if row.takes_signs:
            arguments.append(("i1", _is_signed(value)))
        arguments.append((wanted, name))
    arguments.append((row.accumulator_type, emitter.value(operation.accumulator)))
    if row.takes_signs:
        # Sums wrap around at 2^32: saturation would make them depend on the order of K.
        arguments.append(("i1", "false"))
    emitter.bind(operation.result, emitter.call(row.accumulator_type, row.intrinsic, arguments))


def _is_signed(fragment: SSAValue) -> str:
    assert isinstance(fragment.type, FragmentType)
    return "false" if element_name(fragment.type.element).startswith("u") else "true"


def _element(emitter: FunctionEmitter, value: SSAValue, slot: int) -> str:
    """What the slot's call of a map region sees of an input."""
    vector = isinstance(value.type, FragmentType) or (
        isinstance(value.type, StatisticType) and value.type.axis.data == ROW
    )
    if not vector:
        return emitter.value(value)
    name = emitter.value(value)
    return emitter.assign(f"extractelement {emitter.type(value)} {name}, i32 {slot}")


def emit_map(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.map to one copy of the region per slot."""
    assert isinstance(operation, MapOp)
    fragments = [v.type for v in operation.inputs if isinstance(v.type, FragmentType)]
    block = operation.body.block
    *body, terminator = block.ops
    if not fragments:
        for argument, value in zip(block.args, operation.inputs, strict=True):
            emitter.bind(argument, _element(emitter, value, 0))
        emitter.operations(body)
        for result, value in zip(operation.results, terminator.operands, strict=True):
            emitter.bind(result, emitter.value(value))
        return
    layout = fragment_layout(fragments[0], emitter.target)
    lane_row = column = ""
    if operation.coordinates is not None:
        lane_row = lane_coordinate(emitter, layout, ROW)
        column = lane_coordinate(emitter, layout, COLUMN)
    results = ["poison"] * len(operation.results)
    for slot in range(layout.slots):
        arguments = list(block.args)
        if operation.coordinates is not None:
            row = emitter.assign(f"add i32 {lane_row}, {slot_coordinate(layout, slot, ROW)}")
            emitter.bind(arguments[0], row)
            emitter.bind(arguments[1], column)
            arguments = arguments[2:]
        for argument, value in zip(arguments, operation.inputs, strict=True):
            emitter.bind(argument, _element(emitter, value, slot))
        emitter.operations(body)
        for index, (result, value) in enumerate(
            zip(operation.results, terminator.operands, strict=True)
        ):
            results[index] = emitter.assign(
                f"insertelement {emitter.type(result)} {results[index]}, "
                f"{emitter.type(value)} {emitter.value(value)}, i32 {slot}"
            )
    for result, name in zip(operation.results, results, strict=True):
        emitter.bind(result, name)


def _reduce_pair(emitter: FunctionEmitter, kind: str, first: str, second: str) -> str:
    if kind == "sum":
        return emitter.assign(f"fadd float {first}, {second}")
    return emitter.call("float", "llvm.maxnum.f32", [("float", first), ("float", second)])


def emit_reduce(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.reduce along rows to a tree over each lane's slots."""
    assert isinstance(operation, ReduceOp)
    result = operation.result.type
    assert isinstance(result, StatisticType)
    if result.axis.data != COLUMN:
        raise CompileError("wave.reduce: only reduction to one number per column is built")
    values: list[str] = []
    for fragment in operation.inputs:
        assert isinstance(fragment.type, FragmentType)
        layout = fragment_layout(fragment.type, emitter.target)
        values += [_element(emitter, fragment, slot) for slot in range(layout.slots)]
    kind = operation.kind.data
    while len(values) > 1:
        paired = [
            _reduce_pair(emitter, kind, values[index], values[index + 1])
            for index in range(0, len(values) - 1, 2)
        ]
        values = paired + values[len(values) - len(values) % 2 :]
    emitter.bind(operation.result, values[0])


def emit_combine(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.combine to one exchange between the lane halves."""
    assert isinstance(operation, CombineOp)
    statistic = operation.statistic.type
    assert isinstance(statistic, StatisticType)
    if statistic.axis.data != COLUMN:
        raise CompileError("wave.combine: only numbers per column are built")
    value = emitter.value(operation.statistic)
    other = swap_halves_float(emitter, value)
    emitter.bind(operation.result, _reduce_pair(emitter, operation.kind.data, value, other))


def emit_any_greater(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.any_greater to a comparison per lane and a scalar test of the lanes' bits."""
    assert isinstance(operation, AnyGreaterOp)
    statistic = operation.first.type
    assert isinstance(statistic, StatisticType)
    if statistic.axis.data != COLUMN:
        raise CompileError("wave.any_greater: only numbers per column are built")
    first, second = emitter.value(operation.first), emitter.value(operation.second)
    greater = emitter.assign(f"fcmp ogt float {first}, {second}")
    lanes = emitter.call("i32", "llvm.amdgcn.ballot.i32", [("i1", greater)])
    emitter.bind(operation.result, emitter.assign(f"icmp ne i32 {lanes}, 0"))


def emit_splat(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.splat of a per-column statistic: every lane holds the scalar."""
    assert isinstance(operation, SplatOp)
    statistic = operation.result.type
    assert isinstance(statistic, StatisticType)
    if statistic.axis.data != COLUMN:
        raise CompileError("wave.splat: only numbers per column are built")
    emitter.bind(operation.result, emitter.value(operation.scalar))


def emit_convert(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.convert by half swaps: both halves end up with all rows of their column.

    Cost on RDNA3 per fragment: the rounding, 4 v_permlanex16 and 8 selects.
    """
    assert isinstance(operation, ConvertOp)
    source, result = operation.accumulator.type, operation.result.type
    assert isinstance(source, FragmentType)
    assert isinstance(result, FragmentType)
    row = fragment_core(result, emitter.target)
    if row.conversion != "half_swap" or result.role.data != row.operand_from_accumulator:
        raise CompileError(f"wave.convert: {source} to {result} is not built for {row.name}")
    slots = fragment_layout(source, emitter.target).slots
    words = slots // 2
    if operation.toward_zero is not None:
        own = _truncated_words(emitter, operation.accumulator, result.element)
    elif isinstance(result.element, BFloat16Type):
        own = _truncated_words(emitter, operation.accumulator, result.element, BFLOAT_HALF)
    else:
        packed = round_to_storage(emitter, operation.accumulator, result.element)
        pairs = emitter.assign(f"bitcast <{slots} x i16> {packed} to <{words} x i32>")
        own = [
            emitter.assign(f"extractelement <{words} x i32> {pairs}, i32 {index}")
            for index in range(words)
        ]
    other = [swap_halves(emitter, word) for word in own]
    upper = in_upper_half(emitter)
    low = [_choose(emitter, upper, swapped, mine) for mine, swapped in zip(own, other, strict=True)]
    high = [
        _choose(emitter, upper, mine, swapped) for mine, swapped in zip(own, other, strict=True)
    ]
    vector = "poison"
    for index, word in enumerate([*low, *high]):
        vector = emitter.assign(
            f"insertelement <{2 * words} x i32> {vector}, i32 {word}, i32 {index}"
        )
    emitter.bind(
        operation.result,
        emitter.assign(f"bitcast <{2 * words} x i32> {vector} to <{2 * slots} x i16>"),
    )


def _truncated_words(
    emitter: FunctionEmitter, accumulator: SSAValue, element: Attribute, added: int = 0
) -> list[str]:
    """Pairs of f32 slots as 16-bit values, rounded toward zero by one instruction per pair.

    For bf16 `added` is what the bits are increased by before: half a unit rounds to nearest.
    """
    vector, type_ = emitter.value(accumulator), emitter.type(accumulator)
    slots = fragment_layout(accumulator.type, emitter.target).slots  # type: ignore[arg-type]
    values = [emitter.assign(f"extractelement {type_} {vector}, i32 {i}") for i in range(slots)]
    words: list[str] = []
    for low, high in zip(values[::2], values[1::2], strict=True):
        if isinstance(element, Float16Type):
            arguments = [("float", low), ("float", high)]
            pair = emitter.call("<2 x half>", "llvm.amdgcn.cvt.pkrtz", arguments)
            words.append(emitter.assign(f"bitcast <2 x half> {pair} to i32"))
        elif isinstance(element, BFloat16Type):
            # The upper half of an f32 is the bf16 that it truncates to.
            bits = [emitter.assign(f"bitcast float {value} to i32") for value in (low, high)]
            if added:
                bits = [emitter.assign(f"add i32 {one}, {added}") for one in bits]
            words.append(permute_bytes(emitter, bits[0], bits[1], HIGH_HALVES))
        else:
            raise CompileError(f"no conversion of an accumulator to {element}")
    return words


def _choose(emitter: FunctionEmitter, condition: str, first: str, second: str) -> str:
    return emitter.assign(f"select i1 {condition}, i32 {first}, i32 {second}")


def round_to_storage(emitter: FunctionEmitter, accumulator: SSAValue, element: object) -> str:
    """An f32 accumulator as 16-bit integers that hold the rounded f16 or bf16 values."""
    if not isinstance(element, Float16Type | BFloat16Type):
        raise CompileError(f"no conversion of an accumulator to {element}")
    slots = fragment_layout(accumulator.type, emitter.target).slots  # type: ignore[arg-type]
    narrow = f"<{slots} x {scalar_type(element)}>"
    rounded = emitter.assign(f"fptrunc <{slots} x float> {emitter.value(accumulator)} to {narrow}")
    return emitter.assign(f"bitcast {narrow} {rounded} to <{slots} x i16>")


def emit_dot(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.dot to a chain of f32 multiply-adds over each lane's slots."""
    assert isinstance(operation, DotOp)
    fragment = operation.first.type
    assert isinstance(fragment, FragmentType)
    layout = fragment_layout(fragment, emitter.target)
    if layout.replication != emitter.target.facts.wave_size // layout.extents[0]:
        raise CompileError("wave.dot: not built where lanes share a contracted row")
    narrow = f"<{layout.slots} x {scalar_type(fragment.element)}>"
    wide = f"<{layout.slots} x float>"
    vectors = []
    for value in (operation.first, operation.second):
        cast = emitter.assign(f"bitcast {emitter.type(value)} {emitter.value(value)} to {narrow}")
        vectors.append(emitter.assign(f"fpext {narrow} {cast} to {wide}"))
    total = "0.0"
    for slot in range(layout.slots):
        pair = [emitter.assign(f"extractelement {wide} {v}, i32 {slot}") for v in vectors]
        arguments = [("float", pair[0]), ("float", pair[1]), ("float", total)]
        total = emitter.call("float", "llvm.fma.f32", arguments)
    emitter.bind(operation.result, total)


def emit_negate_if(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.negate_if of a 16-bit operand: flip both signs of every register."""
    assert isinstance(operation, NegateOp)
    type_ = emitter.type(operation.fragment)
    count = int(type_[1:].split(" ")[0])
    words = f"<{count // 2} x i32>"
    mask = emitter.assign(
        f"select i1 {emitter.value(operation.condition)}, i32 {SIGN_BITS_OF_PAIR}, i32 0"
    )
    vector = emitter.assign(f"bitcast {type_} {emitter.value(operation.fragment)} to {words}")
    seed = emitter.assign(f"insertelement {words} poison, i32 {mask}, i32 0")
    masks = emitter.assign(
        f"shufflevector {words} {seed}, {words} poison, <{count // 2} x i32> zeroinitializer"
    )
    flipped = emitter.assign(f"xor {words} {vector}, {masks}")
    emitter.bind(operation.result, emitter.assign(f"bitcast {words} {flipped} to {type_}"))
