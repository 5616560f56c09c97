"""One fair-bandit instance: the state machine behind `assign` and `reward`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from fair_allocator.core.arms import SMALL, Arms, Departed
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.draws import Draws
from fair_allocator.core.errors import InvalidPool, InvalidReward, InvalidState, shown
from fair_allocator.core.fairness import Fairness
from fair_allocator.core.figures import Figures
from fair_allocator.core.guarantee import Change, Epoch
from fair_allocator.core.learners import Learner, LearnerSpec, make_learner, same_learner
from fair_allocator.core.quotas import Number, Shares, parse_shares, parse_tolerance
from fair_allocator.core.requests import CERTAIN, Assignment, Reason, Requests, RewardOutcome

# `| Any` below: checked by hand, and compiled code shall not refuse it by an error of its own.

STATE_VERSION: Final = 1

REMEMBERED: Final = 1_000
"""How many answered requests a pool remembers by default, to tell repeats from strangers."""


# By names of their own: a global or a class's attribute is looked up in every round.
_COUNTED: Final = RewardOutcome.COUNTED
_REPEATED: Final = RewardOutcome.REPEATED
_ARM_LEFT: Final = RewardOutcome.ARM_LEFT
_UNKNOWN: Final = RewardOutcome.UNKNOWN


def _is_share(value: object) -> bool:
    """Tell whether a value is a number in [0, 1]: not a bool, though that is an int."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


@mypyc_attr(allow_interpreted_subclasses=True)
class Pool(Figures):
    """Arms with guaranteed minimum shares, and a learner that fills the free rounds.

    At every round, ``floor(entitled) - pulls`` of every arm is at most ``guarantee.bound``,
    whatever the learner does; `entitled` is the sum of the arm's quota over the rounds so far.

    Parameters
    ----------
    arms
        Names with quotas: text ("0.2", "1/3"), int, Decimal, Fraction, or a float, which
        means its shortest decimal text. They sum to at most 1.
    tolerance
        By how many pulls an arm may fall short. A fraction is served with its floor.
    learner
        A learner's name, a mapping with its ``name`` and parameters, or a `Learner`.
    rule
        "max-deficit" (the paper's), "earliest-deadline", or "auto", which takes the paper's
        where it is proven. "none" forces nothing and guarantees nothing.
    seed, name
        Together they determine every random number the learner draws.
    remember
        How many answered requests are remembered, to recognise repeats.
    on_epoch
        Told whenever other quotas, tolerance, rule or bound come into force.

    Examples
    --------
    >>> pool = Pool({"ann": "0.2", "bob": "1/4", "cyd": 0}, seed=7)
    >>> pool.assign("req-1").arm
    'ann'
    >>> bool(pool.reward("req-1", 0.8)), pool.reward("req-1", 0.8)
    (True, <RewardOutcome.REPEATED: 'repeated'>)
    >>> pool.violation()
    0
    >>> print(pool.guarantee)
    max-deficit: no arm is ever more than 0 pulls short of its entitlement
    """

    def __init__(
        self,
        arms: Shares,
        tolerance: Number = 0,
        learner: LearnerSpec = "ucb1",
        rule: str | Any = "auto",
        seed: int | Any = 0,
        *,
        name: str = "",
        remember: int | Any = REMEMBERED,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> None:
        quotas = parse_shares(arms)
        if isinstance(remember, bool) or not isinstance(remember, int) or remember < 0:
            raise InvalidPool(f"remember must be an int of at least 0, got {remember!r}")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise InvalidPool(f"seed must be an int, got {seed!r}")
        self.name = name
        self.seed: int = seed
        self.rounds = 0
        self._peak, self._peak_epoch = 0, 0
        self._violated_epochs = 0
        self._departed = Departed(0, 0, 0.0)
        self._requests = Requests(remember)
        self._arms = Arms()
        self._arms.join(quotas, 1)
        self._fairness = Fairness.begun(
            self._arms, list(quotas.values()), parse_tolerance(tolerance), rule, on_epoch
        )
        self._learner = make_learner(learner)
        self._learner.begin(self._arms, Draws(seed, name))

    # -- decisions ----------------------------------------------------------------------------

    def assign(self, request_id: str) -> Assignment:
        """Decide the next round, or repeat the answer this request was given before."""
        known = self._requests.known.get(request_id)
        if known is not None:
            return known.repeated()
        round = self.rounds + 1
        arm = self._fairness.pick(round)
        if arm >= 0:
            return self._count(request_id, arm, "fairness", CERTAIN)
        arm, propensity = self._learner.choose(round)
        return self._count(request_id, arm, "learner", propensity)

    def follow(
        self, request_id: str, arm: str, epoch: int, reason: Reason, propensity: float | None
    ) -> Assignment:
        """Count a decision that was made before, without deciding: how a journal is replayed."""
        self._fairness.catch_up(epoch, self.rounds + 1)
        return self._count(request_id, self._arms.index[arm], reason, propensity)

    def _count(
        self, request_id: str, arm: int, reason: Reason, propensity: float | None
    ) -> Assignment:
        arms, fairness, played = self._arms, self._fairness, self.rounds
        self.rounds = round = played + 1
        assignment = Assignment(
            request_id, arms.names[arm], round, fairness.epoch, reason, propensity
        )
        if fairness.epoch != self._peak_epoch:
            self._peak, self._peak_epoch = 0, fairness.epoch
        pulls = arms.pulls[arm]
        forced = reason == "fairness"
        # An arm's shortfall is at its highest just before it is pulled. Looked at in every round,
        # also where the rule says that there can be none: the peak is there to find it wrong.
        if played < SMALL:
            shortfall = (arms.base[arm] + arms.slope[arm] * played) // arms.unit[arm] - pulls
        else:
            shortfall = arms.shortfall(arm, played)
        if shortfall > self._peak:
            self._raise_peak(shortfall)
        self._requests.add(assignment)
        arms.pulls[arm] = pulls + 1
        arms.pending[arm] += 1
        if forced:
            arms.forced[arm] += 1
            fairness.pulled(arm, round, forced=True)
        elif not fairness.settled:
            fairness.pulled(arm, round, forced=False)
        self._learner.assigned(arm, assignment)
        return assignment

    def _raise_peak(self, shortfall: int) -> None:
        bound = self._fairness.guarantee.bound  # the same as long as the epoch lasts
        if bound is not None and self._peak <= bound < shortfall:
            self._violated_epochs += 1
        self._peak = shortfall

    def recall(self, request_id: str) -> Assignment | None:
        """Return the answer a request was given, while it is remembered."""
        return self._requests.known.get(request_id)

    @property
    def open(self) -> int:
        """How many assignments still wait for their reward."""
        return self._requests.open

    def waiting(self) -> list[Assignment]:
        """Return the assignments that still wait for their reward, oldest first."""
        return self._requests.waiting()

    # -- rewards ------------------------------------------------------------------------------

    def reward(self, request_id: str, value: float | Any) -> RewardOutcome:
        """Count the reward of a request; the outcome is true only if it counted.

        Raises
        ------
        InvalidReward
            If the value is not a finite number in [0, 1]. Nothing is counted then, and the
            request can still be rewarded.
        """
        if not (0.0 <= value <= 1.0 if type(value) is float else _is_share(value)):
            raise InvalidReward(
                f"request {request_id!r}: a reward is in [0, 1], got {shown(value)}"
            )
        requests, arms = self._requests, self._arms
        assignment = requests.known.get(request_id)
        if assignment is None:
            return _UNKNOWN
        if assignment.later is not None:
            return assignment.later
        arm = arms.index.get(assignment.arm)
        if arm is None or arms.joined[arm] > assignment.round:
            requests.close(assignment, _ARM_LEFT, self.rounds)
            return _ARM_LEFT
        requests.close(assignment, _REPEATED, self.rounds)
        arms.pending[arm] -= 1
        arms.observed[arm] += 1
        arms.total[arm] += value
        self._learner.observed(arm, assignment, value)
        return _COUNTED

    def expire(self, request_id: str) -> bool:
        """Stop waiting for a request's reward; tell whether it was waited for."""
        assignment = self._requests.known.get(request_id)
        if assignment is None or assignment.later is not None:
            return False
        self._requests.close(assignment, RewardOutcome.LATE, self.rounds)
        arms = self._arms
        arm = arms.index.get(assignment.arm)
        if arm is not None and arms.joined[arm] <= assignment.round:
            arms.pending[arm] -= 1
            self._learner.expired(arm, assignment)
        return True

    # -- changes ------------------------------------------------------------------------------

    def reconfigure(
        self,
        arms: Shares | None = None,
        tolerance: Number | None = None,
        learner: LearnerSpec | None = None,
        rule: str | Any | None = None,
    ) -> Change:
        """Change the pool from the next round on, with nothing owed lost.

        What is left out stays as it is; `arms` lists all arms, and one that it does not name
        leaves. A refused change raises `InvalidPool` and changes nothing.
        """
        quotas = self.quotas if arms is None else parse_shares(arms)
        slack = self.tolerance if tolerance is None else parse_tolerance(tolerance)
        choice = self._fairness.choice if rule is None else rule
        old, round = self._arms, self.rounds + 1
        columns, kept = old.arranged(quotas, round)
        epochs: list[Epoch] = []
        fairness = self._fairness.changed(
            columns, list(quotas.values()), slack, choice, round, epochs.append
        )
        new = self._learner if learner is None else make_learner(learner)
        if same_learner(new, self._learner):
            self._learner.reshape(columns, kept)
        else:
            new.begin(columns, self._learner.draws)
            self._learner = new
        self._arms, self._fairness = columns, fairness
        fairness.announce(epochs)
        left = [name for name in old.names if name not in columns.index]
        self._departed = self._departed.joined_by(old, [old.index[name] for name in left])
        ahead = {n: old.entitled(old.index[n], self.rounds) - old.pulls[old.index[n]] for n in left}
        return Change(
            joined=tuple(name for name, was in zip(quotas, kept, strict=True) if was is None),
            left=tuple(left),
            claims_ended={name: claim for name, claim in ahead.items() if claim > 0},
            waiting={columns.names[i]: quota for i, quota in self._fairness.wanted.items()},
            guarantee=self.guarantee,
        )

    # -- plain data ---------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that determines the pool's future, as plain data without caches."""
        return {
            "version": STATE_VERSION,
            "name": self.name,
            "seed": self.seed,
            "rounds": self.rounds,
            "peak": self.peak_at_pulls,
            "violated_epochs": self._violated_epochs,
            "departed": list(self._departed),
            "arms": self._arms.state(),
            "fairness": self._fairness.state(),
            "learner": {"name": self._learner.name, **self._learner.parameters()},
            "learned": self._learner.state(),
            "requests": self._requests.state(),
        }

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any],
        *,
        learner: Learner | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> "Pool":
        """Make a pool that goes on exactly where `state` was taken.

        A learner that is no registered name is handed in as `learner`.
        """
        version = state.get("version")
        if not isinstance(version, int) or version > STATE_VERSION:
            raise InvalidState(
                f"a pool's state of version {version!r} cannot be read here, only up to "
                f"{STATE_VERSION}; use the release that wrote it"
            )
        try:
            return cls._restored(state, learner, on_epoch)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise InvalidState(f"not a pool's state: {error!r}") from error

    @classmethod
    def _restored(
        cls,
        state: Mapping[str, Any],
        learner: Learner | None,
        on_epoch: Callable[[Epoch], None] | None,
    ) -> "Pool":
        make = cls.__new__
        pool = make(cls)
        pool.name, pool.seed = state["name"], state["seed"]
        pool.rounds, pool._departed = state["rounds"], Departed(*state["departed"])
        pool._requests = Requests.from_state(**state["requests"])
        pool._arms = Arms.from_state(state["arms"])
        pool._fairness = Fairness.from_state(pool._arms, state["fairness"], on_epoch)
        pool._peak, pool._peak_epoch = state["peak"], pool._fairness.epoch
        pool._violated_epochs = state["violated_epochs"]
        pool._learner = learner or make_learner(state["learner"])
        pool._learner.begin(pool._arms, Draws(pool.seed, pool.name))
        pool._learner.restore(state["learned"])
        return pool
