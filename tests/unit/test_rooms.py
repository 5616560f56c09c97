"""The core keeps to itself: it is pure, and what it may import is a short list."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fair_allocator

PACKAGE = Path(fair_allocator.__file__).parent
CORE = sorted((PACKAGE / "core").rglob("*.py"))

PURE = {
    "abc",
    "bisect",
    "collections",
    "copy",
    "dataclasses",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "itertools",
    "math",
    "mypy_extensions",  # by the type checker and the compiler; not there when it runs
    "numpy",
    "operator",
    "re",
    "typing",
}
"""What the core may import: no file, no clock, no log, no thread, no chance of its own."""

EFFECTS = {"open", "print", "input", "exec", "eval", "compile", "breakpoint", "__import__"}

SEEDED = {"Generator", "Philox"}
"""All of numpy.random that depends on nothing but its arguments."""


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def test_there_is_a_core() -> None:
    names = {path.relative_to(PACKAGE / "core").as_posix() for path in CORE}
    assert {"pool.py", "fairness.py", "forcing.py", "learners/ucb1.py"} <= names


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_the_core_imports_only_itself_and_what_is_pure(path: Path) -> None:
    for name in imports(parse(path)):
        inside = name == "fair_allocator.core" or name.startswith("fair_allocator.core.")
        assert inside or name.split(".")[0] in PURE, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_the_core_has_no_effects(path: Path) -> None:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in EFFECTS, f"{path.name}:{node.lineno} calls {node.func.id}"


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_the_core_draws_no_numbers_of_its_own(path: Path) -> None:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in (
            "np.random",
            "numpy.random",
        ):
            assert node.attr in SEEDED, f"{path.name}:{node.lineno} uses {ast.unparse(node)}"
    assert not any(name.startswith("numpy.random") for name in imports(parse(path)))


def test_public_names_are_sorted_and_exist() -> None:
    names = fair_allocator.__all__
    assert names == sorted(names, key=str.casefold)
    assert len(names) == len(set(names))
    for name in names:
        assert hasattr(fair_allocator, name), name
