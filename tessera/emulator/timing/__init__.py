"""Code objects to modelled time on RDNA 3.5: what a launch would take on the chip, by a model.

`time_launch` traces a few workgroups on the emulator and replays them against issue slots, LDS,
caches, counters and barriers. Every figure is a model's; `docs/timing_model.md` has its errors.
"""

from __future__ import annotations

from tessera.emulator.timing.chrome import chrome_trace
from tessera.emulator.timing.loops import LoopCounts
from tessera.emulator.timing.model import Timing, time_launch
from tessera.emulator.timing.occupancy import Occupancy
from tessera.emulator.timing.parameters import PARAMETERS, ROWS, Parameters, Row

__all__ = [
    "PARAMETERS",
    "ROWS",
    "LoopCounts",
    "Occupancy",
    "Parameters",
    "Row",
    "Timing",
    "chrome_trace",
    "time_launch",
]
