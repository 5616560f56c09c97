"""Decide requests: at once, after a wait, or again.

A request waits if no arm can take it now. A request may be decided again if its arm declines, or
gives no reward in time; another arm then replaces the first one. A *pick* is the assignment of one
arm to a request.
"""

from fair_allocator.core.all_but import AllBut
from fair_allocator.core.among import Among
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.errors import InvalidRequest, NobodyFree, NobodyLeft
from fair_allocator.core.pool import Pool
from fair_allocator.core.requests import Assignment, Request
from fair_allocator.events import Refusal, wire
from fair_allocator.log.records import Headers
from fair_allocator.shard.asked import Asked, Waiter
from fair_allocator.shard.commits import Commits
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.noted import MOST_NOTED, noted
from fair_allocator.shard.operations import Decided, ExpiredEarly, GivenUp, Waited
from fair_allocator.shard.table import Elapsed
from fair_allocator.shard.unusable import Unusable


@mypyc_attr(allow_interpreted_subclasses=True)
class Deciding(Commits):
    """The part of a shard that decides requests."""

    # -- deciding -----------------------------------------------------------------------------

    def _propose(self, hosted: HostedPool, request: Request) -> Assignment:
        """Return a pool's proposal for a request, or the earlier answer.

        Raise `NobodyFree` if the pool is paused.
        """
        pool = hosted.pool
        if hosted.hosting.paused and (request.instead_of or not pool.recall(request.request_id)):
            raise NobodyFree("the pool is paused")
        return pool.propose(request)

    def _decide(
        self,
        hosted: HostedPool,
        made: Assignment,
        headers: Headers,
        asked: Asked | None = None,
        late: bool = False,
        instead_of: str = "",
    ) -> None:
        """Count a pool's proposal, note it in the journal entry, and publish it with the headers.

        Pass `asked` if the request may have to be decided again, or if it has waited. `late` says
        whether it has waited. `instead_of` is the arm to replace, or "".
        """
        pool, more, request_id = hosted.pool, "", wire.quoted(made.request_id)
        offset = asked.offset if late and asked is not None else None
        if pool.requests == "plain":
            operation = Decided(made, request_id=request_id)
            if offset is not None:
                more = f',"request_offset":{offset}'
        else:
            among = pool.proposed_among()
            named, left_out = _names_of(pool, among)
            eligible, but = _shorter(pool, among, named, left_out)
            more = wire.more_fields(made, eligible, but, pool.moved(), offset, instead_of)
            keep = asked if hosted.hosting.reassign and not instead_of else None
            operation = Decided(made, named, left_out, among, keep, instead_of, request_id)
        if hosted.noted is not None and len(hosted.noted) < MOST_NOTED:
            hosted.noted.append(noted(pool, made, self.table.clock, instead_of))
        self._do(pool.name, operation)
        if hosted.epochs:
            self._publish_with_epochs(hosted, request_id, made, more, headers)
        else:
            self._outbox.assignment(hosted, request_id, made, more, headers)
        self._tell(made)
        for pick in made.others:
            self._tell(pick)

    def _tell(self, pick: Assignment) -> None:
        """Count a pick in the tally, which operators read."""
        if pick.reason == "fairness":
            self.tally.forced += 1
        else:
            self.tally.chosen += 1

    def _publish_with_epochs(
        self, hosted: HostedPool, request_id: str, made: Assignment, more: str, headers: Headers
    ) -> None:
        """Publish a decision, and before or after it the epochs that came into force then."""
        pool = hosted.pool
        for epoch in hosted.epochs:
            if epoch.round <= made.round:
                self._outbox.epoch(pool, epoch)
        self._outbox.assignment(hosted, request_id, made, more, headers)
        for epoch in hosted.epochs:
            if epoch.round > made.round:
                self._outbox.epoch(pool, epoch)
        hosted.forget_epochs()

    def _make_room(self, hosted: HostedPool, request_id: str) -> None:
        """Expire the oldest assignments if a pool has too many, unless the request is a repeat."""
        pool, before = hosted.pool, hosted.pool.open
        while pool.open >= self.settings.pending_per_pool and not pool.recall(request_id):
            oldest = hosted.oldest()
            if oldest is None:
                break
            arm = oldest.arm if pool.requests == "any" else None
            self._do(pool.name, ExpiredEarly(oldest.request_id, arm))
            self.tally.expired["too many open"] += 1
        if pool.open < before:
            self._serve_waiting(hosted)

    # -- waiting ------------------------------------------------------------------------------

    def _wait(self, hosted: HostedPool, asked: Asked, instead_of: str = "") -> None:
        """Let a request wait; refuse it if the pool lets none wait, or if too many wait already."""
        hosting, name = hosted.hosting, hosted.pool.name
        if hosting.when_busy == "refuse":
            if hosting.paused:
                raise Unusable(Refusal.PAUSED, f"pool {name!r} is paused")
            raise Unusable(Refusal.NOBODY_FREE, "every eligible arm is asleep, busy or at its cap")
        if len(hosted.waiting) >= self.settings.waiting_per_pool:
            raise Unusable(
                Refusal.TOO_MANY_WAITING,
                f"limits.waiting_per_pool ({self.settings.waiting_per_pool:,}) requests already "
                f"wait in pool {name!r}",
            )
        self._do(name, Waited(asked, instead_of))
        self._outbox.waiting(name, asked, hosting.paused, asked.headers, instead_of)
        self.tally.waited += 1

    def _serve_waiting(self, hosted: HostedPool, freed: str | None = None) -> None:
        """Decide the waiting requests that an arm can take now, in order.

        If only one arm came back, `freed` is this arm.
        """
        while hosted.waiting and not hosted.hosting.paused:
            served = False
            for waiter in list(hosted.waiting.values()):
                served = self._serve_one(hosted, waiter, freed) or served
            # A decision raises the allowance of every arm with a cap, so other arms may now be free
            # to choose.
            if not served or not hosted.pool.caps:
                return
            freed = None

    def _serve_one(self, hosted: HostedPool, waiter: Waiter, freed: str | None) -> bool:
        """Decide a waiting request if an arm can take it; tell whether it was decided."""
        asked, instead_of = waiter.asked, waiter.instead_of
        try:
            request = hosted.request(asked.event, instead_of)
            if freed is not None and not _could_take(request, freed):
                return False
            made = hosted.pool.propose(request)
        except NobodyFree:
            return False
        except InvalidRequest as error:
            self._give_up(hosted, asked, instead_of, _refusal_of(error), str(error))
            return False
        self._decide(hosted, made, asked.headers, asked, True, instead_of)
        return True

    def _give_up(
        self, hosted: HostedPool, asked: Asked, instead_of: str, refusal: Refusal, message: str
    ) -> None:
        """Give up a request that cannot be decided (again), and write its dead letter."""
        self._do(hosted.pool.name, GivenUp(asked.request_id, instead_of))
        self._bury(asked, refusal, message, instead_of)

    def _bury(self, asked: Asked, refusal: Refusal, message: str, instead_of: str = "") -> None:
        """Write the dead letter of a request that was read before.

        If an arm had to be replaced (`instead_of`), the message names it. So if a request gets
        several dead letters, their messages differ.
        """
        self.tally.dead_letters[refusal] += 1
        if instead_of:
            message += f"; another arm was to take it instead of {instead_of!r}"
        self._outbox.dead_letter(asked.record(self.partition), refusal, message)

    def _decide_again(self, hosted: HostedPool, request_id: str, arm: str) -> None:
        """Decide a request again after its arm declined or gave no reward in time."""
        asked = hosted.asked.get(request_id)
        if asked is None:
            return
        try:
            made = self._propose(hosted, hosted.request(asked.event, arm))
        except NobodyFree:
            try:
                self._wait(hosted, asked, arm)
            except Unusable as refusal:
                self._give_up(hosted, asked, arm, refusal.reason, str(refusal))
        except InvalidRequest as error:
            self._give_up(hosted, asked, arm, _refusal_of(error), str(error))
        else:
            self._decide(hosted, made, asked.headers, asked, True, arm)

    # -- time ---------------------------------------------------------------------------------

    def _advance(self, clock: int) -> None:
        """Set the shard's time to `clock`; handle the assignments and requests that time out."""
        self._draft.note_time(clock)
        self._react(self.table.elapse(clock))

    def _react(self, elapsed: Elapsed) -> None:
        """Handle the assignments and waiting requests that timed out.

        Write dead letters for requests that waited too long. Decide requests again whose arms gave
        no reward in time. Then decide waiting requests that an arm can take now.
        """
        if elapsed.expired:
            self.tally.expired["timeout"] += elapsed.expired
        for name, waiter in elapsed.tired:
            message = f"no arm of pool {name!r} could take it within wait_timeout"
            self._bury(waiter.asked, Refusal.WAITED_TOO_LONG, message, waiter.instead_of)
        for name, pick in elapsed.again:
            hosted = self.table.pools[name]
            self._decide_again(hosted, pick.request_id, pick.arm)
        for name in elapsed.pools:
            hosted = self.table.pools[name]
            if hosted.waiting:
                self._serve_waiting(hosted)


def _refusal_of(error: InvalidRequest) -> Refusal:
    return Refusal.NOBODY_LEFT if isinstance(error, NobodyLeft) else Refusal.REFUSED


def _names_of(pool: Pool, among: Among) -> tuple[list[str] | None, list[str]]:
    """Return the names of the arms in `among`, or None if it is given by the arms left out.

    If the first result is None, the second result has the names of the arms left out.
    """
    names = pool.columns.names
    if among.named is not None:
        return [names[arm] for arm in among.named], []
    return None, [names[arm] for arm in sorted(among.extra)] if among.extra else []


def _shorter(
    pool: Pool, among: Among, named: list[str] | None, left_out: list[str]
) -> tuple[list[str] | None, list[str] | None]:
    """Return a set of arms in the shorter of two forms.

    In one form, the first result has the arms of the set. In the other, the first result is None,
    and the second result has the present arms that are not in the set.
    """
    if named is None:
        return None, left_out
    away, names, inside = pool.away, pool.columns.names, among.named or []
    if 2 * len(named) <= len(names) - len(away):
        return named, None
    others: list[str] = []
    place = 0
    for arm in range(len(names)):
        if place < len(inside) and inside[place] == arm:  # `inside` is in ascending order
            place += 1
        elif not away or arm not in away:
            others.append(names[arm])
    return None, others


def _could_take(request: Request, arm: str) -> bool:
    """Tell whether a request names this arm, or names no arms."""
    eligible = request.eligible
    if eligible is None:
        return True
    return arm not in eligible.names if isinstance(eligible, AllBut) else arm in eligible
