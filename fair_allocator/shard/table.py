"""The state of a shard: its pools and its clock, changed by operations and by nothing else."""

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain
from typing import Any
from zlib import compress, crc32, decompress

from fair_allocator.core.requests import Assignment, Reason, RewardOutcome
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.journal import Operation, to_json


class PoolTable:
    """The pools of a shard by name.

    A pool that is *retired* is kept as compressed bytes and comes back as it was when it is
    next needed: what the table says of its state does not change by it.

    Pools are grouped into buckets by their name, the units of a snapshot; `touched` collects
    the buckets in which something changed.
    """

    def __init__(self) -> None:
        self.clock = 0
        self.applied: dict[str, str] = {}
        """Fingerprints of the configuration file's pools, as last taken up."""
        self.touched: set[int] = set()
        self.buckets = 1
        self.pools: dict[str, HostedPool] = {}
        """Those that are not retired."""
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
        """Return a pool, brought back if it was retired; None if there is no such pool."""
        hosted = self.pools.get(name)
        if hosted is None and name in self._retired:
            state = json.loads(decompress(self._retired.pop(name)))
            hosted = self.pools[name] = HostedPool.from_state(state, self.bucket_of(name))
            self._schedule(name, hosted)
            self.used(name)
        return hosted

    def resident(self) -> Iterable[HostedPool]:
        """Return the pools that are not retired."""
        return self.pools.values()

    def _known(self, name: str) -> HostedPool:
        hosted = self.hosted(name)
        if hosted is None:
            raise KeyError(name)
        return hosted

    # -- operations ---------------------------------------------------------------------------

    def configure(
        self, name: str, settings: Mapping[str, Any], on_demand: bool, fingerprint: str
    ) -> HostedPool:
        """Make a pool or change it; refused settings raise `InvalidPool` and change nothing."""
        hosted = self.hosted(name)
        if hosted is None:
            hosted = HostedPool.made(name, settings, self.bucket_of(name))
            self._add(name, hosted)
        else:
            hosted.reconfigure(settings)
        hosted.hosting = replace(hosted.hosting, on_demand=on_demand, fingerprint=fingerprint)
        hosted.expire_due(self.clock)
        hosted.scheduled = None
        self._schedule(name, hosted)
        self.touched.add(hosted.bucket)
        return hosted

    def stand(self, name: str, position: int) -> None:
        """Take in that a pool's standing was published at a position in the requests."""
        hosted = self._known(name)
        hosted.stood = position
        self.touched.add(hosted.bucket)

    def pause(self, name: str, paused: bool) -> None:
        """Pause or resume a pool."""
        hosted = self._known(name)
        hosted.hosting = replace(hosted.hosting, paused=paused)
        self.touched.add(hosted.bucket)

    def remove(self, name: str) -> None:
        """Forget a pool."""
        bucket = self.bucket_of(name)
        del self.pools[name]
        self._groups[bucket].remove(name)
        self._used.pop(name, None)
        self.touched.add(bucket)

    def assign(self, hosted: HostedPool, request_id: str) -> Assignment:
        """Decide a request, or repeat its answer."""
        made = hosted.assign(request_id, self.clock)
        if hosted.scheduled is None and hosted.hosting.reward_timeout is not None:
            self._schedule(hosted.pool.name, hosted)
        self.touched.add(hosted.bucket)
        return made

    def reward(self, hosted: HostedPool, request_id: str, value: float) -> RewardOutcome:
        """Count a reward."""
        self.touched.add(hosted.bucket)
        return hosted.pool.reward(request_id, value)

    def expire(self, hosted: HostedPool, request_id: str) -> None:
        """Stop waiting for one request."""
        self.touched.add(hosted.bucket)
        hosted.expire(request_id)

    def elapse(self, clock: int) -> int:
        """Let the time be `clock`; expire what is due, and tell how many requests that were."""
        self.clock = clock
        expired = 0
        while self._due and self._due[0][0] <= clock:
            due, name = heappop(self._due)
            hosted = self.pools.get(name)
            if hosted is not None and hosted.scheduled == due:
                hosted.scheduled = None
                expired += hosted.expire_due(clock)
                self._schedule(name, hosted)
                self.touched.add(hosted.bucket)
        return expired

    def is_due(self, clock: int) -> bool:
        """Tell whether letting the time be `clock` makes something expire."""
        while self._due and self._due[0][0] <= clock:
            due, name = self._due[0]
            hosted = self.pools.get(name)
            if hosted is None or hosted.scheduled != due:
                heappop(self._due)
            elif hosted.due() == due:
                return True
            else:
                # Out of date: time must not depend on what a restored shard has never seen.
                heappop(self._due)
                hosted.scheduled = None
                self._schedule(name, hosted)
        return False

    def _schedule(self, name: str, hosted: HostedPool) -> None:
        if hosted.scheduled is None and (due := hosted.due()) is not None:
            hosted.scheduled = due
            heappush(self._due, (due, name))

    def perform(self, name: str, operation: Operation) -> None:
        """Carry out one operation of the journal on a pool, which it names by its place there."""
        match operation:
            case ["a", _, request_id, arm, epoch, forced, propensity]:
                hosted = self._known(name)
                reason: Reason = "fairness" if forced else "learner"
                hosted.follow(request_id, arm, epoch, reason, propensity, self.clock)
                self._schedule(name, hosted)
                self.touched.add(hosted.bucket)
            case ["r", _, request_id, value]:
                self.reward(self._known(name), request_id, value)
            case ["x", _, request_id]:
                self.expire(self._known(name), request_id)
            case ["p", _, settings, on_demand, fingerprint]:
                self.configure(name, settings, on_demand, fingerprint)
            case ["s", _, position]:
                self.stand(name, position)
            case ["z", _, paused]:
                self.pause(name, paused)
            case ["d", _]:
                self.remove(name)
            case _:
                raise ValueError(f"no operation {operation!r}")
        changed = self.hosted(name)
        if changed is not None:
            changed.epochs.clear()

    # -- retiring -----------------------------------------------------------------------------

    def used(self, name: str) -> None:
        """Note that a pool on demand is in use, for `retire`."""
        self._used[name] = self.clock
        self._used.move_to_end(name)

    def retire(self, before: int) -> int:
        """Retire the pools on demand last used before a time and waiting for nothing timed."""
        count, waiting = 0, []
        while self._used and next(iter(self._used.values())) < before:
            name, _ = self._used.popitem(last=False)
            hosted = self.pools.get(name)
            if hosted is None:
                continue
            if hosted.due() is not None:
                waiting.append(name)
            else:
                self._retired[name] = compress(_encoded(hosted.state()), 1)
                del self.pools[name]
                count += 1
        for name in waiting:
            self.used(name)
        return count

    # -- snapshots ----------------------------------------------------------------------------

    def bucket_of(self, name: str) -> int:
        """Return the bucket a pool belongs to."""
        return crc32(name.encode("utf-8", "surrogatepass")) % self.buckets

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
        """Return the names in a bucket, sorted."""
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

    def load(self, data: bytes) -> None:
        """Take back the pools that `dump` gave."""
        for name, state in json.loads(data).items():
            hosted = HostedPool.from_state(state, self.bucket_of(name))
            self._add(name, hosted)
            self._schedule(name, hosted)
            if hosted.hosting.on_demand:
                self._used[name] = 0


def _encoded(data: object) -> bytes:
    return to_json(data).encode("utf-8", "surrogatepass")
