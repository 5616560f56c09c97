"""A real crowd: replay a file of graded answers with this package and with others.

Each task is a request. Only the workers who really answered the task can take it. A picked worker
earns 1 if the answer was right, otherwise 0. The tasks come in a random order. After the last task,
all tasks come again, in another random order.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from fair_allocator.core.pool import Pool
from fair_allocator.errors import ConfigurationError
from fair_allocator.simulate.chance import generator
from fair_allocator.simulate.crowd import Bools, Contestant, CrowdOutcome, contestants, put
from fair_allocator.simulate.crowd_measures import attend
from fair_allocator.simulate.figures import checkpoints, over_runs
from fair_allocator.simulate.policies import Floats, Ints

COLUMNS: Final = ("task", "worker", "right")
RIGHT: Final = {"1": True, "0": False}

AT_END: Final = ("longest gap", "accuracy", "gini", "busiest tenth", "least share")
WORK: Final = "work"
"""The name of the curve over n: the share of the work that the n least busy workers do."""

_ORDER: Final = 1
"""The stream of random numbers that orders the tasks."""


class Answers(NamedTuple):
    """The answers of a crowd.

    Attributes
    ----------
    there, right
        By [task, worker]: whether the worker answered the task, and whether the answer was right.
    """

    tasks: tuple[str, ...]
    workers: tuple[str, ...]
    there: Bools
    right: Bools

    @property
    def given(self) -> Ints:
        """How many tasks each worker answered."""
        return np.asarray(self.there.sum(axis=0))


@dataclass(frozen=True)
class Plan:
    """How to play the answers.

    Attributes
    ----------
    quota
        The quota of each worker, as a share of the slots of the tasks that the worker answered.
    slots
        How many answers a request wants.
    """

    quota: Fraction
    rounds: int = 100_000
    slots: int = 3


def read(path: Path) -> Answers:
    """Read a CSV file with the columns task, worker and right (1 or 0), and possibly others."""
    found: dict[tuple[str, str], bool] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise ConfigurationError(f"{path}: has no column {missing[0]} in its first line")
            for row in reader:
                task, worker, right = (row[name] or "" for name in COLUMNS)
                if not task or not worker or right not in RIGHT:
                    raise ConfigurationError(
                        f"{path}: line {reader.line_num}: needs a task, a worker, and 1 or 0 for "
                        f"right, got {task!r}, {worker!r} and {right!r}"
                    )
                if (task, worker) in found:
                    raise ConfigurationError(
                        f"{path}: line {reader.line_num}: a second answer of {worker!r} to {task!r}"
                    )
                found[task, worker] = RIGHT[right]
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"{path}: is not CSV in UTF-8: {error}") from None
    if not found:
        raise ConfigurationError(f"{path}: has no answers")
    return _matrices(found)


def _matrices(found: dict[tuple[str, str], bool]) -> Answers:
    tasks = {task: place for place, task in enumerate(dict.fromkeys(task for task, _ in found))}
    workers = {name: place for place, name in enumerate(dict.fromkeys(name for _, name in found))}
    there = np.zeros((len(tasks), len(workers)), dtype=np.bool_)
    right = np.zeros_like(there)
    for (task, worker), value in found.items():
        there[tasks[task], workers[worker]] = True
        right[tasks[task], workers[worker]] = value
    return Answers(tuple(tasks), tuple(workers), there, right)


def entrants(bank: int) -> tuple[Contestant, ...]:
    """Return the ways to serve the tasks: ours with and without a bank, plain UCB1, and LFG."""
    wanted = ("fair-ucb", "ucb1", "lfg")
    return tuple(one for one in contestants(bank) if one.name.startswith(wanted))


def order(answers: Answers, rounds: int, seed: int, run: int) -> Ints:
    """Return the task of each request: all tasks in random order, again and again."""
    chance, count = generator(seed, run, _ORDER), len(answers.tasks)
    turns = [chance.permutation(count) for _ in range(-(-rounds // count))]
    return np.concatenate(turns)[:rounds]


def make_pool(
    answers: Answers,
    plan: Plan,
    contestant: Contestant,
    seed: int,
    run: int,
    *,
    same_target: bool = False,
) -> Pool:
    """Return the pool that plays a contestant."""
    quotas = dict.fromkeys(answers.workers, plan.quota)
    if same_target and contestant.queues:
        # Queues grow in every request, but a worker can take only a part of the requests.
        tasks = len(answers.tasks)
        for worker, given in zip(answers.workers, answers.given.tolist(), strict=True):
            quotas[worker] = (plan.quota * given / tasks).limit_denominator(10**9)
    return Pool(
        quotas,
        learner=contestant.learner,
        rule=contestant.rule,
        bank=contestant.bank,
        requests="any",
        seed=seed,
        name=f"run {run}",
        remember=0,
    )


def play(
    answers: Answers,
    plan: Plan,
    wanted: Sequence[Contestant],
    seed: int,
    runs: int,
    tick: Callable[[int], None] = lambda _: None,
    *,
    same_target: bool = False,
) -> dict[str, CrowdOutcome]:
    """Play every contestant in every run, all on the same requests in the same order."""
    points = checkpoints(plan.rounds)
    found: dict[str, list[_Run]] = {contestant.name: [] for contestant in wanted}
    for run in range(runs):
        tasks = order(answers, plan.rounds, seed, run)
        there, right = answers.there[tasks], answers.right[tasks]
        for contestant in wanted:
            pool = make_pool(answers, plan, contestant, seed, run, same_target=same_target)
            picks = put(pool, there, right, plan.slots, tick)
            found[contestant.name].append(_measure(there, right, picks, plan.quota))
    return {
        contestant.name: _together(answers, plan, contestant, found[contestant.name], points)
        for contestant in wanted
    }


class _Run(NamedTuple):
    """The results of a run: worst shortfall after each request, `AT_END`, and curve of work."""

    worst: Ints
    at_end: tuple[float, ...]
    work: Floats


def _measure(there: Bools, right: Bools, picks: Ints, quota: Fraction) -> _Run:
    pulled, care = attend(there, picks, quota)
    pulls = pulled.sum(axis=0)
    accuracy = float((pulled & right).sum() / pulls.sum())
    return _Run(
        care.worst,
        (float(care.gap), accuracy, gini(pulls), busiest_tenth(pulls), care.share),
        lorenz(pulls),
    )


def lorenz(work: Ints) -> Floats:
    """Return for n = 0, 1, ... the share of the work that the n least busy workers do.

    >>> lorenz(np.array([3, 0, 1])).tolist()
    [0.0, 0.0, 0.25, 1.0]
    """
    return np.concatenate(([0.0], np.cumsum(np.sort(work)) / work.sum()))


def gini(work: Ints) -> float:
    """Return how unequal the work is: 0 if it is equal, near 1 if one worker does everything.

    >>> gini(np.array([2, 2, 2, 2])), gini(np.array([0, 0, 0, 8]))
    (0.0, 0.75)
    """
    curve = lorenz(work)
    return float(1 - (curve[1:] + curve[:-1]).sum() / len(work))


def busiest_tenth(work: Ints) -> float:
    """Return the share of the work that the busiest tenth of the workers, at least one, does.

    >>> busiest_tenth(np.array([6, 1, 1, 1, 1]))
    0.6
    """
    tenth = max(1, round(len(work) / 10))
    return float(np.sort(work)[-tenth:].sum() / work.sum())


def _together(
    answers: Answers,
    plan: Plan,
    contestant: Contestant,
    runs: Sequence[_Run],
    points: list[int],
) -> CrowdOutcome:
    guarantee = make_pool(answers, plan, contestant, 0, 0).guarantee
    worst = np.stack([run.worst[np.asarray(points) - 1] for run in runs], axis=1)
    measures = {"worst shortfall": over_runs(points, worst, int(worst.max()))}
    for at, name in enumerate(AT_END):
        values = np.array([[run.at_end[at] for run in runs]])
        most = int(values.max()) if name == "longest gap" else None
        measures[name] = over_runs([plan.rounds], values, most)
    workers = list(range(len(answers.workers) + 1))
    measures[WORK] = over_runs(workers, np.stack([run.work for run in runs], axis=1))
    return CrowdOutcome(guarantee.bound, guarantee.longest_wait(plan.quota), measures)
