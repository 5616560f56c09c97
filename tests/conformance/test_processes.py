"""What every log promises when processes share it, and when they die."""

import pickle
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest

from fair_allocator.log import INPUTS, Incoming
from tests.conformance.conftest import (
    IN_ONE_MODE,
    PARTITIONS,
    PATIENCE_SECONDS,
    SHARED_BETWEEN_PROCESSES,
    LogFactory,
)
from tests.support.pace import scaled
from tests.support.signals import kill

pytestmark = pytest.mark.slow

EVERY = range(PARTITIONS)
PROGRAM = Path(__file__).with_name("child.py")

shared = partial(pytest.mark.parametrize, "log_factory", indirect=True)


@contextmanager
def child(task: str, *arguments: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), task], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        stdin = process.stdin
        assert stdin is not None
        stdin.write(pickle.dumps(arguments))
        stdin.close()
        yield process
        kill(process)


def progress(process: subprocess.Popen[bytes]) -> Iterator[int]:
    """Yield how many records each commit dealt with."""
    stdout: IO[bytes] | None = process.stdout
    assert stdout is not None
    for line in stdout:
        if count := int(line):  # none while it waits for the group, or has nothing left to do
            yield count


@shared([name for name in SHARED_BETWEEN_PROCESSES if name in IN_ONE_MODE])
def test_many_processes_append_without_loss_and_in_their_own_order(log_factory: LogFactory) -> None:
    names, count = ["ann", "bob", "cyd", "dan"], 40
    with ExitStack() as running:
        senders = [
            running.enter_context(child("append", log_factory.make.client, name, count))
            for name in names
        ]
        assert [sender.wait(scaled(PATIENCE_SECONDS)) for sender in senders] == [0] * len(names)
    client = log_factory.client()
    numbers: dict[tuple[str, bytes], list[int]] = {}
    for topic in INPUTS:
        for partition in EVERY:
            offsets = []
            for record in client.read(topic, partition):
                offsets.append(record.offset)
                assert record.key is not None
                numbers.setdefault((topic, record.key), []).append(int(record.value or b""))
            assert offsets == sorted(set(offsets))
    assert sum(map(len, numbers.values())) == len(names) * count
    assert all(sent == sorted(set(sent)) for sent in numbers.values())


def check_answers(log_factory: LogFactory) -> int:
    """Compare answers, journal and hint with the committed positions; return the answers.

    Each answer is there once, or at least once in a log that promises no more.
    """
    service, client = log_factory.service().owning(), log_factory.client()
    answers = 0
    for partition in EVERY:
        committed = service.log.committed(partition)
        expected = [
            f"{topic} {record.offset}".encode()
            for topic, end in committed.offsets.items()
            for record in client.read(topic, partition, stop=end)
        ]
        found = Counter(record.value for record in client.read("assignments", partition))
        if log_factory.make.exactly_once:
            assert found == Counter(expected)
        assert found.keys() == set(expected)
        answers += len(found)
        entries = list(client.read("journal", partition))
        assert committed.hint.encode() == (entries[-1].value if entries else b"")
    service.log.close()
    return answers


@shared(SHARED_BETWEEN_PROCESSES)
def test_a_killed_service_has_committed_all_or_nothing(log_factory: LogFactory) -> None:
    chance = random.Random(20)
    client = log_factory.client()
    total = 0
    for _ in range(6 if log_factory.make.exactly_once else 3):
        inputs = [
            Incoming(chance.choice(INPUTS), b"k", b"v", chance.choice(EVERY)) for _ in range(400)
        ]
        client.append_many(inputs)
        total += len(inputs)
        with child("copy", log_factory.make.log) as service:
            for _ in zip(range(chance.randint(1, 12)), progress(service), strict=False):
                pass
            # Anywhere in the next commit, or right after it.
            time.sleep(chance.random() * 0.02)
            kill(service)
        assert 0 < check_answers(log_factory) <= total
    left = total - check_answers(log_factory)
    with child("copy", log_factory.make.log) as service:
        answered = progress(service)
        while left > 0:  # the killed services may have done everything
            left -= next(answered)
    assert check_answers(log_factory) == total


@shared(SHARED_BETWEEN_PROCESSES)
def test_a_service_commits_while_others_append(log_factory: LogFactory) -> None:
    names, count = ["ann", "bob"], 100
    with (
        child("copy", log_factory.make.log) as service,
        child("append", log_factory.make.client, names[0], count) as one,
        child("append", log_factory.make.client, names[1], count) as two,
    ):
        done = 0
        for answered in progress(service):
            done += answered
            if done >= len(names) * count:
                break
        assert one.wait(scaled(PATIENCE_SECONDS)) == 0
        assert two.wait(scaled(PATIENCE_SECONDS)) == 0
    assert check_answers(log_factory) == len(names) * count
