"""The compiler's stages: entry at every level, levels on demand, options, alignment variants."""

import numpy as np
import pytest

import tessera
from tessera import compiler, ops
from tessera.errors import CompileError, OptionError, TargetError

ATTENTION = (
    '"tessera_rocm.flash_attn"() {name = "fa", head_dim = 32 : i64, dtype = "f16", '
    "alignment = 16 : i64} : () -> ()"
)


def product(a, b):
    return ops.matmul(a, b)


def network(x, w1, w2):
    return ops.matmul(ops.relu(ops.matmul(x, w1, out_dtype="f16")), w2)


def half(*shape):
    return np.linspace(-1, 1, int(np.prod(shape))).reshape(shape).astype(np.float16)


def test_every_level_compiles_to_the_same_code_object():
    artifact = tessera.compile(product, half(48, 32), half(32, 64), target="gfx1151")
    for level in compiler.MODULE_LEVELS:
        again = tessera.compile(artifact.text(level), target="gfx1151")
        assert again.hsaco == artifact.hsaco, level
        assert again.plan.steps == artifact.plan.steps
    llvm = compiler.compile_llvm_text(artifact.text("llvm"), compiler.attached_target("gfx1151"))
    assert llvm.hsaco == artifact.hsaco


def test_levels_before_the_entry_are_refused_by_name():
    artifact = tessera.compile(ATTENTION, target="gfx1151")
    assert "gpu.module" in artifact.text("kernel")
    assert "v_wmma" in artifact.asm
    with pytest.raises(CompileError, match="level 'tile': compilation started from level 'target'"):
        artifact.text("tile")


def test_module_is_not_changed_by_compilation():
    module = compiler.parse_module(ATTENTION)
    before = str(module)
    compiler.compile_module(module, compiler.attached_target("gfx1151"))
    assert str(module) == before


def test_kernels_of_one_function_have_names_of_their_own():
    operands = (half(17, 32), half(32, 48), half(48, 16))
    artifact = tessera.compile(network, *operands, target="gfx1151")
    names = [kernel.name for kernel in artifact.kernels]
    assert len(names) == len(set(names)) >= 2
    assert [rule.kernel for step in artifact.plan.launches for rule in step.rules] == names


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1103", "gfx1150"])
def test_artifact_is_for_the_target(chip):
    artifact = tessera.compile(product, target=chip)
    assert artifact.chip == chip
    assert {kernel.chip for kernel in artifact.kernels} == {chip}


def test_rocm_is_the_attached_chip(monkeypatch):
    monkeypatch.setattr("tessera.runtime.hip.attached_chips", lambda: ("gfx906", "gfx1101"))
    assert compiler.attached_target("rocm").chip == "gfx1101"
    monkeypatch.setattr("tessera.runtime.hip.attached_chips", lambda: ())
    assert compiler.attached_target("rocm").chip == "gfx1151"


def test_refusals_name_what_is_wrong():
    with pytest.raises(TargetError, match="unknown target 'gfx906'; supported: rocm, gfx1100"):
        tessera.compile(ATTENTION, target="gfx906")
    with pytest.raises(OptionError, match="unknown option 'fast'; supported: opt_level"):
        tessera.compile(ATTENTION, target="gfx1151", fast=True)
    with pytest.raises(OptionError, match="module's text takes none"):
        tessera.compile(ATTENTION, half(2, 2), target="gfx1151")
    with pytest.raises(OptionError, match="cannot compile a int"):
        tessera.compile(3, target="gfx1151")
    with pytest.raises(CompileError, match="head_dim = 512 is not supported"):
        tessera.compile(ATTENTION.replace("32", "512"), target="gfx1151")
    with pytest.raises(CompileError, match="<module>"):
        tessera.compile('"tessera_rocm.flash_attn"(', target="gfx1151")


def test_options_change_the_machine_code():
    plain = tessera.compile(ATTENTION, target="gfx1151")
    unoptimized = tessera.compile(ATTENTION, target="gfx1151", opt_level=1)
    narrow = tessera.compile(ATTENTION, target="gfx1151", alignment=1)
    assert len({plain.hsaco, unoptimized.hsaco, narrow.hsaco}) == 3
    assert "alignment = 2" in narrow.text("target")
    assert narrow.options == {"opt_level": 3, "alignment": 1}


def test_unaligned_operands_fall_to_the_variant():
    aligned = tessera.compile(product, half(16, 32), half(32, 16), target="gfx1151")
    storage = half(16, 33)
    storage = np.concatenate([storage.reshape(-1), half(8)])
    a = storage[1 : 1 + 16 * 33].reshape(16, 33)[:, :32]
    b = half(32, 16)
    launcher = tessera.runtime.launcher(aligned, a, b, executor="reference")
    assert launcher.is_relaxed
    np.testing.assert_allclose(launcher(a, b), a.astype(float) @ b.astype(float), rtol=1e-5)
    assert not tessera.runtime.launcher(aligned, b.T.copy(), b).is_relaxed


def test_public_names_are_there_and_no_others():
    for name in tessera.__all__:
        assert getattr(tessera, name) is not None
    assert set(tessera.__all__) <= set(dir(tessera))
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        tessera.absent  # noqa: B018
