"""What a launch did: registers, LDS, dynamic instruction counts and findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tessera.emulator.errors import Finding
from tessera.emulator.program import Program

# Class of an instruction by the encoding's format.
CLASS_BY_FORMAT = {
    "SOP1": "salu",
    "SOP2": "salu",
    "SOPC": "salu",
    "SOPK": "salu",
    "SOPP": "control",
    "SMEM": "smem",
    "VOP1": "valu",
    "VOP2": "valu",
    "VOPC": "valu",
    "VOP3": "valu",
    "VOP3SD": "valu",
    "VOP3P": "valu",
    "VOPD": "valu",
    "DS": "lds",
    "GLOBAL": "vmem",
    "FLAT": "vmem",
    "SCRATCH": "scratch",
    "MUBUF": "vmem",
}


@dataclass(frozen=True)
class Report:
    """Facts of one launch. Counts are wave-instructions; `by_pc` keys are bytes from the entry."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    vgprs: int
    sgprs: int
    lds_bytes: int
    scratch_bytes: int
    waves: int
    instructions: int
    by_class: dict[str, int]
    by_mnemonic: dict[str, int]
    by_pc: dict[int, int]
    text_by_pc: dict[int, str]
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    chip: str = "gfx1151"
    executor: str = "emulator"

    def __str__(self) -> str:
        rate = self.instructions / self.seconds / 1e6 if self.seconds else 0.0
        classes = ", ".join(f"{name} {count}" for name, count in sorted(self.by_class.items()))
        lines = [
            f"{self.kernel} on {self.chip} (emulated): grid {self.grid}, block {self.block}, "
            f"{self.waves} waves",
            f"registers: {self.vgprs} VGPRs, {self.sgprs} SGPRs; LDS {self.lds_bytes} bytes; "
            f"scratch {self.scratch_bytes} bytes",
            f"executed: {self.instructions} wave-instructions in {self.seconds:.3f} s "
            f"({rate:.2f} M/s): {classes}",
        ]
        lines += [str(finding) for finding in self.findings]
        return "\n".join(lines)


def class_of(name: str, kind: str) -> str:
    """The class that an instruction counts under."""
    if "WMMA" in name:
        return "wmma"
    if name == "S_BARRIER":
        return "barrier"
    return CLASS_BY_FORMAT.get(kind, "other")


def count_instructions(
    program: Program, profile: bool
) -> tuple[dict[str, int], dict[str, int], dict[int, int], dict[int, str]]:
    """(by class, by mnemonic, by pc, text by pc) from the blocks' counts; by pc only to profile."""
    classes: Counter[str] = Counter()
    names: Counter[str] = Counter()
    places: Counter[int] = Counter()
    texts: dict[int, str] = {}
    for block in program.blocks.values():
        if not block.count:
            continue
        for step in (*block.steps, *([block.last] if block.last else [])):
            instruction = step.instruction
            classes[class_of(instruction.name, instruction.format)] += block.count
            names[instruction.name.lower()] += block.count
            if profile:
                pc = instruction.pc - program.entry
                places[pc] += block.count
                texts.setdefault(pc, instruction.text)
    ordered = dict(sorted(places.items()))
    return dict(classes), dict(names.most_common()), ordered, texts
