"""Operand fragments to loads from LDS or global memory, by the matrix-core row's lane map."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tessera.codegen.llvm_text import FunctionEmitter
from tessera.codegen.llvm_types import fragment_layout
from tessera.codegen.rocm.lanes import lane_coordinate, lane_id, slot_coordinate
from tessera.codegen.rocm.memory import (
    GLOBAL,
    LDS,
    RowPiece,
    concatenate,
    global_address,
    lds_address,
    load_row_piece,
    multiply_add,
)
from tessera.dialects.wave import (
    LoadAccumulatorOp,
    LoadFragmentOp,
    LoadGlobalFragmentOp,
    LoadStatisticOp,
    StoreAccumulatorOp,
    StoreLdsElementOp,
)
from tessera.dialects.wave_types import (
    ELEMENT_BITS,
    FragmentType,
    LdsType,
    PointerType,
    element_name,
)
from tessera.errors import CompileError
from tessera.targets import FragmentLayout
from tessera.targets.matrix_core import INNER, OUTER

WIDEST_LOAD_BITS = 128


def inner_runs(layout: FragmentLayout) -> list[tuple[int, int]]:
    """(first inner index, length) of the slots' runs along the contracted axis, for lane 0."""
    indices = [slot_coordinate(layout, slot, INNER) for slot in range(layout.slots)]
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and index == runs[-1][0] + runs[-1][1]:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((index, 1))
    return runs


def emit_load_fragment(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.load_fragment to LDS reads of up to 128 bits."""
    assert isinstance(operation, LoadFragmentOp)
    fragment, lds = operation.result.type, operation.lds.type
    assert isinstance(fragment, FragmentType)
    assert isinstance(lds, LdsType)
    layout = fragment_layout(fragment, emitter.target)
    bits = ELEMENT_BITS[element_name(lds.element)]
    # Lane parts first: they are the same for every fragment, so LLVM keeps one base address and
    # puts the rest into the instruction's offset.
    lane = multiply_add(
        emitter,
        lane_coordinate(emitter, layout, OUTER),
        lds.pitch.data,
        lane_coordinate(emitter, layout, INNER),
    )
    base = lds_address(emitter, emitter.value(operation.lds), lane, bits)
    place = multiply_add(
        emitter,
        emitter.value(operation.outer),
        lds.pitch.data,
        emitter.value(operation.inner),
    )
    address = lds_address(emitter, base, place, bits)
    parts: list[str] = []
    width = 0
    for first, length in memory_runs(fragment, layout, bits):
        width = min(length, WIDEST_LOAD_BITS // bits)
        for start in range(first, first + length, width):
            piece = lds_address(emitter, address, str(start), bits) if start else address
            parts.append(
                emitter.assign(
                    f"load <{width} x i{bits}>, {LDS} {piece}, align {width * bits // 8}"
                )
            )
    _bind_fragment(emitter, operation.result, concatenate(emitter, parts, width, f"i{bits}"), bits)


def memory_runs(fragment: FragmentType, layout: FragmentLayout, bits: int) -> list[tuple[int, int]]:
    """`inner_runs` counted in memory elements of `bits`, which may hold several numbers each."""
    packed = bits // ELEMENT_BITS[element_name(fragment.element)]
    runs = inner_runs(layout)
    if packed < 1 or any(first % packed or length % packed for first, length in runs):
        raise CompileError(f"no load of {fragment} from {bits}-bit memory elements")
    return [(first // packed, length // packed) for first, length in runs]


def _bind_fragment(emitter: FunctionEmitter, result: SSAValue, vector: str, bits: int) -> None:
    """Bind a fragment to a vector of memory elements, as the type that carries it."""
    wanted = emitter.type(result)
    assert isinstance(result.type, FragmentType)
    slots = fragment_layout(result.type, emitter.target).slots
    count = slots * ELEMENT_BITS[element_name(result.type.element)] // bits
    carried = f"<{count} x i{bits}>"
    if carried != wanted:
        vector = emitter.assign(f"bitcast {carried} {vector} to {wanted}")
    emitter.bind(result, vector)


def emit_load_global_fragment(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.load_global_fragment to global loads: rows in wide pieces, columns one by one."""
    assert isinstance(operation, LoadGlobalFragmentOp)
    fragment = operation.result.type
    assert isinstance(fragment, FragmentType)
    layout = fragment_layout(fragment, emitter.target)
    outer = lane_coordinate(emitter, layout, OUTER)
    if operation.outer_limit is not None:
        limit = emitter.value(operation.outer_limit)
        last = emitter.assign(f"sub i32 {limit}, 1")
        outer = emitter.call("i32", "llvm.smin.i32", [("i32", outer), ("i32", last)])
    inner_limit = None if operation.inner_limit is None else emitter.value(operation.inner_limit)
    if operation.transposed is None:
        name = _load_rows(emitter, operation, layout, outer, inner_limit)
    else:
        name = _load_columns(emitter, operation, layout, outer, inner_limit)
    _bind_fragment(emitter, operation.result, name, _memory_bits(operation))


def _memory_bits(operation: LoadGlobalFragmentOp) -> int:
    assert isinstance(operation.pointer.type, PointerType)
    return ELEMENT_BITS[element_name(operation.pointer.type.element)]


def emit_store_lds_element(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.store_lds_element to one LDS store per lane."""
    assert isinstance(operation, StoreLdsElementOp)
    assert isinstance(operation.lds.type, LdsType)
    bits = ELEMENT_BITS[element_name(operation.lds.type.element)]
    place = emitter.value(operation.index)
    address = lds_address(emitter, emitter.value(operation.lds), place, bits)
    value = f"{emitter.type(operation.value)} {emitter.value(operation.value)}"
    emitter.line(f"store {value}, {LDS} {address}, align {bits // 8}")


def emit_load_statistic(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.load_statistic to LDS reads of 128 bits; lanes that share their rows read the same."""
    assert isinstance(operation, LoadStatisticOp)
    layout = emitter.target.facts.matrix_cores[0].accumulator
    # `converted_order` counts the slots of the lanes that share a column, lane after lane.
    group = emitter.assign(f"lshr i32 {lane_id(emitter)}, {layout.extents[1].bit_length() - 1}")
    place = multiply_add(emitter, group, layout.slots, emitter.value(operation.first))
    address = lds_address(emitter, emitter.value(operation.lds), place, 32)
    parts = []
    for start in range(0, layout.slots, 4):
        piece = lds_address(emitter, address, str(start), 32) if start else address
        parts.append(emitter.assign(f"load <4 x float>, {LDS} {piece}, align 16"))
    emitter.bind(operation.result, concatenate(emitter, parts, 4, "float"))


def _accumulator_places(
    emitter: FunctionEmitter, lds: SSAValue, first: SSAValue, slots: int
) -> list[str]:
    """Addresses of a lane's slots, four at a time: neighbouring lanes use neighbouring banks."""
    start = multiply_add(emitter, lane_id(emitter), 4, emitter.value(first))
    base = lds_address(emitter, emitter.value(lds), start, 32)
    step = 4 * emitter.target.facts.wave_size
    return [
        lds_address(emitter, base, str(step * index), 32) if index else base
        for index in range(slots // 4)
    ]


def emit_store_accumulator(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.store_accumulator to LDS stores of 128 bits."""
    assert isinstance(operation, StoreAccumulatorOp)
    assert isinstance(operation.fragment.type, FragmentType)
    slots = fragment_layout(operation.fragment.type, emitter.target).slots
    vector, type_ = emitter.value(operation.fragment), emitter.type(operation.fragment)
    for index, place in enumerate(
        _accumulator_places(emitter, operation.lds, operation.first, slots)
    ):
        mask = ", ".join(f"i32 {4 * index + i}" for i in range(4))
        part = emitter.assign(f"shufflevector {type_} {vector}, {type_} poison, <4 x i32> <{mask}>")
        emitter.line(f"store <4 x float> {part}, {LDS} {place}, align 16")


def emit_load_accumulator(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.load_accumulator to LDS reads of 128 bits."""
    assert isinstance(operation, LoadAccumulatorOp)
    assert isinstance(operation.result.type, FragmentType)
    slots = fragment_layout(operation.result.type, emitter.target).slots
    places = _accumulator_places(emitter, operation.lds, operation.first, slots)
    parts = [emitter.assign(f"load <4 x float>, {LDS} {place}, align 16") for place in places]
    emitter.bind(operation.result, concatenate(emitter, parts, 4, "float"))


def _load_rows(
    emitter: FunctionEmitter,
    operation: LoadGlobalFragmentOp,
    layout: FragmentLayout,
    outer: str,
    inner_limit: str | None,
) -> str:
    assert isinstance(operation.result.type, FragmentType)
    bits = _memory_bits(operation)
    offset = emitter.assign(f"mul i32 {outer}, {emitter.value(operation.stride)}")
    lane_inner = lane_coordinate(emitter, layout, INNER)
    parts: list[str] = []
    width = 0
    for first, length in memory_runs(operation.result.type, layout, bits):
        width = min(length, WIDEST_LOAD_BITS // bits)
        for start in range(first, first + length, width):
            piece = RowPiece(
                pointer=emitter.value(operation.pointer),
                offset=offset,
                column=emitter.assign(f"add i32 {lane_inner}, {start}"),
                count=width,
                alignment=operation.alignment.value.data,
                bits=bits,
                column_limit=inner_limit,
            )
            parts.append(load_row_piece(emitter, piece))
    return concatenate(emitter, parts, width, f"i{bits}")


def _load_columns(
    emitter: FunctionEmitter,
    operation: LoadGlobalFragmentOp,
    layout: FragmentLayout,
    outer: str,
    inner_limit: str | None,
) -> str:
    assert isinstance(operation.result.type, FragmentType)
    bits = _memory_bits(operation)
    vector_type = f"<{layout.slots} x i{bits}>"
    vector = "zeroinitializer"
    lane_inner = lane_coordinate(emitter, layout, INNER)
    stride = emitter.value(operation.stride)
    for slot in range(layout.slots):
        first = slot_coordinate(layout, slot, INNER)
        inner = emitter.assign(f"add i32 {lane_inner}, {first}")
        inside = None
        if inner_limit is not None:
            inside = emitter.assign(f"icmp slt i32 {inner}, {inner_limit}")
            inner = emitter.assign(f"select i1 {inside}, i32 {inner}, i32 0")
        elements = multiply_add(emitter, inner, stride, outer)
        address = global_address(emitter, emitter.value(operation.pointer), elements, bits)
        value = emitter.assign(f"load i{bits}, {GLOBAL} {address}, align {bits // 8}")
        if inside is not None:
            value = emitter.assign(f"select i1 {inside}, i{bits} {value}, i{bits} 0")
        vector = emitter.assign(
            f"insertelement {vector_type} {vector}, i{bits} {value}, i32 {slot}"
        )
    return vector
