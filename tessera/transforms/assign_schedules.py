"""Tile IR -> Tile IR with a schedule: tile sizes, waves and alignment on every launchable op.

tile.matmul {name} --> tile.matmul {name, mt, nt, waves_m, waves_n, block_k, alignment}
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tessera.contracts import bind
from tessera.dialects.attributes import options_of, to_attribute
from tessera.dialects.tensors import spec_of
from tessera.dialects.tile import FlashAttnOp, LaunchableOp, MatmulOp
from tessera.errors import ShapeError
from tessera.kernels.schedules import attention_schedule, gemm_schedule
from tessera.targets import DEFAULT_ROCM_CHIP, Target, resolve_target
from tessera.transforms.alignment import alignment_of


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
    # Only operands and the first result are accessed row by row; attention's lse is not, and of a
    # matmul only the factors are.
    rows = op.operands[:2] if isinstance(op, MatmulOp) else (*op.operands, op.results[0])
    alignment = min(alignment_of(value) for value in rows)
    chosen: dict[str, object] = {"alignment": alignment}
    specs = [spec_of(value.type) for value in op.operands]
    options = options_of(op)
    symbols = bind(op.CONTRACT, specs, options).symbols
    if isinstance(op, MatmulOp):
        m, n, k = symbols["m"], symbols["n"], symbols["k"]
        dtype = str(options.get("packed_a", specs[0].dtype))
        chosen |= asdict(gemm_schedule(target, dtype, m, n, k))
    elif isinstance(op, FlashAttnOp):
        head_dim, head_dim_v = static_head_dims(op)
        schedule = attention_schedule(
            target, specs[0].dtype, head_dim, head_dim_v, symbols["seq_q"], alignment
        )
        chosen |= asdict(schedule)
    for name, value in chosen.items():
        op.attributes.setdefault(name, to_attribute(value))


def static_head_dims(op: FlashAttnOp) -> tuple[int, int]:
    """head_dim and head_dim_v; ShapeError when they are not known at compile time."""
    symbols = bind(op.CONTRACT, [spec_of(value.type) for value in op.operands]).symbols
    head_dim, head_dim_v = symbols["head_dim"], symbols["head_dim_v"]
    if head_dim is None or head_dim_v is None:
        raise ShapeError(
            f"{op.name} {op.kernel.data!r}: head_dim and head_dim_v must be known at compile time, "
            f"got {', '.join(str(spec_of(value.type)) for value in op.operands)}"
        )
    return head_dim, head_dim_v
