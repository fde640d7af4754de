"""A wave-level kernel function to an LLVM amdgpu_kernel definition, and the table of ROCm rules."""

from __future__ import annotations

from xdsl.dialects import func, scf
from xdsl.ir import Operation

from tessera.codegen.llvm_arith import ARITH_RULES
from tessera.codegen.llvm_text import FunctionEmitter, Rule, emit_for, emit_if, kernel_block
from tessera.codegen.rocm.compute import (
    emit_any_greater,
    emit_combine,
    emit_convert,
    emit_dot,
    emit_map,
    emit_mma,
    emit_negate_if,
    emit_reduce,
    emit_splat,
    emit_zero,
)
from tessera.codegen.rocm.dequantize import emit_commit_dequantized, emit_stage_per_piece
from tessera.codegen.rocm.fragments import (
    emit_load_accumulator,
    emit_load_fragment,
    emit_load_global_fragment,
    emit_load_statistic,
    emit_store_accumulator,
    emit_store_lds_element,
)
from tessera.codegen.rocm.lanes import thread_id
from tessera.codegen.rocm.memory import GLOBAL
from tessera.codegen.rocm.staged import emit_lds_part, emit_mask_staged
from tessera.codegen.rocm.staging import emit_commit, emit_stage
from tessera.codegen.rocm.store import (
    emit_load_element,
    emit_load_global_statistic,
    emit_store,
    emit_store_element,
    emit_store_statistic,
)
from tessera.codegen.rules import FamilyRules
from tessera.dialects import wave, wave_staged
from tessera.dialects.wave_types import ELEMENT_BITS, LdsType, PointerType, element_name
from tessera.errors import ResourceError


def emit_workgroup_id(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.workgroup_id to the hardware's scalar register."""
    emitter.bind(operation.results[0], emitter.call("i32", "llvm.amdgcn.workgroup.id.x", []))


def emit_thread_id(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.thread_id to the work-item id."""
    emitter.bind(operation.results[0], thread_id(emitter))


def emit_wave_id(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.wave_id to a scalar: all lanes of a wave agree, which LLVM cannot see by itself."""
    shift = emitter.target.facts.wave_size.bit_length() - 1
    wave_id = emitter.assign(f"lshr i32 {thread_id(emitter)}, {shift}")
    uniform = emitter.call("i32", "llvm.amdgcn.readfirstlane.i32", [("i32", wave_id)])
    emitter.bind(operation.results[0], uniform)


def emit_alloc_lds(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.alloc_lds to a global in the local address space, named after its kernel."""
    lds = operation.results[0].type
    assert isinstance(lds, LdsType)
    name = f"@{emitter.kernel.sym_name.data}.lds{len(emitter.globals)}"
    bits = ELEMENT_BITS[element_name(lds.element)]
    count = lds.size_in_bytes * 8 // bits
    emitter.globals.append(
        f"{name} = internal addrspace(3) global [{count} x i{bits}] poison, align 16"
    )
    emitter.bind(operation.results[0], name)


def emit_offset(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.offset to 64-bit scalar address arithmetic."""
    pointer, elements = operation.operands
    assert isinstance(pointer.type, PointerType)
    bits = ELEMENT_BITS[element_name(pointer.type.element)]
    text = (
        f"getelementptr inbounds i{bits}, {GLOBAL} {emitter.value(pointer)}, "
        f"i64 {emitter.value(elements)}"
    )
    emitter.bind(operation.results[0], emitter.assign(text))


def emit_undefined(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.undefined to poison."""
    (result,) = operation.results
    emitter.bind(result, *("poison" for _ in emitter.types(result.type)))


def emit_barrier(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.barrier: LDS traffic is ordered, while global loads in flight stay in flight."""
    order = 'syncscope("workgroup")'
    emitter.line(f"fence {order} release, !mmra !2")
    emitter.call("void", "llvm.amdgcn.s.barrier", [])
    emitter.line(f"fence {order} acquire, !mmra !2")


def emit_schedule_barrier(emitter: FunctionEmitter, operation: Operation) -> None:
    """wave.schedule_barrier to LLVM's own, for all kinds of instructions."""
    emitter.call("void", "llvm.amdgcn.sched.barrier", [("i32", "0")])


RULES: dict[type, Rule] = {
    **ARITH_RULES,
    scf.ForOp: emit_for,
    scf.IfOp: emit_if,
    wave.WorkgroupIdOp: emit_workgroup_id,
    wave.WaveIdOp: emit_wave_id,
    wave.ThreadIdOp: emit_thread_id,
    wave.AllocLdsOp: emit_alloc_lds,
    wave.OffsetOp: emit_offset,
    wave.UndefinedOp: emit_undefined,
    wave.StageOp: emit_stage,
    wave_staged.LdsPartOp: emit_lds_part,
    wave_staged.MaskStagedOp: emit_mask_staged,
    wave_staged.StagePerPieceOp: emit_stage_per_piece,
    wave_staged.CommitDequantizedOp: emit_commit_dequantized,
    wave.CommitOp: emit_commit,
    wave.LoadFragmentOp: emit_load_fragment,
    wave.LoadGlobalFragmentOp: emit_load_global_fragment,
    wave.StoreLdsElementOp: emit_store_lds_element,
    wave.LoadStatisticOp: emit_load_statistic,
    wave.StoreAccumulatorOp: emit_store_accumulator,
    wave.LoadAccumulatorOp: emit_load_accumulator,
    wave.LoadGlobalStatisticOp: emit_load_global_statistic,
    wave.DotOp: emit_dot,
    wave.ZeroOp: emit_zero,
    wave.MmaOp: emit_mma,
    wave.MapOp: emit_map,
    wave.ReduceOp: emit_reduce,
    wave.CombineOp: emit_combine,
    wave.AnyGreaterOp: emit_any_greater,
    wave.SplatOp: emit_splat,
    wave.ConvertOp: emit_convert,
    wave.NegateOp: emit_negate_if,
    wave.StoreOp: emit_store,
    wave.StoreStatisticOp: emit_store_statistic,
    wave.LoadElementOp: emit_load_element,
    wave.StoreElementOp: emit_store_element,
    wave.BarrierOp: emit_barrier,
    wave.ScheduleBarrierOp: emit_schedule_barrier,
}
"""Every operation that a ROCm kernel may hold."""


def function_attributes(kernel: func.FuncOp) -> str:
    """LLVM function attributes of a kernel, from its `block` and `waves_per_simd` attributes."""
    threads = kernel_block(kernel)[0]
    attributes = [
        f'"amdgpu-flat-work-group-size"="{threads},{threads}"',
        '"uniform-work-group-size"="true"',
        "nounwind",
        '"amdgpu-ieee"="false"',
    ]
    waves = kernel.attributes.get("waves_per_simd")
    if waves is not None:
        attributes.append(f'"amdgpu-waves-per-eu"="{waves.value.data}"')  # type: ignore[attr-defined]
    return " ".join(attributes)


def emit_function(emitter: FunctionEmitter) -> list[str]:
    """The whole definition of one kernel."""
    kernel = emitter.kernel
    limit = emitter.target.facts.max_threads_per_workgroup
    if emitter.threads > limit:
        raise ResourceError(
            f"kernel {kernel.sym_name.data!r}: {emitter.threads} threads per workgroup; "
            f"{emitter.target.chip} has at most {limit}"
        )
    parameters = []
    for index, argument in enumerate(kernel.body.block.args):
        name = f"%{argument.name_hint or f'argument{index}'}"
        emitter.bind(argument, name)
        noalias = " noalias" if isinstance(argument.type, PointerType) else ""
        parameters.append(f"{emitter.type(argument)}{noalias} {name}")
    emitter.body(kernel.body.block)
    name = kernel.sym_name.data
    return [
        f"define amdgpu_kernel void @{name}({', '.join(parameters)}) "
        f"{function_attributes(kernel)} {{",
        "entry:",
        *emitter.lines,
        "  ret void",
        "}",
        "",
    ]


ROCM_RULES = FamilyRules(
    rules=RULES,
    function=emit_function,
    metadata=(
        "!0 = distinct !{!0, !1}",
        '!1 = !{!"llvm.loop.unroll.disable"}',
        '!2 = !{!"amdgpu-synchronize-as", !"local"}',
    ),
)
