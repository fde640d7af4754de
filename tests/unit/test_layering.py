"""Imports go one way: each part of the package may use only the parts that the table lists."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tessera"

NEUTRAL = {"errors", "launch_rule", "contracts", "plan", "artifact", "options", "env"}
COMPILER = {"frontend", "dialects", "transforms", "kernels", "targets", "codegen"}
# Part of the package -> the parts it may import; None: all of them. A part is a top-level module
# or folder. Imports inside functions count as well: a late import is a dependency too.
MAY_IMPORT: dict[str, set[str] | None] = {
    "errors": set(),
    "launch_rule": {"errors"},
    "contracts": {"errors"},
    "env": {"errors"},
    "options": {"errors", "env", "targets"},
    "plan": {"errors", "launch_rule", "contracts", "dialects"},
    "c_header": {"errors", "launch_rule", "plan", "codegen"},
    "artifact": (NEUTRAL - {"artifact"}) | {"codegen", "c_header"},
    "emulator": set(),
    "reference": {"errors"},
    "testing": {"errors", "reference"},
    "dialects": {"errors", "contracts"},
    "targets": {"errors", "env"},
    "kernels": {"errors", "launch_rule", "contracts", "dialects", "targets"},
    "transforms": NEUTRAL | {"dialects", "targets", "kernels"},
    "codegen": {"errors", "env", "dialects", "targets"},
    "frontend": NEUTRAL | COMPILER | {"compiler", "runtime", "ops"},
    "ops": NEUTRAL | {"frontend", "dialects"},
    "compiler": NEUTRAL | COMPILER | {"runtime"},
    "runtime": NEUTRAL | {"emulator", "reference", "runtime"},
    "pytorch": NEUTRAL | {"frontend", "ops", "reference", "runtime"},
    "perf": None,
    "tools": None,
    "__init__": None,
}

# The few edges that only run inside a function, so that importing the module stays one-way: the
# jitted function is where a user's call enters the compiler and then the runtime, the target "rocm"
# is whatever chip the runtime finds, and a plan is read from a module but holds none.
ONLY_LATE = {
    ("frontend", "compiler"),
    ("frontend", "runtime"),
    ("compiler", "runtime"),
    ("runtime", "emulator"),
    ("plan", "dialects"),
}


def part_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def tessera_imports(path: Path):
    """(imported part, line, whether inside a function or an `if TYPE_CHECKING`) of one file."""
    tree = ast.parse(path.read_text())
    late: set[ast.AST] = set()
    for node in ast.walk(tree):
        checks_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if checks_types or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            late.update(ast.walk(node))
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            modules = [module]
            if module == "tessera":
                # Names of the package itself, such as its version, belong to no part.
                names = [alias.name for alias in node.names if not alias.name.startswith("__")]
                modules = [f"tessera.{name}" for name in names]
        else:
            continue
        for module in modules:
            names = module.split(".")
            if names[0] == "tessera":
                yield names[1] if len(names) > 1 else "__init__", node.lineno, node in late


SOURCES = sorted(PACKAGE.rglob("*.py"))


def test_every_part_is_in_the_table():
    parts = {part_of(path) for path in SOURCES}
    assert parts <= set(MAY_IMPORT), f"new parts without a rule: {parts - set(MAY_IMPORT)}"


@pytest.mark.parametrize("part", sorted(MAY_IMPORT))
def test_imports_follow_the_table(part):
    allowed = MAY_IMPORT[part]
    if allowed is None:
        pytest.skip("may import everything")
    wrong = []
    for path in SOURCES:
        if part_of(path) != part:
            continue
        for imported, line, late in tessera_imports(path):
            is_allowed = imported == part or imported in allowed
            early = (part, imported) in ONLY_LATE and not late
            if not is_allowed or early:
                where = f"{path.relative_to(ROOT)}:{line}"
                wrong.append(f"{where} imports tessera.{imported}{' at module level' * early}")
    assert not wrong, "\n".join(wrong)


HEAVY = ("xdsl", "llvmlite", "tinygrad", "torch", "matplotlib", "elftools", "typer", "rich")


def test_import_of_the_package_loads_nothing_heavy():
    code = (
        "import sys, tessera; "
        f"print(*sorted(set(name.split('.')[0] for name in sys.modules) & set({HEAVY!r})))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert result.stdout.split() == []


def test_emulator_imports_nothing_of_the_compiler_at_run_time():
    code = (
        "import sys, tessera.emulator; "
        "print(*sorted(name for name in sys.modules if name.startswith('tessera.')))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    loaded = {name.split(".")[1] for name in result.stdout.split()}
    assert loaded == {"emulator"}
