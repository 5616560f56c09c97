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
    """The readable side of a pool; nothing here changes it. Figures by arm cost O(k)."""

    name: str
    """The pool's name, which its random numbers depend on."""

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

        Quota, entitlement, share and mean are floats, for reading and plotting; the shortfall is
        exact. The share is of the rounds since the arm joined.
        """
        return rows(self)

    @property
    def clock(self) -> int:
        """The slots that have passed for all arms; in a plain pool the rounds played."""
        return self._clock

    @property
    def columns(self) -> Arms:
        """The pool's own columns, for fast code: read them at once, and keep no reference."""
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
        """The quotas in force; a change that waits takes effect after some later request."""
        return dict(zip(self._arms.names, self._arms.quotas(), strict=True))

    @property
    def tolerance(self) -> Fraction:
        """The tolerance as configured; it is served with its floor."""
        return self._fairness.wish.tolerance

    @property
    def rule(self) -> str:
        """The rule as configured; `guarantee` has the one in force."""
        return self._fairness.wish.choice

    @property
    def learner(self) -> Learner:
        """The learner on top."""
        return self._learner

    @property
    def guarantee(self) -> Guarantee:
        """The rule in force and what it promises."""
        return self._fairness.guarantee

    def in_force(self, names: Iterable[str] | None = None) -> Epoch:
        """Return what is in force from the next round on, with where these arms stand, or all."""
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
        """Rounds given to each arm."""
        return dict(zip(self._arms.names, self._arms.pulls, strict=True))

    @property
    def forced(self) -> dict[str, int]:
        """Rounds each arm was given because it had to be served."""
        return dict(zip(self._arms.names, self._arms.forced, strict=True))

    @property
    def requests(self) -> str:
        """What requests may ask for: "plain" or "any"."""
        return self._fairness.wish.requests

    @property
    def bank(self) -> int | None:
        """The bank as configured; `guarantee` has the one in force."""
        return self._fairness.wish.bank

    @property
    def caps(self) -> dict[str, Fraction]:
        """The most shares of the arms that have one."""
        if self._caps is None:
            return {}
        return {self._arms.names[arm]: share for arm, share in self._caps.shares.items()}

    @property
    def max_open(self) -> dict[str, int]:
        """How many assignments may be open, of the arms for which that is limited."""
        if self._presence is None:
            return {}
        return {self._arms.names[arm]: most for arm, most in self._presence.limits().items()}

    @property
    def configured_max_open(self) -> MaxOpen | None:
        """How many assignments may be open, as configured: one number, by arm, or None."""
        return None if self._presence is None else self._presence.max_open

    @property
    def common_max_open(self) -> int | None:
        """How many assignments may be open, if that is one number for all arms."""
        most = self.configured_max_open
        return most if isinstance(most, int) else None

    @property
    def away(self) -> Collection[int]:
        """The arms that are asleep or busy, by index."""
        return () if self._presence is None else self._presence.away

    @property
    def sleeping(self) -> Collection[int]:
        """The arms that are asleep, by index."""
        return () if self._presence is None else self._presence.asleep

    @property
    def present(self) -> int:
        """How many arms are neither asleep nor busy."""
        return len(self._arms) - len(self.away)

    @property
    def asleep(self) -> tuple[str, ...]:
        """The arms that are asleep, in order."""
        if self._presence is None:
            return ()
        return tuple([self._arms.names[arm] for arm in sorted(self._presence.asleep)])

    @property
    def faults(self) -> dict[str, int]:
        """How often the learner failed or chose what it must not, by kind."""
        return dict(self._proposals.counts)

    @property
    def departed(self) -> Departed:
        """What arms that have left were given and earned."""
        return self._departed

    @property
    def observed(self) -> dict[str, int]:
        """Rewards counted for each arm."""
        return dict(zip(self._arms.names, self._arms.observed, strict=True))

    @property
    def pending(self) -> dict[str, int]:
        """Assignments of each arm that still wait for their reward."""
        return dict(zip(self._arms.names, self._arms.pending, strict=True))

    @property
    def means(self) -> dict[str, float | None]:
        """Mean observed reward of each arm, None where there is none."""
        return {name: self._arms.mean(arm) for name, arm in self._arms.index.items()}

    @property
    def entitled(self) -> dict[str, Fraction]:
        """What each arm is entitled to so far, exactly."""
        return {n: self._arms.entitled(arm, self._clock) for n, arm in self._arms.index.items()}

    def shortfalls(self) -> dict[str, int]:
        """Return ``floor(entitled) - pulls`` of each arm, exactly."""
        return {n: self._arms.shortfall(arm, self._clock) for n, arm in self._arms.index.items()}

    def violation(self) -> int:
        """Return the worst shortfall over all arms now, exactly; O(k)."""
        return max(self._arms.shortfall(arm, self._clock) for arm in range(len(self._arms)))

    def gaps(self) -> dict[str, int]:
        """Return for each arm how many of its own slots have passed since its last pull."""
        arms, clock = self._arms, self._clock
        return {n: arms.own(arm, clock) - arms.last[arm] for n, arm in arms.index.items()}

    @property
    def gap_at_pulls(self) -> int:
        """The longest wait that a pull ended in the epoch in force; O(1)."""
        return self._gap if self._peak_epoch == self._fairness.epoch else 0

    def longest_gap(self) -> int:
        """Return the longest wait of an arm with a quota for a pull, in slots it was eligible for.

        Of the epoch in force, waits that still last included; O(k). A wait is counted from the
        arm's last pull, or from when its quota or the bank came into force.
        ``guarantee.longest_wait(quota)`` is the bound on it, if there is a bank.
        """
        arms, clock = self._arms, self._clock
        waits = [
            arms.own(arm, clock) - arms.last[arm] for arm in range(len(arms)) if arms.slope[arm]
        ]
        return max([self.gap_at_pulls, *waits])

    @property
    def peak_at_pulls(self) -> int:
        """The worst shortfall of an arm just before it was pulled in the epoch in force; O(1)."""
        return self._peak if self._peak_epoch == self._fairness.epoch else 0

    @property
    def violated_epochs(self) -> int:
        """Epochs so far in which a pulled arm was short by more than promised; O(1)."""
        return self._violated_epochs

    def peak_violation(self) -> int:
        """Return the worst shortfall since the epoch in force began, at least 0; O(k)."""
        return max(self.peak_at_pulls, self.violation())
