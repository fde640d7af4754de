"""The attributes of attention at every level: what a query sees, and which operands follow."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr
from xdsl.irdl import IRDLOperation, opt_attr_def
from xdsl.utils.exceptions import VerifyException

from tessera.contracts import ATTENTION_LIMITS, CAUSAL_MODES, FLOAT_DTYPES
from tessera.dialects.attributes import check_choice, from_attribute

LARGEST_WINDOW = 2**31 - 1


class AttentionOptions(IRDLOperation):
    """softmax(softcap tanh(scale q k^T / softcap) + bias - slope |position - key|) v.

    A query at position i sees keys from i - `window_left` to i + `window_right`, and none behind i
    under `causal`; an absent option changes nothing. `bias_dtype` says that there is an operand
    bias and its dtype, `alibi` (i1) that there are alibi_slopes, `variable_lengths` (i1) that
    cu_seqlens_q and cu_seqlens_k part the rows into sequences.
    """

    causal = opt_attr_def(StringAttr)
    scale = opt_attr_def(FloatAttr)
    window_left = opt_attr_def(IntegerAttr)
    window_right = opt_attr_def(IntegerAttr)
    softcap = opt_attr_def(FloatAttr)
    bias_dtype = opt_attr_def(StringAttr)
    alibi = opt_attr_def(IntegerAttr)
    variable_lengths = opt_attr_def(IntegerAttr)

    def verify_attention_options(self) -> None:
        """Raise VerifyException for a value that no attention has."""
        check_choice(self, "causal", CAUSAL_MODES)
        check_choice(self, "bias_dtype", FLOAT_DTYPES)
        for name in ("window_left", "window_right"):
            attribute = self.attributes.get(name)
            keys = 0 if attribute is None else from_attribute(attribute)
            if not isinstance(keys, int) or not 0 <= keys <= LARGEST_WINDOW:
                raise VerifyException(
                    f"{self.name}: {name} = {keys} must be a number of keys from 0 to 2^31 - 1"
                )
        for name, (least, most) in ATTENTION_LIMITS.items():
            attribute = self.attributes.get(name)
            value = least if attribute is None else from_attribute(attribute)
            if not isinstance(value, float) or not least <= value <= most:
                raise VerifyException(
                    f"{self.name}: {name} = {value} is not supported; "
                    f"supported: {least:g} to {most:g}"
                )
        packed = self.variable_lengths
        if self.bias_dtype is not None and packed is not None and packed.value.data:
            raise VerifyException(f"{self.name}: bias with variable_lengths is not built")
        if "bias_gradient" in self.attributes and self.bias_dtype is None:
            raise VerifyException(f"{self.name}: bias_gradient without a bias (bias_dtype)")
