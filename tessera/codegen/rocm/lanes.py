"""Lane numbers to matrix coordinates and cross-lane moves, as LLVM IR for wave32."""

from __future__ import annotations

from tessera.codegen.llvm_text import FunctionEmitter
from tessera.targets import FragmentLayout

IDENTITY_SELECTORS = (0x76543210, 0xFEDCBA98)
"""Lane selectors of v_permlanex16 that keep each lane's place within its half."""

HALF = 16


def thread_id(emitter: FunctionEmitter) -> str:
    """The thread's index in its one-dimensional workgroup (i32)."""
    return emitter.call("i32", "llvm.amdgcn.workitem.id.x", [])


def lane_id(emitter: FunctionEmitter) -> str:
    """The thread's index in its wave (i32)."""
    wave_size = emitter.target.facts.wave_size
    return emitter.assign(f"and i32 {thread_id(emitter)}, {wave_size - 1}")


def in_upper_half(emitter: FunctionEmitter) -> str:
    """Whether the lane is one of 16..31 (i1)."""
    return emitter.assign(f"icmp uge i32 {lane_id(emitter)}, {HALF}")


def lane_coordinate(emitter: FunctionEmitter, layout: FragmentLayout, axis: str) -> str:
    """What the lane number adds to one coordinate of a fragment's elements (i32)."""
    lane = lane_id(emitter)
    terms: list[str] = []
    for first, count, weight in _bit_runs(layout, axis):
        shifted = emitter.assign(f"lshr i32 {lane}, {first}") if first else lane
        field = emitter.assign(f"and i32 {shifted}, {(1 << count) - 1}")
        terms.append(field if weight == 1 else emitter.assign(f"mul i32 {field}, {weight}"))
    if not terms:
        return "0"
    total = terms[0]
    for term in terms[1:]:
        total = emitter.assign(f"add i32 {total}, {term}")
    return total


def _bit_runs(layout: FragmentLayout, axis: str) -> list[tuple[int, int, int]]:
    """Runs (first lane bit, count, weight) of bits whose weights double from one to the next."""
    runs: list[tuple[int, int, int]] = []
    for position, bit in enumerate(layout.lane_bits):
        if bit is None or bit[0] != axis:
            continue
        if runs:
            first, count, weight = runs[-1]
            if first + count == position and bit[1] == weight << count:
                runs[-1] = (first, count + 1, weight)
                continue
        runs.append((position, 1, bit[1]))
    return runs


def slot_coordinate(layout: FragmentLayout, slot: int, axis: str) -> int:
    """What the slot number adds to one coordinate: the coordinate of lane 0's slot."""
    return layout.coordinate(0, slot)[layout.axes.index(axis)]


def swap_halves(emitter: FunctionEmitter, value: str) -> str:
    """Each lane's i32 from the lane 16 away (v_permlanex16_b32)."""
    low, high = (selector - (1 << 32 if selector >> 31 else 0) for selector in IDENTITY_SELECTORS)
    arguments = [
        ("i32", value),
        ("i32", value),
        ("i32", str(low)),
        ("i32", str(high)),
        ("i1", "false"),
        ("i1", "false"),
    ]
    return emitter.call("i32", "llvm.amdgcn.permlanex16.i32", arguments)


def swap_halves_float(emitter: FunctionEmitter, value: str) -> str:
    """Each lane's f32 from the lane 16 away."""
    bits = emitter.assign(f"bitcast float {value} to i32")
    return emitter.assign(f"bitcast i32 {swap_halves(emitter, bits)} to float")


LOW_HALVES, HIGH_HALVES = 0x05040100, 0x07060302
"""Selectors of `permute_bytes`: the low (high) half of the first word, then of the second."""
LOW_BYTES, HIGH_BYTES = 0x05010400, 0x07030602
"""Selectors that interleave the two low (high) bytes of both words."""


def permute_bytes(emitter: FunctionEmitter, first: str, second: str, selector: int) -> str:
    """A word of the bytes 0-3 of `first` and 4-7 of `second` that the selector's bytes name."""
    # The instruction takes the words the other way round.
    arguments = [("i32", second), ("i32", first), ("i32", str(selector))]
    return emitter.call("i32", "llvm.amdgcn.perm", arguments)
