"""Hand-written LLVM kernels with launch rules, for tests of plans and launches on their own."""

from __future__ import annotations

import json
from functools import cache

from tessera.artifact import Artifact
from tessera.codegen.link import link
from tessera.codegen.llvm import compile_llvm
from tessera.contracts import TensorSpec
from tessera.launch_rule import BUFFER, SCALAR, ArgumentRule, LaunchRule
from tessera.plan import InputSlot, LaunchStep, Plan, ViewStep
from tessera.targets import resolve_target

WORKGROUP = 64

_SCALE = """
define amdgpu_kernel void @{name}(ptr addrspace(1) %x, ptr addrspace(1) %out, i64 %n) #0 {{
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = mul i32 %group, 64
  %index = add i32 %base, %lane
  %wide = zext i32 %index to i64
  %inside = icmp ult i64 %wide, %n
  br i1 %inside, label %then, label %end
then:
  %from = getelementptr float, ptr addrspace(1) %x, i64 %wide
  %value = load float, ptr addrspace(1) %from, align 4
  %result = fmul float %value, {factor}
  %to = getelementptr float, ptr addrspace(1) %out, i64 %wide
  store float %result, ptr addrspace(1) %to, align 4
  br label %end
end:
  ret void
}}
"""
_DECLARATIONS = """
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" "uniform-work-group-size"="true" }
"""

COUNT = "size0 * size1 * size2 * size3"
CONTIGUOUS = "stride(x0, 3) == 1 and stride(out, 3) == 1"


@cache
def scale_code_object(factors: tuple[float, ...], chip: str = "gfx1151") -> bytes:
    """A code object with kernels scale_0, scale_1, ...: out = factor * x over n f32 elements."""
    text = "".join(
        _SCALE.format(name=f"scale_{index}", factor=f"{factor:.6e}")
        for index, factor in enumerate(factors)
    )
    return link(compile_llvm(text + _DECLARATIONS, resolve_target(chip)).object)


def scale_rule(kernel: str, *requires: tuple[str, str]) -> LaunchRule:
    """The launch rule of a scale kernel under the elementwise contract."""
    return LaunchRule(
        kernel=kernel,
        grid=(f"ceildiv({COUNT}, {WORKGROUP})", "1", "1"),
        block=(WORKGROUP, 1, 1),
        arguments=(
            ArgumentRule("x", BUFFER, "f32", "x0"),
            ArgumentRule("out", BUFFER, "f32", "out"),
            ArgumentRule("n", SCALAR, "i64", COUNT),
        ),
        requires=((CONTIGUOUS, "rows must be contiguous"), *requires),
    )


def scale_step(
    index: int, operand: int, result: int, factor: float, *requires: tuple[str, str]
) -> LaunchStep:
    """One launch of scale_<index>, described as a multiplication by a constant."""
    options = {"function": "mul", "scalar": factor, "out_dtype": "f32", "dtype": "f32"}
    rules = (scale_rule(f"scale_{index}", *requires),)
    return LaunchStep("elementwise", options, (operand,), (result,), rules)


def scale_plan(factors: tuple[float, ...], *requires: tuple[str, str]) -> Plan:
    """x -> scale_0 -> scale_1 -> ... over a matrix [m, n]; only the last result is returned."""
    steps = tuple(
        scale_step(index, index, index + 1, factor, *requires)
        for index, factor in enumerate(factors)
    )
    inputs = (InputSlot("x", TensorSpec((None, None), "f32")),)
    return Plan("scaled", inputs, steps, (len(factors),))


def scale_artifact(
    *factors: float, requires: tuple[tuple[str, str], ...] = (), chip: str = "gfx1151"
) -> Artifact:
    """An artifact for `scale_plan`."""
    return Artifact.of(chip, scale_code_object(factors, chip), scale_plan(factors, *requires))


def reshaped_plan() -> Plan:
    """x [m, n] -> scale_0 -> permuted; returns (scaled, its transpose, x seen flat)."""
    return Plan(
        "reshaped",
        (InputSlot("x", TensorSpec((None, None), "f32")),),
        (
            scale_step(0, 0, 1, 2.0),
            ViewStep("permute", (1, 0), 1, 2),
            ViewStep("reshape", (-1,), 0, 3),
        ),
        (1, 2, 3),
    )


def through_json(plan: Plan) -> Plan:
    """The plan after a trip through its saved form."""
    return Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
