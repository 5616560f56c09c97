"""Which rule, quotas, bound and bank are in force, and how a change takes effect.

*Wanted* is what the configuration asks for; *in force* is what the pool works with now. A change of
the configuration changes what is wanted. Harmless parts of a change take effect at once: an arm
leaves, a quota falls, a tolerance rises, a bank grows. In the other parts a quota rises, an arm
joins, or a bound or a bank gets smaller. These take effect only when the state is safe with them
(see `safety`), because from an unsafe state no rule can keep the promise. Until then the pool tests
them again after every request. A large pool tests them after every few requests.

The rule max-deficit needs more than a safe state: after a change, it can begin only when no arm is
owed a pull. Until then the rule earliest-deadline is in force, because it needs only a safe state.
docs/theory.md has the proofs and explains the words.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from fair_allocator.core.admission import ATTEMPTS, PROMPT, Admission
from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.checking import check_promise
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.errors import InvalidPool, InvalidState
from fair_allocator.core.forcing import RULES, Forcing, Terms
from fair_allocator.core.general import General
from fair_allocator.core.guarantee import Epoch, Guarantee, Standing
from fair_allocator.core.kinetic import NOBODY
from fair_allocator.core.quotas import compare_sum_to_one
from fair_allocator.core.safety import Line, least_safe_bound
from fair_allocator.core.wish import Wish, parse_wish

Listener = Callable[[Epoch], None]

_terms: Final = lru_cache(maxsize=1_000)(Terms)
"""Makes `Terms`. Pools with equal terms share one object."""

NO_EPOCHS: Final[list[Epoch]] = []
"""The list of all pools that collect their epochs but have none yet. Never add to it."""

_NOTHING: Final[dict[int, Fraction]] = {}
"""The wanted quotas of all pools in which everything wanted is in force. Never add to it."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Fairness:
    """The part of a pool that knows which arm must be served, by which rule, and what is promised.

    An *epoch* is a span of rounds in which the same settings are in force. Whenever a change comes
    into force, a new `Epoch` is made. If the pool has a listener (a function), the listener is
    called with the epoch. Otherwise, the epoch is added to the list `collected`, unless that is
    None.
    """

    __slots__ = (
        *("_arms", "_forcing", "_general", "_on_epoch", "_pause", "_rule", "_terms", "_wanted"),
        *("allowed", "bank", "bound", "changing", "collected", "epoch", "rule", "wish"),
    )

    def __init__(
        self,
        arms: Arms,
        quotas: Sequence[Fraction],
        wish: Wish,
        rule: str,
        bound: int,
        epoch: int,
    ) -> None:
        self.rule = rule
        self.bound = bound
        self.epoch = epoch
        self.bank: int | None = None
        self._arms = arms
        self._on_epoch: Listener | None = None
        self.collected: list[Epoch] | None = None
        self._pause = 0
        self._want(arms, quotas, wish)

    @classmethod
    def begun(cls, arms: Arms, quotas: Sequence[Fraction], wish: Wish) -> "Fairness":
        """Make a fairness for pools that have played no round.

        Everything wanted is in force at once.
        """
        fairness = cls(arms, quotas, wish, wish.rule, 0, 0)
        fairness.bound = fairness.allowed
        fairness._renew()
        fairness._announce(fairness._admit(0), 0, 1)
        return fairness

    def newborn(
        self, arms: Arms, on_epoch: Listener | None, collected: list[Epoch] | None
    ) -> "Fairness":
        """Return a copy of this fairness for a new pool, which has its own columns `arms`."""
        make = Fairness.__new__
        new = make(Fairness)
        new.rule, new.bound, new.epoch, new.bank = self.rule, self.bound, self.epoch, self.bank
        new._rule, new.allowed, new.wish = self._rule, self.allowed, self.wish
        new.changing, new._pause, new._wanted = self.changing, self._pause, _NOTHING
        new._terms, new._forcing, new._general = self._terms, None, None
        new._arms, new._on_epoch, new.collected = arms, on_epoch, collected
        return new

    def _want(self, arms: Arms, quotas: Sequence[Fraction], wish: Wish) -> None:
        """Store what is wanted, and which parts of it are not in force yet."""
        self._arms = arms
        self.wish = wish
        self._rule = wish.rule
        tolerance = wish.tolerance
        self.allowed = tolerance.numerator // tolerance.denominator
        wanted = {arm: quota for arm, quota in enumerate(quotas) if not arms.has_quota(arm, quota)}
        self._wanted = wanted or _NOTHING
        self._renew()

    def _renew(self) -> None:
        """Compute the values that every round needs again, after something came into force."""
        full = self.rule == "earliest-deadline" and compare_sum_to_one(self._arms.quotas()) == 0
        self._terms = _terms(self.allowed, self.bound, full)
        self._forcing: Forcing | None = None
        self._general: General | None = None
        self.changing = (
            bool(self._wanted)
            or self.rule != self._rule
            or self.bound != self.allowed
            or self.bank != self.wish.bank
        )

    # -- the hot path -------------------------------------------------------------------------

    def pick(self, slot: int) -> int:
        """Return the arm that a plain request must serve, or `NOBODY` if the learner may choose.

        `slot` is what the pool's clock will show after the request.
        """
        forcing = self._forcing
        if forcing is None:
            if self.rule == "none":
                return NOBODY
            forcing = self._forcing = RULES[self.rule](self._arms, self._terms, slot)
        return forcing.pick(slot)

    def pulled(self, arm: int, clock: int, forced: bool) -> None:
        """Update the state after a pull. Without a bank, only forced pulls need this call."""
        if not forced:
            if self.bank is not None:
                self._arms.keep_within_bank(arm, clock, 1, self.bank)
        elif self._forcing is not None:
            self._forcing.served(arm, clock)

    def follow(self, epoch: int) -> None:
        """Prepare to count a pull that was decided earlier, in `epoch`.

        The pull is read from a journal. In releases before 0.2, changes came into force at other
        moments. So `epoch` may be higher than the epoch of this object.
        """
        self._forcing = None
        self.epoch = max(self.epoch, epoch)

    def serve(self, eligible: Among, clock: int, slots: int) -> list[int]:
        """Return the arms that a request must serve, if the pool's requests may name arms."""
        if self.rule == "none":
            return []
        return self._served_by(clock).serve(eligible, clock, slots)

    def count(self, eligible: Among, clock: int, slots: int, pulled: list[int], forced: int) -> int:
        """Count a request that may name arms and slots; return the pool's clock after it.

        `pulled` has the arms that got the request. The first `forced` of them were picked by the
        fairness rule; the learner chose the others.
        """
        general = self._served_by(clock)
        return general.count(eligible, clock, slots, pulled, forced, self.bank)

    def leave(self, arm: int, clock: int) -> None:
        """Stop the clock of an arm that goes away."""
        self._served_by(clock).leave(arm, clock)

    def come_back(self, arm: int, clock: int) -> None:
        """Let the clock of an arm that comes back go on from where it stopped."""
        self._served_by(clock).come_back(arm, clock)

    def _served_by(self, clock: int) -> General:
        if self._general is None:
            self._general = General(self._arms, self._terms, clock)
        return self._general

    # -- what is in force ---------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """Return what the pool promises now."""
        if self.rule == "none":
            return Guarantee("none", None, None, False, self.wish.requests, None)
        return Guarantee(
            self.rule, self.bound, self.allowed, self.changing, self.wish.requests, self.bank
        )

    @property
    def wanted(self) -> dict[int, Fraction]:
        """Return the wanted quotas that are not in force yet, by the index of the arm."""
        return dict(self._wanted)

    def lines(self, clock: int) -> list[Line]:
        """Return for every arm the line of its entitlement, in the form that `safety` tests."""
        arms, bound = self._arms, self.bound
        return [
            (arms.ahead(arm, clock, bound), arms.slope[arm], arms.unit[arm])
            for arm in range(len(arms))
        ]

    # -- plain data ---------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        """Return what is in force and what is wanted, as plain data, except what `Arms` stores."""
        wish = self.wish
        return {
            "choice": wish.choice,
            "tolerance": str(wish.tolerance),
            "requests": wish.requests,
            "epoch": self.epoch,
            "rule": self.rule,
            "terms": [self.allowed, self.bound],
            "wanted": [[arm, str(quota)] for arm, quota in sorted(self._wanted.items())],
            "bank": [self.bank, wish.bank],
            "pause": self._pause,
        }

    @classmethod
    def from_state(
        cls, arms: Arms, state: Mapping[str, Any], on_epoch: Listener | None
    ) -> "Fairness":
        """Return the fairness from the plain data that `state` returned."""
        quotas = arms.quotas()
        if compare_sum_to_one(quotas) > 0:
            raise InvalidState("arms.slope: the quotas in force sum to more than 1")
        for arm, quota in state["wanted"]:
            quotas[arm] = Fraction(quota)
        if state["wanted"] and compare_sum_to_one(quotas) > 0:
            raise InvalidState("fairness.wanted: the quotas wanted sum to more than 1")
        bank, wanted_bank = state.get("bank", (None, None))
        requests = state.get("requests", "plain")
        tolerance = Fraction(state["tolerance"])
        wish = parse_wish(quotas, tolerance, state["choice"], requests, wanted_bank)
        fairness = cls(arms, quotas, wish, state["rule"], state["terms"][1], state["epoch"])
        fairness.bank = bank
        fairness._renew()
        fairness._pause = state.get("pause", 0)
        fairness._on_epoch = on_epoch
        return fairness

    # -- changes ------------------------------------------------------------------------------

    def changed(
        self,
        arms: Arms,
        quotas: Sequence[Fraction],
        wish: Wish,
        clock: int,
        round: int,
        on_epoch: Listener,
    ) -> "Fairness":
        """Return a new fairness for changed settings.

        `quotas` has one quota for each arm of `arms`.

        `wish` has the other settings. `round` is the next round. This object does not change. If
        the change is refused, `arms` does not change either. `on_epoch` is called with the epoch
        that begins with the change.
        """
        rule = wish.rule
        if "none" in (rule, self.rule) and rule != self.rule:
            raise InvalidPool(
                "a pool cannot change from or to rule 'none' at run time; make a new pool"
            )
        for arm, quota in enumerate(quotas):
            arms.check_bend(arm, quota)
        other = Fairness(arms, quotas, wish, self.rule, self.bound, self.epoch)
        other.bank = self.bank
        other._on_epoch = on_epoch
        fallen = other._admit_harmless(clock)
        other._renew()
        other._announce([*fallen, *other._admit(clock)], clock, round)
        other._on_epoch, other.collected = self._on_epoch, self.collected
        return other

    def _admit_harmless(self, clock: int) -> list[int]:
        """Put the harmless parts of the change in force; return the arms whose quota fell."""
        arms, wanted, bank = self._arms, self._wanted, self.wish.bank
        fallen = [arm for arm, quota in wanted.items() if quota < arms.quota(arm)]
        for arm in fallen:
            arms.bend(arm, wanted.pop(arm), clock)
        if self.allowed > self.bound:
            self.bound = self.allowed
        if bank is None or (self.bank is not None and bank > self.bank):
            self.bank = bank
        if self.rule == "max-deficit" and (fallen or self._rule == "earliest-deadline"):
            self.rule = "earliest-deadline"
        return fallen

    def advance(self, clock: int, round: int) -> None:
        """After a request, try again to put in force what is wanted but not yet in force."""
        if self._pause:
            self._pause -= 1
            return
        before = self.bound, self.rule, self.bank
        admitted = self._admit(clock)
        if admitted or before != (self.bound, self.rule, self.bank):
            self._announce(admitted, clock, round)

    def _admit(self, clock: int) -> list[int]:
        """Put the safe parts of the wanted change in force; return the arms whose quota changed."""
        arms, bound, rule, bank = self._arms, self.bound, self.rule, self.bank
        lines, slack = self.lines(clock), self.bound - self.allowed
        nobody_owed = all(ahead + slack * unit <= 0 for ahead, _, unit in lines)
        admitted, tests = list(self._wanted), 1
        if rule == "none" or nobody_owed:
            self.bound, self.bank = self.allowed, self.wish.bank
        else:
            most = None if self.wish.bank is None else bound + self.wish.bank
            admission = Admission(lines, arms.quotas(), self._wanted, most, slack)
            admitted, tests = admission.quotas, admission.tests
            self.bound -= admission.steps
            if admission.bank:
                self.bank = self.wish.bank
        for arm in admitted:
            arms.bend(arm, self._wanted.pop(arm), clock)
        if not self._wanted:
            self._wanted = _NOTHING
        if nobody_owed:
            self.rule = self._rule
        elif rule == "max-deficit" and (admitted or self.bound < bound):
            self.rule = "earliest-deadline"
        if self.bank is not None and self.bank != bank:
            raised = {arm for arm in range(len(arms)) if arms.forgive(arm, clock, self.bank)}
            for arm in range(len(arms)):
                # The new bank limits only the part of a wait that comes from now on.
                arms.last[arm] = arms.own(arm, clock)
            admitted += sorted(raised.difference(admitted))
        if admitted or (bound, rule, bank) != (self.bound, self.rule, self.bank):
            self._renew()
        # A large pool lets some requests pass before the next attempt. So the attempts look at no
        # more than 64 arms per request on average.
        looks = min(tests, ATTEMPTS) * len(lines)
        self._pause = looks // 64 if self.changing and len(lines) > PROMPT else 0
        return admitted

    # -- epochs -------------------------------------------------------------------------------

    def announce(self, epochs: Iterable[Epoch]) -> None:
        """Announce the epochs of a change that was accepted."""
        for epoch in epochs:
            self._tell(epoch)

    def confirm(self, clock: int, round: int) -> None:
        """Begin a new epoch with the same settings, after a configuration that changed nothing."""
        self._announce([], clock, round)

    def _announce(self, changed: Sequence[int], clock: int, round: int) -> None:
        self.epoch += 1
        self._arms.share_lines()  # most lines do not change before the next epoch
        if self._on_epoch is not None or self.collected is not None:
            self._tell(self.in_force(changed, clock, round))

    def _tell(self, epoch: Epoch) -> None:
        if self._on_epoch is not None:
            self._on_epoch(epoch)
        elif self.collected is not None:
            self.collected = [*self.collected, epoch]

    def collect(self, epochs: list[Epoch]) -> None:
        """From now on, collect new epochs after those in `epochs`, and do not call the listener."""
        self._on_epoch, self.collected = None, epochs or NO_EPOCHS

    def secure(self, clock: int, round: int) -> None:
        """Raise the bound until the pool can keep it.

        An older release may have put a change in force too early.
        """
        more = 0 if self.rule == "none" else least_safe_bound(self.lines(clock))
        if more:
            self.bound += more
            self._renew()
            self._announce([], clock, round)
        if self.changing:
            self._pause = 0
            self.advance(clock, round)

    def check_promise(self, clock: int) -> None:
        """Refuse a state from which the pool cannot keep its promise."""
        check_promise(self.lines(clock), self.rule, self._rule, self.bound, self.allowed)

    def in_force(self, named: Iterable[int], clock: int, round: int) -> Epoch:
        """Return what is in force from `round` on, with a `Standing` for each arm in `named`."""
        arms = self._arms
        standings = {
            arms.names[arm]: Standing(arms.quota(arm), arms.entitled(arm, clock), arms.pulls[arm])
            for arm in named
        }
        bound = self.guarantee.bound
        return Epoch(self.epoch, round, self.rule, self.wish.tolerance, bound, standings)
