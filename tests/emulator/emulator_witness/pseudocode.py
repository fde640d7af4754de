"""AMD's pseudo-code and one lane's operands to the values that the instruction must leave.

`Machine` holds the state that the text names: registers (S0, D0, VCC, ...), memory, lanes.
`Machine.run(text)` executes a pseudo-code text of `tinygrad`'s instruction tables on it.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from emulator_witness import pseudocode_values as pv
from emulator_witness import soft_float as sf
from emulator_witness.pseudocode_functions import call_builtin
from emulator_witness.pseudocode_parser import Node, Parser, PseudocodeError
from emulator_witness.pseudocode_values import Value

# Names that hold architectural registers: assigning to them keeps their width.
REGISTERS = frozenset({"D0", "D1", "VCC", "EXEC", "SCC", "RETURN_DATA", "S0", "SDATA"})
_CONSTANTS = {
    "INF": Value(sf.F64.infinity, 64, "f"),
    "PI": Value(sf.from_float(3.141592653589793, sf.F64), 64, "f"),
    "MAX_FLOAT_F32": Value(sf.F32.largest, 32, "f"),
    "UNDERFLOW_F32": Value(0, 32, "f"),
    "UNDERFLOW_F64": Value(0, 64, "f"),
    "OVERFLOW_F32": Value(sf.F32.infinity, 32, "f"),
    "OVERFLOW_F64": Value(sf.F64.infinity, 64, "f"),
    "ROUND_TOWARD_ZERO": Value(1, 32, "u"),
    "WAVE32": pv.boolean(True),
    "WAVE64": pv.boolean(False),
}
_NAMED_FLOATS = {"INF": lambda form: form.infinity, "NAN": lambda form: form.quiet_nan}
_CVT_OFF_TABLE = [
    Value(sf.from_float((i if i < 8 else i - 16) / 16, sf.F32), 32, "f") for i in range(16)
]


class _Break(Exception):
    pass


class _Return(Exception):
    def __init__(self, value: Value) -> None:
        self.value = value


@functools.cache
def parse(text: str) -> Node:
    return Parser(text).parse()


@functools.cache
def instruction_texts() -> dict[str, str]:
    """Texts by lower-case mnemonic without encoding suffix, for calls between instructions."""
    from tinygrad.runtime.autogen.amd.rdna3.str_pcode import PCODE

    texts: dict[str, str] = {}
    for operation, text in PCODE.items():
        texts.setdefault(re.sub(r"_e(32|64)$", "", operation.name.lower()), text)
    return texts


class Machine:
    """State for one lane: `variables` by name, byte-addressed `memory`, `vgprs[lane][register]`."""

    def __init__(self, **registers: Value | list[Value]) -> None:
        self.variables: dict[str, Any] = {
            "ROUND_MODE": Value(0, 32, "u"),
            "WAVE_MODE.IEEE": pv.boolean(True),
            "CVT_OFF_TABLE": _CVT_OFF_TABLE,
            **registers,
        }
        self.memory: dict[int, int] = {}
        self.vgprs: dict[int, dict[int, int]] = {}
        self.sgprs: dict[int, int] = {}

    def run(self, text: str) -> None:
        self.execute(parse(text))

    # Statements

    def execute(self, node: Node) -> None:
        getattr(self, "_do_" + node[0])(*node[1:])

    def _do_block(self, statements: list[Node]) -> None:
        for statement in statements:
            self.execute(statement)

    def _do_if(self, branches: list[tuple[Node, Node]], otherwise: Node) -> None:
        for condition, body in branches:
            if self.value(condition).truth:
                return self.execute(body)
        return self.execute(otherwise)

    def _do_for(self, name: str, first: Node, last: Node, body: Node) -> None:
        start, stop = self.value(first), self.value(last)
        try:
            for index in range(start.number, stop.number + 1):
                self.variables[name] = pv.integer(index, max(32, start.width), start.kind)
                self.execute(body)
        except _Break:
            pass

    def _do_break(self) -> None:
        raise _Break

    def _do_return(self, node: Node) -> None:
        raise _Return(self.value(node))

    def _do_evaluate(self, node: Node) -> None:
        if node[1] not in ("nop", "s_nop"):
            self.value(node)

    def _do_declare(self, name: str, type_text: str, length: int | None) -> None:
        kind, width = pv.parse_cast(type_text)
        if isinstance(self.variables.get(name), list) or name in self.variables.get("given", ()):
            return  # a table or an operand list that the caller provides
        zero = Value(0, width, kind)
        self.variables[name] = zero if length is None else [zero] * length

    def _do_assign(self, target: Node, value: Node) -> None:
        if value[0] == "lambda":
            self.variables[target[1]] = value
            return
        self.store(target, self.value(value))

    # Stores

    def store(self, target: Node, value: Value) -> None:
        kind = target[0]
        if kind == "name":
            self._store_name(target[1], value)
        elif kind == "member":
            self._store_member(target[1], target[2], value)
        elif kind == "index":
            self._store_index(target[1], self.value(target[2]).number, value)
        elif kind == "slice":
            high, low = self.value(target[2]).number, self.value(target[3]).number
            if high < low:
                value = pv.slice_bits(value, 0, low - high)
                high, low = low, high
            self._store_bits(target[1], value, low, high - low + 1)
        elif kind == "concat":
            for part in reversed(target[1]):
                _, width = pv.parse_type(part[2]) or ("u", value.width)
                self.store(part, Value(value.bits & ((1 << width) - 1), width, "u"))
                value = Value(value.bits >> width, max(1, value.width - width), "u")
        else:
            raise PseudocodeError(f"cannot assign to {target!r}")

    def _store_name(self, name: str, value: Value) -> None:
        old = self.variables.get(name)
        if name in REGISTERS and isinstance(old, Value):
            value = Value(value.bits & ((1 << old.width) - 1), old.width, old.kind)
        self.variables[name] = value

    def _store_member(self, base: Node, suffix: str, value: Value) -> None:
        parsed = pv.parse_type(suffix)
        if parsed is None:
            raise PseudocodeError(f"cannot assign to member {suffix!r}")
        converted = pv.convert_to(value, *parsed)
        if base[0] == "name" and base[1] not in REGISTERS:
            self.variables[base[1]] = converted
        elif base[0] == "index" and base[1] in (("name", "MEM"), ("name", "LDS")):
            self.write_memory(self.value(base[2]).number, converted)
        elif base[0] == "slice":
            self.store(base, converted)
        elif base[0] == "index":
            self._store_index(base[1], self.value(base[2]).number, converted)
        else:
            self._store_bits(base, converted, 0, converted.width)

    def _store_index(self, base: Node, index: int, value: Value) -> None:
        if base[0] == "index" and base[1] == ("name", "VGPR"):
            self.vgprs[self.value(base[2]).number][index] = value.bits & 0xFFFFFFFF
        elif base == ("name", "SGPR"):
            for word in range(max(1, value.width // 32)):
                self.sgprs[index + word] = value.bits >> (32 * word) & 0xFFFFFFFF
        elif base in (("name", "MEM"), ("name", "LDS")):
            self.write_memory(index, Value(value.bits & 0xFFFFFFFF, 32, "u"))
        elif base[0] == "name" and isinstance(self.variables.get(base[1]), list):
            old = self.variables[base[1]][index]
            self.variables[base[1]][index] = pv.convert_to(value, old.kind, old.width)
        else:
            self._store_bits(base, value, index, 1)

    def _store_bits(self, base: Node, value: Value, low: int, width: int) -> None:
        """Replace `width` bits from bit `low` of the variable that `base` names."""
        if base[0] == "member":
            base = base[1]
        name = base[1]
        old = self.variables.get(name, Value(0, 1, "u"))
        mask = ((1 << width) - 1) << low
        bits = (old.bits & ~mask) | (value.bits << low & mask)
        if name in REGISTERS:
            self.variables[name] = Value(bits & ((1 << old.width) - 1), old.width, old.kind)
        else:
            kind = "u" if old.is_float else old.kind
            self.variables[name] = Value(bits, max(old.width, low + width), kind)

    # Memory, little endian

    def write_memory(self, address: int, value: Value) -> None:
        for index in range(value.width // 8):
            self.memory[address + index] = value.bits >> (8 * index) & 0xFF

    def read_memory(self, address: int, kind: str, width: int) -> Value:
        bits = sum(self.memory[address + index] << (8 * index) for index in range(width // 8))
        return Value(bits, width, kind)

    # Expressions

    def value(self, node: Node) -> Value:
        result = self.any_value(node)
        if not isinstance(result, Value):
            raise PseudocodeError(f"{node!r} is not a value")
        return result

    def any_value(self, node: Node) -> Any:
        return getattr(self, "_get_" + node[0])(*node[1:])

    def _get_name(self, name: str) -> Any:
        if name in self.variables:
            return self.variables[name]
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        raise PseudocodeError(f"unknown name {name}")

    def _get_number(self, text: str) -> Value:
        return pv.literal(text)

    def _get_sized(self, text: str) -> Value:
        return pv.sized_literal(text)

    def _get_cast(self, type_text: str, node: Node) -> Value:
        return pv.cast(self.value(node), *pv.parse_cast(type_text))

    def _get_concat(self, nodes: list[Node]) -> Value:
        return pv.concatenate([self.value(node) for node in nodes])

    def _get_choose(self, condition: Node, yes: Node, no: Node) -> Value:
        return self.value(yes if self.value(condition).truth else no)

    def _get_unary(self, operator: str, node: Node) -> Value:
        return pv.unary(operator, self.value(node))

    def _get_binary(self, operator: str, left: Node, right: Node) -> Value:
        if right[0] == "member" and right[1] == ("name", "DENORM"):
            value = self.value(left)
            magnitude = value.bits & ~value.form.sign_bit
            return pv.boolean(0 < magnitude < 1 << value.form.mantissa_bits)
        if operator in ("&&", "||"):
            first = self.value(left)
            if first.truth == (operator == "||"):
                return pv.boolean(first.truth)
        return pv.binary(operator, self.value(left), self.value(right))

    def _get_member(self, base: Node, suffix: str) -> Any:
        parsed = pv.parse_type(suffix)
        if parsed is None:
            return self._get_name(f"{base[1]}.{suffix}")
        kind, width = parsed
        if base[0] == "name" and base[1] in _NAMED_FLOATS and kind == "f":
            return Value(_NAMED_FLOATS[base[1]](sf.FORMATS[suffix]), width, "f")
        if base[0] == "index" and base[1] in (("name", "MEM"), ("name", "LDS")):
            return self.read_memory(self.value(base[2]).number, kind, width)
        if base[0] == "index" and base[1] == ("name", "SGPR"):
            index = self.value(base[2]).number
            return Value(sum(self.sgprs[index + w] << 32 * w for w in range(width // 32)), width)
        return pv.reinterpret(self.value(base), kind, width)

    def _get_index(self, base: Node, index_node: Node) -> Any:
        index = self.value(index_node).number
        if base == ("name", "VGPR"):
            return self.vgprs[index]
        container = self.any_value(base)
        if isinstance(container, list):
            return container[index]
        if isinstance(container, dict):
            return Value(container[index], 32, "b")
        return Value(container.bits >> index & 1, 1, "u")

    def _get_slice(self, base: Node, high: Node, low: Node) -> Value:
        return pv.slice_bits(self.value(base), self.value(high).number, self.value(low).number)

    def _get_part(self, base: Node, first: Node, count: Node) -> Value:
        low = self.value(first).number
        return pv.slice_bits(self.value(base), low + self.value(count).number - 1, low)

    def _get_call(self, name: str, nodes: list[Node]) -> Value:
        arguments = [self.value(node) for node in nodes]
        function = self.variables.get(name)
        if function is not None:
            return self._call_lambda(function, arguments)
        mode = sf.TOWARD_ZERO if self.variables["ROUND_MODE"].bits else sf.NEAREST_EVEN
        result = call_builtin(name, arguments, mode)
        return result if result is not None else self._call_instruction(name, arguments)

    def _call_lambda(self, function: Node, arguments: list[Value]) -> Value:
        _, names, body = function
        outer = self.variables
        self.variables = {**outer, **dict(zip(names, arguments))}
        try:
            self.execute(body)
        except _Return as result:
            return result.value
        finally:
            self.variables = outer
        raise PseudocodeError("a lambda that returns nothing")

    def _call_instruction(self, name: str, arguments: list[Value]) -> Value:
        """Run another instruction's text, such as v_min_f32, on the given operands."""
        text = instruction_texts().get(name)
        if text is None:
            raise PseudocodeError(f"unknown function {name}")
        inner = Machine(D0=Value(0, 32, "b"))
        inner.variables["WAVE_MODE.IEEE"] = self.variables["WAVE_MODE.IEEE"]
        for index, argument in enumerate(arguments):
            inner.variables[f"S{index}"] = argument
        inner.run(text)
        kind, width = pv.parse_type(name.rsplit("_", 1)[1]) or ("u", 32)
        return pv.reinterpret(inner.variables["D0"], kind, 32 if width == 8 else width)
