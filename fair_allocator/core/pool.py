"""One fair-bandit instance: how it is made, changed and stored."""

from collections.abc import Callable, Mapping
from typing import Any, Final, SupportsIndex

from fair_allocator.core.among import everybody
from fair_allocator.core.arms import NOBODY_LEFT, Arms, Departed
from fair_allocator.core.beginning import Beginning
from fair_allocator.core.caps import Caps, parse_caps
from fair_allocator.core.checking import check_state
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.decisions import Decisions
from fair_allocator.core.draws import Draws
from fair_allocator.core.errors import FairAllocatorError, InvalidPool, InvalidState, shown
from fair_allocator.core.fairness import NO_EPOCHS, Fairness
from fair_allocator.core.guarantee import Change, Epoch
from fair_allocator.core.learners import (
    Learner,
    LearnerSpec,
    begin,
    make_learner,
    parameters_of,
    revive,
    same_learner,
    shared_form,
    stored_form,
)
from fair_allocator.core.presence import MaxOpen, Presence, parse_max_open, presence_of
from fair_allocator.core.proposals import Proposals
from fair_allocator.core.quotas import Number, Shares, parse_shares, parse_tolerance
from fair_allocator.core.requests import Requests
from fair_allocator.core.texts import parse_text
from fair_allocator.core.unchanged import is_set_to
from fair_allocator.core.wish import parse_bank, parse_wish

# In the annotations below, `| Any` lets a value of any type get to our own checks. Without it,
# compiled code would refuse a wrong type first, with another error.

STATE_VERSION: Final = 2

REMEMBERED: Final = 1_000
"""How many answered requests a pool remembers by default, to recognise a request that repeats."""

KEEP: Final = "as it is"
"""Means "do not change this setting", for settings that None removes."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Pool(Decisions):
    """Arms with guaranteed minimum shares, and a learner that chooses if no arm must be served.

    A *pull* is one request given to one arm. `entitled` is the number of pulls that an arm's quota
    gives it so far. After every request, ``floor(entitled) - pulls`` of every arm is at most
    ``guarantee.bound``, with any learner. If requests are "plain" (see below), an arm is entitled
    to its quota times the number of requests so far. Otherwise, the arm is entitled to its quota
    times the number of slots in the requests that it was eligible for. (A request that wants three
    arms has three slots.)

    Parameters
    ----------
    arms
        Names with quotas. A quota is a text ("0.2", "1/3"), an int, a Decimal, a Fraction or a
        float. A float means its shortest decimal text. The quotas sum to at most 1.
    tolerance
        By how many pulls an arm may fall short of its entitlement. A number with a fraction is
        rounded down.
    learner
        A learner's name, a mapping with its ``name`` and parameters, or a `Learner`.
    rule
        "max-deficit" is the rule of the paper (see docs/paper.md). "earliest-deadline" works for
        all quotas. "auto" takes "max-deficit" if it is proven for the quotas, and
        "earliest-deadline" otherwise. "none" forces no arm and guarantees nothing.
    seed, name
        Together they determine every random number that the learner draws.
    remember
        How many answered requests are remembered, to recognise repeats.
    on_epoch
        Called with an `Epoch` whenever a change of quotas, tolerance, rule or bound takes effect.
    requests
        "plain": any arm can take any request, and each request goes to one arm. "any": requests may
        name the eligible arms and want several arms, and arms may sleep.
    bank
        By how many pulls an arm can be ahead of its entitlement, at least 1. If the learner gives
        an arm more pulls than that, the extra pulls do not reduce what the arm gets later. So no
        arm waits too long, in any stretch of requests. None means that all pulls count: an arm that
        got many pulls may then get none for a long time.
    caps
        The maximum share by arm, at least its quota. The learner does not choose an arm that has
        reached its cap.
    max_open
        How many open assignments an arm may have: one number for all arms, or a number by arm. An
        arm that has reached this number is not eligible. Needs ``requests="any"``.

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

    A request that names the eligible arms, and wants two of them:

    >>> crowd = Pool({"ann": "0.2", "bob": "1/4", "cyd": 0}, requests="any")
    >>> sorted(crowd.assign("task-1", eligible=["bob", "cyd"], slots=2).arms)
    ['bob', 'cyd']
    """

    def __init__(
        self,
        arms: Shares,
        tolerance: Number = 0,
        learner: LearnerSpec = "ucb1",
        rule: str | Any = "auto",
        seed: SupportsIndex | Any = 0,
        *,
        name: str | Any = "",
        remember: SupportsIndex | Any = REMEMBERED,
        on_epoch: Callable[[Epoch], None] | None = None,
        requests: str | Any = "plain",
        bank: SupportsIndex | Any | None = None,
        caps: Mapping[str, Number] | Any | None = None,
        max_open: SupportsIndex | Mapping[str, SupportsIndex] | Any | None = None,
    ) -> None:
        beginning = Beginning(arms, tolerance, rule, seed, remember, requests, bank, caps, max_open)
        self._begin(beginning, learner, name, on_epoch, None)
        if on_epoch is not None:
            named = [arm for arm in range(len(self._arms)) if self._arms.slope[arm]]
            on_epoch(self._fairness.in_force(named, 0, 1))

    def _begin(
        self,
        beginning: Beginning,
        learner: LearnerSpec,
        name: str | Any,
        on_epoch: Callable[[Epoch], None] | None,
        collected: list[Epoch] | None,
    ) -> None:
        self.name: str = parse_text(name, "a pool's name", InvalidPool)
        self.seed: int = beginning.seed
        self.rounds = 0
        self._clock = 0
        self._peak, self._peak_epoch = 0, 0
        self._violated_epochs = 0
        self._gap = 0
        self._departed = NOBODY_LEFT
        self._requests = Requests(beginning.remember)
        self._arms = beginning.arms.newborn()
        self._fairness = beginning.fairness.newborn(self._arms, on_epoch, collected)
        shares = beginning.caps
        self._caps = Caps(self._arms, shares, 0) if shares else None
        self._presence: Presence | None = presence_of(
            self._arms, self._fairness.wish.requests, (), beginning.max_open
        )
        self._learner = make_learner(learner)
        self._stored = stored_form(self._learner)
        self._proposals = Proposals(self._learner)
        begin(self._learner, self._arms, Draws(self.seed, self.name))
        self._among = everybody(len(self._arms))

    # -- changes ------------------------------------------------------------------------------

    def reconfigure(
        self,
        arms: Shares | None = None,
        tolerance: Number | None = None,
        learner: LearnerSpec | None = None,
        rule: str | Any | None = None,
        *,
        requests: str | Any | None = None,
        bank: SupportsIndex | Any | None = KEEP,
        caps: Mapping[str, Number] | Any | None = KEEP,
        max_open: SupportsIndex | Mapping[str, SupportsIndex] | Any | None = KEEP,
    ) -> Change:
        """Change the pool from the next round on. Arms keep what they are owed.

        Settings that are left out do not change. `arms` must list all arms: an arm that it does not
        name leaves the pool. For `bank`, `caps` and `max_open`, None removes the setting. A change
        that is not valid raises `InvalidPool` and changes nothing. The pool may put parts of the
        change in force later, when they are safe; see `Change.waiting`.
        """
        self._refuse_nested()
        said = {"arms": arms, "tolerance": tolerance, "learner": learner, "rule": rule}
        said = {name: value for name, value in said.items() if value is not None}
        said |= {} if requests is None else {"requests": requests}
        also = {"bank": bank, "caps": caps, "max_open": max_open}
        said |= {name: value for name, value in also.items() if not _stays(value)}
        if not self._fairness.changing and is_set_to(self, said):
            self._fairness.confirm(self._clock, self.rounds + 1)
            return Change((), (), {}, {}, self.guarantee)
        quotas = self.quotas if arms is None else parse_shares(arms)
        was, old, clock, round = self._fairness.wish, self._arms, self._clock, self.rounds + 1
        kind = was.requests if requests is None else requests
        wanted = list(quotas.values())
        wish = parse_wish(
            wanted,
            was.tolerance if tolerance is None else parse_tolerance(tolerance),
            was.choice if rule is None else rule,
            kind,
            was.bank if _stays(bank) else parse_bank(bank),
        )
        shares = parse_caps(_still(self.caps, quotas) if _stays(caps) else caps, quotas)
        most = self._max_open(quotas) if _stays(max_open) else parse_max_open(max_open, quotas)
        columns, kept = old.arranged(quotas, round, clock)
        asleep = [columns.index[name] for name in self.asleep if name in columns.index]
        presence = presence_of(columns, kind, asleep, most)
        if presence is None:
            columns.align(clock)
        elif self._presence is not None:
            moved = [old.names[arm] for arm in self._presence.moved]
            presence.moved = {columns.index[name] for name in moved if name in columns.index}
        epochs: list[Epoch] = []
        fairness = self._fairness.changed(columns, wanted, wish, clock, round, epochs.append)
        new = self._learner if learner is None else make_learner(learner)
        if not _goes_on(self._learner, new, learner):
            stored = stored_form(new)
            begin(new, columns, self._learner.draws)
            self._learner, self._proposals, self._stored = new, Proposals(new), stored
        else:
            self._reshape_learner(columns, kept)
        self._arms, self._fairness, self._presence = columns, fairness, presence
        self._caps = Caps(columns, shares, clock, self._caps) if shares else None
        self._settle_everybody()
        left = [name for name in old.names if name not in columns.index]
        self._departed = self._departed.joined_by(old, [old.index[name] for name in left])
        fairness.announce(epochs)
        return Change(
            joined=tuple(name for name, was in zip(quotas, kept, strict=True) if was is None),
            left=tuple(left),
            claims_ended=old.claims(left, clock),
            waiting={columns.names[i]: quota for i, quota in fairness.wanted.items()},
            guarantee=self.guarantee,
        )

    def _reshape_learner(self, columns: Arms, kept: list[int | None]) -> None:
        """Let the learner continue with changed arms. If it cannot, it starts again."""
        draws = self._learner.draws
        try:
            self._learner.reshape(columns, kept)
        except FairAllocatorError:
            raise  # the learner refuses the change
        except Exception:
            self._proposals.failed()
            try:
                self._learner.begin(columns, draws)
            except Exception:
                self._proposals.failed()

    def _max_open(self, quotas: Mapping[str, Any]) -> MaxOpen | None:
        """Return the configured limits of open assignments, without those of arms that leave."""
        most = None if self._presence is None else self._presence.max_open
        return _still(most, quotas) or None if isinstance(most, dict) else most

    def _settle_everybody(self) -> None:
        """Tell the learner which arms are away. Stop the own clocks of arms that went away.

        The own clocks of arms that came back go on from where they stopped.
        """
        presence = self._presence
        if presence is None:
            return
        for arm in presence.away:
            try:
                self._learner.present(arm, False)
            except Exception:
                self._proposals.failed()
        for arm in range(len(self._arms)):
            self._settle_presence(arm)

    # -- plain data ---------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return everything that determines the pool's future, as plain data without caches."""
        presence, caps = self._presence, self._caps
        pulls = sum(self._arms.pulls) + self._departed.pulls
        return {
            "version": STATE_VERSION,
            "name": self.name,
            "seed": self.seed,
            "rounds": self.rounds,
            **({"pulls": pulls} if pulls != self.rounds else {}),
            "clock": self._clock,
            "peak": self.peak_at_pulls,
            "violated_epochs": self._violated_epochs,
            "gap": self.gap_at_pulls,
            "departed": list(self._departed),
            "arms": self._arms.state(),
            "fairness": self._fairness.state(),
            "presence": None if presence is None else presence.state(),
            "caps": [] if caps is None else caps.state(),
            "learner": dict(self._stored),
            "learned": self._proposals.learned(),
            "requests": self._requests.state(),
        }

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any] | Any,
        *,
        learner: Learner | Any | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
        stand_in: bool = False,
    ) -> "Pool":
        """Make a pool that continues exactly from `state`.

        If the learner has no registered name, pass it as `learner`. If the package that brings the
        learner is missing or broken, `stand_in` lets the pool go on without the learner. Each
        choice that the learner would have made then counts as a fault.
        """
        if not isinstance(state, Mapping):
            raise InvalidState(f"a pool's state must be a mapping, got {shown(state)}")
        if learner is not None and not isinstance(learner, Learner):
            raise InvalidPool(f"learner must be a Learner, got {shown(learner)}")
        version = state.get("version")
        if type(version) is not int or not 1 <= version <= STATE_VERSION:
            raise InvalidState(
                f"a pool's state of version {shown(version)} cannot be read here, only up to "
                f"{STATE_VERSION}; use the release that wrote it"
            )
        try:
            check_state(state)
            return cls._restored(state, learner, on_epoch, stand_in)
        except InvalidPool as error:
            raise InvalidState(str(error)) from error
        except FairAllocatorError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            raise InvalidState(f"not a pool's state: {error!r}") from error
        except RecursionError:
            raise InvalidState("not a pool's state: it is nested too deeply") from None

    @classmethod
    def _restored(
        cls,
        state: Mapping[str, Any],
        learner: Learner | None,
        on_epoch: Callable[[Epoch], None] | None,
        stand_in: bool,
    ) -> "Pool":
        make = cls.__new__
        pool = make(cls)
        pool.name, pool.seed = state["name"], state["seed"]
        pool.rounds = state["rounds"]
        pool._clock = clock = state.get("clock", pool.rounds)
        pool._gap = state.get("gap", 0)
        pool._arms = arms = Arms.from_state(state["arms"], clock)
        pool._requests = Requests.from_state(arms, **state["requests"])
        pool._departed = Departed.from_state(state["departed"], pool.rounds, arms)
        pool._fairness = Fairness.from_state(arms, state["fairness"], on_epoch)
        pool._peak, pool._peak_epoch = state["peak"], pool._fairness.epoch
        pool._violated_epochs = state["violated_epochs"]
        caps, here = state.get("caps"), state.get("presence")
        pool._caps = Caps.from_state(arms, caps, clock) if caps else None
        pool._presence = None
        if here is not None:
            pool._presence = Presence(arms, here["asleep"], here["max_open"])
        draws = Draws(pool.seed, pool.name)
        if learner is None:
            pool._stored = shared_form(state["learner"])
            pool._learner = revive(pool._stored, state["learned"], arms, draws, stand_in)
        else:
            pool._stored, pool._learner = stored_form(learner), learner
            learner.begin(arms, draws)
            learner.restore(state["learned"])
        pool._proposals = Proposals(pool._learner)
        pool._settle_everybody()
        if pool._presence is not None and here is not None:
            pool._presence.moved = set(here.get("moved", ()))
        pool._among = everybody(len(arms))
        if state["version"] < 2:
            pool.secure()
        else:
            pool._fairness.check_promise(clock)
        return pool

    def secure(self) -> None:
        """Raise the bound if an older release left the pool in a state that cannot keep it."""
        self._fairness.secure(self._clock, self.rounds + 1)


def begun(beginning: Beginning, learner: LearnerSpec, name: str) -> Pool:
    """Make a new pool from shared settings. It collects its epochs, except the first one."""
    make = Pool.__new__
    pool = make(Pool)
    pool._begin(beginning, learner, name, None, NO_EPOCHS)
    return pool


def collect_epochs(pool: Pool, epochs: list[Epoch]) -> None:
    """Let the pool collect its new epochs from now on, after those in `epochs`.

    `collected_epochs` returns them. With an empty list, the pool forgets the epochs that it has
    collected so far. The pool no longer calls its `on_epoch`.
    """
    pool._fairness.collect(epochs)


def collected_epochs(pool: Pool) -> list[Epoch]:
    """Return the epochs that the pool has collected. The list is empty if it calls `on_epoch`."""
    return pool._fairness.collected or NO_EPOCHS


def _stays(setting: Any) -> bool:
    return isinstance(setting, str) and setting == KEEP


def _goes_on(learner: Learner, new: Learner, given: object) -> bool:
    """Tell whether the pool keeps its learner, because the change asks for an equal learner.

    A new learner object without parameters never counts as equal: there is nothing to compare.
    """
    if new is learner:
        return True
    return same_learner(new, learner) and (new is not given or bool(parameters_of(new)))


def _still(settings: Mapping[str, Any], quotas: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by arm, without the arms that leave."""
    return {name: value for name, value in settings.items() if name in quotas}
