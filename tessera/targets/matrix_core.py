"""Matrix-core instructions as data: shape, element types and where each lane keeps its elements."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

OUTER = "outer"
"""The axis that A and B do not contract: A's row m, B's column n."""
INNER = "inner"
"""The contracted axis k."""
ROW = "row"
COLUMN = "column"

Bit = tuple[str, int] | None
"""What one bit of a lane or slot number adds to a coordinate: (axis, weight); None: replication."""


@dataclass(frozen=True)
class FragmentLayout:
    """Which element of a matrix operand sits in which lane and slot.

    Lane numbers and slot numbers are read bit by bit (least significant first); each bit adds its
    weight to one of the two coordinates, or nothing, in which case lanes that differ only in that
    bit hold copies of the same elements. A slot is one element of the lane's vector operand.
    """

    axes: tuple[str, str]
    extents: tuple[int, int]
    lane_bits: tuple[Bit, ...]
    slot_bits: tuple[Bit, ...]

    def __post_init__(self) -> None:
        seen: dict[tuple[int, int], int] = {}
        for lane, slot in product(range(self.lanes), range(self.slots)):
            seen[self.coordinate(lane, slot)] = seen.get(self.coordinate(lane, slot), 0) + 1
        expected = set(product(range(self.extents[0]), range(self.extents[1])))
        if set(seen) != expected or len(set(seen.values())) != 1:
            raise ValueError(f"layout {self} does not cover {self.extents} evenly")

    @property
    def lanes(self) -> int:
        """Lanes of one wave."""
        return 1 << len(self.lane_bits)

    @property
    def slots(self) -> int:
        """Elements that one lane holds."""
        return 1 << len(self.slot_bits)

    @property
    def replication(self) -> int:
        """How many lanes hold each element."""
        return self.lanes * self.slots // (self.extents[0] * self.extents[1])

    def coordinate(self, lane: int, slot: int) -> tuple[int, int]:
        """The (axes[0], axes[1]) coordinate of one lane's slot."""
        position = dict.fromkeys(self.axes, 0)
        for number, bits in ((lane, self.lane_bits), (slot, self.slot_bits)):
            for index, bit in enumerate(bits):
                if bit is not None and number >> index & 1:
                    position[bit[0]] += bit[1]
        return position[self.axes[0]], position[self.axes[1]]


@dataclass(frozen=True)
class MatrixCore:
    """One matrix instruction: D[m, n] = sum over k of A[m, k] B[k, n], plus C[m, n].

    `a_type`, `b_type`, `accumulator_type` are LLVM vector types of one lane's operands; `intrinsic`
    is LLVM's name with its type suffixes. `issue_cycles` is how long one instruction holds its
    SIMD. `operand_from_accumulator` names the operand whose lane axis equals the accumulator's, so
    that a product can feed the next one without leaving registers, and `conversion` how.
    """

    name: str
    m: int
    n: int
    k: int
    element_dtype: str
    accumulator_dtype: str
    a: FragmentLayout
    b: FragmentLayout
    accumulator: FragmentLayout
    intrinsic: str
    a_type: str
    b_type: str
    accumulator_type: str
    issue_cycles: int
    operand_from_accumulator: str
    conversion: str
    source: str
    takes_signs: bool = False

    def __post_init__(self) -> None:
        for layout, extents in (
            (self.a, (self.m, self.k)),
            (self.b, (self.n, self.k)),
            (self.accumulator, (self.m, self.n)),
        ):
            if layout.extents != extents:
                raise ValueError(f"{self.name}: layout extents {layout.extents}, not {extents}")


def _powers(axis: str, count: int, first: int = 1) -> tuple[Bit, ...]:
    return tuple((axis, first << index) for index in range(count))


RDNA3_OPERAND_16 = FragmentLayout(
    axes=(OUTER, INNER),
    extents=(16, 16),
    lane_bits=(*_powers(OUTER, 4), None),
    slot_bits=_powers(INNER, 4),
)
"""A and B of RDNA3 WMMA: lane % 16 is the outer index, its slots are the 16 k; lanes 16-31 copy."""

RDNA3_ACCUMULATOR = FragmentLayout(
    axes=(ROW, COLUMN),
    extents=(16, 16),
    lane_bits=(*_powers(COLUMN, 4), (ROW, 1)),
    slot_bits=_powers(ROW, 3, first=2),
)
"""C and D of RDNA3 WMMA: lane % 16 is the column, row = 2 * slot + lane // 16."""

RDNA4_OPERAND_16 = FragmentLayout(
    axes=(OUTER, INNER),
    extents=(16, 16),
    lane_bits=(*_powers(OUTER, 4), (INNER, 4)),
    slot_bits=((INNER, 1), (INNER, 2), (INNER, 8)),
)
"""A and B of RDNA4 WMMA: not replicated; lanes 0-15 hold k 0-3 and 8-11."""

RDNA4_ACCUMULATOR = FragmentLayout(
    axes=(ROW, COLUMN),
    extents=(16, 16),
    lane_bits=(*_powers(COLUMN, 4), (ROW, 8)),
    slot_bits=_powers(ROW, 3),
)
"""C and D of RDNA4 WMMA: row = slot + 8 * (lane // 16)."""

CDNA_OPERAND_16 = FragmentLayout(
    axes=(OUTER, INNER),
    extents=(16, 16),
    lane_bits=(*_powers(OUTER, 4), (INNER, 4), (INNER, 8)),
    slot_bits=_powers(INNER, 2),
)
"""A and B of CDNA's 16x16x16 MFMA on a 64-lane wave: k = 4 * (lane // 16) + slot."""

CDNA_ACCUMULATOR = FragmentLayout(
    axes=(ROW, COLUMN),
    extents=(16, 16),
    lane_bits=(*_powers(COLUMN, 4), (ROW, 4), (ROW, 8)),
    slot_bits=_powers(ROW, 2),
)
"""C and D of CDNA's 16x16x16 MFMA: row = 4 * (lane // 16) + slot, column = lane % 16."""

NVIDIA_A_16 = FragmentLayout(
    axes=(OUTER, INNER),
    extents=(16, 16),
    lane_bits=((INNER, 2), (INNER, 4), (OUTER, 1), (OUTER, 2), (OUTER, 4)),
    slot_bits=((INNER, 1), (OUTER, 8), (INNER, 8)),
)
"""A of NVIDIA mma.m16n8k16: row = lane // 4 (+8), k = 2 * (lane % 4) + slot % 2 (+8)."""

NVIDIA_B_16 = FragmentLayout(
    axes=(OUTER, INNER),
    extents=(8, 16),
    lane_bits=((INNER, 2), (INNER, 4), (OUTER, 1), (OUTER, 2), (OUTER, 4)),
    slot_bits=((INNER, 1), (INNER, 8)),
)
"""B of NVIDIA mma.m16n8k16: column = lane // 4, k = 2 * (lane % 4) + slot % 2 (+8)."""

NVIDIA_ACCUMULATOR = FragmentLayout(
    axes=(ROW, COLUMN),
    extents=(16, 8),
    lane_bits=((COLUMN, 2), (COLUMN, 4), (ROW, 1), (ROW, 2), (ROW, 4)),
    slot_bits=((COLUMN, 1), (ROW, 8)),
)
"""C and D of NVIDIA mma.m16n8k16: a lane's row index equals that of A's lanes."""


def _rdna3_wmma(dtype: str, operand_type: str) -> MatrixCore:
    suffix = {"f16": "v16f16", "bf16": "v16i16"}[dtype]
    return MatrixCore(
        name=f"v_wmma_f32_16x16x16_{dtype}",
        m=16,
        n=16,
        k=16,
        element_dtype=dtype,
        accumulator_dtype="f32",
        a=RDNA3_OPERAND_16,
        b=RDNA3_OPERAND_16,
        accumulator=RDNA3_ACCUMULATOR,
        intrinsic=f"llvm.amdgcn.wmma.f32.16x16x16.{dtype}.v8f32.{suffix}",
        a_type=operand_type,
        b_type=operand_type,
        accumulator_type="<8 x float>",
        issue_cycles=32,
        operand_from_accumulator="b",
        conversion="half_swap",
        source="RDNA 3.5 ISA guide, section 7.9; AMD matrix instruction calculator",
    )


def _rdna3_integer_wmma(bits: int) -> MatrixCore:
    registers = 16 * bits // 32
    return MatrixCore(
        name=f"v_wmma_i32_16x16x16_iu{bits}",
        m=16,
        n=16,
        k=16,
        element_dtype=f"i{bits}",
        accumulator_dtype="i32",
        a=RDNA3_OPERAND_16,
        b=RDNA3_OPERAND_16,
        accumulator=RDNA3_ACCUMULATOR,
        intrinsic=f"llvm.amdgcn.wmma.i32.16x16x16.iu{bits}.v8i32.v{registers}i32",
        a_type=f"<{registers} x i32>",
        b_type=f"<{registers} x i32>",
        accumulator_type="<8 x i32>",
        issue_cycles=32 if bits == 8 else 16,
        operand_from_accumulator="",
        conversion="",
        source="RDNA 3.5 ISA guide, section 7.9; AMD matrix instruction calculator",
        takes_signs=True,
    )


RDNA3_MATRIX_CORES: tuple[MatrixCore, ...] = (
    _rdna3_wmma("f16", "<16 x half>"),
    _rdna3_wmma("bf16", "<16 x i16>"),
    _rdna3_integer_wmma(8),
    _rdna3_integer_wmma(4),
)


def converted_order(row: MatrixCore) -> tuple[int, ...]:
    """Which accumulator row lands at which contracted index when an accumulator is converted.

    Conversion concatenates the slots of the lanes that share a column, in lane order, so no byte
    moves within a register: position p of the operand holds accumulator row `converted_order[p]`.
    """
    sharing = [
        lane for lane in range(row.accumulator.lanes) if row.accumulator.coordinate(lane, 0)[1] == 0
    ]
    slots = range(row.accumulator.slots)
    return tuple(row.accumulator.coordinate(lane, slot)[0] for lane in sharing for slot in slots)
