"""The `tessera` command: what it writes, its exit codes, and errors as one line."""

import json

import pytest

from tessera.tools import cli

LLVM = """
define amdgpu_kernel void @nothing(ptr addrspace(1) %p) #0 {
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="32,32" "uniform-work-group-size"="true" }
"""
ATTENTION = (
    '"tessera_rocm.flash_attn"() {name = "fa", head_dim = 64 : i64, dtype = "f16"} : () -> ()'
)
FUNCTION = """
import tessera
from tessera import ops

SIZE = 3

def product(a, b):
    return ops.matmul(a, b)

def wrong(a):
    return a[0]

@tessera.jit(target="gfx1100")
def jitted(a, b):
    return ops.matmul(a, b)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ll").write_text(LLVM)
    (tmp_path / "fa.mlir").write_text(ATTENTION)
    (tmp_path / "f.py").write_text(FUNCTION)
    (tmp_path / "random.mlir").write_bytes(b"\x88\xff")
    (tmp_path / "broken.py").write_text("def f(:")
    return tmp_path


def failure(capsys, *arguments: str) -> str:
    """The one line that a refused command line gives."""
    assert cli.run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_only_built_commands_are_listed(capsys):
    assert cli.run([]) == 0
    text = capsys.readouterr().out
    assert all(command.name in text for command in cli.COMMANDS)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["compile"], "Missing argument"),
        (["compil"], "No such command 'compil'"),
        (["compile", "absent.mlir"], "'absent.mlir' is no file"),
        (["compile", "absent.txt"], "supported: FILE.mlir, FILE.ll, FILE.py:NAME"),
        (["compile", "k.ll", "--emit", "ptx"], "unknown level 'ptx'; supported: graph"),
        (["compile", "k.ll", "--emit", "graph"], "compilation started from LLVM IR"),
        (["compile", "k.ll", "--target", "gfx906"], "unknown target 'gfx906'; supported: rocm"),
        (["compile", "k.ll", "--opt-level", "7"], "opt_level = 7 is not allowed"),
        (["compile", "k.ll", "--input", "f16[2]"], "--input goes with FILE.py:function"),
        (["compile", "f.py:absent"], "no function 'absent'"),
        (["compile", "f.py:SIZE"], "is a int, not a function"),
        (["compile", "f.py:product", "-i", "f16(2)"], "no tensor like f16[128,64]"),
        (["compile", "f.py:product", "-i", "i3[2]"], "supported: f16, bf16, f32"),
        (["compile", "f.py:product", "-i", "f16[2,2]"], "product: --input: missing a required"),
        (["compile", "f.py:wrong", "-i", "f16[2,2]"], "TypeError: 'Tracer' object is not subscr"),
        (["compile", "random.mlir"], "'random.mlir' is no text"),
        (["compile", "broken.py:f"], "broken.py: importing it gave SyntaxError"),
        (["run", "fa.mlir", "-i", "f16[2,2]"], "run takes FILE.py:function"),
        (["run", "f.py:product", "-i", "f16[2,2]"], "product: --input: missing a required"),
        (["run", "f.py:wrong", "-i", "f16[2,2]", "--seed", "-1"], "--seed"),
        (["matrix", "matmull"], "unknown operation 'matmull'; supported: "),
        (["matrix", "matmul", "--check"], "'matmul': --check and --update are about all"),
        (["matrix", "--check", "--update"], "--check and --update do not go together"),
    ],
)
def test_refusals_are_one_line_and_exit_code_2(folder, capsys, arguments, message):
    assert message in failure(capsys, *arguments)


def test_parse_errors_are_one_line(folder, capsys):
    (folder / "broken.mlir").write_text('"tessera_rocm.flash_attn"() {')
    assert "broken.mlir" in failure(capsys, "compile", "broken.mlir")


def test_llvm_text_to_code_object_and_assembly(folder, capsys):
    assert cli.run(["compile", "k.ll", "--target", "gfx1151"]) == 0
    assert (folder / "k.hsaco").read_bytes()[:4] == b"\x7fELF"
    assert "nothing" in capsys.readouterr().err
    assert cli.run(["compile", "k.ll", "--emit", "asm", "--target", "gfx1151"]) == 0
    assert "s_endpgm" in capsys.readouterr().out


def test_directive_to_code_object_and_every_level(folder, capsys):
    assert cli.run(["compile", "fa.mlir", "--target", "gfx1151", "-o", "out.hsaco"]) == 0
    assert (folder / "out.hsaco").read_bytes()[:4] == b"\x7fELF"
    capsys.readouterr()
    for level, mark in (
        ("target", "tessera_rocm.flash_attn"),
        ("kernel", "gpu.module"),
        ("llvm", "define amdgpu_kernel void @fa("),
        ("asm", "v_wmma_f32_16x16x16_f16"),
    ):
        assert cli.run(["compile", "fa.mlir", "--target", "gfx1151", "--emit", level]) == 0
        assert mark in capsys.readouterr().out


@pytest.mark.parametrize("name", ["product", "jitted"])
def test_function_to_graph_and_tile(folder, capsys, name):
    inputs = ["-i", "f16[32,16]", "-i", "f16[16x48]"]
    for level, mark in (("graph", "tessera.matmul"), ("tile", "tile.matmul")):
        status = cli.run(
            ["compile", f"f.py:{name}", "--target", "gfx1151", "--emit", level, *inputs]
        )
        assert status == 0
        text = capsys.readouterr().out
        assert mark in text
        assert "tensor<32x48xf32>" in text


def test_run_compares_with_float64(folder, capsys):
    pytest.importorskip("tinygrad")
    inputs = ["-i", "f16[17,32]", "-i", "f16[32,16]"]
    status = cli.run(
        ["run", "f.py:product", "--target", "gfx1151", "--executor", "emulator", *inputs]
    )
    assert status == 0
    text = capsys.readouterr().out
    assert "executor emulator, chip gfx1151, kernels matmul_0" in text
    assert "(17, 16)" in text


def test_emulate_forwards_its_arguments(folder, capsys):
    pytest.importorskip("tinygrad")
    assert cli.run(["emulate", "--help"]) == 0
    assert "emulate" in capsys.readouterr().out
    assert cli.run(["emulate", "absent.hsaco"]) == 2
    assert "absent.hsaco" in capsys.readouterr().err


def test_save_writes_the_sidecar(folder, capsys):
    assert cli.run(["compile", "k.ll", "--target", "gfx1151", "--save", "saved"]) == 0
    sidecar = json.loads((folder / "saved/artifact.json").read_text())
    assert list(sidecar["chips"]) == ["gfx1151"]


def test_several_targets_go_into_one_folder(folder, capsys):
    assert "several targets go with --save" in failure(
        capsys, "compile", "k.ll", "--target", "gfx1100,gfx1151"
    )
    assert "unknown target 'gfx906'" in failure(
        capsys, "compile", "k.ll", "--target", "gfx1100,gfx906", "--save", "saved"
    )
    assert not (folder / "saved").exists()
    assert cli.run(["compile", "k.ll", "--target", "gfx1100,gfx1151", "--save", "saved"]) == 0
    sidecar = json.loads((folder / "saved/artifact.json").read_text())
    assert list(sidecar["chips"]) == ["gfx1100", "gfx1151"]


def test_doctor_reports_and_its_status_tells(capsys, monkeypatch):
    assert cli.run(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "linker" in text
    assert "TESSERA_CACHE_DIR" in text
    monkeypatch.setenv("TESSERA_LLD", "/absent/ld.lld")
    assert cli.run(["doctor"]) == 1
    assert "missing" in capsys.readouterr().out
