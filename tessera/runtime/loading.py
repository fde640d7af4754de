"""A folder with a saved artifact to the artifact for one chip."""

from __future__ import annotations

import os

from tessera.artifact import Artifact, read_artifact, saved_chips
from tessera.errors import ArtifactError, supported

DEFAULT_CHIP = "gfx1151"


def load(folder: str | os.PathLike[str], chip: str | None = None) -> Artifact:
    """The artifact that `Artifact.save` wrote into `folder`, without the compiler.

    `chip` None means the attached chip if the folder has code for it, else the only chip there is,
    else gfx1151. Raises ArtifactError for missing, damaged or foreign files and for absent chips.
    """
    if chip is None:
        from tessera.runtime import hip

        chips = saved_chips(folder)
        wanted = [hip.attached_chip(), *(chips if len(chips) == 1 else ()), DEFAULT_CHIP]
        chip = next((name for name in wanted if name in chips), None)
        if chip is None:
            raise ArtifactError(
                f"{folder} has code for several chips; choose one; {supported(chips)}"
            )
    return read_artifact(folder, chip)
