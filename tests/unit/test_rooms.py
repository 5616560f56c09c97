"""Which room may import which; and the core is pure: what it may import is a short list."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fair_allocator
from scripts.rooms import ROOMS

pytestmark = pytest.mark.slow

PACKAGE = Path(fair_allocator.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
CORE = sorted((PACKAGE / "core").rglob("*.py"))

PURE = {
    "abc",
    "bisect",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "html",
    "inspect",  # of signatures only
    "itertools",
    "json",  # to see whether what a learner knows is plain data
    "math",
    "mypy_extensions",  # by the type checker and the compiler; not there when it runs
    "numbers",
    "numpy",
    "operator",
    "re",
    "traceback",  # of learners that fail
    "typing",
    "warnings",  # of the same
}
"""What the core may import: no file, no clock, no log, no thread, no chance of its own."""

EFFECTS = {"open", "print", "input", "exec", "eval", "compile", "breakpoint", "__import__"}

SEEDED = {"Generator", "Philox"}
"""All of numpy.random that depends on nothing but its arguments."""


def imports_of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield "." * node.level + (node.module or "")


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        yield from imports_of(node)


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def rooms_imported(path: Path) -> set[str]:
    """Return the other rooms that a module imports, at its top or later; the version is free."""
    found = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ImportFrom) and node.module == "fair_allocator":
            names = [f"fair_allocator.{alias.name}" for alias in node.names]
        else:
            names = [*imports_of(node)]
        found |= {name.split(".")[1] for name in names if name.startswith("fair_allocator.")}
    return found - {room_of(path), "__version__"}


def test_every_room_is_in_the_table() -> None:
    assert {room_of(path) for path in MODULES} == ROOMS.keys()


def test_no_room_imports_one_that_stands_below_it() -> None:
    above: set[str] = set()
    for room, allowed in ROOMS.items():
        assert allowed <= above, f"{room} may import {sorted(allowed - above)}, which come later"
        above.add(room)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_the_table_allows(room: str) -> None:
    for path in MODULES:
        if room_of(path) == room:
            forbidden = rooms_imported(path) - ROOMS[room]
            assert not forbidden, f"{path.relative_to(PACKAGE)} imports {sorted(forbidden)}"


def test_the_table_allows_nothing_that_nobody_needs() -> None:
    for room, allowed in ROOMS.items():
        used = set().union(*(rooms_imported(path) for path in MODULES if room_of(path) == room))
        assert allowed - used <= {"core", "text"}, (
            f"{room} does not import {sorted(allowed - used)}"
        )


def test_only_the_replay_of_the_audit_knows_the_shard() -> None:
    """The audit shares no code with what decides; a replay decides again, with that code."""
    for path in MODULES:
        if room_of(path) == "audit" and path.name != "replay.py":
            assert not rooms_imported(path) & {"core", "shard", "log"}, path.name


def test_modules_that_are_named_by_a_text_are_of_the_same_room() -> None:
    for path in MODULES:
        for node in ast.walk(parse(path)):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and re.fullmatch(r"fair_allocator(\.\w+)+", value):
                room = value.split(".")[1]
                assert room in (room_of(path), "learners"), f"{path.name} names {value}"


def test_the_client_needs_nothing_of_the_package_but_itself() -> None:
    """It is a distribution of its own, too, under another name."""
    for path in (PACKAGE / "client").glob("**/*.py"):
        for name in imports(parse(path)):
            allowed = name.startswith(".") and not name.startswith("..")
            root = name.split(".")[0]
            assert allowed or root == "httpx" or root in sys.stdlib_module_names, (
                f"{path.name} imports {name}"
            )


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
