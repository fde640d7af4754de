"""Loops over waves and lanes as LLVM IR text: matrix products, and loads and stores per lane."""

from __future__ import annotations

from itertools import count

MATRIX_ARGUMENTS = ("a", "b", "c", "d", "waves", "stride", "c_stride", "c_wave_stride")
MEMORY_ARGUMENTS = (
    "low",
    "high",
    "wave_offset",
    "offset",
    "limit",
    "outer",
    "wave_base",
    "storage",
    "mask",
    "data",
    "stride",
    "waves",
)
ROW = "<16 x i32>"
FLOATS = "<16 x float>"


class Writer:
    """Lines of one function, with fresh names."""

    def __init__(self, header: str) -> None:
        self.lines = [f"define i64 {header} {{", "entry:"]
        self._numbers = count()

    def value(self, text: str) -> str:
        """Emit an instruction and return the name of its result."""
        name = f"%t{next(self._numbers)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def emit(self, text: str) -> None:
        """Emit an instruction without a result, or with its name in the text."""
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{name}:")

    def pointer(self, base: str, offset: str) -> str:
        """`base` plus `offset` bytes."""
        return self.value(f"getelementptr i8, ptr {base}, i64 {offset}")

    def text(self) -> str:
        """The finished function."""
        return "\n".join([*self.lines, "}", ""])


def matrix_text(name: str, element: str, signed_a: bool, signed_b: bool) -> str:
    """i64 name(a, b, c, d, waves, stride, c_stride, c_wave_stride): WMMA of every wave.

    A[i][k] and B[k][i] sit in lane i; 16-bit elements in register k / 2, 8-bit ones in register
    k / 4, 4-bit ones in register k / 8. C and D [i][j] are in register i / 2, lane
    16 * (i % 2) + j. The wave's C is read before its D is written, as registers may be the same.
    Elements: f16, bf16 (float C and D), iu8, iu4 (i32).
    """
    w = Writer(f"@{name}({', '.join(f'i64 %{n}' for n in MATRIX_ARGUMENTS)})")
    number = "i32" if element in ("iu8", "iu4") else "float"
    vector = f"<16 x {number}>"
    left = w.value(f"alloca [16 x {vector}], align 64")
    start = w.value(f"alloca [16 x {vector}], align 64")
    for operand in "abcd":
        w.emit(f"%p{operand} = inttoptr i64 %{operand} to ptr")
    w.emit("%any = icmp sgt i64 %waves, 0")
    w.emit("br i1 %any, label %wave, label %done")
    w.label("wave")
    w.emit("%w = phi i64 [ 0, %entry ], [ %next, %stored ]")
    w.emit("%here = mul i64 %w, 128")
    w.emit("%c_here = mul i64 %w, %c_wave_stride")
    rows_a = _elements(w, "%pa", element, signed_a)
    for k, row in enumerate(rows_a):
        w.emit(f"store {vector} {row}, ptr {w.pointer(left, str(64 * k))}, align 64")
    rows_b = _elements(w, "%pb", element, signed_b)
    for i in range(16):
        offset = w.value(f"mul i64 %c_stride, {i // 2}")
        place = w.value(f"add i64 {offset}, %c_here")
        row = w.pointer("%pc", w.value(f"add i64 {place}, {64 * (i % 2)}"))
        c = w.value(f"load {vector}, ptr {row}, align 4")
        w.emit(f"store {vector} {c}, ptr {w.pointer(start, str(64 * i))}, align 64")
    w.emit("br label %row")
    w.label("row")
    w.emit("%i = phi i64 [ 0, %wave ], [ %i_next, %row ]")
    w.emit("%i_bytes = shl i64 %i, 6")
    total = w.value(f"load {vector}, ptr {w.pointer(start, '%i_bytes')}, align 64")
    w.emit("%i_words = shl i64 %i, 2")
    for k, row in enumerate(rows_b):
        place = w.value(f"add i64 %i_words, {64 * k}")
        single = w.value(f"load {number}, ptr {w.pointer(left, place)}, align 4")
        total = _multiply_add(w, vector, number, single, row, total)
    w.emit("%register = lshr i64 %i, 1")
    w.emit("%odd = and i64 %i, 1")
    w.emit("%d_row = mul i64 %register, %stride")
    w.emit("%d_half = shl i64 %odd, 6")
    w.emit("%d_wave = add i64 %d_row, %here")
    w.emit("%d_place = add i64 %d_wave, %d_half")
    w.emit(f"store {vector} {total}, ptr {w.pointer('%pd', '%d_place')}, align 4")
    w.emit("%i_next = add i64 %i, 1")
    w.emit("%i_more = icmp ult i64 %i_next, 16")
    w.emit("br i1 %i_more, label %row, label %stored")
    w.label("stored")
    w.emit("%next = add i64 %w, 1")
    w.emit("%more = icmp slt i64 %next, %waves")
    w.emit("br i1 %more, label %wave, label %done")
    w.label("done")
    w.emit("ret i64 0")
    return w.text() + f"declare {FLOATS} @llvm.fma.v16f32({FLOATS}, {FLOATS}, {FLOATS})\n"


def _multiply_add(w: Writer, vector: str, number: str, single: str, row: str, total: str) -> str:
    first = w.value(f"insertelement {vector} poison, {number} {single}, i64 0")
    every = w.value(f"shufflevector {vector} {first}, {vector} poison, <16 x i32> zeroinitializer")
    if number == "i32":
        product = w.value(f"mul {vector} {every}, {row}")
        return w.value(f"add {vector} {product}, {total}")
    operands = ", ".join(f"{vector} {x}" for x in (every, row, total))
    return w.value(f"call {vector} @llvm.fma.v16f32({operands})")


def _elements(w: Writer, base: str, element: str, signed: bool) -> list[str]:
    """The 16 rows k of an operand, each a vector over lanes 0..15, as float or i32."""
    rows = []
    bits = {"iu8": 8, "iu4": 4}.get(element)
    for register in range(16 * (bits or 16) // 32):
        offset = w.value(f"mul i64 %stride, {register}")
        place = w.pointer(base, w.value(f"add i64 {offset}, %here"))
        words = w.value(f"load {ROW}, ptr {place}, align 4")
        if bits is not None:
            rows += [_part(w, words, part, bits, signed) for part in range(32 // bits)]
        else:
            rows += [_half(w, words, part, element) for part in range(2)]
    return rows


def _splat(value: int) -> str:
    return f"<{', '.join([f'i32 {value}'] * 16)}>"


def _part(w: Writer, words: str, part: int, bits: int, signed: bool) -> str:
    """Bits `part * bits` and up of each word, extended to i32."""
    high = w.value(f"shl {ROW} {words}, {_splat(32 - bits * (part + 1))}")
    return w.value(f"{'ashr' if signed else 'lshr'} {ROW} {high}, {_splat(32 - bits)}")


def _half(w: Writer, words: str, part: int, element: str) -> str:
    if element == "bf16":
        if part == 0:
            bits = w.value(f"shl {ROW} {words}, {_splat(16)}")
        else:
            bits = w.value(f"and {ROW} {words}, {_splat(-65536)}")
        return w.value(f"bitcast {ROW} {bits} to {FLOATS}")
    moved = words if part == 0 else w.value(f"lshr {ROW} {words}, {_splat(16)}")
    short = w.value(f"trunc {ROW} {moved} to <16 x i16>")
    half = w.value(f"bitcast <16 x i16> {short} to <16 x half>")
    return w.value(f"fpext <16 x half> {half} to {FLOATS}")


def memory_text(name: str, words: int, is_store: bool) -> str:
    """i64 name(MEMORY_ARGUMENTS): loads or stores of `words` words for every active lane.

    A lane's place is low (a uint32 row) + high << 32 (a row, or 0) + wave_offset (int64 per wave,
    or 0) + offset, an unsigned number. Up to `limit`, `wave_base` (int64 per wave, or 0) is added
    and `words` words move between the storage and the rows at `data`, `stride` bytes apart. Beyond
    `outer` a load gives 0 and a store does nothing. `mask` has a byte per lane, or is 0. Returns
    the number of lanes between the two; with any, nothing moves.
    """
    w = Writer(f"@{name}({', '.join(f'i64 %{n}' for n in MEMORY_ARGUMENTS)})")
    for pointer in ("low", "high", "wave_offset", "wave_base", "storage", "mask", "data"):
        w.emit(f"%p_{pointer} = inttoptr i64 %{pointer} to ptr")
        w.emit(f"%no_{pointer} = icmp eq i64 %{pointer}, 0")
    w.emit("%lanes = shl i64 %waves, 5")
    w.emit("%any = icmp sgt i64 %waves, 0")
    w.emit("br i1 %any, label %check, label %nothing")
    w.label("nothing")
    w.emit("ret i64 0")
    _check_loop(w)
    w.label("checked")
    w.emit("%good = icmp eq i64 %refused_next, 0")
    w.emit("br i1 %good, label %move, label %refuse")
    w.label("refuse")
    w.emit("ret i64 %refused_next")
    _move_loop(w, words, is_store)
    w.label("done")
    w.emit("ret i64 0")
    return w.text()


def _optional(w: Writer, prefix: str, pointer: str, index: str, kind: str) -> str:
    """An element of a row whose pointer may be 0: then it counts as 0."""
    name = f"{prefix}_{pointer}"
    w.emit(f"br i1 %no_{pointer}, label %{name}_end, label %{name}_load")
    w.label(f"{name}_load")
    w.emit(f"%{name}_place = getelementptr {kind}, ptr %p_{pointer}, i64 {index}")
    w.emit(f"%{name}_value = load {kind}, ptr %{name}_place, align 1")
    w.emit(f"br label %{name}_end")
    w.label(f"{name}_end")
    return name


def _place(w: Writer, prefix: str, lane: str, before: str) -> tuple[str, str]:
    """(the lane's place, the label of the block that it was computed in)."""
    w.emit(f"%{prefix}_wave = lshr i64 {lane}, 5")
    total = "%offset"
    for pointer, index, kind in (
        ("high", lane, "i32"),
        ("wave_offset", f"%{prefix}_wave", "i64"),
    ):
        name = _optional(w, prefix, pointer, index, kind)
        w.emit(f"%{name} = phi {kind} [ 0, %{before} ], [ %{name}_value, %{name}_load ]")
        wide = f"%{name}"
        if kind == "i32":
            extended = w.value(f"zext i32 {wide} to i64")
            wide = w.value(f"shl i64 {extended}, 32")
        total = w.value(f"add i64 {total}, {wide}")
        before = f"{name}_end"
    low = w.value(f"getelementptr i32, ptr %p_low, i64 {lane}")
    word = w.value(f"load i32, ptr {low}, align 4")
    extended = w.value(f"zext i32 {word} to i64")
    return w.value(f"add i64 {total}, {extended}"), before


def _active(w: Writer, prefix: str, lane: str, before: str) -> str:
    """Whether the lane is on, i1."""
    name = _optional(w, prefix, "mask", lane, "i8")
    w.emit(f"%{name} = phi i8 [ 1, %{before} ], [ %{name}_value, %{name}_load ]")
    return w.value(f"icmp ne i8 %{name}, 0")


def _check_loop(w: Writer) -> None:
    w.label("check")
    w.emit("%c = phi i64 [ 0, %entry ], [ %c_next, %check_mask_end ]")
    w.emit("%refused = phi i64 [ 0, %entry ], [ %refused_next, %check_mask_end ]")
    place, block = _place(w, "check", "%c", "check")
    active = _active(w, "check", "%c", block)
    beyond = w.value(f"icmp ugt i64 {place}, %limit")
    near = w.value(f"icmp ule i64 {place}, %outer")
    between = w.value(f"and i1 {beyond}, {near}")
    bad = w.value(f"and i1 {active}, {between}")
    w.emit(f"%bad = zext i1 {bad} to i64")
    w.emit("%refused_next = add i64 %refused, %bad")
    w.emit("%c_next = add i64 %c, 1")
    w.emit("%c_more = icmp slt i64 %c_next, %lanes")
    w.emit("br i1 %c_more, label %check, label %checked")


def _move_loop(w: Writer, words: int, is_store: bool) -> None:
    w.label("move")
    w.emit("%m = phi i64 [ 0, %checked ], [ %m_next, %moved ]")
    place, block = _place(w, "move", "%m", "move")
    active = _active(w, "move", "%m", block)
    w.emit(f"br i1 {active}, label %act, label %moved")
    w.label("act")
    beyond = w.value(f"icmp ugt i64 {place}, %limit")
    w.emit("%m_bytes = shl i64 %m, 2")
    w.emit(f"br i1 {beyond}, label %outside, label %inside")
    w.label("outside")
    for k in range(0 if is_store else words):
        row = w.value(f"mul i64 %stride, {k}")
        register = w.pointer("%p_data", w.value(f"add i64 {row}, %m_bytes"))
        w.emit(f"store i32 0, ptr {register}, align 4")
    w.emit("br label %moved")
    w.label("inside")
    name = _optional(w, "act", "wave_base", "%move_wave", "i64")
    w.emit(f"%{name} = phi i64 [ 0, %inside ], [ %{name}_value, %{name}_load ]")
    there = w.pointer("%p_storage", w.value(f"add i64 {place}, %{name}"))
    for k in range(words):
        row = w.value(f"mul i64 %stride, {k}")
        register = w.pointer("%p_data", w.value(f"add i64 {row}, %m_bytes"))
        memory = w.pointer(there, str(4 * k))
        source, target = (register, memory) if is_store else (memory, register)
        value = w.value(f"load i32, ptr {source}, align {4 if is_store else 1}")
        w.emit(f"store i32 {value}, ptr {target}, align {1 if is_store else 4}")
    w.emit("br label %moved")
    w.label("moved")
    w.emit("%m_next = add i64 %m, 1")
    w.emit("%m_more = icmp slt i64 %m_next, %lanes")
    w.emit("br i1 %m_more, label %move, label %done")
