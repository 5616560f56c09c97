"""Processes on loopback: started, waited for by what they do, and ended by their id."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar
from urllib.error import URLError
from urllib.request import urlopen

from tests.support.pace import deadline, scaled
from tests.support.signals import kill

DEADLINE: Final = 90.0
"""Seconds, to be scaled, which only a failure takes."""

Found = TypeVar("Found")


def environment(**variables: str) -> dict[str, str]:
    """This process's environment without settings of the service, and with `variables`."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("FAIR_ALLOCATOR_")}
    return inherited | variables


@contextmanager
def running(
    command: Sequence[str | Path], said: Path, variables: Mapping[str, str], user: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program whose output goes to the file `said`; SIGTERM ends it."""
    with (
        said.open("wb") as output,
        subprocess.Popen(
            list(command),
            env=variables,
            cwd=said.parent,
            stdout=output,
            stderr=subprocess.STDOUT,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(scaled(20))
            except subprocess.TimeoutExpired:
                kill(process)


def awaited(look: Callable[[], Found | None], what: str, said: Path | None = None) -> Found:
    """Look until there is something; `said` is shown if there never is."""
    limit = deadline(DEADLINE)
    while time.monotonic() < limit:
        found = look()
        if found is not None:
            return found
        time.sleep(0.1)
    tail = said.read_text(errors="replace")[-3000:] if said else ""
    raise AssertionError(f"{what}: not within {scaled(DEADLINE):g} s\n{tail}")


def fetched(url: str) -> str | None:
    """What is served there; None if nothing is, or not with success."""
    try:
        with urlopen(url, timeout=scaled(10)) as answer:
            body: bytes = answer.read()
            return body.decode()
    except (URLError, OSError):
        return None
