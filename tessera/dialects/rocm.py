"""The tessera_rocm dialect: one directive per kernel launch of an AMD chip, and what it demands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    operand_def,
    opt_attr_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from tessera.contracts import (
    CONTRACTS,
    ELEMENTWISE_FUNCTIONS,
    FLOAT_DTYPES,
    HALF_DTYPES,
    MATMUL_DTYPES,
    MAX_HEAD_DIM,
    Binding,
)
from tessera.dialects.attention_options import AttentionOptions
from tessera.dialects.attributes import (
    check_choice,
    check_head_dims,
    check_positive,
    from_attribute,
    options_of,
    to_attribute,
)
from tessera.dialects.matmul_options import MatmulOptions, MatmulSchedule
from tessera.dialects.rocm_contracts import CONTRACT_OPS, AsyncCopyOp, MfmaOp, WaitOp
from tessera.dialects.tensor_op import TensorOp
from tessera.dialects.tensors import verify_against_contract
from tessera.dialects.views import verify_view

__all__ = [
    "CONTRACT_OPS",
    "DIRECTIVES",
    "AsyncCopyOp",
    "Directive",
    "ElementwiseOp",
    "FlashAttnBwdOp",
    "FlashAttnOp",
    "LaunchOp",
    "MfmaOp",
    "Rocm",
    "ViewOp",
    "WaitOp",
    "WmmaGemmOp",
    "from_attribute",
    "options_of",
    "to_attribute",
]

KERNEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a kernel may be called: it becomes a symbol of the code object."""

OPERAND_DTYPES = {"elementwise": FLOAT_DTYPES, "matmul": MATMUL_DTYPES}
"""What the first operand of a contract may be; of the others f16 or bf16."""

INSTRUCTION_TILE = 16
"""m, n and k of every matrix instruction that the directives speak of."""


class Directive(TensorOp):
    """Base of the directives: `name` becomes the kernel's symbol.

    Either all operands and results of the contract are there, or none of them: a directive on its
    own asks for the kernel without saying what it is launched on.
    """

    name_attr = attr_def(StringAttr, attr_name="name")
    dtype = attr_def(StringAttr)
    alignment = opt_attr_def(IntegerAttr)
    # Also without results a directive asks for a kernel, so it is never dead code.
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @property
    def kernel_name(self) -> str:
        """The symbol that the generated kernel gets."""
        return self.name_attr.data

    def may_stand_alone(self) -> bool:
        """True: see the class."""
        return True

    def verify_options(self) -> None:
        if not KERNEL_NAME.fullmatch(self.kernel_name):
            raise VerifyException(f"{self.name}: name = {self.kernel_name!r} is no identifier")
        check_choice(self, "dtype", OPERAND_DTYPES.get(self.CONTRACT, HALF_DTYPES))

    def verify_binding(self, binding: Binding) -> None:
        dtype = next(iter(binding.operands.values())).dtype
        if self.dtype.data != dtype:
            raise VerifyException(
                f"{self.name}: dtype = {self.dtype.data}, but its operands are {dtype}"
            )


@irdl_op_definition
class WmmaGemmOp(Directive, MatmulOptions, MatmulSchedule):
    """C = A B by WMMA instructions, each wave holding `mt` x `nt` accumulators.

    `m`, `n`, `k` are the instruction's tile; a workgroup has `waves_m` x `waves_n` waves and walks
    the contracted axis `block_k` elements at a time through local memory (0: without it). A and B
    are row-major. `dtype` is that of A in memory, `dtype_b` that of B where it differs; `batch_a`
    and `batch_b` say which of them has a batch axis in front; `alignment` is in bytes, of the start
    of each of their rows. The other dtypes are those of the epilogue's operands.
    """

    name = "tessera_rocm.wmma_gemm"
    CONTRACT: ClassVar[str] = "matmul"
    m = attr_def(IntegerAttr)
    n = attr_def(IntegerAttr)
    k = attr_def(IntegerAttr)
    mt = attr_def(IntegerAttr)
    nt = attr_def(IntegerAttr)
    dtype_b = opt_attr_def(StringAttr)
    batch_a = opt_attr_def(IntegerAttr)
    batch_b = opt_attr_def(IntegerAttr)
    addend_dtype = opt_attr_def(StringAttr)
    bias_dtype = opt_attr_def(StringAttr)
    gate_dtype = opt_attr_def(StringAttr)
    residual_dtype = opt_attr_def(StringAttr)

    def verify_options(self) -> None:
        super().verify_options()
        self.verify_matmul_options()
        self.verify_matmul_schedule()
        check_choice(self, "dtype_b", MATMUL_DTYPES)
        for name in ("addend_dtype", "bias_dtype", "gate_dtype", "residual_dtype"):
            check_choice(self, name, FLOAT_DTYPES)
        for axis, tile in (("m", self.m), ("n", self.n), ("k", self.k)):
            if tile.value.data != INSTRUCTION_TILE:
                raise VerifyException(
                    f"{self.name}: {axis} = {tile.value.data}; supported: {INSTRUCTION_TILE}"
                )
        block_k = self.block_k.value.data if self.block_k else 0
        if block_k < 0 or block_k % INSTRUCTION_TILE:
            raise VerifyException(
                f"{self.name}: block_k = {block_k} is no multiple of k = {INSTRUCTION_TILE}"
            )


class AttentionDirective(Directive, AttentionOptions):
    """Base of the attention directives.

    `head_dim` is that of Q and K, `head_dim_v` (the same when absent) that of V and O. `scale` is
    head_dim^-1/2 when absent.
    """

    head_dim = attr_def(IntegerAttr)
    head_dim_v = opt_attr_def(IntegerAttr)

    def verify_options(self) -> None:
        super().verify_options()
        self.verify_attention_options()
        check_head_dims(self, MAX_HEAD_DIM)

    def verify_binding(self, binding: Binding) -> None:
        super().verify_binding(binding)
        head_dim = self.head_dim.value.data
        head_dim_v = self.head_dim_v.value.data if self.head_dim_v else head_dim
        for axis, stated in (("head_dim", head_dim), ("head_dim_v", head_dim_v)):
            size = binding.symbols[axis]
            if size is not None and size != stated:
                raise VerifyException(
                    f"{self.name}: {axis} = {stated}, but its operands have {size}"
                )


@irdl_op_definition
class FlashAttnOp(AttentionDirective):
    """O = softmax(scale Q K^T) V and its row-wise natural log of sums, without a score matrix.

    A workgroup has `waves` waves of `queries_per_wave` queries and walks the keys `keys_per_step`
    at a time.
    """

    name = "tessera_rocm.flash_attn"
    CONTRACT: ClassVar[str] = "flash_attn"
    waves = opt_attr_def(IntegerAttr)
    queries_per_wave = opt_attr_def(IntegerAttr)
    keys_per_step = opt_attr_def(IntegerAttr)

    def verify_options(self) -> None:
        super().verify_options()
        check_positive(self, "waves", "queries_per_wave", "keys_per_step")


@irdl_op_definition
class FlashAttnBwdOp(AttentionDirective):
    """dQ, dK and dV of flash_attn by three kernels, `<name>_pre`, `<name>_dkdv` and `<name>_dq`.

    Of `waves` waves each owns 16 keys (for dK and dV) or 16 queries (for dQ), and all walk the
    other axis `rows_per_step` rows at a time, fetching the next ones meanwhile under `prefetch`
    (i1). `bias_gradient` (i1) asks for dbias too, from two more kernels; under `compute_lse` (i1)
    the first kernel computes lse, which is no operand then.
    """

    name = "tessera_rocm.flash_attn_bwd"
    CONTRACT: ClassVar[str] = "flash_attn_bwd"
    bias_gradient = opt_attr_def(IntegerAttr)
    compute_lse = opt_attr_def(IntegerAttr)
    waves = opt_attr_def(IntegerAttr)
    rows_per_step = opt_attr_def(IntegerAttr)
    prefetch = opt_attr_def(IntegerAttr)

    def verify_options(self) -> None:
        super().verify_options()
        check_positive(self, "waves", "rows_per_step")


@irdl_op_definition
class ElementwiseOp(Directive):
    """One function of one or two broadcast tensors, computed in f32 and rounded to `out_dtype`.

    `scalar` is the second input of a two-input function that has one tensor only.
    """

    name = "tessera_rocm.elementwise"
    CONTRACT: ClassVar[str] = "elementwise"
    function = attr_def(StringAttr)
    out_dtype = attr_def(StringAttr)
    scalar = opt_attr_def(FloatAttr)

    def verify_options(self) -> None:
        super().verify_options()
        check_choice(self, "function", ELEMENTWISE_FUNCTIONS)
        check_choice(self, "out_dtype", FLOAT_DTYPES)
        if self.scalar is not None and ELEMENTWISE_FUNCTIONS[self.function.data] != 2:
            raise VerifyException(f"{self.name}: {self.function.data} takes no scalar")


DIRECTIVES: tuple[type[Directive], ...] = (WmmaGemmOp, FlashAttnOp, FlashAttnBwdOp, ElementwiseOp)
"""Every directive; a generator pass replaces each by a LaunchOp and its kernels."""


@irdl_op_definition
class ViewOp(IRDLOperation):
    """The same memory seen with another shape; launches nothing.

    `parameters` are the new sizes for kind `reshape` (-1: not known yet) and the source axis of
    each new axis for kind `permute`.
    """

    name = "tessera_rocm.view"
    kind = attr_def(StringAttr)
    parameters = attr_def(DenseArrayBase.constr(i64))
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(
        self, source: SSAValue, result: Attribute, kind: str, parameters: Sequence[int]
    ) -> None:
        super().__init__(
            operands=[source],
            result_types=[result],
            attributes={
                "kind": StringAttr(kind),
                "parameters": DenseArrayBase.from_list(i64, list(parameters)),
            },
        )

    def verify_(self) -> None:
        verify_view(
            self.name,
            self.kind.data,
            self.parameters.get_values(),
            self.source.type,
            self.result.type,
        )


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """The launches of generated kernels that compute one directive's results.

    `contract` and `options` say what is computed, `rules` (JSON, tessera.launch_rule) how operand
    sizes become grids and arguments.
    """

    name = "tessera_rocm.launch"
    contract = attr_def(StringAttr)
    options = attr_def(DictionaryAttr)
    rules = attr_def(StringAttr)
    inputs = var_operand_def()
    outputs = var_result_def()
    traits = traits_def(Pure())
    assembly_format = "(`(` $inputs^ `)`)? attr-dict `:` functional-type($inputs, $outputs)"

    def __init__(
        self,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        contract: str,
        options: Mapping[str, object],
        rules: str,
    ) -> None:
        values = {
            name: value if isinstance(value, Attribute) else to_attribute(value)
            for name, value in options.items()
            if value is not None
        }
        super().__init__(
            operands=[list(operands)],
            result_types=[list(result_types)],
            attributes={
                "contract": StringAttr(contract),
                "options": DictionaryAttr(values),
                "rules": StringAttr(rules),
            },
        )

    @property
    def option_values(self) -> dict[str, object]:
        """The options as Python values, by name."""
        return {name: from_attribute(value) for name, value in self.options.data.items()}

    def verify_(self) -> None:
        check_choice(self, "contract", (*CONTRACTS, "elementwise"))
        try:
            json.loads(self.rules.data)
        except ValueError as error:
            raise VerifyException(f"{self.name}: rules are no JSON: {error}") from error
        if self.inputs or self.outputs:
            verify_against_contract(
                self.name, self.contract.data, self.inputs, self.outputs, self.option_values
            )


Rocm = Dialect("tessera_rocm", [*DIRECTIVES, ViewOp, *CONTRACT_OPS, LaunchOp], [])
