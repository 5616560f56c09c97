"""The files for a forge and for pre-commit are valid, and name what exists."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from fair_allocator import __version__

ROOT = Path(__file__).parents[2]
FORGE = ROOT / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
FORMS = sorted((FORGE / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def jobs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = loaded(FORGE / "workflows" / name)["jobs"]
    return found


def valid(schema: str, *paths: Path) -> None:
    program = Path(sys.executable).with_name("check-jsonschema")
    command: list[str | Path] = [program, "--builtin-schema", f"vendor.{schema}", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflows_are_valid() -> None:
    assert len(WORKFLOWS) == 4
    valid("github-workflows", *WORKFLOWS)


def test_the_issue_forms_are_valid() -> None:
    assert len(FORMS) == 2
    valid("github-issue-forms", *FORMS)
    valid("github-issue-config", FORGE / "ISSUE_TEMPLATE" / "config.yml")


def test_every_workflow_may_only_read_unless_a_job_needs_more() -> None:
    for path in WORKFLOWS:
        assert loaded(path)["permissions"] == {"contents": "read"}, path.name


def test_every_python_is_tested_and_has_wheels() -> None:
    pythons = jobs("test.yml")["check"]["strategy"]["matrix"]["python"]
    assert pythons == ["3.11", "3.12", "3.13", "3.14"]
    assert PYPROJECT["project"]["requires-python"] == f">={pythons[0]}"
    steps = jobs("wheels.yml")["wheels"]["steps"]
    (build,) = (step["env"]["CIBW_BUILD"] for step in steps if "env" in step)
    assert build.split() == [f"cp{python.replace('.', '')}-*" for python in pythons]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_the_files_that_a_workflow_runs_exist(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for job in loaded(path)["jobs"].values():
        if "uses" in job:
            assert (ROOT / job["uses"]).exists()
        for step in job.get("steps", ()):
            words = shlex.split(step.get("run", ""))
            if words and words[0] == "make":
                assert re.search(rf"^{words[1]}:", makefile, re.M)
            elif words and words[0].startswith("."):
                assert (ROOT / words[0]).exists()


def test_a_release_compares_its_tag_with_the_version_as_it_is_written() -> None:
    (run,) = (step["run"] for step in jobs("release.yml")["version"]["steps"] if "run" in step)
    assert '"__version__ = \\"${TAG#v}\\""' in run
    written = (ROOT / "fair_allocator" / "__init__.py").read_text(encoding="utf-8").splitlines()
    assert f'__version__ = "{__version__}"' in written


def test_the_hooks_run_what_is_in_the_environment() -> None:
    (repository,) = loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    assert [hook["id"] for hook in repository["hooks"]] == ["ruff", "ruff-format", "mypy"]
    installed = Path(sys.executable).parent
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        folder, _, program = hook["entry"].split()[0].rpartition("/")
        assert folder == ".venv/bin"
        assert (installed / program).exists()
