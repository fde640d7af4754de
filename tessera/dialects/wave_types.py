"""Types of the wave dialect: what one wave, or one workgroup, holds of a matrix."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntAttr,
    IntegerType,
    Signedness,
    StringAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

ROLES = ("a", "b", "acc")
AXES = ("row", "column")
ARRANGEMENTS = ("rows", "blocks", "per_piece")

ELEMENT_BITS = {
    "f16": 16, "bf16": 16, "f32": 32, "i4": 4, "u4": 4, "i8": 8, "u8": 8, "i32": 32,
}  # fmt: skip


def element_name(element: Attribute) -> str:
    """The short name of an element type: f16, bf16, f32, i4, u4, i8, u8, i32."""
    match element:
        case Float16Type():
            return "f16"
        case BFloat16Type():
            return "bf16"
        case Float32Type():
            return "f32"
        case IntegerType():
            sign = "u" if element.signedness.data is Signedness.UNSIGNED else "i"
            return f"{sign}{element.width.data}"
        case _:
            raise VerifyException(f"no wave element type: {element}")


def _parse_shaped(parser: AttrParser) -> tuple[int, int, Attribute]:
    rows, columns = parser.parse_dimension_list()
    parser.parse_shape_delimiter()
    return rows, columns, parser.parse_type()


def _check_keyword(value: str, allowed: tuple[str, ...], what: str) -> None:
    if value not in allowed:
        raise VerifyException(f"{what} {value!r}; supported: {', '.join(allowed)}")


class ShapedWaveType(ParametrizedAttribute, TypeAttribute):
    """Common parameters of matrix-shaped wave types."""

    rows: IntAttr = param_def()
    columns: IntAttr = param_def()
    element: Attribute = param_def()

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.rows.data, self.columns.data

    def _print_shape(self, printer: Printer) -> None:
        printer.print_string(f"{self.rows.data}x{self.columns.data}x")
        printer.print_attribute(self.element)


@irdl_attr_definition
class FragmentType(ShapedWaveType):
    """One matrix-core operand spread over a wave: `!wave.fragment<16x16xf16, b>`.

    Rows and columns are those of the matrix that the instruction multiplies: A is m x k, B is
    k x n, the accumulator m x n. Lane maps are the matrix-core row's business.
    """

    name = "wave.fragment"
    role: StringAttr = param_def()

    def __init__(self, rows: int, columns: int, element: Attribute, role: str):
        super().__init__(IntAttr(rows), IntAttr(columns), element, StringAttr(role))

    def verify(self) -> None:
        _check_keyword(self.role.data, ROLES, "fragment role")
        element_name(self.element)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            rows, columns, element = _parse_shaped(parser)
            parser.parse_punctuation(",")
            role = parser.parse_identifier()
        return [IntAttr(rows), IntAttr(columns), element, StringAttr(role)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self._print_shape(printer)
            printer.print_string(f", {self.role.data}")


@irdl_attr_definition
class StatisticType(ParametrizedAttribute, TypeAttribute):
    """One number per row or per column of an accumulator: `!wave.statistic<16xf32, column>`."""

    name = "wave.statistic"
    extent: IntAttr = param_def()
    element: Attribute = param_def()
    axis: StringAttr = param_def()

    def __init__(self, extent: int, element: Attribute, axis: str):
        super().__init__(IntAttr(extent), element, StringAttr(axis))

    def verify(self) -> None:
        _check_keyword(self.axis.data, AXES, "statistic axis")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            (extent,) = parser.parse_dimension_list()
            parser.parse_shape_delimiter()
            element = parser.parse_type()
            parser.parse_punctuation(",")
            axis = parser.parse_identifier()
        return [IntAttr(extent), element, StringAttr(axis)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.extent.data}x")
            printer.print_attribute(self.element)
            printer.print_string(f", {self.axis.data}")


@irdl_attr_definition
class StagedType(ShapedWaveType):
    """A tile on its way from global memory to LDS, in the registers of all threads.

    `!wave.staged<64x64xf16, rows>`: each thread holds pieces of rows; `blocks`: each thread holds
    small blocks of several rows, so that it can write columns contiguously too. `per_piece`: one
    number for each 128-bit piece of the byte tile of this shape.
    """

    name = "wave.staged"
    arrangement: StringAttr = param_def()

    def __init__(self, rows: int, columns: int, element: Attribute, arrangement: str):
        super().__init__(IntAttr(rows), IntAttr(columns), element, StringAttr(arrangement))

    def verify(self) -> None:
        _check_keyword(self.arrangement.data, ARRANGEMENTS, "staged arrangement")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            rows, columns, element = _parse_shaped(parser)
            parser.parse_punctuation(",")
            arrangement = parser.parse_identifier()
        return [IntAttr(rows), IntAttr(columns), element, StringAttr(arrangement)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self._print_shape(printer)
            printer.print_string(f", {self.arrangement.data}")


@irdl_attr_definition
class LdsType(ShapedWaveType):
    """A tile in local memory whose rows are `pitch` elements apart: `!wave.lds<64x64xf16, 72>`."""

    name = "wave.lds"
    pitch: IntAttr = param_def()

    def __init__(self, rows: int, columns: int, element: Attribute, pitch: int):
        super().__init__(IntAttr(rows), IntAttr(columns), element, IntAttr(pitch))

    def verify(self) -> None:
        if self.pitch.data < self.columns.data:
            raise VerifyException(f"LDS pitch {self.pitch.data} is below {self.columns.data}")

    @property
    def size_in_bytes(self) -> int:
        """Bytes of local memory that the tile takes, padding included."""
        return self.rows.data * self.pitch.data * ELEMENT_BITS[element_name(self.element)] // 8

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            rows, columns, element = _parse_shaped(parser)
            parser.parse_punctuation(",")
            pitch = parser.parse_integer()
        return [IntAttr(rows), IntAttr(columns), element, IntAttr(pitch)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self._print_shape(printer)
            printer.print_string(f", {self.pitch.data}")


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """A pointer to elements in global memory, the same in all lanes: `!wave.pointer<f16>`."""

    name = "wave.pointer"
    element: Attribute = param_def()

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            return [parser.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element)
