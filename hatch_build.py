"""Compiles the hot rooms into the wheel, with mypyc, where there is a C compiler.

The wheel has the sources too, and without the compiled rooms it behaves the same, only slower. An
editable installation is never compiled: who edits a source wants that source to run.
"""

import ast
import os
import re
import shlex
import shutil
import sysconfig
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PURE: Final = "FAIR_ALLOCATOR_PURE"
"""Set to anything, it leaves the wheel uncompiled."""

OPTIMISE: Final = "FAIR_ALLOCATOR_OPTIMISE"
"""How hard the C compiler optimises, 0 to 3; less is built sooner, and runs slower."""

COMPILED: Final = (
    "fair_allocator/audit/answers.py",
    "fair_allocator/audit/deliveries.py",
    "fair_allocator/audit/ledger.py",
    "fair_allocator/audit/line.py",
    "fair_allocator/audit/part_ledger.py",
    "fair_allocator/audit/pool.py",
    "fair_allocator/audit/reader.py",
    "fair_allocator/core/among.py",
    "fair_allocator/core/arms.py",
    "fair_allocator/core/caps.py",
    "fair_allocator/core/deadlines.py",
    "fair_allocator/core/decisions.py",
    "fair_allocator/core/draws.py",
    "fair_allocator/core/fairness.py",
    "fair_allocator/core/figures.py",
    "fair_allocator/core/forcing.py",
    "fair_allocator/core/general.py",
    "fair_allocator/core/kinetic.py",
    "fair_allocator/core/pool.py",
    "fair_allocator/core/presence.py",
    "fair_allocator/core/proposals.py",
    "fair_allocator/core/requests.py",
    "fair_allocator/core/rewards.py",
    "fair_allocator/core/safety.py",
    "fair_allocator/core/learners/base.py",
    "fair_allocator/core/learners/estimates.py",
    "fair_allocator/core/learners/ucb1.py",
    "fair_allocator/events/reading.py",
    "fair_allocator/events/wire.py",
    "fair_allocator/shard/asked.py",
    "fair_allocator/shard/chain.py",
    "fair_allocator/shard/controls.py",
    "fair_allocator/shard/commits.py",
    "fair_allocator/shard/hosted.py",
    "fair_allocator/shard/hosting.py",
    "fair_allocator/shard/journal.py",
    "fair_allocator/shard/memory.py",
    "fair_allocator/shard/operations.py",
    "fair_allocator/shard/outbox.py",
    "fair_allocator/shard/deciding.py",
    "fair_allocator/shard/pace.py",
    "fair_allocator/shard/pools.py",
    "fair_allocator/shard/settings.py",
    "fair_allocator/shard/shard.py",
    "fair_allocator/shard/table.py",
    "fair_allocator/text.py",
)
"""What a decision passes through. The other learners check what users hand them, which compiled
code would refuse with errors of its own, or spend their time in numpy."""

INTERNAL: Final = ["-fno-semantic-interposition", "-fvisibility=hidden"]
"""Tells the compiler that the compiled rooms call each other and nobody else calls them."""

_LACKING: Final = """
****************************************************************************************
fair-allocator: building the PURE PYTHON wheel: {reason}.
It behaves as the compiled one does and takes about four times as long for a decision.
****************************************************************************************"""


class CompiledRooms(BuildHookInterface[Any]):
    """Adds the compiled rooms to a wheel; says loudly if it cannot."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the wheel carry what came of it."""
        if version == "editable":
            return
        reason = f"{PURE} is set" if os.environ.get(PURE) else _no_compiler()
        if reason:
            self.app.display_warning(_LACKING.format(reason=reason))
            return
        self._folder = TemporaryDirectory(prefix="fair-allocator-compiled-")
        built = compiled(Path(self.root), Path(self._folder.name))
        build_data["force_include"].update(built)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        self.app.display_info(f"compiled {len(COMPILED)} rooms")

    def finalize(
        self,
        version: str,  # noqa: ARG002
        build_data: dict[str, Any],  # noqa: ARG002
        artifact_path: str,  # noqa: ARG002
    ) -> None:
        """Remove what the wheel has taken in."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def _no_compiler() -> str:
    """Return why nothing can be compiled here, nothing if it can."""
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    if not headers.exists():
        return f"Python's headers are missing ({headers})"
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(command[0]) is None:
        return f"there is no C compiler ({command[0]})"
    return ""


def compiled(root: Path, folder: Path) -> dict[str, str]:
    """Compile in `folder`; return the libraries there, each with its place in the wheel."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    libraries, name = folder / "libraries", "fair_allocator"
    # Types are checked elsewhere, strictly; here numpy need not even be installed.
    options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
    options.append(f"--cache-dir={folder / 'cache'}")
    with chdir(root):
        extensions = mypycify(
            [*options, *COMPILED],
            group_name=name,
            target_dir=str(folder / "c"),
            opt_level=os.environ.get(OPTIMISE, "3"),
            debug_level="0",
        )
        docstrings = Docstrings(COMPILED)
        for source in {path for extension in extensions for path in extension.sources}:
            code = Path(source).read_text(encoding="utf-8")
            Path(source).write_text(docstrings.added_to(code), encoding="utf-8")
        if os.name == "posix":
            for extension in extensions:
                extension.extra_compile_args += INTERNAL
        command = Distribution({"name": name, "ext_modules": extensions}).get_command_obj(
            "build_ext"
        )
        command.build_lib, command.build_temp = str(libraries), str(folder / "objects")
        command.ensure_finalized()
        command.run()
    found = [path for path in libraries.rglob("*") if path.is_file()]
    return {str(path): path.relative_to(libraries).as_posix() for path in found}


class Docstrings:
    """The docstrings of the rooms, which mypyc drops, by the names mypyc gives things in C.

    mypyc writes the signature of a function or class where C keeps a docstring, and nothing else.
    `help` needs the rest. It is written into the C code before that is compiled; where the code
    does not look as expected, it stays as it is, and a test finds the docstring missing.
    """

    _TEXT: Final = r'NULL|"(?:[^"\\]|\\.)*"'
    _FUNCTION: Final = re.compile(
        rf"(?P<before>\(PyCFunction\)(?P<name>CPyPy_\w+),[\w|\s]+, PyDoc_STR\()(?P<text>{_TEXT})"
    )
    _CLASS: Final = re.compile(
        rf"(?P<before>PyTypeObject (?P<name>CPyType_\w+)_template_ = {{[^}}]*"
        rf"\.tp_doc = PyDoc_STR\()(?P<text>{_TEXT})"
    )
    _PROPERTY: Final = re.compile(
        r"(?P<before>\(getter\)(?P<name>\w+),\s*(?:NULL|\(setter\)\w+),\s*)"
        r"(?P<text>NULL)(?=, NULL})"
    )
    _MODULE: Final = re.compile(
        r'(?P<before>"(?P<name>[\w.]+)",\s*)(?P<text>NULL)(?=, /\* docstring \*/)'
    )
    _PLAIN_CLASS: Final = re.compile(  # an enum or a named tuple; found by its place in the source
        r"= CPyStatics\[\d+\]; /\* 'mypyc filler docstring' \*/"
        r'(?=[^"]*CPy_AddTraceback\("(?P<file>[^"]+)", "<module>", (?P<line>\d+),)'
    )

    def __init__(self, rooms: tuple[str, ...]) -> None:
        from mypyc.namegen import NameGenerator

        modules = {room: room.removesuffix(".py").replace("/", ".") for room in rooms}
        self._c_name = NameGenerator([list(modules.values())]).private_name
        self._texts: dict[str, str] = {}
        self._by_line: dict[tuple[str, int], str] = {}
        trees = {room: ast.parse(Path(room).read_text(encoding="utf-8")) for room in rooms}
        nodes = [node for tree in trees.values() for node in tree.body]
        self._classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
        for room, tree in trees.items():
            self._texts[modules[room]] = ast.get_docstring(tree) or ""
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    text = ast.get_docstring(node) or ""
                    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                    self._by_line.update({(room, n): text for n in {first, node.lineno}})
                    self._add_class(modules[room], node)
                elif isinstance(node, ast.FunctionDef):
                    name = f"CPyPy_{self._c_name(modules[room], node.name)}"
                    self._texts[name] = ast.get_docstring(node) or ""

    def _add_class(self, module: str, node: ast.ClassDef) -> None:
        self._texts[f"CPyType_{self._c_name(module, node.name)}"] = ast.get_docstring(node) or ""
        for name in _methods(node):
            text = self._method(node, name)
            self._texts[f"CPyPy_{self._c_name(module, f'{node.name}.{name}')}"] = text
            self._texts[self._c_name(module, f"{node.name}_get_{name}")] = text

    def _method(self, node: ast.ClassDef, name: str) -> str:
        """Return a method's docstring; one without takes it from the base class, as `help` does."""
        method = _methods(node).get(name)
        text = ast.get_docstring(method) if method else None
        for base in node.bases:
            known = self._classes.get(base.id) if isinstance(base, ast.Name) else None
            text = text or (self._method(known, name) if known else None)
        return text or ""

    def added_to(self, code: str) -> str:
        """Return mypyc's code with the docstrings in it."""
        for pattern in (self._FUNCTION, self._CLASS, self._PROPERTY, self._MODULE):
            code = pattern.sub(self._with_text, code)
        return self._PLAIN_CLASS.sub(self._in_place_of_filler, code)

    def _with_text(self, found: re.Match[str]) -> str:
        text = self._texts.get(found["name"])
        if not text:
            return found[0]
        return found["before"] + ("" if found["text"] == "NULL" else found["text"]) + _c_text(text)

    def _in_place_of_filler(self, found: re.Match[str]) -> str:
        text = self._by_line.get((found["file"], int(found["line"])))
        # Made once, when the module is loaded, and kept for good.
        return f"= PyUnicode_FromString({_c_text(text)});" if text else found[0]


def _methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}


def _c_text(text: str) -> str:
    from mypyc.codegen.cstring import c_string_initializer

    return c_string_initializer(text.encode())
