"""The vectorised engine: numpy plays many runs at once, round by round.

A *row* is one run of one policy. With the same random numbers, the engine makes exactly the same
choices as the core. Entitlements are exact integers with one common denominator. The indices of
learners are computed by the core's formulas in the same order, so they are rounded in the same way.
"""

from collections.abc import Callable, Sequence
from math import lcm, log, sqrt
from typing import Final, NamedTuple, Protocol

import numpy as np

from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.quotas import compare_sum_to_one
from fair_allocator.simulate.chance import uniforms
from fair_allocator.simulate.policies import Floats, Instance, Ints, Policy

NEVER: Final = np.iinfo(np.int64).max
_ROOM: Final = 1 << 62
_TICK: Final = 1000

Tick = Callable[[int], None]
"""A function that is called from time to time with the number of new decisions."""


class PolicyRun(NamedTuple):
    """One run of one policy."""

    policy: Policy
    run: int


class Played(NamedTuple):
    """The outcome of some rows.

    Attributes
    ----------
    pulls
        Pulls by [checkpoint, row, arm].
    worst
        For each row, the largest ``floor(quota * t) - pulls`` of any arm at any round t, exactly.
    """

    pulls: Ints
    worst: Ints


def play(
    instance: Instance,
    rows: Sequence[PolicyRun],
    horizon: int,
    seed: int,
    checkpoints: Sequence[int],
    tick: Tick = lambda _: None,
) -> Played:
    """Play rows that have the same learner, and the same rule or the rule "none"."""
    quotas = _Quotas(instance, rows, horizon)
    learner: _Learner = {"ucb1": _UCB1, "lfg": _LFG, "t-fair-ucb": _TFairUCB}[
        rows[0].policy.learner
    ](instance, rows, horizon)
    runs = sorted({row.run for row in rows})
    places = np.array([runs.index(row.run) for row in rows])
    means = np.tile(instance.means, len(rows))
    points = {t: at for at, t in enumerate(checkpoints)}
    pulls = np.zeros((len(points), len(rows), len(instance.means)), dtype=np.int64)
    for t, chance in enumerate(uniforms(seed, runs, horizon), 1):
        cells = quotas.forced(learner.choose(t))
        quotas.pulled(cells)
        learner.learn(cells, chance.take(places) < means.take(cells))
        if t in points:
            pulls[points[t]] = learner.pulls
        if t % _TICK == 0:
            tick(_TICK * len(rows))
    tick(horizon % _TICK * len(rows))
    return Played(pulls, quotas.worst())


# A *cell* is a row and an arm as one number, row * k + arm. A choice has one cell for each row.


class _Quotas:
    """By how much each arm of each row is short beyond its tolerance, times `unit`."""

    def __init__(self, instance: Instance, rows: Sequence[PolicyRun], horizon: int) -> None:
        quotas = instance.quotas
        self._unit = lcm(*(quota.denominator for quota in quotas))
        if self._unit * (horizon + 2) * 2 > _ROOM:
            raise InvalidPool(
                f"the quotas' common denominator {self._unit} times {horizon} rounds does not fit "
                "64 bits; round the quotas, or use the core engine"
            )
        rules = {row.policy.rule_on(instance) for row in rows} - {"none"}
        if len({row.policy.learner for row in rows}) != 1 or len(rules) > 1:
            raise ValueError("the rows of a batch share a learner and a rule")
        self._rule = rules.pop() if rules else "none"
        self._slope = np.array([self._unit // r.denominator * r.numerator for r in quotas])
        # A row with the rule "none" gets a tolerance that no arm can exceed, so nothing is forced.
        slack = [horizon if r.policy.rule == "none" else r.policy.tolerance for r in rows]
        self._slack = np.minimum(np.array(slack, dtype=np.int64), horizon)
        self._beyond: Ints = np.repeat(-self._unit * self._slack[:, None], len(quotas), axis=1)
        self._flat = self._beyond.ravel()
        self._first = np.arange(len(rows)) * len(quotas)
        self._peak = self._beyond.max(axis=1)
        early = self._rule == "earliest-deadline" and compare_sum_to_one(quotas) == 0
        self._trigger = -self._slope if early else np.zeros_like(self._slope)
        if self._rule == "earliest-deadline":
            self._slopes = np.tile(self._slope, len(rows))
            self._counts = np.repeat(self._slack + 1, len(quotas))
            self._deadlines = self._due(np.arange(self._flat.size))

    def forced(self, wishes: Ints) -> Ints:
        """Return for each row the arm to serve: an owed arm, otherwise the learner's choice."""
        if self._rule == "none":
            return wishes
        if self._rule == "max-deficit":
            cells = self._beyond.argmax(axis=1) + self._first
            return np.where(self._flat.take(cells) > 0, cells, wishes)
        owed = self._beyond > self._trigger
        deadlines = np.where(owed, self._deadlines.reshape(owed.shape), NEVER)
        cells = deadlines.argmin(axis=1) + self._first
        return np.where(owed.ravel().take(cells), cells, wishes)

    def _due(self, cells: Ints) -> Ints:
        slopes = self._slopes[cells]
        due = -(-self._unit * self._counts[cells] // np.maximum(slopes, 1))
        return np.where(slopes > 0, due, NEVER)

    def pulled(self, cells: Ints) -> None:
        """Count a round in which these cells were pulled."""
        before = self._flat.take(cells)
        # A shortfall is largest just before the arm is pulled.
        np.maximum(self._peak, before, out=self._peak)
        self._flat[cells] = before - self._unit
        self._beyond += self._slope
        if self._rule == "earliest-deadline":
            self._counts[cells] += 1
            self._deadlines[cells] = self._due(cells)

    def worst(self) -> Ints:
        """Return the worst shortfall so far of each row, in whole pulls."""
        peak = np.maximum(self._peak, self._beyond.max(axis=1))
        return np.asarray(peak // self._unit + self._slack)


class _Learner(Protocol):
    pulls: Floats

    def __init__(self, instance: Instance, rows: Sequence[PolicyRun], horizon: int) -> None: ...

    def choose(self, round: int) -> Ints: ...

    def learn(self, cells: Ints, rewards: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None: ...


class _UCB1:
    """UCB1. An arm without pulls has mean infinity, so the first such arm is chosen."""

    def __init__(self, instance: Instance, rows: Sequence[PolicyRun], horizon: int) -> None:  # noqa: ARG002
        self._shape = len(rows), len(instance.means)
        self.pulls: Floats = np.zeros(self._shape)
        self._first = np.arange(self._shape[0]) * self._shape[1]
        self._total: Floats = np.zeros(self._shape)
        self._mean: Floats = np.full(self._shape, np.inf)
        self._width: Floats = np.zeros(self._shape)
        self._index: Floats = np.zeros(self._shape)

    def choose(self, round: int) -> Ints:
        np.multiply(self._width, sqrt(2.0 * log(round)), out=self._index)
        self._index += self._mean
        return np.asarray(self._index.argmax(axis=1) + self._first)

    def learn(self, cells: Ints, rewards: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        pulls = self.pulls.take(cells) + 1.0
        total = self._total.take(cells) + rewards
        self.pulls.ravel()[cells] = pulls
        self._total.ravel()[cells] = total
        self._mean.ravel()[cells] = total / pulls
        self._width.ravel()[cells] = self._widths(pulls)

    def _widths(self, pulls: Floats) -> Floats:
        return 1.0 / np.sqrt(pulls)


class _LFG(_UCB1):
    def __init__(self, instance: Instance, rows: Sequence[PolicyRun], horizon: int) -> None:
        super().__init__(instance, rows, horizon)
        self._mean = np.ones(self._shape)
        self._queue: Floats = np.zeros(self._shape)
        self._quota = np.array([r.numerator / r.denominator for r in instance.quotas])
        self._eta = np.array([[row.policy.eta] for row in rows])

    def choose(self, round: int) -> Ints:
        np.multiply(self._width, sqrt(log(round)), out=self._index)
        self._index += self._mean
        np.minimum(self._index, 1.0, out=self._index)
        self._index *= self._eta
        self._index += self._queue
        return np.asarray(self._index.argmax(axis=1) + self._first)

    def learn(self, cells: Ints, rewards: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        super().learn(cells, rewards)
        self._queue += self._quota
        self._queue.ravel()[cells] -= 1.0
        np.maximum(self._queue, 0.0, out=self._queue)

    def _widths(self, pulls: Floats) -> Floats:
        return np.asarray(np.sqrt(1.5 / pulls))


class _TFairUCB(_UCB1):
    """T-Fair-UCB. At first the arms take turns, in the same order in every row."""

    def __init__(self, instance: Instance, rows: Sequence[PolicyRun], horizon: int) -> None:
        super().__init__(instance, rows, horizon)
        needed = [max(1, horizon * r.numerator // r.denominator) for r in instance.quotas]
        if sum(needed) > horizon:
            raise InvalidPool(
                f"horizon {horizon} is {sum(needed) - horizon} too short for t-fair-ucb: the arms "
                f"need {sum(needed)} pulls; lengthen it, or lower the quotas"
            )
        turns = [(turn, arm) for arm, count in enumerate(needed) for turn in range(count)]
        self._turns = [arm for _, arm in sorted(turns)]

    def choose(self, round: int) -> Ints:
        if round <= len(self._turns):
            return np.asarray(self._first + self._turns[round - 1])
        return super().choose(round)
