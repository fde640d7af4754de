"""A module of any level to an artifact: the ordered table of stages, and a walk along it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tessera import __version__, env
from tessera.artifact import Artifact
from tessera.errors import CompileError, OptionError, TesseraError, supported
from tessera.options import CompileOptions
from tessera.plan import EMPTY_PLAN, Plan, plan_of
from tessera.targets import Target

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp


@dataclass(frozen=True)
class Stage:
    """One level, and the passes or pipelines that lead to it from the level before."""

    level: str
    passes: tuple[str, ...] = ()


STAGES = (
    Stage("graph"),
    Stage("tile", ("tessera-lower-to-tile",)),
    Stage("target", ("tile-to-rocm", "check-contracts")),
    Stage("kernel", ("tessera-rocm-to-kernel",)),
    # From here on it is text and bytes: codegen.llvm_text, codegen.llvm and codegen.link.
    Stage("llvm"),
    Stage("asm"),
    Stage("hsaco"),
)
"""Every level in the order of lowering. Passes leave the operations of later levels alone, so a
module may enter at any of the first four; LLVM text enters by `compile_llvm_text`."""

LEVELS = tuple(stage.level for stage in STAGES)
MODULE_LEVELS = LEVELS[: LEVELS.index("llvm")]


def compile_module(
    module: ModuleOp, target: Target, options: CompileOptions | Mapping[str, object] | None = None
) -> Artifact:
    """Compile a module of level graph, tile, target or kernel for one chip, through the cache.

    The module itself is not changed. Raises OptionError for an unknown option, the passes' own
    errors, and CompileError for what LLVM or the linker refuse.
    """
    from tessera.runtime import cache
    from tessera.runtime.cache_key import CacheKey

    chosen = CompileOptions.of(options)
    source = module.clone()

    def levels(level: str) -> str:
        return level_text(source, level, target, chosen)

    def relaxed() -> Artifact:
        return compile_module(source, target, replace(chosen, alignment=1))

    used = versions()
    key = CacheKey.of(str(source), target.chip, chosen.to_dict(), used)
    entry = cache.lookup(key)
    if entry is None:
        files, plan = _compile(source, target, chosen)
        cache.store(key, files, plan.to_dict())
        hsaco = files[cache.CODE_OBJECT]
    else:
        hsaco, plan = entry.hsaco, Plan.from_dict(entry.plan)
    return Artifact.of(
        target.chip,
        hsaco,
        plan,
        options=chosen.to_dict(),
        versions=used,
        levels=levels,
        relaxed=relaxed,
    )


def _compile(
    source: ModuleOp, target: Target, options: CompileOptions
) -> tuple[dict[str, bytes], Plan]:
    """One file per stage, and the launch plan."""
    from tessera.codegen.llvm_text import print_llvm

    files: dict[str, bytes] = {}

    def keep(level: str, module: ModuleOp) -> None:
        files[f"{level}.mlir"] = f"{module}\n".encode()

    lowered = lower_module(source, "kernel", target, options, keep)
    text = print_llvm(lowered, target)
    files["llvm.ll"] = text.encode()
    files["kernels.hsaco"] = _code_object(text, target, options)
    return files, plan_of(lowered)


def level_text(
    module: ModuleOp,
    level: str,
    target: Target,
    options: CompileOptions | Mapping[str, object] | None = None,
) -> str:
    """The text of a module at a later level, without linking; as `Artifact.text`."""
    from tessera.codegen.llvm_text import print_llvm

    chosen = CompileOptions.of(options)
    if level in MODULE_LEVELS:
        return str(lower_module(module, level, target, chosen)) + "\n"
    text = print_llvm(lower_module(module, "kernel", target, chosen), target)
    return _llvm_level(text, target, chosen, level)


def compile_llvm_text(
    text: str, target: Target, options: CompileOptions | Mapping[str, object] | None = None
) -> Artifact:
    """Compile LLVM IR text whose kernels are launched by name: the artifact's plan is empty."""
    chosen = CompileOptions.of(options)

    def levels(level: str) -> str:
        if level in MODULE_LEVELS:
            raise CompileError(f"level {level!r}: compilation started from LLVM IR")
        return _llvm_level(text, target, chosen, level)

    return Artifact.of(
        target.chip,
        _code_object(text, target, chosen),
        EMPTY_PLAN,
        options=chosen.to_dict(),
        versions=versions(),
        levels=levels,
    )


def compile(source: Any, *args: Any, target: str = "rocm", **options: object) -> Artifact:
    """Compile a jitted function for the given arguments, or the text of a module of any level.

    `source` is a function (traced with `args`; symbolic where there are none) or MLIR text.
    Raises OptionError for unknown options and TesseraError subclasses as the stages do.
    """
    chosen = CompileOptions.of(options)
    if isinstance(source, str):
        if args:
            raise OptionError("arguments go with a function; a module's text takes none")
        return compile_module(parse_module(source), attached_target(target), chosen)
    if not callable(source):
        raise OptionError(f"cannot compile a {type(source).__name__}; a function or module text")
    from tessera.frontend.jit import JittedFunction, jit

    function = source if isinstance(source, JittedFunction) else jit(target=target)(source)
    return function.lower(*args, **options)


def attached_target(name: str) -> Target:
    """The target called `name`, where "rocm" means the attached chip if there is one."""
    from tessera.runtime import hip
    from tessera.targets import resolve_target

    return resolve_target(name, hip.attached_chip() if name == "rocm" else None)


def parse_module(text: str, name: str = "<module>") -> ModuleOp:
    """Parse and verify the text of a module of any level; CompileError with the position."""
    from xdsl.parser import Parser
    from xdsl.utils.exceptions import ParseError, VerifyException

    try:
        module = Parser(_context(), text, name).parse_module()
        module.verify()
    except (ParseError, VerifyException) as error:
        raise CompileError(f"{name}: {error}") from error
    return module


def lower_module(
    module: ModuleOp,
    level: str,
    target: Target,
    options: CompileOptions,
    on_level: Callable[[str, ModuleOp], None] | None = None,
) -> ModuleOp:
    """A copy of the module, lowered to `level` (graph to kernel).

    `on_level` is shown the module at each level from where it started.

    Raises CompileError when the module already stands beyond that level.
    """
    from xdsl.utils.exceptions import VerifyException

    from tessera.dialects.spec import level_of
    from tessera.transforms import run_passes

    if level not in MODULE_LEVELS:
        raise CompileError(f"no module at level {level!r}; " + supported(MODULE_LEVELS))
    start = level_of(module)
    if LEVELS.index(start) > LEVELS.index(level):
        raise CompileError(f"level {level!r}: compilation started from level {start!r}")
    lowered, context = module.clone(), _context()
    verify_each = env.read("TESSERA_VERIFY") == "1"
    for stage in STAGES[: LEVELS.index(level) + 1]:
        try:
            run_passes(context, lowered, *stage.passes, target=target.chip, verify=verify_each)
            lowered.verify()
        except VerifyException as error:
            raise CompileError(f"level {stage.level}: {error}") from error
        if stage.level == "target" and options.alignment is not None:
            _limit_alignment(lowered, options.alignment)
        if on_level is not None and LEVELS.index(stage.level) >= LEVELS.index(start):
            on_level(stage.level, lowered)
    return lowered


def versions() -> dict[str, str]:
    """Versions of everything that has a say in the machine code."""
    from importlib.metadata import version

    from tessera.codegen.link import find_linker, linker_version
    from tessera.codegen.llvm import llvm_version

    return {
        "tessera": __version__,
        "xdsl": version("xdsl"),
        "llvmlite": version("llvmlite"),
        "llvm": llvm_version(),
        "linker": linker_version(find_linker()),
    }


def _context() -> Context:
    from tessera.dialects.spec import make_context

    return make_context()


def _limit_alignment(module: ModuleOp, limit: int) -> None:
    """Let no directive demand more of a row's start than `limit` bytes or its element size."""
    from tessera.contracts import DTYPE_BYTES
    from tessera.dialects.attributes import from_attribute, to_attribute

    for op in module.walk():
        if "alignment" in op.attributes and op.name.startswith("tessera_rocm."):
            element = DTYPE_BYTES[str(from_attribute(op.attributes["dtype"]))]
            found = from_attribute(op.attributes["alignment"])
            assert isinstance(found, int)
            op.attributes["alignment"] = to_attribute(min(found, max(limit, element)))


def _code_object(text: str, target: Target, options: CompileOptions) -> bytes:
    from tessera.codegen.link import link
    from tessera.codegen.llvm import compile_llvm

    return link(compile_llvm(text, target, options.opt_level).object)


def _llvm_level(text: str, target: Target, options: CompileOptions, level: str) -> str:
    from tessera.codegen.llvm import compile_llvm

    if level == "llvm":
        return text
    asm = compile_llvm(text, target, options.opt_level, want_asm=True).asm
    if asm is None:
        raise TesseraError(f"no text at level {level!r}")
    return asm
