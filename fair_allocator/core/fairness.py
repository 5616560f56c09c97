"""Which rule, quotas and bound are in force, and how a change takes effect with nothing lost.

A change sets what is *wanted*; what is *in force* follows as soon as the guarantee allows:

- Under max deficit everything is taken over at once as long as the arms with a quota times the
  largest quota, each at its highest since nobody was last owed, stay below 1.
- Under earliest deadline each arm takes its new quota in the first round in which it is owed
  nothing or was just pulled; an increase also waits for room. A quota that falls, or leaves with
  its arm, makes room only once it has paid for the pulls it was served ahead of time: otherwise
  a share handed from arm to arm would be served early by each, at the cost of the others.
- Whatever else is wanted (another rule, a lower bound) is taken over in the first round in which
  nobody is owed anything, which the rules reach by themselves while quotas sum to less than 1.

A lower tolerance triggers service at once, but the old deadlines and the old bound stay until
nobody is owed. docs/theory.md has the reasons.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any

from fair_allocator.core.arms import Arms
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.forcing import RULES, Forcing, Terms, owed_from
from fair_allocator.core.guarantee import Epoch, Guarantee, Standing, extent, resolve_rule
from fair_allocator.core.kinetic import NOBODY
from fair_allocator.core.quotas import compare_sum_to_one, fits_below_one, weight


@mypyc_attr(allow_interpreted_subclasses=True)
class Fairness:
    """The fair side of a pool: whom it must serve, under which rule, with which promise.

    It begins with what is in force; what is wanted comes by `begun`, `changed` or `from_state`.
    `on_epoch` is told whenever something else comes into force.
    """

    settled: bool
    """Whether no pull can make anything else come into force."""

    def __init__(
        self,
        arms: Arms,
        rule: str,
        terms: Terms,
        epoch: int,
        peak: tuple[int, Fraction],
        reserved: list[tuple[int, int]],
        on_epoch: Callable[[Epoch], None] | None,
    ) -> None:
        self.rule = rule
        self.epoch = epoch
        self._arms = arms
        self._terms = terms
        self._peak = peak
        self._reserved = reserved
        self._on_epoch = on_epoch
        self._forcing: Forcing | None = None

    @classmethod
    def begun(
        cls,
        arms: Arms,
        quotas: Sequence[Fraction],
        tolerance: Fraction,
        choice: str | Any,
        on_epoch: Callable[[Epoch], None] | None,
    ) -> "Fairness":
        """Make the fair side of a new pool."""
        rule, terms = resolve_rule(choice, quotas), Terms(0, 0, early=False)
        fairness = cls(arms, rule, terms, 0, (0, Fraction(0)), [], on_epoch)
        fairness._want(arms, quotas, tolerance, choice)
        fairness._take_over(1)
        return fairness

    # -- the hot path -------------------------------------------------------------------------

    def pick(self, round: int) -> int:
        """Return the arm that must be served in `round`, `NOBODY` if the learner may choose."""
        forcing = self._forcing
        if forcing is None:
            if self.rule == "none":
                return NOBODY
            forcing = self._forcing = RULES[self.rule](self._arms, self._terms, round)
        arm = forcing.pick(round)
        if arm < 0 and self._changing:
            self._take_over(round)
            return self.pick(round)
        return arm

    def pulled(self, arm: int, round: int, forced: bool) -> None:
        """Take in a pull of `round`, already counted; need not be told of a free one if settled."""
        if not self.settled:
            self._advance([arm], round + 1, pulled=arm, forced=forced)
        if forced and self._forcing is not None:
            self._forcing.served(arm, round)

    def catch_up(self, epoch: int, round: int) -> None:
        """Follow a recorded decision of `round`: nobody was owed if its epoch is a later one."""
        self._forcing = None
        if epoch > self.epoch:
            self._take_over(round)

    # -- what is in force ---------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """Return what is promised now."""
        if self.rule == "none":
            return Guarantee("none", None, None, changing=False)
        return Guarantee(self.rule, self._terms.bound, self._terms.tolerance, self._changing)

    @property
    def wanted(self) -> dict[int, Fraction]:
        """Return the quotas that are still to take effect, by arm."""
        return dict(self._wanted)

    def _look_around(self) -> None:
        """Note what the hot path asks in every round: whether anything is yet to take effect."""
        terms, wanted = self._terms, bool(self._wanted)
        self._changing = wanted or self.rule != self._rule or terms.bound != terms.tolerance
        self.settled = not (wanted or self._reserved or (terms.early and not self._full))

    # -- plain data ---------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        """Return what is in force and wanted beyond the lines in `Arms`, as plain data."""
        return {
            "choice": self.choice,
            "tolerance": str(self.tolerance),
            "epoch": self.epoch,
            "rule": self.rule,
            "terms": list(self._terms),
            "wanted": [[arm, str(quota)] for arm, quota in sorted(self._wanted.items())],
            "queue": list(self._queue),
            "reserved": sorted(map(list, self._reserved)),
            "peak": [self._peak[0], str(self._peak[1])],
        }

    @classmethod
    def from_state(
        cls, arms: Arms, state: Mapping[str, Any], on_epoch: Callable[[Epoch], None] | None
    ) -> "Fairness":
        """Make the fair side that `state` gave."""
        terms = Terms(*state["terms"])
        peak = state["peak"][0], Fraction(state["peak"][1])
        reserved = [(until, load) for until, load in state["reserved"]]
        fairness = cls(arms, state["rule"], terms, state["epoch"], peak, reserved, on_epoch)
        quotas = arms.quotas()
        for arm, quota in state["wanted"]:
            quotas[arm] = Fraction(quota)
        fairness._want(arms, quotas, Fraction(state["tolerance"]), state["choice"])
        fairness._terms = terms
        fairness._queue = dict.fromkeys(state["queue"])
        fairness._look_around()
        return fairness

    # -- changes ------------------------------------------------------------------------------

    def changed(
        self,
        arms: Arms,
        quotas: Sequence[Fraction],
        tolerance: Fraction,
        choice: str | Any,
        round: int,
        on_epoch: Callable[[Epoch], None],
    ) -> "Fairness":
        """Return one that wants other quotas (one per arm of `arms`), tolerance or rule.

        `round` is the next to be played. This one is left as it is, and so is `arms` if the
        change is refused.
        """
        other = Fairness(
            self._arms,
            self.rule,
            self._terms,
            self.epoch,
            self._peak,
            list(self._reserved),
            on_epoch,
        )
        other._change(arms, quotas, tolerance, choice, round)
        other._on_epoch = self._on_epoch
        return other

    def _change(
        self,
        arms: Arms,
        quotas: Sequence[Fraction],
        tolerance: Fraction,
        choice: str | Any,
        round: int,
    ) -> None:
        rule = resolve_rule(choice, quotas)
        if "none" in (rule, self.rule) and rule != self.rule:
            raise InvalidPool(
                "rule 'none' cannot be switched on or off at run time; make a new pool"
            )
        for arm, quota in enumerate(quotas):
            arms.check_bend(arm, quota)
        for arm, name in enumerate(self._arms.names):
            if name not in arms.index:
                self._reserve(arm, weight(self._arms.quota(arm)), round)
        self._want(arms, quotas, tolerance, choice)
        if rule == "none" or self._is_nobody_owed(round):
            self._take_over(round)
        elif self.rule == self._rule == "max-deficit" and self._raise_peak(quotas, round):
            self._bend(list(self._wanted), round)
        elif self.rule == "earliest-deadline":
            self._announce([], round)
            self._advance(list(self._wanted), round)
        else:
            self._announce([], round)

    def _want(
        self, arms: Arms, quotas: Sequence[Fraction], tolerance: Fraction, choice: str | Any
    ) -> None:
        self._arms = arms
        self.choice = choice
        self.tolerance = tolerance
        self._rule = resolve_rule(choice, quotas)
        self._wanted = {
            arm: quota for arm, quota in enumerate(quotas) if not arms.has_quota(arm, quota)
        }
        self._queue: dict[int, None] = {}
        self._lowering = sum(quota < arms.quota(arm) for arm, quota in self._wanted.items())
        self._load = sum(weight(arms.quota(arm)) for arm in range(len(arms)))
        self._load += sum(load for _, load in self._reserved)
        self._full = compare_sum_to_one(quotas) == 0
        whole = tolerance.numerator // tolerance.denominator
        self._terms = Terms(
            tolerance=whole,
            bound=max(whole, self._terms.bound),
            early=self.rule == "earliest-deadline" and (self._full or self._terms.early),
        )
        self._forcing = None
        self._look_around()

    def _is_nobody_owed(self, round: int) -> bool:
        arms, terms = self._arms, self._terms
        return all(owed_from(arms, terms, arm) > round for arm in range(len(arms)))

    def _raise_peak(self, quotas: Sequence[Fraction], round: int) -> bool:
        """Stretch what max deficit's proof must cover since nobody was owed, if it can be.

        An arm that loses its quota while it is owed still has to be served.
        """
        arms, terms = self._arms, self._terms
        count = sum(
            quota.numerator > 0 or owed_from(arms, terms, arm) <= round
            for arm, quota in enumerate(quotas)
        )
        count = max(count, self._peak[0])
        largest = max(extent(quotas)[1], self._peak[1])
        if count * largest >= 1:
            return False
        self._peak = count, largest
        return True

    def _take_over(self, round: int) -> None:
        """Put all that is wanted in force: nobody is owed anything in `round`."""
        self.rule = self._rule
        self._terms = Terms(
            tolerance=self._terms.tolerance,
            bound=self._terms.tolerance,
            early=self.rule == "earliest-deadline" and self._full,
        )
        self._reserved = []
        self._bend(list(self._wanted), round)
        self._peak = extent(self._arms.quotas())
        self._forcing = None

    def _advance(
        self, candidates: Iterable[int], round: int, pulled: int = NOBODY, *, forced: bool = False
    ) -> None:
        """Let arms take their wanted quotas that are owed nothing in `round`, or just `pulled`.

        What an arm is owed right after a pull has not been weighed against the others yet.
        """
        if self.rule != "earliest-deadline":
            return
        while self._reserved and self._reserved[0][0] < round:
            self._load -= heappop(self._reserved)[1]
        ready = []
        for arm in candidates:
            if arm in self._wanted and self._may_bend(arm, round, pulled):
                if self._wanted[arm] < self._arms.quota(arm):
                    ready.append(arm)
                    self._settle(arm, round)
                else:
                    self._queue[arm] = None
        while self._queue:
            arm = next(iter(self._queue))
            if self._may_bend(arm, round, pulled):
                if not self._has_room(arm):
                    break
                ready.append(arm)
                self._settle(arm, round)
            del self._queue[arm]
        if ready:
            self._bend(ready, round, served=pulled if forced else NOBODY)
        if self._terms.early and not (self._full or self._wanted or self._reserved):
            self._terms = self._terms._replace(early=False)
            self._forcing = None
        self._look_around()

    def _may_bend(self, arm: int, round: int, pulled: int) -> bool:
        return arm == pulled or owed_from(self._arms, self._terms, arm) > round

    def _has_room(self, arm: int) -> bool:
        """Tell whether a quota may rise; if none is left to fall, the sum is the wanted one."""
        if not self._lowering and not self._reserved:
            return True
        change = weight(self._wanted[arm]) - weight(self._arms.quota(arm))
        return fits_below_one(self._load + change)

    def _settle(self, arm: int, round: int) -> None:
        """Account for a quota that is about to change."""
        old, new = self._arms.quota(arm), self._wanted[arm]
        self._load += weight(new) - weight(old)
        if new < old:
            self._lowering -= 1
            self._load += self._reserve(arm, weight(old) - weight(new), round)

    def _reserve(self, arm: int, load: int, round: int) -> int:
        """Keep what an arm gives up until it has paid for its pulls; return what is kept."""
        arms = self._arms
        if not arms.slope[arm] or self.rule != "earliest-deadline":
            return 0
        terms, slope, unit = self._terms, arms.slope[arm], arms.unit[arm]
        ahead = unit * (arms.pulls[arm] + terms.bound) - arms.base[arm]
        # The learner's pulls need no paying: a served one is due this soon.
        longest = unit * (1 + terms.bound - terms.tolerance)
        until = min(-(-ahead // slope), round - 1 - (-longest // slope))
        if until < round:
            return 0
        heappush(self._reserved, (until, load))
        return load

    def _bend(self, ready: Sequence[int], round: int, served: int = NOBODY) -> None:
        """Put the wanted quotas of these arms in force from `round` on."""
        for arm in ready:
            self._arms.bend(arm, self._wanted.pop(arm), round)
            if self._forcing is not None and arm != served:
                self._forcing.refile(arm, round)
        self._look_around()
        self._announce(ready, round)

    def announce(self, epochs: Iterable[Epoch]) -> None:
        """Tell what came into force by a change that is now settled."""
        for epoch in epochs:
            if self._on_epoch is not None:
                self._on_epoch(epoch)

    def _announce(self, changed: Sequence[int], round: int) -> None:
        self.epoch += 1
        if self._on_epoch is not None:
            self._on_epoch(self.in_force(changed, round))

    def in_force(self, named: Iterable[int], round: int) -> Epoch:
        """Return what is in force from `round` on, with where the named arms stand."""
        arms, bound = self._arms, self.guarantee.bound
        standings = {
            arms.names[arm]: Standing(
                arms.quota(arm), arms.entitled(arm, round - 1), arms.pulls[arm]
            )
            for arm in named
        }
        return Epoch(self.epoch, round, self.rule, self.tolerance, bound, standings)
