"""Compiles the hot rooms into the wheel, with mypyc, where there is a C compiler.

The wheel has the sources too, and without the compiled rooms it behaves the same, only slower. An
editable installation is never compiled: who edits a source wants that source to run.
"""

import os
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

COMPILED: Final = (
    "fair_allocator/core/arms.py",
    "fair_allocator/core/draws.py",
    "fair_allocator/core/fairness.py",
    "fair_allocator/core/figures.py",
    "fair_allocator/core/forcing.py",
    "fair_allocator/core/kinetic.py",
    "fair_allocator/core/pool.py",
    "fair_allocator/core/requests.py",
    "fair_allocator/core/learners/base.py",
    "fair_allocator/core/learners/known.py",
    "fair_allocator/core/learners/ucb1.py",
    "fair_allocator/shard/hosted.py",
    "fair_allocator/shard/journal.py",
    "fair_allocator/shard/outbox.py",
    "fair_allocator/shard/settings.py",
    "fair_allocator/shard/shard.py",
    "fair_allocator/shard/table.py",
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
            [*options, *COMPILED], group_name=name, target_dir=str(folder / "c"), debug_level="0"
        )
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
