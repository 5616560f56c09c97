"""The service of the demo. It runs in a separate process, on the log of the demo.

It serves until its standard input ends. The input also ends if the process of the demo is killed.
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from fair_allocator.config import Configuration, LogSection, ObserveSection
from fair_allocator.demo.scenarios import SCENARIOS
from fair_allocator.demo.world import World
from fair_allocator.errors import LogUnavailable
from fair_allocator.observe.observer import Observer
from fair_allocator.service import Service
from fair_allocator.serving import observed
from fair_allocator.wiring import open_log, service_settings

_LAST_WORDS: Final = 2_000
_STOP_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Running:
    """A service in another process; `check` raises if the service has ended by itself.

    `page` is the address of its live page, "" if there is none.
    """

    check: Callable[[], None]
    page: str


@contextmanager
def serving(path: Path, seed: int, world: World, requests: int) -> Iterator[Running]:
    """Run the service in another process."""
    command = [sys.executable, "-m", __spec__.name, str(path), str(seed), world.name, str(requests)]
    with (
        TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C must reach only the demo, which then ends the service
        ) as process,
    ):

        def check() -> None:
            if process.poll() is not None:
                errors.seek(0)
                said = errors.read().decode(errors="replace")[-_LAST_WORDS:]
                raise LogUnavailable(f"the service ended with {process.returncode}: {said}")

        try:
            page = process.stdout.readline() if process.stdout is not None else b""
            yield Running(check, page.decode().strip())
        finally:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def configured(path: Path, seed: int) -> Configuration:
    """Return the defaults for a log at `path` that keeps all records, for the audit."""
    return Configuration(
        seed=seed,
        log=LogSection(path=path, retain_records=None),
        observe=ObserveSection(port=0),
    )


def make_service(configuration: Configuration, observer: Observer | None = None) -> Service:
    """Return a service that is not running yet."""
    settings = service_settings(configuration, configuration.log.partitions)
    beat = (lambda: None) if observer is None else observer.beat
    return Service(open_log(configuration), settings, heartbeat=beat, probe=observer)


def main(path: str, seed: str, scenario: str, requests: str) -> None:
    """Print the address of the live page, and serve until standard input ends."""
    configuration, observer = configured(Path(path), int(seed)), Observer()
    service = make_service(configuration, observer)
    world = SCENARIOS[scenario](int(seed), int(requests))
    truth = {world.pool: {arm.name: arm.mean for arm in world.arms}}

    def stop_with_input() -> None:
        sys.stdin.read()
        service.stop()

    threading.Thread(target=stop_with_input, daemon=True).start()
    with observed(configuration, observer, truth) as page:
        print(page or "", flush=True)
        service.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
