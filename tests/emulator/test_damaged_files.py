"""Truncated, corrupted and foreign files through the command: one line, no traceback, no loop."""

from __future__ import annotations

import json
import random
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from emulator_witness.code_object import Kernel, build_code_object
from emulator_witness.llvm_kernels import MISSING, compile_kernels

from tessera.emulator.cli import emulate_main

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "third_party"
SECONDS_PER_RUN = 5.0
FLIPS = 150
# How a fault of the emulator itself reads: the name of a Python exception behind the instruction.
INTERNAL = re.compile(r"`: \w*(Error|Exception|Warning)\b")


class TooSlow(BaseException):
    """A run beyond the time limit; no handler of the command may swallow it."""


@pytest.fixture
def limited():
    """Run the command under a time limit of its own each time."""

    def stop(*_):
        raise TooSlow

    previous = signal.signal(signal.SIGVTALRM, stop)

    def run(words):
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_PER_RUN)
        try:
            return emulate_main([str(word) for word in words])
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)

    yield run
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    signal.signal(signal.SIGVTALRM, previous)


def launch_words(name):
    """The words of `tessera emulate` that launch a fixture on zeros."""
    description = json.loads((FIXTURES / f"{name}.json").read_text())
    arrays = np.load(FIXTURES / f"{name}.npz")
    words = ["--kernel", description["kernel"]]
    words += ["--grid", ",".join(map(str, description["grid"]))]
    words += ["--block", ",".join(map(str, description["block"]))]
    words += ["--dynamic-lds", str(description["dynamic_lds_bytes"])]
    for index, argument in enumerate(description["args"]):
        if argument["kind"] == "scalar":
            words += ["--arg", f"arg{index}={argument['value']}"]
        else:
            direction = "in" if argument["direction"] == "in" else "out"
            array = arrays[f"{direction}_{argument['name']}"]
            words += ["--arg", f"arg{index}=zeros:{argument['dtype']}:{array.size}"]
    first = len(description["args"])
    words += [w for k in (first, first + 1) for w in ("--arg", f"arg{k}=null")]
    return [*words, "--max-instructions", "30000"]


def check(code, capsys, what):
    """A known exit code; on a wrong file one line that says so."""
    out, err = capsys.readouterr()
    assert code in (0, 1, 2), what
    assert "Traceback" not in out + err, what
    assert not INTERNAL.search(err), f"{what}: {err}"
    if code == 2:
        lines = err.strip().splitlines()
        assert len(lines) == 1, f"{what}: {err}"
        assert lines[0].startswith("error: "), f"{what}: {err}"
        assert len(lines[0]) < 500, what
    return err


def test_the_launch_itself_works(limited, tmp_path, capsys):
    """The words that the damaged copies are run with are right for the whole file."""
    for name in ("vector_add", "row_softmax"):
        assert limited([FIXTURES / f"{name}.hsaco", *launch_words(name)]) == 0
        check(0, capsys, name)


@pytest.mark.parametrize("name", ["vector_add", "row_softmax"])
def test_flipped_bytes(limited, tmp_path, capsys, name):
    rng = random.Random(name)
    original = (FIXTURES / f"{name}.hsaco").read_bytes()
    words, path = launch_words(name), tmp_path / "damaged.hsaco"
    refused = 0
    for _ in range(FLIPS):
        damaged = bytearray(original)
        places = [rng.randrange(len(damaged)) for _ in range(rng.choice([1, 1, 2, 8]))]
        for place in places:
            damaged[place] ^= 1 << rng.randrange(8) if rng.random() < 0.5 else rng.randrange(1, 256)
        path.write_bytes(damaged)
        try:
            code = limited([path, *words])
        except TooSlow:
            pytest.fail(f"{name} with bytes {places} changed runs longer than {SECONDS_PER_RUN} s")
        check(code, capsys, f"{name} with bytes {places} changed")
        refused += code != 0
    assert refused > 0


def test_flipped_bytes_of_the_headers(limited, tmp_path, capsys):
    """The parts that a loader trusts: ELF header, program headers, notes, section headers."""
    rng = random.Random(7)
    original = (FIXTURES / "vector_add.hsaco").read_bytes()
    (table,) = struct.unpack_from("<Q", original, 40)
    places = [*range(64 + 56 * 6), *range(table, len(original))]
    words, path = launch_words("vector_add"), tmp_path / "damaged.hsaco"
    for place in rng.sample(places, FLIPS):
        for value in (0x00, 0xFF, original[place] ^ 0x80):
            damaged = bytearray(original)
            damaged[place] = value
            path.write_bytes(damaged)
            code = limited([path, *words])
            check(code, capsys, f"byte {place} set to {value:#x}")


def test_truncated_files(limited, tmp_path, capsys):
    original = (FIXTURES / "vector_add.hsaco").read_bytes()
    words, path = launch_words("vector_add"), tmp_path / "short.hsaco"
    sizes = [0, 1, 4, 16, 63, 64, 65, *range(100, len(original), 97), len(original) - 1]
    for size in sizes:
        path.write_bytes(original[:size])
        code = limited([path, *words])
        check(code, capsys, f"{size} of {len(original)} bytes")
        if size < 2000:
            assert code == 2, size


FOREIGN = {
    "text": b"define amdgpu_kernel void @f() { ret void }\n" * 10,
    "random bytes": random.Random(1).randbytes(5000),
    "zeros": bytes(5000),
    "ELF magic and noise": b"\x7fELF" + random.Random(2).randbytes(3000),
    "32-bit ELF": b"\x7fELF\x01\x01\x01" + bytes(200),
    "big-endian ELF": b"\x7fELF\x02\x02\x01\x40\x03" + bytes(200),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_files(limited, tmp_path, capsys, what):
    path = tmp_path / "foreign.hsaco"
    path.write_bytes(FOREIGN[what])
    assert limited([path, *launch_words("vector_add")]) == 2
    check(2, capsys, what)


def test_an_executable_of_this_machine(limited, capsys):
    assert limited([sys.executable, "--kernel", "main"]) == 2
    assert "amd" in check(2, capsys, "python").lower()


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_another_chip(limited, tmp_path, capsys):
    text = "define amdgpu_kernel void @f() #0 { ret void }\n"
    path = tmp_path / "other.hsaco"
    path.write_bytes(compile_kernels(text, chip="gfx1201"))
    assert limited([path, "--kernel", "f"]) == 2
    err = check(2, capsys, "gfx1201")
    assert "gfx1201" in err
    assert "gfx1151" in err


def test_paths_that_are_no_files(limited, tmp_path, capsys):
    for path in (tmp_path, tmp_path / "absent.hsaco"):
        assert limited([path, "--kernel", "f"]) == 2
        assert str(path.name) in check(2, capsys, path)


def test_a_missing_kernel_lists_those_present(limited, capsys):
    assert limited([FIXTURES / "vector_add.hsaco", "--kernel", "subtract"]) == 2
    err = check(2, capsys, "missing kernel")
    assert "subtract" in err
    assert "vector_add" in err


@pytest.mark.parametrize(
    "change, part",
    [
        (["--arg", "arg0=absent.npy"], "absent.npy"),
        (["--arg", "arg0=zeros:f99:10"], "f99"),
        (["--arg", "arg0=zeros:f32:many"], "many"),
        (["--arg", "nothing=zeros:f32:10"], "nothing"),
        (["--arg", "arg3=ten"], "ten"),
        (["--grid", "a,b"], "a,b"),
        (["--grid", "0"], "grid"),
        (["--block", "2048"], "2048"),
        (["--dynamic-lds", "-4"], "-4"),
        (["--dynamic-lds", "100000"], "100000"),
        (["--max-instructions", "0"], "0"),
        (["--unknown"], "--unknown"),
    ],
)
def test_wrong_words(limited, capsys, change, part):
    words = launch_words("vector_add")
    if change[0] in ("--grid", "--block", "--dynamic-lds", "--max-instructions"):
        words[words.index(change[0]) + 1] = change[1]
    elif change[0] == "--arg" and change[1].startswith("arg"):
        name = change[1].split("=")[0] + "="
        words[next(i for i, word in enumerate(words) if word.startswith(name))] = change[1]
    else:
        words += change
    assert limited([FIXTURES / "vector_add.hsaco", *words]) != 0
    assert part in check(2, capsys, change)


def test_an_endless_loop_stops_at_the_limit(limited, tmp_path, capsys):
    from emulator_witness.assembler import isa, to_bytes

    code = to_bytes([isa.s_branch(simm16=0xFFFF), isa.s_endpgm()])
    path = tmp_path / "endless.hsaco"
    path.write_bytes(build_code_object(Kernel(code, "endless")))
    assert limited([path, "--kernel", "endless", "--max-instructions", "10000"]) == 1
    assert "10000" in capsys.readouterr().err.replace(",", "").replace("_", "")


def test_a_reader_that_leaves_early(tmp_path):
    """`tessera emulate --trace ... | head -1` ends quietly."""
    program = "import sys; from tessera.emulator import cli; cli.emulate_main(sys.argv[1:])"
    words = [str(FIXTURES / "row_softmax.hsaco"), *launch_words("row_softmax"), "--trace"]
    with subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"0x0000")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
