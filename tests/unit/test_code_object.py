"""LLVM text to a linked code object, read back through its own metadata; and what is refused."""

import struct

import pytest

from tessera.codegen.code_object import read_kernels
from tessera.codegen.link import link
from tessera.codegen.llvm import compile_llvm, llvm_version
from tessera.errors import ArtifactError, CompileError
from tessera.targets import resolve_target

KERNEL = """
define amdgpu_kernel void @{name}(ptr addrspace(1) %a, ptr addrspace(1) %c, i32 %n, i64 %s) #0 {{
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %slot = getelementptr [64 x float], ptr addrspace(3) @{name}_lds, i32 0, i32 %lane
  %from = getelementptr float, ptr addrspace(1) %a, i32 %lane
  %value = load float, ptr addrspace(1) %from
  store volatile float %value, ptr addrspace(3) %slot
  %again = load volatile float, ptr addrspace(3) %slot
  %sum = fadd float %again, %value
  %inside = icmp slt i32 %lane, %n
  br i1 %inside, label %then, label %end
then:
  %to = getelementptr float, ptr addrspace(1) %c, i64 %s
  store float %sum, ptr addrspace(1) %to
  br label %end
end:
  ret void
}}
@{name}_lds = internal addrspace(3) global [64 x float] poison
"""
DECLARATIONS = """
declare i32 @llvm.amdgcn.workitem.id.x()
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" }
"""


def text_of(*names: str) -> str:
    return "".join(KERNEL.format(name=name) for name in names) + DECLARATIONS


@pytest.fixture(scope="module")
def hsaco():
    return link(compile_llvm(text_of("first", "second"), resolve_target("gfx1151")).object)


def test_kernels_are_read_back_from_the_code_object(hsaco):
    first, second = read_kernels(hsaco)
    assert (first.name, second.name) == ("first", "second")
    assert first.chip == "gfx1151"
    assert [(a.name, a.kind, a.offset, a.size) for a in first.arguments] == [
        ("a", "global_buffer", 0, 8),
        ("c", "global_buffer", 8, 8),
        ("n", "by_value", 16, 4),
        ("s", "by_value", 24, 8),
    ]
    assert first.block == (64, 1, 1)
    assert first.lds_bytes == 256
    assert first.wave_size == 32
    # The attributor ran: nothing but the explicit arguments is left in the kernarg segment.
    assert first.kernarg_bytes == 32
    assert 0 < first.vgprs < 32
    assert 0 < first.sgprs < 32
    assert (first.scratch_bytes, first.vgpr_spills, first.sgpr_spills) == (0, 0, 0)


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1103", "gfx1150", "gfx1153"])
def test_chip_is_that_of_the_target(chip):
    (kernel,) = read_kernels(link(compile_llvm(text_of("k"), resolve_target(chip)).object))
    assert kernel.chip == chip


def test_equal_text_gives_equal_bytes(hsaco):
    again = link(compile_llvm(text_of("first", "second"), resolve_target("gfx1151")).object)
    assert again == hsaco


def test_assembly_comes_on_request_and_changes_nothing():
    target = resolve_target("gfx1151")
    plain = compile_llvm(text_of("k"), target)
    both = compile_llvm(text_of("k"), target, want_asm=True)
    assert plain.asm is None
    assert both.asm is not None
    assert "global_store_b32" in both.asm
    assert both.object == plain.object


def test_llvm_version_is_the_pinned_one():
    assert llvm_version().startswith("22.")


def test_parse_error_shows_the_line():
    broken = text_of("k").replace("fadd float %again", "fadd float %agian")
    with pytest.raises(CompileError, match=r"line 9, column .*'%agian'.*fadd float %agian, %value"):
        compile_llvm(broken, resolve_target("gfx1151"))


def test_verifier_error_shows_the_instruction():
    broken = """define void @f(i1 %c) {
  br i1 %c, label %a, label %b
a:
  %x = add i32 1, 1
  br label %b
b:
  %y = add i32 %x, 1
  ret void
}
"""
    with pytest.raises(CompileError, match=r"line 7.*does not dominate.*%y = add i32 %x, 1"):
        compile_llvm(broken, resolve_target("gfx1151"))


def test_inline_assembly_is_refused_and_not_handed_to_an_absent_assembler():
    text = 'define void @f() {\n  call void asm sideeffect "s_nop 0", ""()\n  ret void\n}\n'
    with pytest.raises(CompileError, match="line 2: inline assembly"):
        compile_llvm(text, resolve_target("gfx1151"))


def test_unlinked_object_has_no_metadata_segment():
    unlinked = compile_llvm(text_of("k"), resolve_target("gfx1151")).object
    with pytest.raises(ArtifactError, match="linked"):
        read_kernels(unlinked)


def test_every_truncation_is_an_artifact_error(hsaco):
    note_end = 0x600  # The metadata stands in the first pages; behind it only code is missing.
    for length in range(0, note_end, 7):
        with pytest.raises(ArtifactError):
            read_kernels(hsaco[:length])


def test_foreign_files_are_refused_by_name(hsaco):
    with pytest.raises(ArtifactError, match="not a 64-bit little-endian ELF"):
        read_kernels(b"#!/bin/sh\n" + bytes(100))
    x86 = bytearray(hsaco)
    struct.pack_into("<H", x86, 18, 62)
    with pytest.raises(ArtifactError, match="machine 62"):
        read_kernels(bytes(x86))
