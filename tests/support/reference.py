"""What a pool must do, in the simplest possible code, to compare the real pool with.

All code here loops over the arms with exact fractions, and shares no decision with the package.
`Reference` decides as the theory says. A test can also make it decide wrongly. `Audited` plays a
real pool, and computes again by itself every number that the pool claims.
"""

import json
import pickle
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, floor, inf, log, sqrt
from typing import Any, ClassVar

from fair_allocator import Assignment, Change, Epoch, Learner, Pool
from fair_allocator.core.learners import Choice
from tests.selection.invariant import fits

Shares = Mapping[str, Fraction | int | str]


def fractions(*quotas: Fraction | int | str) -> tuple[Fraction, ...]:
    """Read quotas from text."""
    return tuple(Fraction(quota) for quota in quotas)


def is_even(quotas: Sequence[Fraction]) -> bool:
    """Tell whether the rule max-deficit is proven for these quotas.

    It is proven if the number of arms with a quota, times the largest quota, is below 1.
    """
    return sum(quota > 0 for quota in quotas) * max(quotas) < 1


# -- who must be served ---------------------------------------------------------------------------


class Reference:
    """Decides which arm must be served, by looking at every arm in every round.

    `tolerance`, `rule` and `early` are used exactly as given, even if no guarantee holds with them.
    For example, a rule only works with a tolerance that is rounded down. `guarded` chooses them
    correctly.
    """

    def __init__(
        self,
        quotas: Sequence[Fraction],
        tolerance: Fraction | int = 0,
        rule: str = "max-deficit",
        *,
        early: bool = False,
        rounds: int = 0,
        pulls: Sequence[int] | None = None,
    ) -> None:
        self.quotas = list(quotas)
        self.tolerance = tolerance
        self.rule = rule
        self.early = early
        self.rounds = rounds
        self.pulls = [0] * len(quotas) if pulls is None else list(pulls)
        self.entitled = [quota * rounds for quota in quotas]

    @classmethod
    def guarded(
        cls,
        quotas: Sequence[Fraction],
        tolerance: Fraction | int = 0,
        rule: str = "auto",
        rounds: int = 0,
        pulls: Sequence[int] | None = None,
    ) -> "Reference":
        """Return a reference with settings for which the theory guarantees the bound."""
        if rule == "auto":
            rule = "max-deficit" if is_even(quotas) else "earliest-deadline"
        early = rule == "earliest-deadline" and sum(quotas) == 1
        return cls(quotas, floor(tolerance), rule, early=early, rounds=rounds, pulls=pulls)

    def owed(self) -> list[int]:
        """Return the arms whose entitlement exceeds their pulls by more than the tolerance."""
        return [
            arm
            for arm, (quota, entitled) in enumerate(zip(self.quotas, self.entitled, strict=True))
            if (entitled + quota if self.early else entitled) > self.pulls[arm] + self.tolerance
        ]

    def deficit(self, arm: int) -> Fraction:
        """Return the arm's entitlement minus its pulls."""
        return self.entitled[arm] - self.pulls[arm]

    def deadline(self, arm: int) -> float:
        """Return the last round in which the arm can be served without breaking the promise."""
        if not self.quotas[arm]:
            return inf
        missing = floor(self.tolerance) + 1 - self.deficit(arm)
        return self.rounds + ceil(missing / self.quotas[arm])

    def must_serve(self) -> int | None:
        """Return the arm that must be served in the next round; None if the learner may choose."""
        owed = self.owed()
        if not owed:
            return None
        if self.rule == "max-deficit":
            return max(owed, key=lambda arm: (self.deficit(arm), -arm))
        return min(owed, key=lambda arm: (self.deadline(arm), arm))

    def count(self, arm: int) -> None:
        """Give the next round to an arm."""
        self.rounds += 1
        self.pulls[arm] += 1
        for index, quota in enumerate(self.quotas):
            self.entitled[index] += quota

    def violation(self) -> int:
        """Return the worst shortfall over all arms."""
        return max(map(floor, map(self.deficit, range(len(self.quotas)))))

    def copy(self) -> "Reference":
        """Return an independent copy."""
        other = Reference(self.quotas, self.tolerance, self.rule, early=self.early)
        other.rounds, other.pulls = self.rounds, list(self.pulls)
        other.entitled = list(self.entitled)
        return other


def find_violation(start: Reference, bound: int, depth: int) -> list[int] | None:
    """Try every sequence of choices of a learner; return the first pulls that break the bound."""
    layer: dict[tuple[int, ...], tuple[Reference, list[int]]] = {(): (start, [])}
    for _ in range(depth):
        below: dict[tuple[int, ...], tuple[Reference, list[int]]] = {}
        for reference, path in layer.values():
            forced = reference.must_serve()
            for arm in range(len(start.quotas)) if forced is None else [forced]:
                after = reference.copy()
                after.count(arm)
                if after.violation() > bound:
                    return [*path, arm]
                below.setdefault(tuple(after.pulls), (after, [*path, arm]))
        layer = below
    return None


# -- learners -------------------------------------------------------------------------------------


class Told(Learner):
    """A learner that chooses the arm that the test tells it, as an adversary would."""

    name: ClassVar[str] = "told"
    cost: ClassVar[str] = "O(1)"

    def __init__(self, wish: str = "") -> None:
        self.wish = wish

    def choose(self, round: int) -> Choice:  # type: ignore[override]  # takes only the round
        return self.arms.index[self.wish], 1.0


class NaiveUCB1:
    """UCB1 by looking at every arm in every round, with its own counts."""

    def __init__(self, size: int) -> None:
        self.pulls = [0] * size
        self.observed = [0] * size
        self.pending = [0] * size
        self.total = [0.0] * size

    def choose(self, round: int) -> int:
        """Return the arm without any rewards that has the fewest pulls, else the largest index."""
        arms = range(len(self.pulls))
        unknown = [arm for arm in arms if self.observed[arm] + self.pending[arm] == 0]
        if unknown:
            return min(unknown, key=lambda arm: (self.pulls[arm], arm))
        s = sqrt(2.0 * log(round))
        return max(arms, key=lambda arm: (self.index(arm, s), -arm))

    def index(self, arm: int, s: float) -> float:
        """Return ``mean + s / sqrt(n)``, rounded in the same way as in the package."""
        observed = self.observed[arm]
        mean = self.total[arm] / observed if observed else 1.0
        return mean + s * (1.0 / sqrt(observed + self.pending[arm]))

    def assigned(self, arm: int) -> None:
        """Count a pull."""
        self.pulls[arm] += 1
        self.pending[arm] += 1

    def rewarded(self, arm: int, reward: float) -> None:
        """Count a reward."""
        self.pending[arm] -= 1
        self.observed[arm] += 1
        self.total[arm] += reward

    def lost(self, arm: int) -> None:
        """Count that a pending reward will not come."""
        self.pending[arm] -= 1


# -- a pool under audit ---------------------------------------------------------------------------


class Audited:
    """A real pool played by an adversary.

    In every round, everything that the pool claims is checked.

    Entitlements are computed here from the epochs that the pool announces, as an audit of its log
    does. The message of a failure has all steps, so that they can be played again.
    """

    def __init__(
        self, arms: Shares, tolerance: Fraction | int | str = 0, rule: str = "auto"
    ) -> None:
        self.story: list[str] = [f"Pool({_plain(arms)}, tolerance={tolerance!s}, rule={rule!r})"]
        self.told = Told()
        self.epochs: list[Epoch] = []
        self.quotas = dict.fromkeys(arms, Fraction(0))
        self.entitled = dict.fromkeys(arms, Fraction(0))
        self.pulls = dict.fromkeys(arms, 0)
        self.pool = Pool(
            arms, tolerance, self.told, rule, remember=0, on_epoch=self._note, name="audited"
        )
        self._check_promise()

    def _note(self, epoch: Epoch) -> None:
        self.epochs.append(epoch)

    def clone(self) -> "Audited":
        """Return an independent copy, including the pool's caches and queues."""
        copy: Audited = pickle.loads(pickle.dumps(self, pickle.HIGHEST_PROTOCOL))
        return copy

    def restore(self) -> None:
        """Go on with a new pool, made from the state of this pool as JSON text."""
        self.story.append("restore")
        before = _text(self.pool)
        state = json.loads(before)
        self.told = Told()
        self.pool = Pool.from_state(state, learner=self.told, on_epoch=self._note)
        self._demand(_text(self.pool) == before, "a restored pool has another state")

    def reconfigure(self, arms: Shares | None = None, **options: Any) -> Change:
        """Change the pool, and check that it does not promise more than it can keep."""
        told = f"{_plain(arms)}, " if arms is not None else ""
        self.story.append(f"reconfigure({told}{_plain(options)})")
        before = self._bound()
        self._enforce(self.pool.rounds + 1)
        change = self.pool.reconfigure(arms, **options)
        for name in change.left:
            del self.quotas[name], self.entitled[name], self.pulls[name]
        for name in change.joined:
            self.quotas[name], self.entitled[name], self.pulls[name] = Fraction(0), Fraction(0), 0
        self._enforce(self.pool.rounds + 1)
        wanted = floor(self.pool.tolerance)
        self._demand(
            self._bound() <= max(before, wanted), "a change promises less than either side"
        )
        self._check_promise()
        return change

    def play(self, wish: str, request: str | None = None) -> Assignment:
        """Play a round in which the learner chooses `wish` if it may choose, and check
        everything.
        """
        pool, before, tolerance = self.pool, self._bound(), floor(self.pool.tolerance)
        request_id = f"r{pool.rounds}" if request is None else request
        self.told.wish = wish
        answer = pool.assign(request_id)
        self.story.append(f"{wish}->{answer.arm}")
        if request is None:
            pool.expire(request_id)
        self._enforce(answer.round)

        ahead = self.deficits()
        if answer.reason == "fairness":
            accrued = ahead[answer.arm] + self.quotas[answer.arm]
            self._demand(accrued > tolerance, "an arm was forced that is owed nothing")
        else:
            self._demand(answer.arm == wish, "the learner's choice was not followed")
            self._demand(
                max(ahead.values()) <= tolerance, "the learner chose though an arm is owed"
            )
        for name, quota in self.quotas.items():
            self.entitled[name] += quota
        self.pulls[answer.arm] += 1
        self._demand(self._bound() <= before, "the bound rose without a change")
        self._check_promise()
        return answer

    def deficits(self) -> dict[str, Fraction]:
        """Return each arm's entitlement minus its pulls."""
        return {name: self.entitled[name] - self.pulls[name] for name in self.entitled}

    def key(self) -> tuple[object, ...]:
        """Return everything that determines the future. The number of the round does not."""
        fairness = {**self.pool.state()["fairness"], "epoch": None}
        deficits, quotas = self.deficits(), self.pool.quotas_in_force
        return tuple((name, deficits[name], quotas[name]) for name in quotas), json.dumps(fairness)

    def _enforce(self, round: int) -> None:
        """Put the epochs in force that the pool announced up to `round`."""
        while self.epochs and self.epochs[0].round <= round:
            for name, standing in self.epochs.pop(0).arms.items():
                self.quotas[name] = standing.quota
                claimed = standing.entitled, standing.pulls
                known = self.entitled[name], self.pulls[name]
                self._demand(claimed == known, f"{name} stands at {known}, not at {claimed}")

    def _bound(self) -> int:
        bound = self.pool.guarantee.bound
        assert bound is not None
        return bound

    def _check_promise(self) -> None:
        pool, guarantee = self.pool, self.pool.guarantee
        self._enforce(pool.rounds)
        shortfalls = {name: floor(ahead) for name, ahead in self.deficits().items()}
        self._demand(
            max(shortfalls.values()) <= self._bound(), f"the bound is broken: {shortfalls}"
        )
        lines = [(self.deficits()[name] - self._bound(), r) for name, r in self.quotas.items()]
        self._demand(fits(lines), "the state is not safe")
        self._demand(pool.shortfalls() == shortfalls, f"shortfalls are {shortfalls}")
        self._demand(pool.violation() == max(shortfalls.values()), f"shortfalls are {shortfalls}")
        self._demand(pool.pulls == self.pulls, f"pulls are {self.pulls}")
        self._demand(pool.entitled == self.entitled, f"entitled are {_plain(self.entitled)}")
        self._demand(sum(self.quotas.values()) <= 1, "quotas in force sum to more than 1")
        wanted = floor(pool.tolerance)
        self._demand(guarantee.wanted == wanted, "the tolerance is not served with its floor")
        if guarantee.changing:
            self._demand(self._bound() >= wanted, "more is promised than was ever asked for")
        else:
            self._demand(self._bound() == wanted, "the bound lags though nothing is changing")
            self._demand(pool.quotas_in_force == pool.quotas, "quotas lag though nothing changes")

    def _demand(self, condition: bool, complaint: str) -> None:
        if not condition:
            story = "\n  ".join(self.story)
            raise AssertionError(f"{complaint}; {self.pool.guarantee}\n  {story}")


def _text(pool: Pool) -> str:
    return json.dumps(pool.state())


def _plain(data: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{name!r}: {str(value)!r}" for name, value in data.items()) + "}"
