"""The base of every operation on tensors: operands, results and attributes held to a contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, var_operand_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from tessera.contracts import Binding
from tessera.dialects.attributes import check_alignment, options_of, to_attribute
from tessera.dialects.tensors import verify_against_contract
from tessera.errors import supported


class TensorOp(IRDLOperation):
    """An operation whose operands and results obey the contract that `CONTRACT` names."""

    inputs = var_operand_def()
    outputs = var_result_def()
    assembly_format = "(`(` $inputs^ `)`)? attr-dict `:` functional-type($inputs, $outputs)"

    CONTRACT: ClassVar[str] = ""
    """Name of the contract in `tessera.contracts`."""

    def __init__(
        self,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        options: Mapping[str, object],
    ) -> None:
        """Options are Python values by attribute name; None leaves an optional attribute out."""
        attributes = {
            name: to_attribute(value) for name, value in options.items() if value is not None
        }
        super().__init__(
            operands=[list(operands)], result_types=[list(result_types)], attributes=attributes
        )

    def verify_(self) -> None:
        known = self.get_irdl_definition().attributes
        unknown = [name for name in self.attributes if name not in known]
        if unknown:
            raise VerifyException(
                f"{self.name}: unknown attribute {unknown[0]!r}; {supported(known)}"
            )
        check_alignment(self)
        self.verify_options()
        if self.inputs or self.outputs or not self.may_stand_alone():
            self.verify_binding(
                verify_against_contract(
                    self.name, self.CONTRACT, self.inputs, self.outputs, options_of(self)
                )
            )

    def may_stand_alone(self) -> bool:
        """Whether the operation also means something without operands and results."""
        return False

    def verify_options(self) -> None:
        """Check the attributes on their own; raises VerifyException."""

    def verify_binding(self, binding: Binding) -> None:
        """Check the attributes against the operands' sizes and dtypes; raises VerifyException."""
