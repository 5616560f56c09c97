"""The service of the demo, in a process of its own on the demo's log.

It serves until its standard input ends, which it also does when the demo is killed.
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from fair_allocator.config import Configuration, LogSettings
from fair_allocator.errors import LogUnavailable
from fair_allocator.service import Service
from fair_allocator.wiring import open_log, service_settings

_LAST_WORDS: Final = 2_000
_STOP_SECONDS: Final = 15.0


@contextmanager
def serving(path: Path, seed: int) -> Iterator[Callable[[], None]]:
    """Run the service in another process; yields what raises if that has ended by itself."""
    command = [sys.executable, "-m", __spec__.name, str(path), str(seed)]
    with (
        TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for the demo, which then ends the service
        ) as process,
    ):

        def check() -> None:
            if process.poll() is not None:
                errors.seek(0)
                said = errors.read().decode(errors="replace")[-_LAST_WORDS:]
                raise LogUnavailable(f"the service ended with {process.returncode}: {said}")

        try:
            yield check
        finally:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def configured(path: Path, seed: int) -> Configuration:
    """Return the defaults on the log at `path`, of which the audit is to read everything."""
    return Configuration(seed=seed, log=LogSettings(path=path, retain_records=None))


def make_service(configuration: Configuration) -> Service:
    """Return a service that is not running yet."""
    settings = service_settings(configuration, configuration.log.partitions)
    return Service(open_log(configuration), settings)


def main(path: str, seed: str) -> None:
    """Serve until standard input ends."""
    service = make_service(configured(Path(path), int(seed)))

    def stop_with_input() -> None:
        sys.stdin.read()
        service.stop()

    threading.Thread(target=stop_with_input, daemon=True).start()
    service.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
