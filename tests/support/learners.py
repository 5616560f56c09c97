"""Functions for the tests of learners: play rounds, start a learner, and check its choices."""

import json
from collections.abc import Mapping, Sequence
from copy import copy
from math import sqrt
from random import Random

from fair_allocator import Assignment, Learner, Pool
from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.learners import Choice, make_learner
from fair_allocator.core.quotas import Number, parse_quota

FREE: dict[str, Number] = {"a": 0, "b": 0, "c": 0}

DEVIATIONS = 4
"""By how many standard errors a frequency may differ.

The seeds are fixed, so the result is always the same.
"""


def play(pool: Pool, rewards: Mapping[str, float] | float, rounds: int = 1) -> list[Assignment]:
    """Play rounds. Rewards come at once: one number for all arms, or one for each arm."""
    played = []
    for _ in range(rounds):
        assignment = pool.assign(f"r{pool.rounds + 1}")
        value = rewards if isinstance(rewards, float) else rewards[assignment.arm]
        pool.reward(assignment.request_id, value)
        played.append(assignment)
    return played


def started(learner: Learner, *rewards: list[float], pending: tuple[int, ...] = ()) -> Learner:
    """Start a learner on arms with these observed rewards, and these numbers of pending rewards."""
    arms = Arms()
    arms.join((f"arm-{arm}" for arm in range(len(rewards))), 1)
    for arm, observed in enumerate(rewards):
        arms.observed[arm] = len(observed)
        arms.total[arm] = sum(observed)
        arms.pending[arm] = pending[arm] if pending else 0
        arms.pulls[arm] = arms.observed[arm] + arms.pending[arm]
    learner.begin(arms, Draws(7, "test"))
    return learner


def frequencies_agree(learner: Learner, chances: list[float], rounds: int = 4000) -> None:
    """Check how often a learner that gets no rewards chooses each arm."""
    chosen = [learner.choose(round)[0] for round in range(100, 100 + rounds)]
    for arm, chance in enumerate(chances):
        error = sqrt(chance * (1 - chance) / rounds)
        assert abs(chosen.count(arm) / rounds - chance) <= DEVIATIONS * error


class Table:
    """A learner with arms but without a pool, so that tests can ask it about any set of arms."""

    def __init__(self, learner: Learner, quotas: Sequence[Number], seed: int = 7) -> None:
        self.learner = learner
        self.arms = Arms()
        self.arms.join((f"arm-{arm}" for arm in range(len(quotas))), 1)
        for arm, quota in enumerate(quotas):
            self.arms.bend(arm, parse_quota(quota, ""), 0)
        self.draws = Draws(seed, "table")
        self.away: set[int] = set()
        self.round = 1
        self.open: list[tuple[int, Assignment]] = []
        learner.begin(self.arms, self.draws)

    def among(self, rng: Random) -> Among:
        """Make a random set of arms that is not empty: named arms, or all except some."""
        size = len(self.arms)
        here = [arm for arm in range(size) if arm not in self.away]
        kept = rng.sample(here, rng.randrange(1, len(here) + 1))
        if rng.random() < 0.5:
            return Among(size, named=sorted(kept))
        extra = {arm for arm in range(size) if arm not in kept and rng.random() < 0.5}
        return Among(size, away=self.away, extra=extra)

    def choose(self, among: Among, count: int) -> list[Choice]:
        """Ask the learner for arms twice, and check what must be true of every answer."""
        before = self.learner.state()
        choices = list(self.learner.choose_several(self.round, among, count))
        assert choices == list(self.learner.choose_several(self.round, among, count))
        assert self.learner.state() == before
        arms = [arm for arm, _ in choices]
        assert len(set(arms)) == count == len(arms)
        assert all(type(arm) is int and arm in among for arm in arms)
        for _, chance in choices:
            assert chance is None or (type(chance) is float and 0 < chance <= 1)
        if count == 1:
            assert self.learner.choose(self.round, among) == choices[0]
            if len(among) == len(self.arms):
                assert self.learner.choose(self.round) == choices[0]
        return choices

    def assign(self, choices: Sequence[Choice]) -> None:
        """Count one request with these arms."""
        for arm, chance in choices:
            name = self.arms.names[arm]
            assignment = Assignment(f"r{self.round}", name, self.round, 1, "learner", chance)
            self.arms.pulls[arm] += 1
            self.arms.pending[arm] += 1
            self.open.append((arm, assignment))
            self.learner.assigned(arm, assignment)
        self.round += 1

    def reward(self, place: int, value: float) -> None:
        """Reward one of the open assignments."""
        arm, assignment = self.open.pop(place)
        self.arms.pending[arm] -= 1
        self.arms.observed[arm] += 1
        self.arms.total[arm] += value
        self.learner.observed(arm, assignment, value)

    def expire(self, place: int) -> None:
        """Stop waiting for the reward of one of the open assignments."""
        arm, assignment = self.open.pop(place)
        self.arms.pending[arm] -= 1
        self.learner.expired(arm, assignment)

    def turn(self, arm: int) -> None:
        """Let an arm fall asleep or wake up. At least one arm stays awake."""
        here = arm in self.away
        if not here and len(self.away) == len(self.arms) - 1:
            return
        (self.away.discard if here else self.away.add)(arm)
        self.learner.present(arm, here)

    def happen(self, rng: Random) -> None:
        """Do something random that can happen between two requests."""
        kind = rng.choice(["reward", "reward", "reward", "expire", "turn"])
        if kind == "turn":
            self.turn(rng.randrange(len(self.arms)))
        elif self.open and kind == "expire":
            self.expire(rng.randrange(len(self.open)))
        elif self.open:
            self.reward(rng.randrange(len(self.open)), rng.choice([0.0, 0.5, 1.0, rng.random()]))

    def twin(self) -> "Table":
        """Return a table with a learner restored from the state of this one.

        They share the arms.
        """
        learner = make_learner({"name": self.learner.name, **self.learner.parameters()})
        learner.begin(self.arms, self.draws)
        learner.restore(json.loads(json.dumps(self.learner.state())))
        for arm in self.away:
            learner.present(arm, here=False)
        table = copy(self)
        table.learner = learner
        return table
