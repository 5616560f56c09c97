"""Code that the tests of the embedded log share."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from fair_allocator.errors import FairAllocatorError
from fair_allocator.log import Incoming
from fair_allocator.log.sqlite import SqliteClient, SqliteLog


def fill(path: Path) -> Path:
    """Make a log of two partitions with a thousand requests in each."""
    with SqliteClient(path, 2) as client:
        client.append_many([Incoming("requests", b"k", b"v" * 200, i % 2) for i in range(2_000)])
    return path


class Owner:
    """A handler that seeks to the committed positions: as much of a service as these tests need."""

    def __init__(self, log: SqliteLog) -> None:
        self.log = log

    def gained(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self.log.seek(partition, self.log.committed(partition).offsets)

    def losing(self, partitions: Sequence[int]) -> None:
        raise AssertionError("nobody else can own a file")

    def lost(self, partitions: Sequence[int]) -> None:
        raise AssertionError("nobody else can own a file")


@contextmanager
def opened(log: SqliteLog) -> Iterator[SqliteLog]:
    with log:
        log.open(Owner(log))
        log.poll(0, 0)
        yield log


def refused(path: Path | str, partitions: int | None = 2) -> FairAllocatorError:
    with pytest.raises(FairAllocatorError) as caught, opened(SqliteLog(path, partitions)):
        pass
    return caught.value


def run(program: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
