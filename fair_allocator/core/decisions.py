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
    """The part of a pool that decides. Its subclass `Pool` adds configuration and storage."""

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
        """Decide a request, or repeat its earlier answer.

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
        if self._presence is None and eligible is None and type(slots) is int and slots == 1:
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

        Raises the errors of `assign`. Also raises `NobodyLeft` if the request has to be decided
        again, but every eligible arm was already given it.
        """
        known = self._requests.known.get(request.request_id)
        if known is not None and not request.instead_of:
            return known.repeated()
        presence = self._presence
        if presence is not None:
            return self._propose_any(presence, request, known)
        _refuse_more_than_plain(request)
        return self._propose_plain(request.request_id)

    def count(self, made: Assignment, among: Among | None = None, instead_of: str = "") -> None:
        """Count a decision: one that was proposed just now, or one read from a journal.

        `among` are the arms that could take the request. It is needed only in pools whose requests
        may name arms. The latest proposal does not need it.
        """
        if self._presence is None:
            self._count_plain(made)
            return
        if among is None:
            among = self._among
        self._count_any(made, among, instead_of)

    def follow_epoch(self, epoch: int) -> None:
        """Prepare to count a decision from a journal; `epoch` is the epoch of the decision."""
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
            raise InvalidRequest("a learner must not ask its own pool while it is choosing")

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
        # An arm's shortfall is highest just before it is pulled. It is checked every round, so that
        # a broken rule shows.
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
        self, presence: Presence, request: Request, known: Assignment | None
    ) -> Assignment:
        self._refuse_nested()
        fairness, arms, clock = self._fairness, self._arms, self._clock
        wanted = _slots_of(request)
        if known is None:
            eligible = presence.eligible(request.eligible)
        else:
            eligible = self._not_given(presence, request, known)
            wanted = 1
        size = len(eligible)
        filled = min(wanted, size)
        full: set[int] = set()
        while True:
            forced = [] if fairness.rule == "none" else fairness.serve(eligible, clock, filled)
            if self._caps is not None:
                full = self._caps.reached(eligible, clock, filled).difference(forced)
            takers = size - len(full)
            if takers >= filled:
                break
            filled = takers
            if not filled:
                raise NobodyFree("every eligible arm is asleep, busy or at its cap")
        chosen: list[Choice] = []
        if len(forced) < filled:
            among = eligible.without([*forced, *full]) if forced or full else eligible
            chosen = self._proposals.several(arms, self.rounds + 1, among, filled - len(forced))
        self._among = eligible
        return self._answer(request.request_id, self.rounds + 1, fairness.epoch, forced, chosen)

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
        picks = made.picks
        forced: list[int] = []
        free: list[int] = []
        for pick in picks:
            arm = arms.index[pick.arm]
            if pick.reason == "fairness":
                forced.append(arm)
                arms.forced[arm] += 1
            else:
                free.append(arm)
            shortfall = arms.shortfall(arm, passed)
            if shortfall > self._peak:
                self._raise_peak(shortfall)
            gap = passed - arms.missed[arm] - arms.last[arm]
            if gap > self._gap and arms.slope[arm]:
                self._gap = gap
            arms.pending[arm] += 1
        pulled = forced + free if forced else free
        filled = len(pulled)
        self._clock = clock = fairness.count(eligible, passed, filled, forced, free)
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
            for place, pick in enumerate(picks):
                self._learner.assigned(pulled[place], pick)
        except Exception:
            self._proposals.failed()
        if presence is not None:
            presence.moved.clear()
            if presence.limits():
                for arm in pulled:
                    self._settle_presence(arm)
        if fairness.changing:
            fairness.advance(clock, round + 1)

    def _answer(
        self, request_id: str, round: int, epoch: int, forced: list[int], chosen: list[Choice]
    ) -> Assignment:
        """Return the picks of a request as one answer; picks that fairness forced come first."""
        names, picks = self._arms.names, [(arm, CERTAIN) for arm in forced] + chosen
        others: list[Assignment] = []
        for place in range(1, len(picks)):
            arm, propensity = picks[place]
            why: Reason = "fairness" if place < len(forced) else "learner"
            others.append(Assignment(request_id, names[arm], round, epoch, why, propensity))
        arm, propensity = picks[0]
        reason: Reason = "fairness" if forced else "learner"
        return Assignment(
            request_id, names[arm], round, epoch, reason, propensity, False, tuple(others)
        )

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

    # -- who is here --------------------------------------------------------------------------

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
                "arms of a pool with plain requests cannot sleep; "
                "use requests='any', also by reconfigure"
            )
        return self._presence, index


def _slots_of(request: Request) -> int:
    """Return how many arms a request wants. Most want one, so this is checked first."""
    slots = request.slots
    if type(slots) is int and slots == 1:
        return 1
    return parse_whole(slots, "slots", 1, MAX_SLOTS, InvalidRequest)


def _refuse_more_than_plain(request: Request) -> None:
    """Refuse a request that names arms, wants several slots, or replaces an arm."""
    if _slots_of(request) > 1 or request.eligible is not None or request.instead_of:
        raise InvalidRequest(
            "this pool takes plain requests only: any arm, one slot; "
            "use requests='any' to name eligible arms or slots, also by reconfigure"
        )
