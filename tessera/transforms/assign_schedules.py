"""Tile IR -> Tile IR with a schedule: tile sizes, waves and alignment on every launchable op.

tile.matmul {name} --> tile.matmul {name, mt, nt, waves_m, waves_n, block_k, alignment}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from tessera.contracts import Binding, bind
from tessera.dialects.attributes import options_of, to_attribute
from tessera.dialects.tensors import spec_of
from tessera.dialects.tile import FlashAttnBwdOp, FlashAttnOp, LaunchableOp, MatmulOp
from tessera.errors import ShapeError
from tessera.kernels.schedules import attention_schedule, backward_schedule, gemm_schedule
from tessera.targets import DEFAULT_ROCM_CHIP, Target, resolve_target
from tessera.transforms.alignment import alignment_of

ROWS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "flash_attn": ("q", "k", "v", "o"),
        "flash_attn_bwd": ("q", "k", "v", "o", "do", "dq", "dk", "dv"),
    }
)
"""Contract -> the operands and results with a head_dim, which the alignment is about."""


@dataclass(frozen=True)
class AssignSchedulesPass(ModulePass):
    """Fill in the schedule attributes that an op has not yet; what is there is kept."""

    name = "assign-schedules"
    target: str = DEFAULT_ROCM_CHIP

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Set attributes in place; raises DtypeError, OptionError or ShapeError by operation."""
        target = resolve_target(self.target)
        for one in op.walk():
            if isinstance(one, LaunchableOp) and not one.is_scheduled():
                _schedule(one, target)


def _schedule(op: LaunchableOp, target: Target) -> None:
    specs = [spec_of(value.type) for value in op.operands]
    options = options_of(op)
    binding = bind(op.CONTRACT, specs, options)
    symbols = binding.symbols
    alignment = min(alignment_of(value) for value in _rows(op, binding))
    chosen: dict[str, object] = {"alignment": alignment}
    if isinstance(op, MatmulOp):
        m, n, k = symbols["m"], symbols["n"], symbols["k"]
        dtype = str(options.get("packed_a", specs[0].dtype))
        found = gemm_schedule(target, dtype, m, n, k, alignment)
        chosen |= asdict(found.for_kind("pair" in options, "grouped" in options))
    elif isinstance(op, FlashAttnOp):
        head_dim, head_dim_v = static_head_dims(op)
        schedule = attention_schedule(
            target, specs[0].dtype, head_dim, head_dim_v, symbols["seq_q"], alignment
        )
        chosen |= asdict(schedule)
    elif isinstance(op, FlashAttnBwdOp):
        head_dims = static_head_dims(op)
        chosen |= asdict(backward_schedule(target, specs[0].dtype, *head_dims, alignment))
    for name, value in chosen.items():
        op.attributes.setdefault(name, to_attribute(value))


def _rows(op: LaunchableOp, binding: Binding) -> list[SSAValue]:
    """The operands and results that are accessed row by row, in pieces as wide as alignment allows.

    Of a matmul those are the factors alone, of attention what has a head_dim.
    """
    if isinstance(op, MatmulOp):
        return list(op.operands[: 3 if "pair" in op.attributes else 2])
    names = [*binding.operands, *binding.results]
    values = dict(zip(names, [*op.operands, *op.results], strict=True))
    return [value for name, value in values.items() if name in ROWS.get(op.CONTRACT, names)]


def static_head_dims(op: FlashAttnOp | FlashAttnBwdOp) -> tuple[int, int]:
    """head_dim and head_dim_v; ShapeError when they are not known at compile time."""
    specs = [spec_of(value.type) for value in op.operands]
    symbols = bind(op.CONTRACT, specs, options_of(op)).symbols
    head_dim, head_dim_v = symbols["head_dim"], symbols["head_dim_v"]
    if head_dim is None or head_dim_v is None:
        raise ShapeError(
            f"{op.name} {op.kernel.data!r}: head_dim and head_dim_v must be known at compile time, "
            f"got {', '.join(str(spec_of(value.type)) for value in op.operands)}"
        )
    return head_dim, head_dim_v
