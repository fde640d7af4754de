"""Accumulators, statistics and single elements to bounded stores in global memory."""

from __future__ import annotations

from xdsl.ir import Operation

from tessera.codegen.llvm_text import FunctionEmitter
from tessera.codegen.llvm_types import fragment_layout, scalar_type
from tessera.codegen.rocm.compute import round_to_storage
from tessera.codegen.rocm.lanes import in_upper_half, lane_coordinate, slot_coordinate, swap_halves
from tessera.codegen.rocm.memory import GLOBAL, concatenate, global_address, multiply_add
from tessera.dialects.wave import (
    LoadElementOp,
    LoadGlobalStatisticOp,
    StoreElementOp,
    StoreOp,
    StoreStatisticOp,
)
from tessera.dialects.wave_types import (
    ELEMENT_BITS,
    FragmentType,
    PointerType,
    StatisticType,
    element_name,
)
from tessera.errors import CompileError
from tessera.targets import FragmentLayout
from tessera.targets.matrix_core import COLUMN, ROW


def emit_store(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.store: unchecked where the whole fragment lies inside, else element by element."""
    assert isinstance(operation, StoreOp)
    fragment, pointer = operation.fragment.type, operation.pointer.type
    assert isinstance(fragment, FragmentType)
    assert isinstance(pointer, PointerType)
    layout = fragment_layout(fragment, emitter.target)
    limits = (emitter.value(operation.row_limit), emitter.value(operation.column_limit))
    inside = [
        emitter.assign(f"icmp sge i32 {limit}, {extent}")
        for limit, extent in zip(limits, layout.extents, strict=True)
    ]
    whole = emitter.assign(f"and i1 {inside[0]}, {inside[1]}")
    values = _stored_values(emitter, operation)
    wide = (
        operation.transposed is not None
        and operation.alignment.value.data == 16
        and ELEMENT_BITS[element_name(pointer.element)] == 16
    )
    if wide:
        # A lane's stores are 8 neighbouring rows, which the alignment keeps together: all inside
        # or all outside.
        _store_eight_rows(emitter, operation, layout)
        return
    emitter.if_else(
        whole,
        lambda: _store_slots(emitter, operation, layout, values, None),
        lambda: _store_slots(emitter, operation, layout, values, limits),
    )


def _stored_values(emitter: FunctionEmitter, operation: StoreOp) -> list[tuple[str, str]]:
    """(LLVM type, value) of every slot in the pointer's element type."""
    pointer, fragment = operation.pointer.type, operation.fragment.type
    assert isinstance(pointer, PointerType)
    assert isinstance(fragment, FragmentType)
    slots = range(fragment_layout(fragment, emitter.target).slots)
    vector, type_ = emitter.value(operation.fragment), emitter.type(operation.fragment)
    if pointer.element != fragment.element:
        vector = round_to_storage(emitter, operation.fragment, pointer.element)
        type_ = f"<{len(slots)} x i16>"
    element = type_.split(" x ")[1].rstrip(">")
    return [
        (element, emitter.assign(f"extractelement {type_} {vector}, i32 {slot}")) for slot in slots
    ]


def _store_slots(
    emitter: FunctionEmitter,
    operation: StoreOp,
    layout: FragmentLayout,
    values: list[tuple[str, str]],
    limits: tuple[str, str] | None,
) -> None:
    pointer = operation.pointer.type
    assert isinstance(pointer, PointerType)
    bits = ELEMENT_BITS[element_name(pointer.element)]
    base, stride = emitter.value(operation.pointer), emitter.value(operation.stride)
    lane_row = lane_coordinate(emitter, layout, ROW)
    lane_column = lane_coordinate(emitter, layout, COLUMN)
    for slot, (type_, value) in enumerate(values):
        row = emitter.assign(f"add i32 {lane_row}, {slot_coordinate(layout, slot, ROW)}")
        column = emitter.assign(f"add i32 {lane_column}, {slot_coordinate(layout, slot, COLUMN)}")

        def write(row: str = row, column: str = column, type_: str = type_, value: str = value):
            if operation.transposed is None:
                elements = multiply_add(emitter, row, stride, column)
            else:
                elements = multiply_add(emitter, column, stride, row)
            address = global_address(emitter, base, elements, bits)
            emitter.line(f"store {type_} {value}, {GLOBAL} {address}, align {bits // 8}")

        if limits is None:
            write()
            continue
        inside = [
            emitter.assign(f"icmp slt i32 {place}, {limit}")
            for place, limit in zip((row, column), limits, strict=True)
        ]
        emitter.if_then(emitter.assign(f"and i1 {inside[0]}, {inside[1]}"), write)


def _store_eight_rows(emitter: FunctionEmitter, operation: StoreOp, layout: FragmentLayout) -> None:
    """Transposed 16-bit store of 128 bits per lane: rows 0-7 below, rows 8-15 in the upper half.

    Lanes of the lower half hold the even rows, those of the upper half the odd ones; each half
    sends the other what it keeps apart from its eight neighbours.
    """
    fragment, pointer = operation.fragment.type, operation.pointer.type
    assert isinstance(fragment, FragmentType)
    assert isinstance(pointer, PointerType)
    if layout.lane_bits[-1] != (ROW, 1) or layout.slots != 8:
        raise CompileError("wave.store: the wide transposed store is not built for this layout")
    packed = round_to_storage(emitter, operation.fragment, pointer.element)
    pairs = emitter.assign(f"bitcast <8 x i16> {packed} to <4 x i32>")
    word = [emitter.assign(f"extractelement <4 x i32> {pairs}, i32 {i}") for i in range(4)]
    upper = in_upper_half(emitter)

    def choose(first: str, second: str) -> str:
        return emitter.assign(f"select i1 {upper}, i32 {first}, i32 {second}")

    kept = [choose(word[2 + i], word[i]) for i in range(2)]
    received = [swap_halves(emitter, choose(word[i], word[2 + i])) for i in range(2)]
    halves = []
    for mine, other in zip(kept, received, strict=True):
        even = emitter.assign(f"bitcast i32 {choose(other, mine)} to <2 x i16>")
        odd = emitter.assign(f"bitcast i32 {choose(mine, other)} to <2 x i16>")
        halves.append(
            emitter.assign(
                f"shufflevector <2 x i16> {even}, <2 x i16> {odd}, "
                "<4 x i32> <i32 0, i32 2, i32 1, i32 3>"
            )
        )
    vector = concatenate(emitter, halves, 4, "i16")
    first_row = emitter.assign(f"select i1 {upper}, i32 8, i32 0")
    column = lane_coordinate(emitter, layout, COLUMN)
    in_rows = emitter.assign(f"icmp slt i32 {first_row}, {emitter.value(operation.row_limit)}")
    in_columns = emitter.assign(f"icmp slt i32 {column}, {emitter.value(operation.column_limit)}")

    def write() -> None:
        elements = multiply_add(emitter, column, emitter.value(operation.stride), first_row)
        address = global_address(emitter, emitter.value(operation.pointer), elements, 16)
        emitter.line(f"store <8 x i16> {vector}, {GLOBAL} {address}, align 16")

    emitter.if_then(emitter.assign(f"and i1 {in_rows}, {in_columns}"), write)


def emit_store_statistic(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.store_statistic: the first lane of those that share a column writes it."""
    assert isinstance(operation, StoreStatisticOp)
    statistic, pointer = operation.statistic.type, operation.pointer.type
    assert isinstance(statistic, StatisticType)
    assert isinstance(pointer, PointerType)
    layout = emitter.target.facts.matrix_cores[0].accumulator
    column = lane_coordinate(emitter, layout, COLUMN)
    upper = in_upper_half(emitter)
    below = emitter.assign(f"icmp slt i32 {column}, {emitter.value(operation.limit)}")
    first = emitter.assign(f"xor i1 {upper}, true")

    def write() -> None:
        bits = ELEMENT_BITS[element_name(pointer.element)]
        address = global_address(emitter, emitter.value(operation.pointer), column, bits)
        value = f"{emitter.type(operation.statistic)} {emitter.value(operation.statistic)}"
        emitter.line(f"store {value}, {GLOBAL} {address}, align {bits // 8}")

    emitter.if_then(emitter.assign(f"and i1 {below}, {first}"), write)


def emit_load_global_statistic(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.load_global_statistic to one load per lane, at its column."""
    assert isinstance(operation, LoadGlobalStatisticOp)
    statistic = operation.result.type
    assert isinstance(statistic, StatisticType)
    layout = emitter.target.facts.matrix_cores[0].accumulator
    column = lane_coordinate(emitter, layout, COLUMN)
    last = emitter.assign(f"sub i32 {emitter.value(operation.limit)}, 1")
    place = emitter.call("i32", "llvm.smin.i32", [("i32", column), ("i32", last)])
    address = global_address(emitter, emitter.value(operation.pointer), place, 32)
    type_ = scalar_type(statistic.element)
    emitter.bind(operation.result, emitter.assign(f"load {type_}, {GLOBAL} {address}, align 4"))


def _element_address(emitter: FunctionEmitter, pointer: str, index: str, type_: str) -> str:
    return emitter.assign(f"getelementptr {type_}, {GLOBAL} {pointer}, i64 {index}")


def emit_load_element(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.load_element to one load."""
    assert isinstance(operation, LoadElementOp)
    type_ = scalar_type(operation.result.type)
    address = _element_address(
        emitter, emitter.value(operation.pointer), emitter.value(operation.index), type_
    )
    emitter.bind(operation.result, emitter.assign(f"load {type_}, {GLOBAL} {address}"))


def emit_store_element(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.store_element to one store."""
    assert isinstance(operation, StoreElementOp)
    type_ = emitter.type(operation.value)
    address = _element_address(
        emitter, emitter.value(operation.pointer), emitter.value(operation.index), type_
    )
    emitter.line(f"store {type_} {emitter.value(operation.value)}, {GLOBAL} {address}")
