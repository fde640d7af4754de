"""The loop of the LDS race check over lanes and bytes as LLVM IR text."""

from __future__ import annotations

from tessera.emulator.native_text import Writer

CHECK_ARGUMENTS = (
    "positions",
    "mask",
    "starts",
    "tags",
    "several",
    "writes",
    "reads",
    "size",
    "lanes",
)


def check_text(name: str, is_write: bool) -> str:
    """i64 name(CHECK_ARGUMENTS): check one LDS access of every active lane and note its tags.

    `positions` are int64 per lane, `mask` a byte per lane (or the address 0), `starts` and `tags`
    int64 per wave of 32 lanes; `writes` and `reads` hold an int64 tag per LDS byte (see
    `lds_checks`). Returns how many bytes were never written (reads only) or touched by another wave
    since the last barrier. With any from before this instruction, nothing is noted.
    """
    w = Writer(f"@{name}({', '.join(f'i64 %{n}' for n in CHECK_ARGUMENTS)})")
    for pointer in ("positions", "mask", "starts", "tags", "writes", "reads"):
        w.emit(f"%p_{pointer} = inttoptr i64 %{pointer} to ptr")
    w.emit("%no_mask = icmp eq i64 %mask, 0")
    w.emit("%any = icmp sgt i64 %lanes, 0")
    w.emit("br i1 %any, label %check, label %nothing")
    w.label("nothing")
    w.emit("ret i64 0")
    _loop(w, "check", "entry", is_write)
    w.label("check_done")
    w.emit("%clean = icmp eq i64 %check_total, 0")
    w.emit("br i1 %clean, label %note, label %faulty")
    w.label("faulty")
    w.emit("ret i64 %check_total")
    _loop(w, "note", "check_done", is_write)
    w.label("note_done")
    w.emit("ret i64 %note_total")
    return w.text()


def _loop(w: Writer, name: str, before: str, is_write: bool) -> None:
    """All lanes and their bytes; counts faults in %<name>_total."""
    w.label(name)
    w.emit(f"%{name}_lane = phi i64 [ 0, %{before} ], [ %{name}_lane_next, %{name}_end ]")
    w.emit(f"%{name}_sum = phi i64 [ 0, %{before} ], [ %{name}_total, %{name}_end ]")
    w.emit(f"br i1 %no_mask, label %{name}_act, label %{name}_test")
    w.label(f"{name}_test")
    flag = w.value(f"getelementptr i8, ptr %p_mask, i64 %{name}_lane")
    on = w.value(f"icmp ne i8 {w.value(f'load i8, ptr {flag}, align 1')}, 0")
    w.emit(f"br i1 {on}, label %{name}_act, label %{name}_end")
    w.label(f"{name}_act")
    w.emit(f"%{name}_wave = lshr i64 %{name}_lane, 5")
    start = _load(w, "%p_starts", f"%{name}_wave")
    tag = _load(w, "%p_tags", f"%{name}_wave")
    position = _load(w, "%p_positions", f"%{name}_lane")
    w.emit(f"br label %{name}_byte")
    w.label(f"{name}_byte")
    w.emit(f"%{name}_b = phi i64 [ 0, %{name}_act ], [ %{name}_b_next, %{name}_byte ]")
    w.emit(f"%{name}_part = phi i64 [ %{name}_sum, %{name}_act ], [ %{name}_more, %{name}_byte ]")
    place = w.value(f"add i64 {position}, %{name}_b")
    bad = (_check if name == "check" else _note)(w, place, start, tag, is_write)
    w.emit(f"%{name}_more = add i64 %{name}_part, {w.value(f'zext i1 {bad} to i64')}")
    w.emit(f"%{name}_b_next = add i64 %{name}_b, 1")
    w.emit(f"%{name}_b_again = icmp slt i64 %{name}_b_next, %size")
    w.emit(f"br i1 %{name}_b_again, label %{name}_byte, label %{name}_end")
    w.label(f"{name}_end")
    w.emit(f"%{name}_total = phi i64 [ %{name}_sum, %{name}_test ], [ %{name}_more, %{name}_byte ]")
    w.emit(f"%{name}_lane_next = add i64 %{name}_lane, 1")
    w.emit(f"%{name}_again = icmp slt i64 %{name}_lane_next, %lanes")
    w.emit(f"br i1 %{name}_again, label %{name}, label %{name}_done")


def _load(w: Writer, base: str, index: str) -> str:
    place = w.value(f"getelementptr i64, ptr {base}, i64 {index}")
    return w.value(f"load i64, ptr {place}, align 8")


def _foreign(w: Writer, last: str, start: str, tag: str) -> str:
    """Whether a tag is of another wave since the last barrier."""
    recent = w.value(f"icmp sgt i64 {last}, {start}")
    other = w.value(f"icmp ne i64 {last}, {tag}")
    return w.value(f"and i1 {recent}, {other}")


def _check(w: Writer, place: str, start: str, tag: str, is_write: bool) -> str:
    written = _load(w, "%p_writes", place)
    bad = _foreign(w, written, start, tag)
    if is_write:
        read = _foreign(w, _load(w, "%p_reads", place), start, tag)
        return w.value(f"or i1 {bad}, {read}")
    never = w.value(f"icmp eq i64 {written}, 0")
    return w.value(f"or i1 {bad}, {never}")


def _note(w: Writer, place: str, start: str, tag: str, is_write: bool) -> str:
    if is_write:
        # A foreign tag here is of another lane of this very instruction.
        bad = _foreign(w, _load(w, "%p_writes", place), start, tag)
        target = w.value(f"getelementptr i64, ptr %p_writes, i64 {place}")
        w.emit(f"store i64 {tag}, ptr {target}, align 8")
        return bad
    shared = _foreign(w, _load(w, "%p_reads", place), start, tag)
    several = w.value(f"add i64 {start}, %several")
    new = w.value(f"select i1 {shared}, i64 {several}, i64 {tag}")
    target = w.value(f"getelementptr i64, ptr %p_reads, i64 {place}")
    w.emit(f"store i64 {new}, ptr {target}, align 8")
    return w.value("icmp ne i64 0, 0")
