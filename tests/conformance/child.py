"""One process among several on a log; run as a program, told by standard input what to do."""

import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

from fair_allocator.log import INPUTS, Log, LogClient, Outgoing


class Resume:
    """Starts every partition where the last owner stopped."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def gained(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self.log.seek(partition, self.log.committed(partition).offsets)

    def losing(self, partitions: Sequence[int]) -> None:
        """Nothing is left uncommitted between two polls."""

    def lost(self, partitions: Sequence[int]) -> None:
        """Nothing is left uncommitted between two polls."""


def copy(make_log: Callable[[], Log]) -> None:
    """Answer every input with a record that names it, and journal each batch, for ever."""
    with make_log() as log:
        log.open(Resume(log))
        while True:
            records = log.poll(0.5, 20)
            outgoing = [
                Outgoing("assignments", r.partition, r.key, f"{r.topic} {r.offset}".encode())
                for r in records
            ]
            offsets = {(r.topic, r.partition): r.offset + 1 for r in records}
            hints = {}
            for partition in {r.partition for r in records}:
                reached = " ".join(str(offsets.get((topic, partition))) for topic in INPUTS)
                outgoing.append(Outgoing("journal", partition, None, reached.encode()))
                hints[partition] = reached
            log.commit(outgoing, offsets, hints)
            print(len(records), flush=True)


def append(make_client: Callable[[], LogClient], name: str, count: int) -> None:
    """Send numbered records, one at a time."""
    with make_client() as client:
        for number in range(count):
            client.append(INPUTS[number % 3], f"{name}-{number % 10}".encode(), b"%d" % number)


if __name__ == "__main__":
    tasks: dict[str, Callable[..., None]] = {"copy": copy, "append": append}
    arguments: tuple[Any, ...] = pickle.load(sys.stdin.buffer)
    tasks[sys.argv[1]](*arguments)
