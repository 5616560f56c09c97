"""How a pool decides: requests, rewards, and arms that go away and come back."""

from collections.abc import Iterable
from typing import Any, SupportsIndex

from fair_allocator.core.among import Among
from fair_allocator.core.arms import SMALL
from fair_allocator.core.caps import Caps
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.errors import InvalidRequest, NobodyFree, NobodyLeft, shown
from fair_allocator.core.general import MAX_SLOTS
from fair_allocator.core.learners import Choice
from fair_allocator.core.numbers import parse_whole
from fair_allocator.core.presence import Presence
from fair_allocator.core.proposals import Proposals
from fair_allocator.core.requests import CERTAIN, Assignment, Reason, Request
from fair_allocator.core.rewards import Rewards
from fair_allocator.core.texts import parse_text


@mypyc_attr(allow_interpreted_subclasses=True)
class Decisions(Rewards):
    """The part of a pool that decides requests.

    Its subclass `Pool` adds configuration and storage.
    """

    _proposals: Proposals
    _presence: Presence | None
    _caps: Caps | None
    _among: Among

    def assign(
        self,
        request_id: str | Any,
        eligible: Iterable[str] | Any | None = None,
        slots: SupportsIndex | Any = 1,
    ) -> Assignment:
        """Decide a request and count the decision, or return its earlier answer.

        Parameters
        ----------
        eligible
            The names of the arms that can take the request. None means all arms, and `AllBut` means
            all except some. Arms that are asleep or busy are skipped.
        slots
            How many different arms the request wants. It gets fewer if fewer are eligible.

        Raises
        ------
        InvalidRequest
            If `eligible` or `slots` is not valid for this pool. Nothing is counted.
        NobodyFree
            If every arm that could take the request is asleep, busy or at its cap. Nothing is
            counted. This is a kind of `InvalidRequest`.
        """
        if type(request_id) is not str:
            request_id = parse_text(request_id, "a request's id", InvalidRequest)
        known = self._requests.known.get(request_id)
        if known is not None:
            return known.repeated()
        presence = self._presence
        if presence is not None:
            made = self._propose_any(presence, request_id, eligible, slots)
            self._count_any(made, self._among, "")
        elif eligible is None and type(slots) is int and slots == 1:
            made = self._propose_plain(request_id)
            self._count_plain(made)
        else:
            made = self.propose(Request(request_id, eligible, slots))
            self.count(made)
        self._proposals.report()
        return made

    # -- first propose, then count ------------------------------------------------------------

    def propose(self, request: Request) -> Assignment:
        """Return the decision of a request without counting it, or its earlier answer.

        Raise the errors of `assign`. Also raise `NobodyLeft` if the request has to be decided
        again, but every eligible arm has already been given the request.
        """
        known = self._requests.known.get(request.request_id)
        if known is not None and not request.instead_of:
            return known.repeated()
        presence = self._presence
        if presence is not None:
            if known is not None:
                return self._propose_again(presence, request, known)
            return self._propose_any(presence, request.request_id, request.eligible, request.slots)
        _refuse_more_than_plain(request)
        return self._propose_plain(request.request_id)

    def count(self, made: Assignment, among: Among | None = None, instead_of: str = "") -> None:
        """Count a decision: one that was proposed just now, or one read from a journal.

        `among` has the arms that could take the request. Pass it in pools whose requests may name
        arms, unless `made` is the latest proposal.
        """
        if self._presence is None:
            self._count_plain(made)
            return
        if among is None:
            among = self._among
        self._count_any(made, among, instead_of)

    def follow_epoch(self, epoch: int) -> None:
        """Prepare to count a decision that was read from a journal and was made in `epoch`."""
        self._fairness.follow(epoch)

    def follow(
        self, request_id: str, arm: str, epoch: int, reason: Reason, propensity: float | None
    ) -> Assignment:
        """Count an earlier decision of a plain request, without deciding again."""
        self.follow_epoch(epoch)
        made = Assignment(
            request_id, arm, self.rounds + 1, self._fairness.epoch, reason, propensity
        )
        self._count_plain(made)
        return made

    def _refuse_nested(self) -> None:
        """Refuse calls that a learner makes to its pool while it is choosing."""
        if self._proposals.asking:
            raise InvalidRequest("a learner must not call its own pool while it is choosing")

    # -- plain requests -----------------------------------------------------------------------

    def _propose_plain(self, request_id: str) -> Assignment:
        self._refuse_nested()
        round, arms = self.rounds + 1, self._arms
        arm = self._fairness.pick(self._clock + 1)
        propensity: float | None = CERTAIN
        reason: Reason = "fairness"
        if arm < 0:
            reason = "learner"
            if self._caps is None:
                arm, propensity = self._proposals.one(arms, round)
            else:
                everybody = Among(len(arms))
                full = self._caps.reached(everybody, self._clock, 1)
                if len(full) == len(arms):
                    raise NobodyFree("every arm is at its cap")
                among = everybody.without(full) if full else everybody
                arm, propensity = self._proposals.several(arms, round, among, 1)[0]
        return Assignment(
            request_id, arms.names[arm], round, self._fairness.epoch, reason, propensity
        )

    def _count_plain(self, made: Assignment) -> None:
        """Count the decision of a plain request."""
        arms, fairness, passed = self._arms, self._fairness, self._clock
        arm = arms.index[made.arm]
        self.rounds = round = self.rounds + 1
        self._clock = clock = passed + 1
        pulls, slope = arms.pulls[arm], arms.slope[arm]
        # An arm's shortfall is highest just before it is pulled. We check it in every round, to
        # notice a fault in the rule.
        if passed < SMALL:
            shortfall = (arms.base[arm] + slope * passed) // arms.unit[arm] - pulls
        else:
            shortfall = arms.shortfall(arm, passed)
        if fairness.epoch != self._peak_epoch:
            self._peak, self._gap, self._peak_epoch = 0, 0, fairness.epoch
        if shortfall > self._peak:
            self._raise_peak(shortfall)
        gap = passed - arms.last[arm]
        if gap > self._gap and slope:
            self._gap = gap
        self._requests.add(made)
        arms.last[arm] = clock
        arms.pulls[arm] = pulls + 1
        arms.pending[arm] += 1
        if made.reason == "fairness":
            arms.forced[arm] += 1
            fairness.pulled(arm, clock, forced=True)
        elif fairness.bank is not None:
            fairness.pulled(arm, clock, forced=False)
        if self._caps is not None:
            self._caps.count(Among(len(arms)), (arm,), clock, 1)
        try:
            self._learner.assigned(arm, made)
        except Exception:
            self._proposals.failed()
        if fairness.changing:
            fairness.advance(clock, round + 1)

    def _raise_peak(self, shortfall: int) -> None:
        bound = self._fairness.guarantee.bound  # the same as long as the epoch lasts
        if bound is not None and self._peak <= bound < shortfall:
            self._violated_epochs += 1
        self._peak = shortfall

    # -- requests that may name arms and slots ------------------------------------------------

    def _propose_any(
        self, presence: Presence, request_id: str, eligible: Any, slots: Any
    ) -> Assignment:
        self._refuse_nested()
        wanted = _slots_of(slots)
        return self._propose_among(presence.eligible(eligible), request_id, wanted)

    def _propose_again(self, presence: Presence, request: Request, known: Assignment) -> Assignment:
        """Return the decision of a request that needs another arm."""
        self._refuse_nested()
        _slots_of(request.slots)
        eligible = self._not_given(presence, request, known)
        return self._propose_among(eligible, request.request_id, 1)

    def _propose_among(self, eligible: Among, request_id: str, wanted: int) -> Assignment:
        """Return the decision of a request that these arms could take."""
        fairness, arms, round = self._fairness, self._arms, self.rounds + 1
        among = eligible
        filled = 1 if wanted == 1 else min(wanted, len(eligible))
        forced = fairness.serve(eligible, self._clock, filled)
        if self._caps is not None:
            filled, forced, full = self._within_caps(self._caps, eligible, filled, forced)
            if full:
                among = eligible.without(full)
        self._among = eligible
        if filled == 1 and not forced:
            arm, propensity = self._proposals.one(arms, round, among)
            return Assignment(
                request_id, arms.names[arm], round, fairness.epoch, "learner", propensity
            )
        chosen: list[Choice] = []
        if len(forced) < filled:
            if forced:
                among = among.without(forced)
            chosen = self._proposals.several(arms, round, among, filled - len(forced))
        return self._answer(request_id, round, fairness.epoch, forced, chosen)

    def _within_caps(
        self, caps: Caps, eligible: Among, filled: int, forced: list[int]
    ) -> tuple[int, list[int], set[int]]:
        """Return how many slots can be filled, the arms to serve, and the arms at their cap."""
        while True:
            full = caps.reached(eligible, self._clock, filled).difference(forced)
            takers = len(eligible) - len(full)
            if takers >= filled:
                return filled, forced, full
            filled = takers
            if not filled:
                raise NobodyFree("every eligible arm is asleep, busy or at its cap")
            forced = self._fairness.serve(eligible, self._clock, filled)

    def _not_given(self, presence: Presence, request: Request, known: Assignment) -> Among:
        """Return the eligible arms that have not been given this request yet."""
        index = self._arms.index
        given = {index[pick.arm] for pick in known.picks if pick.arm in index}
        if not presence.has_others(request.eligible, given):
            raise NobodyLeft("every eligible arm was given the request before")
        left = presence.eligible(request.eligible).without(given)
        if not len(left):
            raise NobodyFree("every other eligible arm is asleep or busy")
        return left

    def _count_any(self, made: Assignment, eligible: Among, instead_of: str) -> None:
        """Count the decision of a request; `eligible` are the arms that could take it."""
        arms, fairness, passed, presence = self._arms, self._fairness, self._clock, self._presence
        self.rounds = round = self.rounds + 1
        if fairness.epoch != self._peak_epoch:
            self._peak, self._gap, self._peak_epoch = 0, 0, fairness.epoch
        pulled: list[int] = []
        forced = self._count_pick(made, passed, pulled)
        for pick in made.others:
            forced += self._count_pick(pick, passed, pulled)
        filled = len(pulled)
        self._clock = clock = fairness.count(eligible, passed, filled, pulled, forced)
        if instead_of:
            first = self._requests.known[made.request_id]
            self._requests.replace(first, made, instead_of)
            self._requests.release(first, round)
        else:
            self._requests.add(made)
        for arm in pulled:
            arms.last[arm] = clock - arms.missed[arm]
        if self._caps is not None:
            self._caps.count(eligible, pulled, clock, filled)
        try:
            self._learner.assigned(pulled[0], made)
            for place, pick in enumerate(made.others):
                self._learner.assigned(pulled[place + 1], pick)
        except Exception:
            self._proposals.failed()
        if presence is not None:
            if presence.moved:
                presence.moved.clear()
            if presence.limits():
                for arm in pulled:
                    self._settle_presence(arm)
        if fairness.changing:
            fairness.advance(clock, round + 1)

    def _count_pick(self, pick: Assignment, passed: int, pulled: list[int]) -> int:
        """Count one arm of a request, and add it to `pulled`; return 1 if it was forced, or 0."""
        arms = self._arms
        arm = arms.index[pick.arm]
        pulled.append(arm)
        shortfall = arms.shortfall(arm, passed)
        if shortfall > self._peak:
            self._raise_peak(shortfall)
        gap = passed - arms.missed[arm] - arms.last[arm]
        if gap > self._gap and arms.slope[arm]:
            self._gap = gap
        arms.pending[arm] += 1
        if pick.reason != "fairness":
            return 0
        arms.forced[arm] += 1
        return 1

    def _answer(
        self, request_id: str, round: int, epoch: int, forced: list[int], chosen: list[Choice]
    ) -> Assignment:
        """Return the picks of a request as one answer; picks that fairness forced come first."""
        names = self._arms.names
        picks = [
            Assignment(request_id, names[arm], round, epoch, "fairness", CERTAIN) for arm in forced
        ]
        for arm, propensity in chosen:
            picks.append(Assignment(request_id, names[arm], round, epoch, "learner", propensity))
        first = picks[0]
        if len(picks) > 1:
            first.others = tuple(picks[1:])
        return first

    # -- the eligible arms, for callers that record them --------------------------------------

    def proposed_among(self) -> Among:
        """Return the arms that could take the last proposed request."""
        return self._among

    def among(self, named: Iterable[str] | None, left_out: Iterable[str]) -> Among:
        """Return the named arms; if `named` is None, all present arms except `left_out`."""
        index, size, presence = self._arms.index, len(self._arms), self._presence
        if named is not None:
            return Among(size, [index[name] for name in named])
        away = None if presence is None else presence.away
        return Among(size, None, away, {index[name] for name in left_out})

    def moved(self) -> tuple[list[str], list[str]]:
        """Return the arms that went away and those that came back since the last decision."""
        presence, names = self._presence, self._arms.names
        if presence is None or not presence.moved:
            return [], []
        moved, away = sorted(presence.moved), presence.away
        return (
            [names[arm] for arm in moved if arm in away],
            [names[arm] for arm in moved if arm not in away],
        )

    def forget_moves(self) -> None:
        """Forget which arms came and went. Call this after recording what `moved` returned."""
        if self._presence is not None:
            self._presence.moved.clear()

    # -- arms that sleep and wake -------------------------------------------------------------

    def sleep(self, arm: str | Any) -> bool:
        """Make an arm ineligible until it wakes; tell whether it was awake.

        The arm's clock stops meanwhile. The arm keeps what it is owed, and the learner keeps what
        it has learned about the arm.
        """
        presence, index = self._present(arm)
        if index in presence.asleep:
            return False
        presence.asleep.add(index)
        self._settle_presence(index)
        return True

    def wake(self, arm: str | Any) -> bool:
        """Make an arm eligible again; tell whether it was asleep."""
        presence, index = self._present(arm)
        if index not in presence.asleep:
            return False
        presence.asleep.remove(index)
        self._settle_presence(index)
        return True

    def _present(self, arm: str | Any) -> tuple[Presence, int]:
        self._refuse_nested()
        index = self._arms.index.get(parse_text(arm, "an arm's name", InvalidRequest))
        if index is None:
            raise InvalidRequest(f"the pool has no arm {shown(arm)}")
        if self._presence is None:
            raise InvalidRequest(
                "arms of a pool with plain requests cannot sleep; make the pool with "
                "requests='any', or change it by reconfigure"
            )
        return self._presence, index


def _slots_of(slots: Any) -> int:
    """Return how many arms a request wants."""
    if type(slots) is int:
        wanted: int = slots
        if 0 < wanted <= MAX_SLOTS:
            return wanted
    return parse_whole(slots, "slots", 1, MAX_SLOTS, InvalidRequest)


def _refuse_more_than_plain(request: Request) -> None:
    """Refuse a request that names arms, wants several slots, or replaces an arm."""
    if _slots_of(request.slots) > 1 or request.eligible is not None or request.instead_of:
        raise InvalidRequest(
            "this pool takes plain requests only: any arm, one slot; to name eligible arms or "
            "slots, make the pool with requests='any', or change it by reconfigure"
        )
