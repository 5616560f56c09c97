"""Run what the README shows, with any Python in which the package is installed."""

import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Final

from tests.deploy.processes import awaited, environment, fetched, running
from tests.support.pace import scaled
from tests.support.ports import free_port

ROOT: Final = Path(__file__).parents[2]
DEADLINE: Final = 60.0
_SHOWN_URL: Final = "http://127.0.0.1:9464"


def blocks(language: str, name: str = "README.md") -> list[str]:
    page = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.M | re.S)


def library_snippets(name: str = "README.md") -> list[str]:
    return [snippet for snippet in blocks("python", name) if "client" not in snippet]


def played(python: str | Path, *arguments: str, folder: Path, variables: dict[str, str]) -> str:
    """Run Python with these arguments in `folder`; return what it prints."""
    done = subprocess.run(
        [python, *arguments],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=scaled(DEADLINE),
        check=False,
    )
    assert done.returncode == 0, f"{shlex.join(arguments)}\n{done.stdout}{done.stderr}"
    return done.stdout


def walk(python: str | Path, folder: Path) -> None:
    """Run the README's tour of five minutes.

    Check that the commands print what the README shows, and that the client's snippet runs.
    """
    (toml,) = blocks("toml")
    (session,) = blocks("console")
    (snippet,) = (snippet for snippet in blocks("python") if "client" in snippet)
    (folder / "fair-allocator.toml").write_text(toml, encoding="utf-8")
    steps = re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", session, re.M)
    program = ("-m", "fair_allocator")
    url = f"http://127.0.0.1:{free_port()}"
    here = environment(FAIR_ALLOCATOR_OBSERVE__PORT=url.rpartition(":")[2], FAIR_ALLOCATOR_URL=url)

    def run(command: str) -> str:
        name, *arguments = shlex.split(command)
        assert name == "fair-allocator"
        return played(python, *program, *arguments, folder=folder, variables=here)

    (checked, _), (served, _), *commands = steps
    assert "max-deficit" in run(checked)
    arguments = shlex.split(served.removesuffix(" &"))[1:]
    said = folder / "said.txt"
    with running([python, *program, *arguments], said, here) as service:
        awaited(lambda: fetched(f"{url}/readyz"), "the service is ready", said)
        for command, shown in commands:
            output = run(command)
            assert output == shown or not shown, command
        assert "decided again" in output
        assert _SHOWN_URL in snippet
        played(python, "-c", snippet.replace(_SHOWN_URL, url), folder=folder, variables=here)
        service.send_signal(signal.SIGTERM)
        assert service.wait(scaled(DEADLINE)) == 0


def first_answer(python: str | Path, folder: Path) -> str:
    """Run the README's first steps: serve its configuration, and ask by its curl command."""
    (block,) = (block for block in blocks("bash") if "curl" in block)
    served, asked = (
        shlex.split(line.removesuffix(" &"))[1:]
        for line in block.splitlines()
        if " run " in line or line.startswith("curl ")
    )
    port = str(free_port())
    arguments = [str(ROOT / word) if (ROOT / word).is_file() else word for word in served]
    asked = [word.replace("localhost:9464", f"127.0.0.1:{port}") for word in asked]
    said, here = folder / "said.txt", environment(FAIR_ALLOCATOR_OBSERVE__PORT=port)
    with running([python, "-m", "fair_allocator", *arguments], said, here):
        awaited(lambda: fetched(f"http://127.0.0.1:{port}/readyz"), "the service is ready", said)
        return played("curl", *asked, folder=folder, variables=here)
