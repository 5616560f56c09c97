"""The documentation says what is so: its snippets run, and its generated parts are current."""

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path

from fair_allocator.core.learners import is_built_in, known_learners
from scripts.configuration import page
from scripts.rooms import figure
from tests.deploy.processes import awaited, environment, fetched
from tests.support.pace import scaled
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DEADLINE = 60.0


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def test_the_configuration_reference_is_current() -> None:
    written = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == page(), "run `make docs`"


def test_the_configuration_reference_has_every_learner() -> None:
    for name, kind in known_learners().items():
        if is_built_in(name):
            for parameter in signature(kind).parameters or ["none"]:
                assert re.search(rf"^\| `{name}` \| `?{parameter}`? \|", page(), re.M)


def test_the_python_snippets_run() -> None:
    snippets = [snippet for snippet in blocks("python") if "client" not in snippet]
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
    """Every command of the walk exits 0 and prints what is shown, and the client's snippet runs."""
    (toml,) = blocks("toml")
    (session,) = blocks("console")
    (snippet,) = (snippet for snippet in blocks("python") if "client" in snippet)
    (tmp_path / "fair-allocator.toml").write_text(toml, encoding="utf-8")
    walk = re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", session, re.M)
    program = [sys.executable, "-m", "fair_allocator"]
    url = f"http://127.0.0.1:{free_port()}"
    assert "http://127.0.0.1:9464" in snippet
    here = environment(FAIR_ALLOCATOR_OBSERVE__PORT=url.rpartition(":")[2], FAIR_ALLOCATOR_URL=url)

    def run(command: str) -> str:
        name, *arguments = shlex.split(command)
        assert name == "fair-allocator"
        done = subprocess.run(
            [*program, *arguments],
            cwd=tmp_path,
            env=here,
            capture_output=True,
            text=True,
            timeout=scaled(DEADLINE),
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    (checked, _), (served, _), *commands = walk
    assert "max-deficit" in run(checked)
    arguments = shlex.split(served.removesuffix(" &"))[1:]
    with background([*program, *arguments], tmp_path, here) as service:
        awaited(lambda: fetched(f"{url}/readyz"), "the service is ready")
        for command, shown in commands:
            output = run(command)
            assert output == shown or not shown, command
        assert "decided again" in output
        exec(compile(snippet.replace("http://127.0.0.1:9464", url), "README.md", "exec"), {})
        service.send_signal(signal.SIGTERM)
        assert service.wait(scaled(DEADLINE)) == 0


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
