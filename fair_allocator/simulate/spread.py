"""Divide the runs of a job among processes. The outcome does not depend on the division."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from itertools import groupby
from multiprocessing import get_context
from typing import Any, Final, NamedTuple

import numpy as np

from fair_allocator.simulate import batch, single
from fair_allocator.simulate.batch import Played, PolicyRun, Tick
from fair_allocator.simulate.policies import Instance, Policy

ENGINES: Final = {"core": single.play, "vectorised": batch.play}

SMALL: Final = 20_000
"""Up to this many decisions, the core is as fast as the vectorised engine."""

_POLL_SECONDS: Final = 0.2


class Job(NamedTuple):
    """Policies to play on an instance, each in runs 0, 1, 2 and so on."""

    instance: Instance
    policies: tuple[Policy, ...]
    runs: int
    horizon: int
    seed: int
    checkpoints: tuple[int, ...]

    @property
    def decisions(self) -> int:
        """How many decisions the job needs."""
        return len(self.policies) * self.runs * self.horizon


class Players:
    """One or more processes that play jobs; use it in a `with` block."""

    def __init__(
        self, processes: int = 1, engine: str = "auto", tick: Tick = lambda _: None
    ) -> None:
        self._processes, self._engine, self._tick = processes, engine, tick
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Players":
        if self._processes > 1:
            context = get_context("spawn")
            self._queue = context.SimpleQueue()
            self._pool = ProcessPoolExecutor(self._processes, context, _listen, (self._queue,))
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def play(self, job: Job) -> dict[str, Played]:
        """Return the outcome of each policy by name; the pulls are by [checkpoint, run, arm]."""
        parts = list(_parts(job, self._processes))
        engine = self._engine
        if engine == "auto":
            engine = "core" if job.decisions <= SMALL else "vectorised"
        played = self._play(engine, job, parts)
        found = {}
        for rows, (pulls, worst) in zip(parts, played, strict=True):
            for at, row in enumerate(rows):
                found[row] = pulls[:, at], worst[at]
        outcomes = {}
        for policy in job.policies:
            runs = [found[PolicyRun(policy, run)] for run in range(job.runs)]
            pulls = np.stack([each for each, _ in runs], axis=1)
            outcomes[policy.name] = Played(pulls, np.array([worst for _, worst in runs]))
        return outcomes

    def _play(self, engine: str, job: Job, parts: Sequence[list[PolicyRun]]) -> list[Played]:
        if self._pool is None:
            return [_play(engine, job, rows, self._tick) for rows in parts]
        futures = [self._pool.submit(_play_and_tell, engine, job, rows) for rows in parts]
        waiting = set(futures)
        while waiting:
            waiting = wait(waiting, _POLL_SECONDS).not_done
            while not self._queue.empty():
                self._tick(self._queue.get())
        return [future.result() for future in futures]


def play(
    job: Job, processes: int = 1, engine: str = "auto", tick: Tick = lambda _: None
) -> dict[str, Played]:
    """Play one job."""
    with Players(processes, engine, tick) as players:
        return players.play(job)


def _parts(job: Job, processes: int) -> Iterator[list[PolicyRun]]:
    """Split the runs into parts that the engine can play together, each kind for every process."""
    rules = {policy: policy.rule_on(job.instance) for policy in job.policies}
    rule_of = {policy.learner: rule for policy, rule in rules.items() if rule != "none"}

    def kind(policy: Policy) -> tuple[str, str]:
        # A policy with the rule "none" can be played together with a policy that has another rule.
        rule = rules[policy]
        return policy.learner, rule_of.get(policy.learner, rule) if rule == "none" else rule

    for _, group in groupby(sorted(job.policies, key=kind), kind):
        rows = [PolicyRun(policy, run) for policy in group for run in range(job.runs)]
        size = -(-len(rows) // processes)
        yield from (rows[at : at + size] for at in range(0, len(rows), size))


def _play(engine: str, job: Job, rows: Sequence[PolicyRun], tick: Tick) -> Played:
    return ENGINES[engine](job.instance, rows, job.horizon, job.seed, job.checkpoints, tick)


_told: Any = None
"""In a worker process: the queue on which it reports its progress."""


def _listen(queue: Any) -> None:
    global _told
    _told = queue


def _play_and_tell(engine: str, job: Job, rows: Sequence[PolicyRun]) -> Played:
    return _play(engine, job, rows, _told.put)
