"""Artifacts: what they hold, how they refuse foreign parts, and the way to disk and back."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tessera
from tessera.artifact import SIDECAR, Artifact, read_artifact, saved_chips
from tessera.codegen.link import link
from tessera.codegen.llvm import compile_llvm
from tessera.contracts import TensorSpec
from tessera.errors import ArtifactError, CompileError
from tessera.launch_rule import BUFFER, SCALAR, ArgumentRule, LaunchRule
from tessera.plan import InputSlot, LaunchStep, Plan, ViewStep
from tessera.runtime.loading import load
from tessera.targets import CHIPS, resolve_target

ROOT = Path(tessera.__file__).parents[1]
LLVM = """
define amdgpu_kernel void @scale(ptr addrspace(1) %x, ptr addrspace(1) %out, i64 %n) #0 {
  %value = load float, ptr addrspace(1) %x
  store float %value, ptr addrspace(1) %out
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" }
"""


def code_object(chip="gfx1151", text=LLVM):
    return link(compile_llvm(text, resolve_target(chip)).object)


def plan(name="f", kernel="scale", arguments=3):
    rule = LaunchRule(
        kernel,
        ("ceildiv(size3, 64)", "1", "1"),
        (64, 1, 1),
        (
            ArgumentRule("x", BUFFER, "f32", "x0"),
            ArgumentRule("out", BUFFER, "f32", "out"),
            ArgumentRule("n", SCALAR, "i64", "size3"),
        )[:arguments],
        (("address(x0) % 4 == 0", "x0 must be aligned"),),
        (("scratch", "f32", ("size3",)),),
    )
    options = {"function": "mul", "scalar": 1.0, "out_dtype": "f32", "flags": (1, 2)}
    return Plan(
        name,
        (InputSlot("x", TensorSpec((None, 3), "f32")),),
        (
            LaunchStep("elementwise", options, (0,), (1,), (rule,)),
            ViewStep("permute", (1, 0), 1, 2),
        ),
        (2, 1),
    )


@pytest.fixture(scope="module")
def artifact():
    return Artifact.of(
        "gfx1151", code_object(), plan(), options={"opt_level": 3}, versions={"llvm": "22.1.0"}
    )


def test_plan_survives_json():
    assert Plan.from_dict(json.loads(json.dumps(plan().to_dict()))) == plan()


def test_kernels_carry_the_rule(artifact):
    kernel = artifact.kernel("scale")
    assert kernel.grid == ("ceildiv(size3, 64)", "1", "1")
    assert kernel.block == (64, 1, 1)
    assert [argument.name for argument in kernel.arguments] == ["x", "out", "n"]
    with pytest.raises(ArtifactError, match="no kernel 'absent' in the code object; .*scale"):
        artifact.kernel("absent")


def test_parts_that_do_not_belong_together_are_refused():
    with pytest.raises(ArtifactError, match="compiled for gfx1100, not for gfx1151"):
        Artifact.of("gfx1151", code_object("gfx1100"), plan())
    with pytest.raises(ArtifactError, match="launches kernel 'other', which the code object lacks"):
        Artifact.of("gfx1151", code_object(), plan(kernel="other"))
    with pytest.raises(ArtifactError, match="takes 3 arguments, its rule has 2"):
        Artifact.of("gfx1151", code_object(), plan(arguments=2))


def test_save_and_load(artifact, tmp_path):
    sidecar = artifact.save(tmp_path)
    assert sidecar == tmp_path / SIDECAR
    loaded = load(tmp_path)
    assert loaded.hsaco == artifact.hsaco
    assert loaded.plan == artifact.plan
    assert loaded.kernels == artifact.kernels
    assert loaded.options == {"opt_level": 3}
    assert loaded.versions == {"llvm": "22.1.0"}
    with pytest.raises(CompileError, match="loaded artifact"):
        loaded.text("asm")
    assert sorted(os.listdir(tmp_path)) == ["artifact.json", "gfx1151.h", "gfx1151.hsaco"]


def test_one_folder_holds_several_chips(tmp_path):
    for chip in CHIPS:
        Artifact.of(chip, code_object(chip), plan()).save(tmp_path)
    assert saved_chips(tmp_path) == tuple(sorted(CHIPS))
    for chip in CHIPS:
        assert load(tmp_path, chip).chip == chip
    assert load(tmp_path).chip == "gfx1151"
    with pytest.raises(ArtifactError, match="no code object for gfx1200; supported: gfx1100"):
        load(tmp_path, "gfx1200")


def test_several_chips_without_a_reason_to_choose(tmp_path):
    for chip in ("gfx1100", "gfx1101"):
        Artifact.of(chip, code_object(chip), plan()).save(tmp_path)
    with pytest.raises(ArtifactError, match="several chips; choose one; supported: gfx1100"):
        load(tmp_path)


def test_another_function_is_not_mixed_in(artifact, tmp_path):
    artifact.save(tmp_path)
    other = Artifact.of("gfx1151", code_object(), plan(name="g"))
    with pytest.raises(ArtifactError, match="holds another function"):
        other.save(tmp_path)
    assert load(tmp_path).plan.name == "f"


# Damage.


def test_missing_files(artifact, tmp_path):
    with pytest.raises(ArtifactError, match="No such file"):
        load(tmp_path / "absent")
    artifact.save(tmp_path)
    (tmp_path / "gfx1151.hsaco").unlink()
    with pytest.raises(ArtifactError, match=r"gfx1151\.hsaco: No such file"):
        load(tmp_path)


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:900] + b"\0" + b[901:]]
)
def test_damaged_code_object(artifact, tmp_path, damage):
    artifact.save(tmp_path)
    path = tmp_path / "gfx1151.hsaco"
    content = path.read_bytes()
    damaged = damage(content)
    if damaged == content:
        damaged = content[:900] + b"\1" + content[901:]
    path.write_bytes(damaged)
    with pytest.raises(ArtifactError, match="damaged: its SHA-256"):
        load(tmp_path)


def test_every_flipped_byte_of_the_sidecar_is_noticed(artifact, tmp_path):
    path = artifact.save(tmp_path)
    content = path.read_bytes()
    for position in range(0, len(content), 11):
        damaged = bytearray(content)
        damaged[position] ^= 0x04
        path.write_bytes(bytes(damaged))
        try:
            loaded = read_artifact(tmp_path, "gfx1151")
        except ArtifactError:
            continue
        except UnicodeDecodeError:
            pytest.fail(f"byte {position}: not an ArtifactError")
        # Only white space between tokens may change without a change of meaning.
        assert content[position : position + 1].isspace()
        assert loaded.plan == artifact.plan


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "not JSON"),
        ("[1]", "not a tessera.artifact file"),
        ('{"schema": "other"}', "not a tessera.artifact file"),
        ('{"schema": "tessera.artifact", "schema_version": 99}', "version 99; supported: 1"),
        ('{"schema": "tessera.artifact", "schema_version": 1}', "damaged"),
    ],
)
def test_foreign_sidecars(tmp_path, content, message):
    (tmp_path / SIDECAR).write_text(content)
    with pytest.raises(ArtifactError, match=message):
        load(tmp_path)


def test_sidecar_cannot_point_outside_its_folder(artifact, tmp_path):
    from tessera import artifact as module

    path = artifact.save(tmp_path / "inner")
    data = json.loads(path.read_text())
    data.pop("sha256")
    data["chips"]["gfx1151"]["file"] = "../outside.hsaco"
    path.write_text(json.dumps({**data, "sha256": module._hash(data)}))
    with pytest.raises(ArtifactError, match="not a file of this folder"):
        load(tmp_path / "inner")


def test_failed_write_leaves_nothing_behind(artifact, tmp_path, monkeypatch):
    def full(source, destination):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        artifact.save(tmp_path)
    assert os.listdir(tmp_path) == []


# Without the compiler.

_BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"{{name}} is not installed")

sys.meta_path.insert(0, Blocked())
import numpy as np
import tessera

artifact = tessera.load({folder!r})
assert artifact.kernels[0].name == "scale"
x = np.ones((2, 3), np.float32)
result, _ = tessera.runtime.launch(artifact, x, executor="reference")
assert result.shape == (3, 2)
loaded = {{name.split(".")[0] for name in sys.modules}}
print(*sorted(loaded & set({blocked!r})))
"""


def test_loads_and_launches_without_the_compiler(artifact, tmp_path):
    artifact.save(tmp_path)
    blocked = ("xdsl", "llvmlite", "torch", "tinygrad", "matplotlib", "typer", "rich", "elftools")
    code = _BLOCKED.format(blocked=blocked, folder=str(tmp_path))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_names_of_levels_are_checked(artifact):
    with pytest.raises(CompileError, match="unknown level 'ptx'; supported: graph"):
        artifact.text("ptx")


def test_levels_are_made_on_demand(artifact):
    asked = []
    lazy = replace(artifact, levels=lambda level: asked.append(level) or f"text of {level}")
    assert asked == []
    assert lazy.asm == "text of asm"
    assert asked == ["asm"]
