"""A compiled function: code object, launch plan and kernels; to a folder on disk and back."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tessera.c_header import c_header
from tessera.codegen.code_object import KernelInfo, read_kernels
from tessera.errors import ArtifactError, CompileError, supported
from tessera.plan import Plan

SCHEMA = "tessera.artifact"
SCHEMA_VERSION = 1
SIDECAR = "artifact.json"
TEXT_LEVELS = ("graph", "tile", "target", "kernel", "llvm", "asm")


@dataclass(frozen=True, eq=False)
class Artifact:
    """One function compiled for one chip.

    `options` and `versions` say how it was compiled. `levels` gives the text of a level, `relaxed`
    compiles the same function without demands on alignment; both are None in a loaded artifact.
    `launchers` belongs to the runtime: prepared launches by specialization.
    """

    chip: str
    hsaco: bytes
    plan: Plan
    kernels: tuple[KernelInfo, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    levels: Callable[[str], str] | None = None
    relaxed: Callable[[], Artifact] | None = None
    launchers: dict[Any, Any] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(chip: str, hsaco: bytes, plan: Plan, **fields: Any) -> Artifact:
        """An artifact whose kernels are read from the code object's own metadata.

        Raises ArtifactError when code object, chip and plan do not belong together.
        """
        kernels = tuple(_with_rule(kernel, plan) for kernel in read_kernels(hsaco))
        for kernel in kernels:
            if kernel.chip != chip:
                raise ArtifactError(
                    f"kernel {kernel.name!r} is compiled for {kernel.chip}, not for {chip}"
                )
        known = {kernel.name: kernel for kernel in kernels}
        for step in plan.launches:
            for rule in step.rules:
                if rule.kernel not in known:
                    raise ArtifactError(
                        f"the plan launches kernel {rule.kernel!r}, which the code object lacks; "
                        + supported(known)
                    )
                found, stated = len(known[rule.kernel].arguments), len(rule.arguments)
                if found != stated:
                    raise ArtifactError(
                        f"kernel {rule.kernel!r} takes {found} arguments, its rule has {stated}"
                    )
        return Artifact(chip, hsaco, plan, kernels, **fields)

    @property
    def asm(self) -> str:
        """The assembly of all kernels."""
        return self.text("asm")

    def text(self, level: str) -> str:
        """The module at a level: graph, tile, target, kernel, llvm or asm.

        Raises CompileError for an unknown level, for one before the level that compilation started
        from, and in an artifact that was loaded, which holds no levels.
        """
        if level not in TEXT_LEVELS:
            raise CompileError(f"unknown level {level!r}; " + supported(TEXT_LEVELS))
        if self.levels is None:
            raise CompileError(
                f"level {level!r}: a loaded artifact holds the code object and the launch plan only"
            )
        return self.levels(level)

    def kernel(self, name: str) -> KernelInfo:
        """The kernel called `name`; ArtifactError lists the ones there are."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        names = [kernel.name for kernel in self.kernels]
        raise ArtifactError(f"no kernel {name!r} in the code object; " + supported(names))

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write `<chip>.hsaco`, `<chip>.h` and the JSON sidecar; returns the sidecar's path.

        A folder that holds the same function for other chips keeps them. Raises ArtifactError when
        it holds another function.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        chips = _chips_of_same_function(place / SIDECAR, self.plan)
        name = f"{self.chip}.hsaco"
        header = c_header(self.plan, self.chip, self.kernels)
        write_atomically(place / name, self.hsaco)
        write_atomically(place / f"{self.chip}.h", header.encode())
        chips[self.chip] = {
            "file": name,
            "bytes": len(self.hsaco),
            "sha256": hashlib.sha256(self.hsaco).hexdigest(),
            "plan": self.plan.to_dict(),
            "kernels": [asdict(kernel) for kernel in self.kernels],
            "options": dict(self.options),
            "versions": dict(self.versions),
        }
        content = {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "function": _function_of(self.plan),
            "chips": dict(sorted(chips.items())),
        }
        sidecar = {**content, "sha256": _hash(content)}
        write_atomically(place / SIDECAR, (json.dumps(sidecar, indent=1) + "\n").encode())
        return place / SIDECAR


def saved_chips(folder: str | os.PathLike[str]) -> tuple[str, ...]:
    """The chips that a saved artifact has code for, sorted; ArtifactError as `read_artifact`."""
    return tuple(read_sidecar(Path(folder) / SIDECAR)["chips"])


def read_artifact(folder: str | os.PathLike[str], chip: str) -> Artifact:
    """The artifact that `Artifact.save` wrote, for one chip, with its hashes checked.

    Raises ArtifactError for missing, damaged or foreign files, and for a chip that is not there.
    """
    place = Path(folder)
    chips = read_sidecar(place / SIDECAR)["chips"]
    if chip not in chips:
        raise ArtifactError(f"{place}: no code object for {chip}; " + supported(chips))
    try:
        entry = chips[chip]
        name, digest = entry["file"], entry["sha256"]
        plan = Plan.from_dict(entry["plan"])
        fields = {"options": entry["options"], "versions": entry["versions"]}
    except (KeyError, TypeError) as error:
        raise ArtifactError(f"{place / SIDECAR}: missing {error} for chip {chip}") from error
    if Path(name).name != name:
        raise ArtifactError(f"{place / SIDECAR}: {name!r} is not a file of this folder")
    try:
        hsaco = (place / name).read_bytes()
    except OSError as error:
        raise ArtifactError(f"{place / name}: {error.strerror}") from error
    if hashlib.sha256(hsaco).hexdigest() != digest:
        raise ArtifactError(f"{place / name}: damaged: its SHA-256 is not the one in {SIDECAR}")
    return Artifact.of(chip, hsaco, plan, **fields)


def read_sidecar(path: Path) -> dict[str, Any]:
    """The sidecar's content after checks of schema, version and hash; ArtifactError otherwise."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArtifactError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ArtifactError(f"{path}: not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise ArtifactError(f"{path}: not a {SCHEMA} file")
    if data.get("schema_version") != SCHEMA_VERSION:
        raise ArtifactError(
            f"{path}: schema version {data.get('schema_version')}; {supported([SCHEMA_VERSION])}"
        )
    digest = data.pop("sha256", None)
    if digest != _hash(data):
        raise ArtifactError(f"{path}: damaged: its content does not have the hash that it states")
    return data


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _with_rule(kernel: KernelInfo, plan: Plan) -> KernelInfo:
    rule = plan.rule_of(kernel.name)
    return kernel if rule is None else replace(kernel, block=rule.block, grid=rule.grid)


def _function_of(plan: Plan) -> dict[str, Any]:
    """What tells one function from another, whatever chip it is compiled for."""
    data = plan.to_dict()
    for step in data["steps"]:
        step.pop("rules", None)
    return {**data, "arguments": [slot.name for slot in plan.inputs]}


def _chips_of_same_function(sidecar: Path, plan: Plan) -> dict[str, Any]:
    if not sidecar.exists():
        return {}
    data = read_sidecar(sidecar)
    if data["function"] != _function_of(plan):
        raise ArtifactError(
            f"{sidecar.parent} holds another function ({data['function']['name']!r}); save "
            f"{plan.name!r} elsewhere"
        )
    return data["chips"]


def _hash(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
