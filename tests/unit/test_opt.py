"""`tessera-opt`: files, pipes, passes by name, and one clear line for everything that is wrong."""

import io
import re

import pytest

from tessera.tools.opt import main

MODULE = """func.func @f(%a: tensor<?x?xf16>, %b: tensor<?x?xf16>) -> tensor<?x?xf32> {
  %c = tessera.matmul(%a, %b) : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x?xf32>
  func.return %c : tensor<?x?xf32>
}
"""
DIRECTIVE = (
    '"tessera_rocm.flash_attn"() {name = "fa", head_dim = 64 : i64, dtype = "f16"} : () -> ()'
)


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "module.mlir"
    path.write_text(MODULE)
    return str(path)


def run(capsys, *arguments):
    """(exit status, stdout, stderr)."""
    status = main(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_reads_a_file_and_writes_stdout(capsys, module):
    status, out, err = run(capsys, module)
    assert (status, err) == (0, "")
    assert "tessera.matmul" in out
    assert out.endswith("}\n")


def test_reads_stdin_and_writes_a_file(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(DIRECTIVE))
    path = tmp_path / "out.mlir"
    assert run(capsys, "-", "-o", str(path)) == (0, "", "")
    assert "tessera_rocm.flash_attn" in path.read_text()


@pytest.mark.parametrize(
    "level, mark", [("tile", "tile.matmul"), ("rocm", "tessera_rocm.wmma_gemm")]
)
def test_pipelines_by_name(capsys, module, level, mark):
    status, out, _ = run(capsys, module, "-p", f"tessera-lower-to-{level}", "--target", "gfx1151")
    assert status == 0
    assert mark in out


def test_passes_and_pipelines_in_one_list(capsys, module):
    passes = "tessera-lower-to-tile,verify-level{level=tile},tile-to-rocm,check-contracts"
    status, out, _ = run(capsys, module, "-p", passes)
    assert status == 0
    assert "tessera_rocm.mfma" in out


def test_what_it_writes_it_reads(capsys, module, tmp_path):
    _, first, _ = run(capsys, module, "-p", "tessera-lower-to-kernel")
    path = tmp_path / "kernel.mlir"
    path.write_text(first)
    status, second, _ = run(capsys, str(path))
    assert status == 0
    assert second == first


def test_lists_passes_and_pipelines(capsys):
    status, out, _ = run(capsys, "--list-passes")
    assert status == 0
    for name in ("graph-to-tile", "generate-wmma-gemm-kernel", "tessera-lower-to-rocm", "dce"):
        assert f"  {name} " in out
    lines = [line for line in out.splitlines() if line.startswith("  ")]
    assert all(len(line.split(maxsplit=1)) == 2 for line in lines), "a pass without a summary"


def test_generic_form_between_passes_and_times(capsys, module):
    status, out, err = run(
        capsys, module, "-p", "graph-to-tile,assign-schedules",
        "--print-op-generic", "--print-between-passes", "--time-passes",
    )  # fmt: skip
    assert status == 0
    assert '"tile.matmul"(' in out
    assert "// after graph-to-tile" in err
    assert "assign-schedules: " in err


ERRORS = {
    "no file": (["nowhere.mlir"], "No such file or directory: 'nowhere.mlir'"),
    "pass": (["-p", "graph-to-tiles"], "unknown pass 'graph-to-tiles'; supported: dce, cse, fold-"),
    "syntax": (["-p", "dce{"], "is no list of passes"),
    "pass option": (["-p", "verify-level{depth=1}"], 'pass \'verify-level\': .*"depth".*level'),
    "chip": (["--target", "gfx906"], "unknown target 'gfx906'; supported: rocm, gfx1100"),
    "chip of a pass": (
        ["-p", "assign-schedules{target=gfx906}", "MODULE"], "unknown target 'gfx906'",
    ),
    "level": (["-p", "verify-level{level=tile}", "MODULE"], "tessera.matmul is not legal .* in @f"),
    "output": (["-o", "/nowhere/x.mlir", "MODULE"], "No such file or directory: '/nowhere/x.mlir'"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_line(capsys, module, case):
    arguments, message = ERRORS[case]
    arguments = [module if argument == "MODULE" else argument for argument in arguments]
    if not any(argument.endswith(".mlir") for argument in arguments):
        arguments.append(module)
    status, out, err = run(capsys, *arguments)
    assert status == 1
    assert out == ""
    assert err.startswith("tessera-opt: error: ")
    assert err.count("\n") == 1
    assert re.search(message, err), err


def test_a_parse_error_names_file_line_and_column(capsys, tmp_path):
    path = tmp_path / "broken.mlir"
    path.write_text("func.func @f() {\n  tessera.matmul\n}\n")
    status, _, err = run(capsys, str(path))
    assert status == 1
    assert f"error: {path}:3:" in err or f"error: {path}:2:" in err
    assert err.count("\n") == 1


def test_a_parse_error_in_a_later_module_has_its_line_in_the_file(capsys, tmp_path):
    path = tmp_path / "two.mlir"
    path.write_text(f"{DIRECTIVE}\n// -----\n\nfunc.func ?\n")
    status, _, err = run(capsys, str(path), "--split-input-file")
    assert status == 1
    assert f"{path}:4:" in err


def test_the_verifier_runs_between_passes(capsys, module, monkeypatch):
    """A pass that leaves an invalid module is named."""
    from tessera.dialects import tile
    from tessera.transforms import graph_to_tile

    lower = graph_to_tile._lowered

    def wrong(op, names):
        lowered = lower(op, names)
        lowered.attributes["alignment"] = lowered.attributes["name"]
        return lowered

    monkeypatch.setattr(graph_to_tile, "_lowered", wrong)
    assert tile.MatmulOp.name == "tile.matmul"
    status, _, err = run(capsys, module, "-p", "graph-to-tile,dce")
    assert status == 1
    assert "error: after graph-to-tile: " in err


def test_split_modules_go_through_one_by_one(capsys, tmp_path):
    path = tmp_path / "three.mlir"
    bad = DIRECTIVE.replace("64", "640")
    path.write_text(f"{DIRECTIVE}\n// -----\n{bad}\n// -----\n{MODULE}")
    status, out, err = run(capsys, str(path), "--split-input-file")
    assert status == 1
    assert "head_dim = 640" in err
    assert "tessera_rocm.flash_attn" in out
    assert "tessera.matmul" in out
    status, out, err = run(capsys, str(path), "--split-input-file", "--verify-diagnostics")
    assert (status, err) == (0, "")
    assert out.count("// -----\n") == 2
    assert "error: tessera_rocm.flash_attn: head_dim = 640" in out
