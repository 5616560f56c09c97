"""The pools of a shard, as objects or as bytes, and what a snapshot stores of them."""

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import heappush
from itertools import chain
from zlib import crc32

from fair_allocator.errors import DamagedPool
from fair_allocator.events.wire import to_json
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.kept import (
    Row,
    is_packed,
    made_from,
    made_of,
    packed,
    read_bucket,
    state_of,
    write_bucket,
)
from fair_allocator.shard.memory import Memory
from fair_allocator.shard.settings import UNLIMITED
from fair_allocator.text import to_bytes


class Pools:
    """The pools of a shard by name.

    A pool is *made* if it exists as an object. Some pools are *kept* as bytes, and are made when
    they are needed. These are the pools that a restore read from a snapshot, and idle pools that
    were *retired*. The state of the shard is the same, whether a pool is made or kept.

    Pools are grouped into buckets by their name. A snapshot writes whole buckets. `touched` has the
    numbers of the buckets in which something changed since a snapshot last wrote them.
    """

    def __init__(self, memory_bytes: int = UNLIMITED, retiring: bool = True) -> None:
        self.clock = 0
        self.touched: set[int] = set()
        self.buckets = 1
        self.pools: dict[str, HostedPool] = {}
        """The pools that exist as objects. The others are kept as bytes."""
        self.memory = Memory(memory_bytes)
        self.damaged: dict[str, str] = {}
        """Pools that cannot be made from their bytes, and why."""
        self._kept: dict[str, bytes] = {}
        self.stored = 0
        """How many pools are kept since a restore, without retired and damaged ones."""
        self._unmade: list[str] = []
        """The pools that the restore kept. Some may have been made since then."""
        self._changes: set[str] | None = None
        """The names of pools that came, changed or went since the last `take_changes`, if noted."""
        self._groups: list[set[str]] = [set()]
        self._due: list[tuple[int, str]] = []
        self._retiring = retiring
        self._used: OrderedDict[str, int] = OrderedDict()
        """When the pools on demand were last used, for `retire`; empty if pools are not retired."""

    def __len__(self) -> int:
        return len(self.pools) + len(self._kept)

    def __contains__(self, name: str) -> bool:
        return name in self.pools or name in self._kept

    def __iter__(self) -> Iterator[str]:
        return chain(self.pools, self._kept)

    def hosted(self, name: str) -> HostedPool | None:
        """Return a pool, or None if there is no such pool. If it is kept, make it from its bytes.

        Raises
        ------
        DamagedPool
            If the bytes are not the pool's state.
        """
        hosted = self.pools.get(name)
        if hosted is None and name in self._kept:
            hosted = self._make(name)
            if hosted.hosting.on_demand:
                self.used(name)
        return hosted

    def _make(self, name: str) -> HostedPool:
        """Make a pool from its bytes.

        If the bytes are damaged, raise an error and keep them as they are.
        """
        if name in self.damaged:
            raise DamagedPool(self.damaged[name])
        data = self._kept[name]
        try:
            hosted = made_from(name, data, self.bucket_of(name))
        except DamagedPool as error:
            self.damaged[name] = str(error)
            self.stored -= not is_packed(data)
            raise
        del self._kept[name]
        self.pools[name] = hosted
        self._note_change(name, hosted)
        if is_packed(data):
            self.memory.add_retired(-len(data))
            self.memory.add(hosted)
            self._schedule(name, hosted)
        else:
            self.stored -= 1
            self.memory.recognise(hosted)
            hosted.scheduled = hosted.due()
        return hosted

    def make_some(self, most: int) -> None:
        """Make up to `most` of the pools that a restore kept.

        In this way damage is found soon after a restore, and not only when the pool is needed.
        """
        for _ in range(min(most, len(self._unmade))):
            name = self._unmade.pop()
            if name in self._kept and name not in self.damaged:
                try:
                    hosted = self._make(name)
                except DamagedPool:
                    continue
                if self._retiring and hosted.hosting.on_demand:
                    self._used.setdefault(name, 0)

    @property
    def is_whole(self) -> bool:
        """Whether all pools that a restore kept have been made. Then `make_some` does nothing."""
        return not self._unmade

    def resident(self) -> Iterable[HostedPool]:
        """Return the pools that exist as objects, without those that are kept as bytes."""
        return self.pools.values()

    def touch(self, name: str) -> HostedPool:
        """Return a pool that is about to change, and mark its bucket as changed."""
        hosted = self.pools.get(name)
        if hosted is None:
            hosted = self.hosted(name)
            if hosted is None:
                raise KeyError(name)
        self.touched.add(hosted.bucket)
        if not hosted.changed:
            self._note_change(name, hosted)
        return hosted

    # -- watching -----------------------------------------------------------------------------

    def take_changes(self) -> set[str] | None:
        """Return the names of the pools that came, changed or went since the last call.

        Return None if the changes were not noted. For each name, the caller looks up the pool, and
        sets its `changed` to False.
        """
        changes, self._changes = self._changes, set()
        return changes

    def _note_change(self, name: str, hosted: HostedPool | None) -> None:
        """Note for watchers that a pool came or changed, or that it went."""
        if hosted is not None:
            hosted.changed = True
        if self._changes is not None:
            self._changes.add(name)
            if len(self._changes) > 2 * len(self) + 1_000:
                self._changes = None  # no watcher takes the names, and they would fill the memory

    # -- what is due --------------------------------------------------------------------------

    def _due_pool(self, name: str) -> HostedPool | None:
        """Return a pool in which something may be due; make it if it is kept.

        Return None for a pool that does not exist, for a retired pool, in which nothing is due, and
        for a damaged pool, which is then in `damaged`.
        """
        hosted, data = self.pools.get(name), self._kept.get(name)
        if data is not None and not is_packed(data):
            try:
                hosted = self.hosted(name)
            except DamagedPool:
                return None
        return hosted

    def _schedule(self, name: str, hosted: HostedPool) -> None:
        due = hosted.due()
        if due is not None and (hosted.scheduled is None or due < hosted.scheduled):
            hosted.scheduled = due
            heappush(self._due, (due, name))

    # -- retiring -----------------------------------------------------------------------------

    def used(self, name: str) -> None:
        """Note that a pool made on demand is used now. `retire` needs this."""
        if self._retiring:
            self._used[name] = self.clock
            self._used.move_to_end(name)

    def retire(self, before: int) -> int:
        """Retire the pools made on demand that were not used since `before` and have nothing due.

        Return how many were retired.
        """
        count, waiting = 0, []
        while self._used and next(iter(self._used.values())) < before:
            name, _ = self._used.popitem(last=False)
            hosted = self.pools.get(name)
            if hosted is None or not hosted.hosting.on_demand:
                continue
            if hosted.due() is not None or hosted.waiting:
                waiting.append(name)
            else:
                self._retire(name)
                count += 1
        for name in waiting:
            self.used(name)
        return count

    def _retire(self, name: str) -> None:
        hosted = self.pools.pop(name)
        self._note_change(name, None)
        self.memory.drop(hosted)
        self._kept[name] = data = packed(_encoded(hosted.state()))
        self.memory.add_retired(len(data))

    # -- snapshots ----------------------------------------------------------------------------

    def bucket_of(self, name: str) -> int:
        """Return the number of the bucket that a pool belongs to."""
        return crc32(to_bytes(name)) % self.buckets

    def regroup(self, buckets: int) -> None:
        """Group the pools into this many buckets. All buckets then count as touched."""
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
        self._note_change(name, hosted)
        self._groups[hosted.bucket].add(name)

    def dump(self, names: Iterable[str]) -> bytes:
        """Return the states of some pools as JSON; equal states give equal bytes."""
        parts = [_encoded(name) + b":" + self._written(name) for name in names]
        return b"{" + b",".join(parts) + b"}"

    def _written(self, name: str) -> bytes:
        """Return the state of a pool as JSON."""
        hosted = self.pools.get(name)
        return state_of(self._kept[name]) if hosted is None else _encoded(hosted.state())

    def load(self, data: bytes, retire_idle: bool = False) -> None:
        """Load the pools that `dump` returned; with `retire_idle`, retire those that are idle.

        Raises
        ------
        InvalidState
            If a state is invalid, or belongs to another pool. The message names the pool.
        """
        for name, state in json.loads(data).items():
            hosted = made_of(name, state, self.bucket_of(name))
            self._add(name, hosted)
            self.memory.add(hosted)
            self._schedule(name, hosted)
            if self._retiring and hosted.hosting.on_demand:
                self._used[name] = 0
        if retire_idle:
            self.retire(1)

    def bucket(self, number: int) -> bytes:
        """Return the bytes of a bucket for a snapshot; empty if the bucket has no pools."""
        members = self.members(number)
        return write_bucket(map(self._kept_form, members)) if members else b""

    def _kept_form(self, name: str) -> tuple[Row, bytes]:
        """Return what a bucket stores for a pool: its row in the index, and its bytes."""
        hosted, due, requests, own = self.pools.get(name), None, 0, 0
        if hosted is None:
            data, hosted = self._kept[name], self._due_pool(name)
        else:
            data = _encoded(hosted.state())
        if hosted is not None:
            due, own = hosted.due(), hosted.own_bytes
            requests = hosted.pool.footprint + hosted.kept_bytes
        return Row(name, len(data), due, requests, own), data

    def keep(self, bucket: bytes) -> None:
        """Keep the pools in the bytes that `bucket` returned. They are made when they are needed.

        The state of a pool is checked when the pool is made.

        Raises
        ------
        InvalidState, ValueError, TypeError, LookupError
            If the bytes are not a bucket.
        """
        for row, data in read_bucket(bucket):
            name = row.name
            self._kept[name] = data
            self._groups[self.bucket_of(name)].add(name)
            if is_packed(data):
                self.memory.add_retired(row.size)
            else:
                self.stored += 1
                self._unmade.append(name)
                self.memory.add_kept(row.requests, row.own)
                if row.due is not None:
                    heappush(self._due, (row.due, name))


def _encoded(data: object) -> bytes:
    return to_bytes(to_json(data))
