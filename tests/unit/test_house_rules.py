"""The rules that keep the code readable, checked by machine: docstrings, lengths, annotations."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST_FILE = 400
LONGEST_FUNCTION = 60

FOLDERS = ("tessera", "examples", "benchmarks", "tests")
FILES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if "fixtures" not in path.parts and "__pycache__" not in path.parts
)
PACKAGE_FILES = [path for path in FILES if path.is_relative_to(ROOT / "tessera")]


def name_of(path):
    return str(path.relative_to(ROOT))


def functions(tree):
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_module_opens_with_one_line_that_says_what_it_does(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, "no module docstring"
    first = docstring.splitlines()[0]
    assert first.endswith((".", ":")), f"not one sentence: {first!r}"
    assert len(docstring.splitlines()) == 1 or docstring.splitlines()[1] == ""


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_file_is_not_too_long(path):
    assert len(path.read_text().splitlines()) <= LONGEST_FILE


def length_of_body(node):
    """Lines of a function without its signature and its docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("path", PACKAGE_FILES, ids=name_of)
def test_functions_are_not_too_long(path):
    too_long = [
        f"{name_of(path)}:{node.lineno} {node.name}: {length_of_body(node)} lines"
        for node in functions(ast.parse(path.read_text()))
        if length_of_body(node) > LONGEST_FUNCTION
    ]
    assert not too_long, "\n".join(too_long)


def public_functions(tree):
    """Functions and methods without a leading underscore, outside other functions."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from (
                child
                for child in node.body
                if isinstance(child, ast.FunctionDef) and not child.name.startswith("_")
            )


@pytest.mark.parametrize("path", PACKAGE_FILES, ids=name_of)
def test_public_functions_are_annotated(path):
    missing = []
    for node in public_functions(ast.parse(path.read_text())):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        unnamed = [
            a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls")
        ]
        if unnamed or node.returns is None:
            missing.append(f"{name_of(path)}:{node.lineno} {node.name}{unnamed}")
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("path", PACKAGE_FILES, ids=name_of)
def test_nothing_is_left_for_later(path):
    """A package holds no markers of unfinished work: what is missing raises by name."""
    text = path.read_text()
    found = [word for word in ("TODO", "FIXME", "XXX", "NotImplemented\n") if word in text]
    assert not found
