"""A real service in a process of its own, with its page on a free port."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.deploy.processes import awaited, environment, running
from tests.observe.scraped import Samples, parsed
from tests.support.pace import scaled
from tests.support.signals import kill


class Process:
    """A running service; `url` ends with a slash."""

    def __init__(self, child: subprocess.Popen[bytes], url: str, said: Path) -> None:
        self.child = child
        self.url = url
        self.said = said

    def get(self, path: str, **headers: str) -> str:
        with urlopen(Request(self.url + path, headers=headers), timeout=scaled(30)) as answer:
            body: bytes = answer.read()
            return body.decode()

    def health(self, path: str) -> tuple[int, str]:
        """Ask a path of health; return the status and the reason."""
        try:
            return 200, self.get(path).strip()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode().strip()

    def scrape(self) -> Samples:
        return parsed(self.get("metrics"))

    def kill(self) -> None:
        kill(self.child)


@contextmanager
def service(folder: Path, configuration: str, port: int = 0) -> Iterator[Process]:
    """Run a service on a log in `folder`."""
    file, said = folder / "fair-allocator.toml", folder / "said.txt"
    file.write_text(f"{configuration}\n[observe]\nport = {port}\n", encoding="utf-8")
    command = [sys.executable, "-m", "fair_allocator", "run", "--config", str(file)]
    with running(command, said, environment()) as process:

        def address() -> str | None:
            assert process.poll() is None, said.read_text()
            found = re.search(r"page at (http://[^/]*/)", said.read_text())
            return found and found[1]

        yield Process(process, awaited(address, "an address", said), said)
