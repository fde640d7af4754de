"""An artifact and tensors to its kernel launches with arguments, and those to modelled times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessera.artifact import Artifact
from tessera.emulator.timing import PARAMETERS, Parameters, Timing, time_launch
from tessera.runtime.host_buffers import flat, numpy_dtype
from tessera.runtime.prepare import prepare
from tessera.runtime.prepared import INPUT, PreparedLaunch
from tessera.runtime.tensors import kind_of


def time_artifact(
    artifact: Artifact,
    arguments: Sequence[np.ndarray],
    parameters: Parameters = PARAMETERS,
    timeline: bool = False,
) -> tuple[Timing, ...]:
    """Modelled time of each kernel of one call, in order; nothing is written to `arguments`.

    arguments: NumPy arrays as `tessera.runtime.launch` takes them. Raises LaunchError, and the
    emulator's errors.
    """
    described = [kind_of(one, f"argument {i}").describe(one, "") for i, one in enumerate(arguments)]
    prepared = prepare(artifact.plan, described, None)
    buffers = _buffers(prepared, arguments)
    return tuple(
        time_launch(
            artifact.hsaco,
            launch.kernel,
            launch.grid,
            launch.block,
            [buffers[one] if isinstance(one, int) else one.value for one in launch.arguments],
            parameters=parameters,
            timeline=timeline,
        )
        for launch in prepared.kernels
    )


def _buffers(prepared: PreparedLaunch, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """A flat array per slot: the caller's for inputs, zeros for results and temporaries."""
    return [
        flat(arguments[slot.index], slot)
        if slot.role == INPUT
        else np.zeros(slot.elements, numpy_dtype(slot.dtype))
        for slot in prepared.slots
    ]
