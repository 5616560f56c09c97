"""The readable figures of a pool: its arms, its promise, and where every arm stands."""

from collections.abc import Collection, Iterable
from fractions import Fraction

from fair_allocator.core.arms import Arms, Departed
from fair_allocator.core.caps import Caps
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.fairness import Fairness
from fair_allocator.core.guarantee import Epoch, Guarantee, Standing
from fair_allocator.core.learners import Learner
from fair_allocator.core.presence import MaxOpen, Presence
from fair_allocator.core.proposals import Proposals
from fair_allocator.core.table import describe, html, rows


@mypyc_attr(allow_interpreted_subclasses=True)
class Figures:
    """The part of a pool that only reads.

    Methods that return a figure for each of k arms take O(k).
    """

    name: str
    """The pool's name. The random numbers depend on it."""

    rounds: int
    """Rounds played so far."""

    _arms: Arms
    _fairness: Fairness
    _learner: Learner
    _departed: Departed
    _peak: int
    _peak_epoch: int
    _violated_epochs: int
    _clock: int
    _gap: int
    _presence: Presence | None
    _caps: Caps | None
    _proposals: Proposals

    def __repr__(self) -> str:
        return describe(self)

    def _repr_html_(self) -> str:
        """Show the pool in a notebook."""
        return html(self)

    def table(self) -> list[dict[str, object]]:
        """Return one row for each arm, in order, for a dataframe, a CSV file or a notebook.

        Quota, entitlement, share and mean are floats, for reading and plotting. The shortfall is
        exact. The share is the arm's pulls divided by the rounds since it joined.
        """
        return rows(self)

    @property
    def clock(self) -> int:
        """The pool's clock, in slots. In a plain pool this is the number of rounds played."""
        return self._clock

    @property
    def columns(self) -> Arms:
        """The pool's own columns, for fast code.

        Read them at once and keep no reference: the pool may replace them.
        """
        return self._arms

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms, in order."""
        return tuple(self._arms.names)

    @property
    def size(self) -> int:
        """How many arms there are."""
        return len(self._arms)

    @property
    def quotas(self) -> dict[str, Fraction]:
        """The quotas as configured."""
        wanted = self._fairness.wanted
        return {
            name: wanted[arm] if arm in wanted else self._arms.quota(arm)
            for name, arm in self._arms.index.items()
        }

    @property
    def quotas_in_force(self) -> dict[str, Fraction]:
        """The quotas in force now. A change that waits comes into force after a later request."""
        return dict(zip(self._arms.names, self._arms.quotas(), strict=True))

    @property
    def tolerance(self) -> Fraction:
        """The tolerance as configured.

        The pool rounds it down to a whole number when it decides.
        """
        return self._fairness.wish.tolerance

    @property
    def rule(self) -> str:
        """The rule as configured; `guarantee` has the rule in force."""
        return self._fairness.wish.choice

    @property
    def learner(self) -> Learner:
        """The pool's learner."""
        return self._learner

    @property
    def guarantee(self) -> Guarantee:
        """The rule in force and what it promises."""
        return self._fairness.guarantee

    def in_force(self, names: Iterable[str] | None = None) -> Epoch:
        """Return what is in force from the next round on, with the standing of each arm.

        With `names`, it has the standing of these arms only.
        """
        arms, caps, presence = self._arms, self._caps, self._presence
        named = range(len(arms)) if names is None else [arms.index[name] for name in names]
        epoch = self._fairness.in_force(named, self._clock, self.rounds + 1)
        for arm in named:
            cap, capped = (None, None) if caps is None else caps.stand(arm, self._clock)
            away = presence is not None and arm in presence.away
            if cap is not None or away:
                name = arms.names[arm]
                epoch.arms[name] = Standing(*epoch.arms[name][:3], cap, capped, away)
        return epoch

    @property
    def epoch(self) -> int:
        """The number of the epoch in force."""
        return self._fairness.epoch

    @property
    def pulls(self) -> dict[str, int]:
        """How many pulls each arm has: requests that it was given."""
        return dict(zip(self._arms.names, self._arms.pulls, strict=True))

    @property
    def forced(self) -> dict[str, int]:
        """How many pulls of each arm the fairness rule forced."""
        return dict(zip(self._arms.names, self._arms.forced, strict=True))

    @property
    def requests(self) -> str:
        """What requests may ask for, as configured: "plain" or "any" (see `Pool`)."""
        return self._fairness.wish.requests

    @property
    def bank(self) -> int | None:
        """The bank as configured; `guarantee` has the bank in force."""
        return self._fairness.wish.bank

    @property
    def caps(self) -> dict[str, Fraction]:
        """The maximum share of each arm that has a cap."""
        if self._caps is None:
            return {}
        return {self._arms.names[arm]: share for arm, share in self._caps.shares.items()}

    @property
    def max_open(self) -> dict[str, int]:
        """How many open assignments each arm may have; arms without a limit are left out."""
        if self._presence is None:
            return {}
        return {self._arms.names[arm]: most for arm, most in self._presence.limits().items()}

    @property
    def configured_max_open(self) -> MaxOpen | None:
        """How many open assignments an arm may have, as configured: a number, or numbers by arm."""
        return None if self._presence is None else self._presence.max_open

    @property
    def common_max_open(self) -> int | None:
        """How many open assignments every arm may have; None if arms differ or have no limit."""
        most = self.configured_max_open
        return most if isinstance(most, int) else None

    @property
    def away(self) -> Collection[int]:
        """The indices of the arms that are asleep or busy."""
        return () if self._presence is None else self._presence.away

    @property
    def sleeping(self) -> Collection[int]:
        """The indices of the arms that are asleep."""
        return () if self._presence is None else self._presence.asleep

    @property
    def present(self) -> int:
        """How many arms are neither asleep nor busy."""
        return len(self._arms) - len(self.away)

    @property
    def asleep(self) -> tuple[str, ...]:
        """The names of the arms that are asleep, in the order of the pool."""
        if self._presence is None:
            return ()
        return tuple([self._arms.names[arm] for arm in sorted(self._presence.asleep)])

    @property
    def faults(self) -> dict[str, int]:
        """How often the learner failed or made an invalid choice, by kind of fault."""
        return dict(self._proposals.counts)

    @property
    def departed(self) -> Departed:
        """The sums of the pulls and rewards of all arms that have left."""
        return self._departed

    @property
    def observed(self) -> dict[str, int]:
        """How many rewards were counted for each arm."""
        return dict(zip(self._arms.names, self._arms.observed, strict=True))

    @property
    def pending(self) -> dict[str, int]:
        """How many assignments of each arm still wait for their reward."""
        return dict(zip(self._arms.names, self._arms.pending, strict=True))

    @property
    def means(self) -> dict[str, float | None]:
        """The mean observed reward of each arm, or None if it has no reward yet."""
        return {name: self._arms.mean(arm) for name, arm in self._arms.index.items()}

    @property
    def entitled(self) -> dict[str, Fraction]:
        """How many pulls each arm is entitled to so far, exactly."""
        return {n: self._arms.entitled(arm, self._clock) for n, arm in self._arms.index.items()}

    def shortfalls(self) -> dict[str, int]:
        """Return ``floor(entitled) - pulls`` of each arm, exactly: how many pulls it is short."""
        return {n: self._arms.shortfall(arm, self._clock) for n, arm in self._arms.index.items()}

    def violation(self) -> int:
        """Return the largest current shortfall of any arm, exactly; O(k)."""
        return max(self._arms.shortfall(arm, self._clock) for arm in range(len(self._arms)))

    def gaps(self) -> dict[str, int]:
        """Return for each arm how many slots it has seen since its last pull.

        Only slots of requests that the arm was eligible for count.
        """
        arms, clock = self._arms, self._clock
        return {n: arms.own(arm, clock) - arms.last[arm] for n, arm in arms.index.items()}

    @property
    def gap_at_pulls(self) -> int:
        """The longest wait that a pull has ended in the current epoch, in slots; O(1)."""
        return self._gap if self._peak_epoch == self._fairness.epoch else 0

    def longest_gap(self) -> int:
        """Return the longest wait for a pull in the current epoch, in slots; O(k).

        Only arms with a quota count, and only slots of requests that the arm was eligible for.
        A wait that has not ended yet counts, too. A wait begins with the arm's last pull, or when
        its quota or the bank came into force. If there is a bank, no wait exceeds
        ``guarantee.longest_wait(quota)``.
        """
        arms, clock = self._arms, self._clock
        waits = [
            arms.own(arm, clock) - arms.last[arm] for arm in range(len(arms)) if arms.slope[arm]
        ]
        return max([self.gap_at_pulls, *waits])

    @property
    def peak_at_pulls(self) -> int:
        """The largest shortfall of an arm just before a pull in the current epoch; O(1)."""
        return self._peak if self._peak_epoch == self._fairness.epoch else 0

    @property
    def violated_epochs(self) -> int:
        """In how many epochs an arm was short by more than the bound just before a pull; O(1)."""
        return self._violated_epochs

    def peak_violation(self) -> int:
        """Return the largest shortfall, before a pull in the current epoch or now; O(k).

        It is at least 0.
        """
        return max(self.peak_at_pulls, self.violation())
