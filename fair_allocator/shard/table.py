"""The state of a shard: its pools and its clock. Only operations change it (see `operations`)."""

from collections.abc import Mapping
from dataclasses import replace
from heapq import heappop
from typing import Any

from fair_allocator.core.among import Among
from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.expecting import mapping_in, text_in, whole_in
from fair_allocator.core.guarantee import Change
from fair_allocator.core.learners import stand_in_for
from fair_allocator.core.requests import Assignment, RewardOutcome
from fair_allocator.events.inputs import LATEST
from fair_allocator.shard.asked import Asked, Waiter
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.hosting import shared
from fair_allocator.shard.pools import Pools
from fair_allocator.shard.settings import UNLIMITED


class Elapsed:
    """What happened because time passed: which assignments and waiting requests timed out.

    Attributes
    ----------
    expired
        How many assignments expired.
    pools
        The pools of these assignments.
    again
        The expired assignments whose requests have to be decided again, each with its pool.
    tired
        The requests that waited for too long, each with its pool.
    """

    __slots__ = ("again", "expired", "pools", "tired")

    def __init__(self) -> None:
        self.expired = 0
        self.pools: list[str] = []
        self.again: list[tuple[str, Assignment]] = []
        self.tired: list[tuple[str, Waiter]] = []


def signed_at_in(value: Any) -> dict[str, int]:
    """Return the times of the last signatures, as a snapshot or an export has them.

    Raises
    ------
    InvalidState
        If they are no times by key.
    """
    times = mapping_in("signed_at", value)
    return {text_in("a key", key): whole_in(key, times[key], 1, LATEST) for key in times}


class PoolTable(Pools):
    """The pools of a shard, and everything that an operation can do to them."""

    def __init__(self, memory_bytes: int = UNLIMITED, retiring: bool = True) -> None:
        super().__init__(memory_bytes, retiring)
        self.applied: dict[str, str] = {}
        """Fingerprints of the configuration file's pools when they were last applied."""
        self.signed_at: dict[str, int] = {}
        """By the name of a key: the `signed_at` of its last signature that counted."""
        self.restoring = False
        """Whether a restore is applying operations of the journal."""

    # -- operations ---------------------------------------------------------------------------

    def configure(
        self, name: str, settings: Mapping[str, Any], on_demand: bool, fingerprint: str
    ) -> HostedPool:
        """Make a pool or change it; refused settings raise `InvalidPool` and change nothing.

        Settings in the journal were valid when they were written. If a restore finds that they are
        not valid, the cause is a learner that no longer works. The pool then goes on without this
        learner.
        """
        try:
            return self._configure(name, settings, on_demand, fingerprint)
        except InvalidPool as error:
            if not self.restoring:
                raise
            learner = stand_in_for(settings.get("learner") or "", error)
            return self._configure(name, {**settings, "learner": learner}, on_demand, fingerprint)

    def _configure(
        self, name: str, settings: Mapping[str, Any], on_demand: bool, fingerprint: str
    ) -> HostedPool:
        hosted = self.hosted(name)
        if hosted is None:
            hosted = HostedPool.made(name, settings, self.bucket_of(name))
            self._add(name, hosted)
        else:
            hosted.reconfigure(settings)
            self.memory.drop(hosted)
        hosted.hosting = shared(
            replace(hosted.hosting, on_demand=on_demand, fingerprint=fingerprint)
        )
        self.memory.add(hosted)
        return self.touch(name)

    def set_arms(self, name: str, arms: Mapping[str, Mapping[str, Any]]) -> Change:
        """Add or change some arms of a pool."""
        hosted = self.touch(name)
        return self._weigh_again(hosted, hosted.set_arms(arms))

    def remove_arms(self, name: str, arms: list[str]) -> Change:
        """Remove some arms of a pool."""
        hosted = self.touch(name)
        return self._weigh_again(hosted, hosted.remove_arms(arms))

    def _weigh_again(self, hosted: HostedPool, change: Change) -> Change:
        """Count a pool in `Memory` again, because its number of arms has changed."""
        self.memory.drop(hosted)
        self.memory.add(hosted)
        return change

    def let_sleep(self, name: str, arms: list[str], asleep: bool) -> None:
        """Send some arms of a pool to sleep, or wake them."""
        pool = self.touch(name).pool
        for arm in arms:
            if asleep:
                pool.sleep(arm)
            else:
                pool.wake(arm)

    def stand(self, name: str, position: int) -> None:
        """Note that a pool's standing (every arm's quota, entitlement and pulls) was published.

        `position` is the position in the requests at that time.
        """
        hosted = self.touch(name)
        hosted.stood = position
        hosted.pool.forget_moves()

    def pause(self, name: str, paused: bool) -> None:
        """Pause or resume a pool."""
        hosted = self.touch(name)
        hosted.hosting = replace(hosted.hosting, paused=paused)

    def remove(self, name: str) -> None:
        """Forget a pool."""
        hosted = self.touch(name)
        self.memory.drop(hosted)
        del self.pools[name]
        self._note_change(name, None)
        self._groups[hosted.bucket].remove(name)
        self._used.pop(name, None)

    def count(
        self, name: str, made: Assignment, among: Among | None, asked: Asked | None, instead_of: str
    ) -> None:
        """Count a decision; keep `asked` if the pool may decide the request again."""
        hosted = self.touch(name)
        hosted.pool.count(made, among, instead_of)
        hosted.count(made, self.clock)
        waited = bool(hosted.waiting) and hosted.end_wait(made.request_id, instead_of)
        if hosted.pace is not None and not waited and not instead_of:
            hosted.pace.take(self.clock)
        if asked is not None:
            hosted.keep(asked)
        self.memory.follow(hosted)
        timeout, scheduled = hosted.hosting.reward_timeout, hosted.scheduled
        # The pool may already have a scheduled time, for a waiting request.
        if timeout is not None and (scheduled is None or self.clock + timeout < scheduled):
            self._schedule(name, hosted)

    def wait(self, name: str, asked: Asked, instead_of: str) -> None:
        """Let a request wait."""
        hosted = self.touch(name)
        hosted.begin_wait(Waiter(asked, instead_of, self.clock))
        if hosted.pace is not None and not instead_of:
            hosted.pace.take(self.clock)
        self.memory.follow(hosted)
        self._schedule(name, hosted)

    def give_up(self, name: str, request_id: str, instead_of: str) -> None:
        """Forget a request that waited, or one for which no other arm is left."""
        hosted = self.touch(name)
        hosted.give_up(request_id, instead_of)
        self.memory.follow(hosted)

    def reward(self, name: str, request_id: str, value: float, arm: str | None) -> RewardOutcome:
        """Count a reward."""
        hosted = self.touch(name)
        outcome = hosted.reward(request_id, value, arm)
        self.memory.follow(hosted)
        return outcome

    def decline(self, name: str, request_id: str, arm: str | None) -> RewardOutcome:
        """End an assignment that its arm declines."""
        hosted = self.touch(name)
        outcome = hosted.decline(request_id, arm)
        self.memory.follow(hosted)
        return outcome

    def expire(self, name: str, request_id: str, arm: str | None) -> None:
        """Stop waiting for one assignment of a request, or for all of them."""
        hosted = self.touch(name)
        for pick in hosted.pool.waiting_of(request_id):
            if arm is None or pick.arm == arm:
                hosted.expire_early(pick)
        self.memory.follow(hosted)

    def catch_up(self, name: str) -> Elapsed:
        """Do what is due in a pool now. Call this after a change that may shorten its timeouts."""
        hosted, elapsed = self.touch(name), Elapsed()
        self._do_due(name, hosted, elapsed)
        hosted.scheduled = None
        self._schedule(name, hosted)
        return elapsed

    def elapse(self, clock: int) -> Elapsed:
        """Set the time to `clock`, and do what is due."""
        self.clock = clock
        elapsed = Elapsed()
        while (hosted := self._first_due(clock)) is not None:
            _, name = heappop(self._due)
            hosted.scheduled = None
            self._do_due(name, hosted, elapsed)
            self._schedule(name, hosted)
            self.touch(name)
        return elapsed

    def _do_due(self, name: str, hosted: HostedPool, elapsed: Elapsed) -> None:
        before = elapsed.expired
        while (pick := hosted.overdue(self.clock)) is not None:
            elapsed.expired += 1
            if hosted.expire(pick):
                elapsed.again.append((name, pick))
        if elapsed.expired > before:
            elapsed.pools.append(name)
        for waiter in hosted.tired(self.clock):
            hosted.give_up(*waiter.key)
            elapsed.tired.append((name, waiter))
        self.memory.follow(hosted)

    def is_due(self, clock: int) -> bool:
        """Tell whether something is due by `clock`."""
        return self._first_due(clock) is not None

    def _first_due(self, clock: int) -> HostedPool | None:
        """Return the pool with the earliest due time up to `clock`, or None if nothing is due.

        The due times of pools are in a heap. This method corrects the outdated entries that it
        meets. Outdated entries must have no effect on the state, because a restored shard does not
        have them.
        """
        while self._due and self._due[0][0] <= clock:
            due, name = self._due[0]
            hosted = self._due_pool(name)
            is_current = hosted is not None and hosted.scheduled == due
            if hosted is not None and is_current and hosted.due() == due:
                return hosted
            heappop(self._due)
            if hosted is not None and is_current:
                hosted.scheduled = None
                self._schedule(name, hosted)
        return None

    def secure(self) -> None:
        """Raise the bounds that pools cannot keep because of what an older release did."""
        for hosted in self.pools.values():
            hosted.pool.secure()
