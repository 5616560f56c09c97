"""Audit a log. If it is long, several processes do it, each for one partition at a time."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from fair_allocator.audit import Audit, Report
from fair_allocator.audit.chain import Head
from fair_allocator.cli.heads import record_count
from fair_allocator.cli.printing import Bar, bar
from fair_allocator.config import Configuration
from fair_allocator.errors import LogUnavailable, OffsetGone
from fair_allocator.log import LogClient
from fair_allocator.wiring import open_client

LONG: Final = 100_000
"""With at least this many records, several processes are faster than one, as each takes a second to
start."""

_GRAIN: Final = 1_000
"""A process reports its progress after this many records."""

_LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Job:
    """What every process of an audit needs to know."""

    configuration: Configuration
    window: int
    heads: tuple[Head, ...]
    partial: bool


def audited(client: LogClient, job: Job, jobs: int | None) -> Report:
    """Audit all partitions of a log. If the number of processes, `jobs`, is None, choose it."""
    records, partitions = record_count(client), range(client.partitions)
    if jobs is None:
        jobs = (os.cpu_count() or 1) if records >= LONG else 1
    jobs = min(jobs, len(partitions))
    if jobs > 1 and all(head.partition in partitions for head in job.heads):
        with bar("auditing", records) as progress:
            report = Report.joined(_side_by_side(job, partitions, jobs, progress))
        if report is not None:
            return report
    with bar("auditing", records) as progress:
        return _read(client, job, partitions, progress.advance)


def _side_by_side(job: Job, partitions: Sequence[int], jobs: int, progress: Bar) -> list[Report]:
    """Return a report for each partition."""
    context = multiprocessing.get_context("spawn")
    done = context.Value("q", 0)
    told = 0
    with ProcessPoolExecutor(jobs, context, _begin, (done,)) as pool:
        tasks = [pool.submit(_one, job, partition) for partition in partitions]
        try:
            left = set(tasks)
            while left:
                finished, left = wait(left, _LOOK_SECONDS, FIRST_COMPLETED)
                for task in finished:
                    task.result()  # raises the error of the process, if there was one
                progress.advance(done.value - told)
                told = done.value
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [task.result() for task in tasks]


_done: Any = None
"""In a process of the audit, a shared counter of the records that all processes have read."""


def _begin(done: Any) -> None:
    global _done
    _done = done


def _one(job: Job, partition: int) -> Report:
    """Audit one partition, in a process of its own."""

    def advance(records: int) -> None:
        with _done.get_lock():
            _done.value += records

    with closing(open_client(job.configuration)) as client:
        return _read(client, job, [partition], advance)


def _read(
    client: LogClient, job: Job, partitions: Sequence[int], advance: Callable[[int], None]
) -> Report:
    """Audit some partitions, one after the other."""
    audit = Audit(
        window=job.window,
        whole=False if job.partial else None,
        heads=job.heads,
        partitions=None if len(partitions) == client.partitions else partitions,
    )
    for partition in partitions:
        try:
            for count, record in enumerate(client.read("assignments", partition), start=1):
                audit.feed(partition, record.offset, record.value or b"")
                if count % _GRAIN == 0:
                    advance(_GRAIN)
        except OffsetGone as error:
            raise LogUnavailable(f"{error}: trimmed while it was read, try again") from error
    trimmed = [n for n in partitions if client.start_offset("assignments", n)]
    return audit.finish(trimmed=trimmed, partial=job.partial)
