"""Scalar operations (arith, math) to LLVM instructions: one table row per operation."""

from __future__ import annotations

import struct

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    FloatAttr,
    IntegerAttr,
)
from xdsl.ir import Operation

from tessera.codegen.llvm_text import FunctionEmitter, Rule
from tessera.codegen.llvm_types import scalar_type
from tessera.errors import CompileError

BINARY_OPCODES: dict[type[Operation], str] = {
    arith.AddiOp: "add",
    arith.SubiOp: "sub",
    arith.MuliOp: "mul",
    arith.DivSIOp: "sdiv",
    arith.DivUIOp: "udiv",
    arith.RemSIOp: "srem",
    arith.RemUIOp: "urem",
    arith.AndIOp: "and",
    arith.OrIOp: "or",
    arith.XOrIOp: "xor",
    arith.ShLIOp: "shl",
    arith.ShRSIOp: "ashr",
    arith.ShRUIOp: "lshr",
    arith.AddfOp: "fadd",
    arith.SubfOp: "fsub",
    arith.MulfOp: "fmul",
    arith.DivfOp: "fdiv",
}

CAST_OPCODES: dict[type[Operation], str] = {
    arith.ExtSIOp: "sext",
    arith.ExtUIOp: "zext",
    arith.TruncIOp: "trunc",
    arith.ExtFOp: "fpext",
    arith.TruncFOp: "fptrunc",
    arith.SIToFPOp: "sitofp",
    arith.UIToFPOp: "uitofp",
    arith.FPToSIOp: "fptosi",
    arith.FPToUIOp: "fptoui",
    arith.BitcastOp: "bitcast",
}

INTRINSICS: dict[type[Operation], str] = {
    arith.MaxnumfOp: "llvm.maxnum",
    arith.MinnumfOp: "llvm.minnum",
    arith.MaxSIOp: "llvm.smax",
    arith.MinSIOp: "llvm.smin",
    arith.MaxUIOp: "llvm.umax",
    arith.MinUIOp: "llvm.umin",
    math.FmaOp: "llvm.fma",
    math.AbsFOp: "llvm.fabs",
    math.SqrtOp: "llvm.sqrt",
}

HARDWARE_INTRINSICS: dict[type[Operation], str] = {
    math.Exp2Op: "llvm.amdgcn.exp2",
    math.Log2Op: "llvm.amdgcn.log",
}
"""One instruction each, within 1 ulp; denormal results and arguments count as zero."""

INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
    "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip


def float_literal(value: float, type_: object) -> str:
    """LLVM's spelling of a float constant: the bits of the double with the same value."""
    if isinstance(type_, Float32Type):
        value = struct.unpack("<f", struct.pack("<f", value))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if isinstance(type_, Float16Type):
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if isinstance(type_, BFloat16Type):
        return f"0xR{struct.unpack('<I', struct.pack('<f', value))[0] >> 16:04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _constant(emitter: FunctionEmitter, operation: Operation) -> None:
    assert isinstance(operation, arith.ConstantOp)
    value = operation.value
    if isinstance(value, IntegerAttr):
        emitter.bind(operation.result, str(value.value.data))
    elif isinstance(value, FloatAttr):
        emitter.bind(operation.result, float_literal(value.value.data, value.type))
    else:
        raise CompileError(f"LLVM printer: no literal for {value}")


def _reject_fastmath(operation: Operation) -> None:
    """Fast-math may drop the -inf and NaN that masks rely on; none of our kernels asks for it."""
    flags = operation.properties.get("fastmath")
    if flags is not None and str(flags) not in ("#arith.fastmath<none>",):
        raise CompileError(f"LLVM printer: fast-math flags on {operation.name} are not printed")


def _binary(emitter: FunctionEmitter, operation: Operation) -> None:
    _reject_fastmath(operation)
    left, right = operation.operands
    opcode = BINARY_OPCODES[type(operation)]
    text = f"{opcode} {emitter.type(left)} {emitter.value(left)}, {emitter.value(right)}"
    emitter.bind(operation.results[0], emitter.assign(text))


def _cast(emitter: FunctionEmitter, operation: Operation) -> None:
    (source,) = operation.operands
    result = scalar_type(operation.results[0].type)
    opcode = CAST_OPCODES[type(operation)]
    text = f"{opcode} {emitter.type(source)} {emitter.value(source)} to {result}"
    emitter.bind(operation.results[0], emitter.assign(text))


def _suffix(llvm_type: str) -> str:
    return {"float": "f32", "half": "f16", "bfloat": "bf16", "double": "f64"}.get(
        llvm_type, llvm_type
    )


def _intrinsic(emitter: FunctionEmitter, operation: Operation) -> None:
    _reject_fastmath(operation)
    result = scalar_type(operation.results[0].type)
    stem = (INTRINSICS | HARDWARE_INTRINSICS)[type(operation)]
    arguments = [(emitter.type(value), emitter.value(value)) for value in operation.operands]
    name = emitter.call(result, f"{stem}.{_suffix(result)}", arguments)
    emitter.bind(operation.results[0], name)


def _negate(emitter: FunctionEmitter, operation: Operation) -> None:
    (source,) = operation.operands
    name = emitter.assign(f"fneg {emitter.type(source)} {emitter.value(source)}")
    emitter.bind(operation.results[0], name)


def _compare_integers(emitter: FunctionEmitter, operation: Operation) -> None:
    assert isinstance(operation, arith.CmpiOp)
    predicate = INTEGER_PREDICATES[operation.predicate.value.data]
    left, right = operation.lhs, operation.rhs
    text = f"icmp {predicate} {emitter.type(left)} {emitter.value(left)}, {emitter.value(right)}"
    emitter.bind(operation.result, emitter.assign(text))


def _compare_floats(emitter: FunctionEmitter, operation: Operation) -> None:
    assert isinstance(operation, arith.CmpfOp)
    _reject_fastmath(operation)
    predicate = FLOAT_PREDICATES[operation.predicate.value.data]
    left, right = operation.lhs, operation.rhs
    text = f"fcmp {predicate} {emitter.type(left)} {emitter.value(left)}, {emitter.value(right)}"
    emitter.bind(operation.result, emitter.assign(text))


def _select(emitter: FunctionEmitter, operation: Operation) -> None:
    assert isinstance(operation, arith.SelectOp)
    condition = emitter.value(operation.cond)
    pairs = zip(
        emitter.types(operation.lhs.type),
        emitter.values(operation.lhs),
        emitter.values(operation.rhs),
        strict=True,
    )
    names = [
        emitter.assign(f"select i1 {condition}, {type_} {first}, {type_} {second}")
        for type_, first, second in pairs
    ]
    emitter.bind(operation.result, *names)


ARITH_RULES: dict[type, Rule] = {
    arith.ConstantOp: _constant,
    arith.NegfOp: _negate,
    arith.CmpiOp: _compare_integers,
    arith.CmpfOp: _compare_floats,
    arith.SelectOp: _select,
    **dict.fromkeys(BINARY_OPCODES, _binary),
    **dict.fromkeys(CAST_OPCODES, _cast),
    **dict.fromkeys(INTRINSICS, _intrinsic),
    **dict.fromkeys(HARDWARE_INTRINSICS, _intrinsic),
}
"""Every arith and math operation that kernels may use."""
