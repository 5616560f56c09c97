"""The documentation says what is so: its snippets run, and its generated parts are current."""

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fair_allocator import config
from scripts.rooms import figure
from tests.deploy.processes import environment
from tests.support.pace import deadline, scaled

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DEADLINE = 60.0


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def test_the_configuration_reference_is_current() -> None:
    written = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == f"# Configuration\n\n{config.reference()}"


def test_the_python_snippets_run() -> None:
    snippets = blocks("python")
    assert len(snippets) == 2
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), {})


def test_every_relative_link_leads_somewhere() -> None:
    for document in (ROOT / "README.md", *ROOT.glob("docs/*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


@contextmanager
def background(
    command: list[str], folder: Path, variables: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, cwd=folder, env=variables, stderr=subprocess.DEVNULL) as child:
        try:
            yield child
        finally:
            child.kill()


def test_the_five_minutes_walk_works(tmp_path: Path) -> None:
    """Every command of the walk exits 0, and the service has done what it was asked to."""
    (toml,) = blocks("toml")
    (session,) = blocks("console")
    (tmp_path / "fair-allocator.toml").write_text(toml, encoding="utf-8")
    commands = [line.removeprefix("$ ") for line in session.splitlines()]
    program = [sys.executable, "-m", "fair_allocator"]
    (served,) = (c for c in commands if c.endswith(" &"))
    anywhere = environment(FAIR_ALLOCATOR_OBSERVE__PORT="0")

    def run(command: str) -> str:
        name, *arguments = shlex.split(command)
        assert name == "fair-allocator"
        done = subprocess.run(
            [*program, *arguments],
            cwd=tmp_path,
            env=anywhere,
            capture_output=True,
            text=True,
            timeout=scaled(DEADLINE),
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    assert "max-deficit" in run(commands[0])
    arguments = shlex.split(served.removesuffix(" &"))[1:]
    with background([*program, *arguments], tmp_path, anywhere) as service:
        for command in commands[2:]:
            if command.split()[1] in ("inspect", "audit"):
                wait_for_pools(run)
            output = run(command)
        assert "decided again" in output
        service.send_signal(signal.SIGTERM)
        assert service.wait(scaled(DEADLINE)) == 0


def wait_for_pools(run: Callable[[str], str]) -> None:
    """Wait until both requests of the walk were answered."""
    limit = deadline(DEADLINE)
    while time.monotonic() < limit:
        said = json.loads(run("fair-allocator inspect --json --config fair-allocator.toml"))
        pools = (pool for partition in said["partitions"] for pool in partition["pools"])
        if {"tasks", "user-17"} <= {pool["pool"] for pool in pools if pool["rounds"]}:
            return
    pytest.fail("the requests were not answered")


def test_the_rooms_of_the_architecture_page_are_current() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert f"```\n{figure()}\n```" in page, "python -m scripts.rooms prints the figure"


def test_every_file_that_the_architecture_page_names_exists() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:[a-z_]+/)+[\w*]*(?:\.py)?)`", page)
    assert len(named) > 20
    for name in named:
        found = [*ROOT.glob(name), *(ROOT / "fair_allocator").glob(name)]
        found += [*(ROOT / "fair_allocator").glob(f"{name}.py")]
        assert found, name
