"""Words of `tessera emulate` to runs and one-line refusals, damaged code objects included."""

import random
from pathlib import Path

import numpy as np
import pytest

from tessera.emulator.cli import emulate_main

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "third_party"
VECTOR_ADD = FIXTURES / "vector_add.hsaco"
LAUNCH = [
    "--grid",
    "4",
    "--block",
    "128",
    "--arg",
    "random:f32:1000",
    "--arg",
    "arg1=ones:f32:1000",
]


def test_runs_and_saves(tmp_path, capsys):
    words = [*LAUNCH, "--arg", "arg2=empty:f32:1000", "--arg", "arg3=1000", "--save", str(tmp_path)]
    assert emulate_main([str(VECTOR_ADD), *words]) == 0
    out = capsys.readouterr().out
    assert "VGPRs" in out
    assert "LDS" in out
    assert "findings: none" in out
    saved = [np.load(tmp_path / f"arg{i}.npy") for i in range(3)]
    np.testing.assert_array_equal(saved[2], saved[0] + saved[1])


def test_takes_arrays_from_files(tmp_path):
    x = np.arange(100, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    path = f"{tmp_path}/x.npy"
    words = ["--arg", path, "--arg", path, "--arg", "zeros:f32:100", "--arg", "i32:100"]
    command = [str(VECTOR_ADD), "--kernel", "vector_add", "--block", "128", *words]
    assert emulate_main([*command, "--save", str(tmp_path)]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "arg2.npy"), x + x)


def test_finding_is_printed_and_gives_exit_code_1(capsys):
    words = [*LAUNCH, "--arg", "arg2=zeros:f32:990", "--arg", "arg3=1000"]
    assert emulate_main([str(VECTOR_ADD), *words]) == 1
    assert "out_of_bounds: store of 4 bytes" in capsys.readouterr().out


def test_profile_and_trace(capsys):
    words = [*LAUNCH, "--arg", "zeros:f32:1000", "--arg", "1000", "--profile", "--trace"]
    assert emulate_main([str(VECTOR_ADD), *words]) == 0
    out = capsys.readouterr().out
    assert "0x0000  v_readfirstlane_b32" in out
    assert "s_endpgm" in out


@pytest.mark.parametrize(
    "words, message",
    [
        ([str(VECTOR_ADD), "--kernel", "other"], "no kernel 'other'"),
        ([str(VECTOR_ADD), "--arg", "x=3"], "no argument 'x'"),
        ([str(VECTOR_ADD), "--arg", "arg0=3"], "not a buffer"),
        ([str(VECTOR_ADD), "--arg", "arg0=zeros:f33:4"], "unknown type 'f33'"),
        ([str(VECTOR_ADD), "--arg", "arg0=zeros:f32:x"], "size 'x'"),
        ([str(VECTOR_ADD), "--arg", "arg0=nowhere.npy"], "no such file"),
        ([str(VECTOR_ADD), "--arg", "arg3=abc.d"], "not a number"),
        ([str(VECTOR_ADD), "--arg", "arg3=1", "--grid", "a"], "--grid 'a'"),
        ([str(VECTOR_ADD), "--arg", "arg3=1", "--block", "4096"], "4096 threads"),
        ([str(VECTOR_ADD)], "'arg3' of kernel 'vector_add' is missing"),
        ([str(VECTOR_ADD), "--bogus"], "unrecognized arguments"),
        ([str(FIXTURES / "vector_add.json")], "not an ELF file"),
        (["nowhere.hsaco"], "nowhere.hsaco"),
        ([], "required"),
    ],
)
def test_wrong_words_give_one_line_and_exit_code_2(words, message, capsys):
    assert emulate_main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error


def damaged(data, rng):
    """Three kinds of damage: cut off, single bytes changed, a run of bytes overwritten."""
    kind = rng.randrange(3)
    if kind == 0:
        return data[: rng.randrange(len(data))]
    changed = bytearray(data)
    if kind == 1:
        for _ in range(rng.randrange(1, 12)):
            changed[rng.randrange(len(data))] = rng.randrange(256)
    else:
        start = rng.randrange(len(data))
        size = rng.randrange(1, 200)
        changed[start : start + size] = rng.randbytes(size)
    return bytes(changed)


@pytest.mark.parametrize("seed", range(6))
def test_damaged_code_objects_never_crash_or_loop(seed, tmp_path, capsys):
    rng = random.Random(seed)
    data = VECTOR_ADD.read_bytes()
    path = tmp_path / "damaged.hsaco"
    for _ in range(40):
        path.write_bytes(damaged(data, rng))
        words = [*LAUNCH, "--arg", "arg2=empty:f32:1000", "--arg", "arg3=1000"]
        code = emulate_main([str(path), *words, "--max-instructions", "20000"])
        assert code in (0, 1, 2)
        error = capsys.readouterr().err
        assert error == "" or (error.startswith("error: ") and error.count("\n") == 1)
