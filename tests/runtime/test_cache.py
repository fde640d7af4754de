"""The compile cache: keys, many writers, killed writers, damage, full disks, eviction."""

import json
import multiprocessing
import os
import signal
import threading
import time
import warnings
from dataclasses import fields, replace

import pytest

import tessera
from tessera import compiler, ops
from tessera.errors import CompileError, OptionError
from tessera.options import CompileOptions
from tessera.runtime import cache
from tessera.runtime.cache_key import CacheKey, source_files, sources_changed_since

KEY = CacheKey("gfx1151", (("opt_level", 3),), (("llvm", "22.1.0"),), "5ources", "module {}")
FILES = {"kernels.hsaco": b"code" * 100, "llvm.ll": b"text"}
PLAN = {"name": "f", "inputs": [], "steps": [], "outputs": []}

fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="uses fork to start writers at once")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache; an edit of the sources while the tests run does not turn it off."""
    monkeypatch.setenv("TESSERA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TESSERA_CACHE", raising=False)
    monkeypatch.setattr(cache, "sources_changed_since", lambda moment: False)
    return tmp_path / "cache"


def product(a, b):
    return ops.matmul(a, b)


def module():
    return tessera.jit(target="gfx1151")(product).trace()


def compile_product(**options):
    return compiler.compile_module(module(), compiler.attached_target("gfx1151"), options)


def compile_relu():
    return tessera.compile(ops.relu, target="gfx1151")


@pytest.fixture
def compiled(monkeypatch):
    """Counts compilations that the cache did not answer."""
    count = []
    original = compiler._compile

    def counting(*args):
        count.append(args)
        return original(*args)

    monkeypatch.setattr(compiler, "_compile", counting)
    return count


# Hits and keys.


def test_second_compilation_is_answered_by_the_cache(compiled, folder):
    first, second = compile_product(), compile_product()
    assert len(compiled) == 1
    assert second.hsaco == first.hsaco
    assert second.plan == first.plan
    assert second.kernels == first.kernels
    assert second.text("llvm") == first.text("llvm")
    (place,) = folder.iterdir()
    names = {"key.txt", "entry.json", "kernels.hsaco", "llvm.ll"}
    names |= {f"{level}.mlir" for level in compiler.MODULE_LEVELS}
    assert {path.name for path in place.iterdir()} == names
    assert (place / "key.txt").read_text().isprintable() is False  # lines, but
    assert all(line.isprintable() for line in (place / "key.txt").read_text().splitlines())


CHANGED_OPTIONS = {"opt_level": 1, "alignment": 2}


@pytest.mark.parametrize("name", [field.name for field in fields(CompileOptions)])
def test_every_option_is_in_the_key(compiled, name):
    compile_product()
    compile_product(**{name: CHANGED_OPTIONS[name]})
    assert len(compiled) == 2
    compile_product(**{name: CHANGED_OPTIONS[name]})
    assert len(compiled) == 2


CHANGED_FIELDS = {
    "chip": "gfx1100",
    "options": (("opt_level", 2),),
    "versions": (("llvm", "22.1.1"),),
    "sources": "6ources",
    "ir": "module { }",
    "format": 99,
}


@pytest.mark.parametrize("name", [field.name for field in fields(CacheKey)])
def test_every_field_is_in_the_digest(name):
    assert replace(KEY, **{name: CHANGED_FIELDS[name]}).digest != KEY.digest


def test_chip_and_body_are_in_the_key(compiled):
    compile_product()
    compiler.compile_module(module(), compiler.attached_target("gfx1100"))

    def other(a, b):
        return ops.matmul(a, b, out_dtype="f16")

    for constant in (1.0, 2.0):

        def scaled(x, constant=constant):
            return ops.mul(x, constant)

        tessera.compile(scaled, target="gfx1151")
    tessera.compile(other, target="gfx1151")
    assert len(compiled) == 5


def test_versions_name_everything_that_makes_machine_code():
    assert set(compiler.versions()) == {"tessera", "xdsl", "llvmlite", "llvm", "linker"}


def test_edited_sources_turn_the_cache_off_for_the_process(monkeypatch, folder):
    newest = max(path.stat().st_mtime for path in source_files())
    assert sources_changed_since(newest - 1)
    assert not sources_changed_since(time.time() + 1)
    monkeypatch.setattr(cache, "sources_changed_since", lambda moment: True)
    assert not cache.store(KEY, FILES, PLAN)
    assert not folder.exists()


# Modes.


def test_require_fails_on_a_miss_and_off_stores_nothing(monkeypatch, folder):
    monkeypatch.setenv("TESSERA_CACHE", "off")
    compile_product()
    assert not folder.exists()
    monkeypatch.setenv("TESSERA_CACHE", "require")
    with pytest.raises(CompileError, match="TESSERA_CACHE=require: no intact entry"):
        compile_product()
    monkeypatch.setenv("TESSERA_CACHE", "on")
    compile_product()
    monkeypatch.setenv("TESSERA_CACHE", "require")
    compile_product()
    monkeypatch.setenv("TESSERA_CACHE", "perhaps")
    with pytest.raises(OptionError, match="TESSERA_CACHE='perhaps'"):
        compile_product()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("error", ["not a folder", "full"])
def test_unwritable_cache_works_uncached_with_one_warning(error, tmp_path, monkeypatch):
    if error == "full":
        from pathlib import Path

        def full(self, content):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", full)
    else:
        (tmp_path / "cache").write_text("a file where the folder should be")
    monkeypatch.setattr(cache, "_warned", set())
    key = replace(KEY, ir=error)
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        assert not cache.store(key, FILES, PLAN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not cache.store(key, FILES, PLAN)
    assert cache.lookup(key) is None
    monkeypatch.undo()
    if error == "full":
        assert list((tmp_path / "cache").iterdir()) == []


def test_user_without_a_home_compiles_uncached(monkeypatch):
    from pathlib import Path

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.delenv("TESSERA_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(cache, "_warned", set())
    assert cache.lookup(KEY) is None
    with pytest.warns(RuntimeWarning, match="home directory.; set TESSERA_CACHE_DIR"):
        assert not cache.store(KEY, FILES, PLAN)


def test_read_only_cache_is_read(monkeypatch):
    cache.store(KEY, FILES, PLAN)

    def refused(path, *args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "utime", refused)
    entry = cache.lookup(KEY)
    assert entry is not None
    assert entry.hsaco == FILES["kernels.hsaco"]


# Damage.


def damage(path, how):
    content = path.read_bytes()
    path.write_bytes(
        {
            "half": content[: len(content) // 2],
            "empty": b"",
            "flipped": content[:-3] + bytes([content[-3] ^ 1]) + content[-2:],
            "text": b"hello",
        }[how]
    )


@pytest.mark.parametrize("name", ["kernels.hsaco", "entry.json", "key.txt"])
@pytest.mark.parametrize("how", ["half", "empty", "flipped", "text", "gone"])
def test_damaged_entry_is_noticed_and_healed(folder, name, how):
    cache.store(KEY, FILES, PLAN)
    path = folder / KEY.digest / name
    if how == "gone":
        path.unlink()
    else:
        damage(path, how)
    assert cache.lookup(KEY) is None
    (info,) = cache.entries()
    assert info.problem
    assert cache.store(KEY, FILES, PLAN)
    entry = cache.lookup(KEY)
    assert entry is not None
    assert (entry.hsaco, entry.plan) == (FILES["kernels.hsaco"], PLAN)
    assert [info.problem for info in cache.entries()] == [""]
    assert [path.name for path in folder.iterdir()] == [KEY.digest]


def test_entry_of_another_key_is_not_taken(folder):
    other = replace(KEY, chip="gfx1100")
    cache.store(other, FILES, PLAN)
    (folder / other.digest).rename(folder / KEY.digest)
    assert cache.lookup(KEY) is None


def test_damaged_code_object_is_compiled_again(compiled, folder):
    good = compile_product()
    (place,) = folder.iterdir()
    damage(place / "kernels.hsaco", "flipped")
    assert compile_product().hsaco == good.hsaco
    assert compile_product().hsaco == good.hsaco
    assert len(compiled) == 2


# Many writers.


def _compile_in_child(barrier, results):
    barrier.wait()
    results.put(compile_relu().hsaco)


@fork
@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_eight_processes_on_an_empty_cache(folder, rounds):
    expected = compile_relu().hsaco
    context = multiprocessing.get_context("fork")
    for _ in range(rounds):
        cache.clear()
        barrier, results = context.Barrier(8), context.SimpleQueue()
        children = [
            context.Process(target=_compile_in_child, args=(barrier, results)) for _ in range(8)
        ]
        for child in children:
            child.start()
        assert [results.get() for _ in children] == [expected] * 8
        for child in children:
            child.join()
            assert child.exitcode == 0
        (place,) = folder.iterdir()
        assert not place.name.startswith("tmp-")
    assert [info.problem for info in cache.entries()] == [""]


def _store_for_ever(started):
    started.release()
    number = 0
    while True:
        cache.store(replace(KEY, ir=str(number % 5)), FILES, PLAN)
        cache.remove(replace(KEY, ir=str((number + 2) % 5)).digest)
        number += 1


@fork
def test_killed_writers_leave_nothing_behind(folder):
    context = multiprocessing.get_context("fork")
    for delay in range(6):
        started = context.Semaphore(0)
        writers = [context.Process(target=_store_for_ever, args=(started,)) for _ in range(3)]
        for writer in writers:
            writer.start()
            started.acquire()
        time.sleep(0.01 * delay)
        for writer in writers:
            assert writer.pid is not None
            os.kill(writer.pid, signal.SIGKILL)
            writer.join()
        assert all(info.problem == "" for info in cache.entries())
        assert cache.store(KEY, FILES, PLAN)
        assert not list(folder.glob("tmp-*"))
    assert cache.lookup(KEY) is not None


def test_two_threads_compile_the_same_kernel(folder):
    results = []
    barrier = threading.Barrier(2)

    def compile_here():
        barrier.wait()
        results.append(compile_product().hsaco)

    threads = [threading.Thread(target=compile_here) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1]
    assert len(list(folder.iterdir())) == 1


def test_temporary_folders_of_the_living_stay(folder):
    cache.store(KEY, FILES, PLAN)
    mine = cache._temporary(folder)
    old_of_another_machine = folder / "tmp-elsewhere-12-abc"
    old_of_another_machine.mkdir()
    os.utime(old_of_another_machine, (0, 0))
    new_of_another_machine = folder / "tmp-elsewhere-13-abc"
    new_of_another_machine.mkdir()
    cache.store(replace(KEY, ir="other"), FILES, PLAN)
    left = {path.name for path in folder.glob("tmp-*")}
    assert left == {mine.name, new_of_another_machine.name}


# Size.


def test_least_recently_used_entries_go_first(folder, monkeypatch):
    keys = [replace(KEY, ir=str(number)) for number in range(4)]
    big = {"kernels.hsaco": bytes(400 * 1024)}
    monkeypatch.setenv("TESSERA_CACHE_LIMIT_MB", "1")
    for age, key in enumerate(keys[:2]):
        cache.store(key, big, PLAN)
        os.utime(folder / key.digest / "entry.json", (1000 + age, 1000 + age))
    assert cache.lookup(keys[0]) is not None  # now the more recently used of the two
    cache.store(keys[2], big, PLAN)
    assert cache.lookup(keys[1]) is None
    assert cache.lookup(keys[0]) is not None
    assert cache.lookup(keys[2]) is not None
    monkeypatch.setenv("TESSERA_CACHE_LIMIT_MB", "0")
    cache.store(keys[3], big, PLAN)
    assert [path.name for path in folder.iterdir()] == [keys[3].digest]


def test_cache_command(folder, capsys):
    from tessera.tools import cli

    cache.store(KEY, FILES, PLAN)
    assert cli.run(["cache", "list"]) == 0
    assert KEY.digest in capsys.readouterr().out
    assert cli.run(["cache", "verify"]) == 0
    damage(folder / KEY.digest / "llvm.ll", "flipped")
    assert cli.run(["cache", "verify"]) == 1
    assert "damaged" in capsys.readouterr().out
    assert cli.run(["cache", "verify"]) == 0
    cache.store(KEY, FILES, PLAN)
    assert cli.run(["cache", "clear"]) == 0
    assert "1 entr" in capsys.readouterr().out
    assert list(folder.iterdir()) == []


def test_the_index_is_hashed_as_readers_see_it(folder):
    cache.store(KEY, FILES, {**PLAN, "outputs": (1, 2)})
    index = json.loads((folder / KEY.digest / "entry.json").read_text())
    assert index["plan"]["outputs"] == [1, 2]
    assert cache.lookup(KEY) is not None
