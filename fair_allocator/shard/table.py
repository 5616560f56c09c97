"""The state of a shard: its pools and its clock. Only operations change it."""

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain
from typing import Any
from zlib import compress, crc32, decompress

from fair_allocator.core.among import Among
from fair_allocator.core.errors import InvalidPool, InvalidState
from fair_allocator.core.guarantee import Change
from fair_allocator.core.learners import stand_in_for
from fair_allocator.core.requests import Assignment, RewardOutcome
from fair_allocator.errors import JournalBroken
from fair_allocator.events.wire import to_json
from fair_allocator.shard.asked import Asked, Waiter
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.memory import Memory
from fair_allocator.shard.revived import each, is_idle, revived
from fair_allocator.shard.settings import UNLIMITED
from fair_allocator.text import to_bytes, to_text


class Elapsed:
    """What happened because time passed.

    Attributes
    ----------
    expired
        How many assignments expired.
    pools
        The pools of these assignments.
    again
        The expired assignments whose request is to be decided again, each with its pool.
    tired
        The requests that waited for too long, each with its pool.
    """

    __slots__ = ("again", "expired", "pools", "tired")

    def __init__(self) -> None:
        self.expired = 0
        self.pools: list[str] = []
        self.again: list[tuple[str, Assignment]] = []
        self.tired: list[tuple[str, Waiter]] = []


class PoolTable:
    """The pools of a shard by name.

    A *retired* pool is kept as compressed bytes, and comes back unchanged when it is needed. The
    state that the table reports is the same, whether a pool is retired or not.

    Pools are grouped into buckets by their name. A snapshot writes whole buckets. `touched` has the
    buckets in which something changed.
    """

    def __init__(self, memory_bytes: int = UNLIMITED) -> None:
        self.clock = 0
        self.applied: dict[str, str] = {}
        """Fingerprints of the configuration file's pools when they were last applied."""
        self.restoring = False
        """Whether a restore is applying operations of the journal."""
        self.touched: set[int] = set()
        self.buckets = 1
        self.pools: dict[str, HostedPool] = {}
        """The pools that are not retired."""
        self.memory = Memory(memory_bytes)
        self._retired: dict[str, bytes] = {}
        self._groups: list[set[str]] = [set()]
        self._due: list[tuple[int, str]] = []
        self._used: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self.pools) + len(self._retired)

    def __contains__(self, name: str) -> bool:
        return name in self.pools or name in self._retired

    def __iter__(self) -> Iterator[str]:
        return chain(self.pools, self._retired)

    def hosted(self, name: str) -> HostedPool | None:
        """Return a pool, even if it was retired; None if there is no such pool."""
        hosted = self.pools.get(name)
        if hosted is None and name in self._retired:
            data = self._retired.pop(name)
            try:
                hosted = revived(name, json.loads(decompress(data)), self.bucket_of(name))
            except InvalidState as error:
                raise JournalBroken(f"its snapshot holds what no pool can be: {error}") from error
            self.pools[name] = hosted
            self.memory.add_retired(-len(data))
            self.memory.add(hosted)
            self._schedule(name, hosted)
            self.used(name)
        return hosted

    def resident(self) -> Iterable[HostedPool]:
        """Return the pools that are not retired."""
        return self.pools.values()

    def touch(self, name: str) -> HostedPool:
        """Return a pool that is about to change, and mark its bucket as changed."""
        hosted = self.pools.get(name)
        if hosted is None:
            hosted = self.hosted(name)
            if hosted is None:
                raise KeyError(name)
        self.touched.add(hosted.bucket)
        return hosted

    # -- operations ---------------------------------------------------------------------------

    def configure(
        self, name: str, settings: Mapping[str, Any], on_demand: bool, fingerprint: str
    ) -> HostedPool:
        """Make a pool or change it; refused settings raise `InvalidPool` and change nothing.

        Settings in the journal were valid when they were written. If a restore finds them invalid,
        their learner no longer works. The pool then goes on without it.
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
        hosted.hosting = replace(hosted.hosting, on_demand=on_demand, fingerprint=fingerprint)
        self.memory.add(hosted)
        self.touched.add(hosted.bucket)
        return hosted

    def set_arms(self, name: str, arms: Mapping[str, Mapping[str, Any]]) -> Change:
        """Add or change some arms of a pool."""
        hosted = self.touch(name)
        return self._weigh_again(hosted, hosted.set_arms(arms))

    def remove_arms(self, name: str, arms: list[str]) -> Change:
        """Remove some arms of a pool."""
        hosted = self.touch(name)
        return self._weigh_again(hosted, hosted.remove_arms(arms))

    def _weigh_again(self, hosted: HostedPool, change: Change) -> Change:
        """Count a pool that has more or fewer arms now."""
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
        """Note that a pool's standing was published at a position in the requests."""
        hosted = self.touch(name)
        hosted.stood = position
        hosted.pool.forget_moves()

    def pause(self, name: str, paused: bool) -> None:
        """Pause or resume a pool."""
        hosted = self.touch(name)
        hosted.hosting = replace(hosted.hosting, paused=paused)

    def remove(self, name: str) -> None:
        """Forget a pool."""
        hosted = self.touch(name)  # which brings it back if it was retired
        self.memory.drop(hosted)
        del self.pools[name]
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
        """Forget a request that waited, or for which no arm is left."""
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
        """Do what is due in a pool now, after a change that may have shortened its timeouts."""
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
            self.touched.add(hosted.bucket)
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
        """Return the pool in which something is due first by `clock`, None if nothing is.

        This corrects outdated entries that it meets. These entries must have no effect on the
        state, because a restored shard does not have them.
        """
        while self._due and self._due[0][0] <= clock:
            due, name = self._due[0]
            hosted = self.pools.get(name)
            is_current = hosted is not None and hosted.scheduled == due
            if hosted is not None and is_current and hosted.due() == due:
                return hosted
            heappop(self._due)
            if hosted is not None and is_current:
                hosted.scheduled = None
                self._schedule(name, hosted)
        return None

    def _schedule(self, name: str, hosted: HostedPool) -> None:
        due = hosted.due()
        if due is not None and (hosted.scheduled is None or due < hosted.scheduled):
            hosted.scheduled = due
            heappush(self._due, (due, name))

    def secure(self) -> None:
        """Raise the bounds that cannot be kept, after applying operations of an older release."""
        for hosted in self.pools.values():
            hosted.pool.secure()

    # -- retiring -----------------------------------------------------------------------------

    def used(self, name: str) -> None:
        """Note that a pool on demand is in use, for `retire`."""
        self._used[name] = self.clock
        self._used.move_to_end(name)

    def retire(self, before: int) -> int:
        """Retire the pools on demand that were not used since `before` and have nothing due."""
        count, waiting = 0, []
        while self._used and next(iter(self._used.values())) < before:
            name, _ = self._used.popitem(last=False)
            hosted = self.pools.get(name)
            if hosted is None:
                continue
            if hosted.due() is not None or hosted.waiting:
                waiting.append(name)
            else:
                self.memory.drop(self.pools.pop(name))
                self._keep_retired(name, _encoded(hosted.state()))
                count += 1
        for name in waiting:
            self.used(name)
        return count

    # -- snapshots ----------------------------------------------------------------------------

    def bucket_of(self, name: str) -> int:
        """Return the bucket a pool belongs to."""
        return crc32(to_bytes(name)) % self.buckets

    def regroup(self, buckets: int) -> None:
        """Group the pools into other buckets; all of them count as touched."""
        self.buckets = buckets
        self._groups = [set() for _ in range(buckets)]
        for name in self:
            self._groups[self.bucket_of(name)].add(name)
        for name, hosted in self.pools.items():
            hosted.bucket = self.bucket_of(name)
        self.touched = set(range(buckets))

    def members(self, bucket: int) -> list[str]:
        """Return the names of the pools in a bucket, sorted."""
        return sorted(self._groups[bucket])

    def _add(self, name: str, hosted: HostedPool) -> None:
        self.pools[name] = hosted
        self._groups[hosted.bucket].add(name)

    def dump(self, names: Iterable[str]) -> bytes:
        """Return the states of some pools as canonical bytes."""
        parts = []
        for name in names:
            hosted = self.pools.get(name)
            state = decompress(self._retired[name]) if hosted is None else _encoded(hosted.state())
            parts.append(_encoded(name) + b":" + state)
        return b"{" + b",".join(parts) + b"}"

    def load(self, data: bytes, idle_retired: bool = False) -> None:
        """Load the pools that `dump` wrote.

        With `idle_retired`, pools on demand that have nothing due stay retired until they are
        needed. This is faster, because making a pool takes ten times as long as reading its state.
        The state of such a pool is checked when the pool is made.

        Raises
        ------
        InvalidState
            If a state is invalid, or belongs to another pool. The message names the pool.
        """
        if not idle_retired:
            for name, state in json.loads(data).items():
                self._load(name, state)
            return
        for name, state, written in each(to_text(data)):
            if is_idle(state):
                self._groups[self.bucket_of(name)].add(name)
                self._keep_retired(name, to_bytes(written))
            else:
                self._load(name, state)

    def _load(self, name: str, state: Any) -> None:
        hosted = revived(name, state, self.bucket_of(name))
        self._add(name, hosted)
        self.memory.add(hosted)
        self._schedule(name, hosted)
        if hosted.hosting.on_demand:
            self._used[name] = 0

    def _keep_retired(self, name: str, state: bytes) -> None:
        self._retired[name] = data = compress(state, 1)
        self.memory.add_retired(len(data))


def _encoded(data: object) -> bytes:
    return to_bytes(to_json(data))
