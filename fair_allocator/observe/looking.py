"""Make views: copies of the loop's pools.

A *look* copies the pools that changed since the last view, and takes the other copies from that
view. It happens on the loop's thread, and only when a client has asked for a view. If very many
pools have changed, the look goes on over several steps of the loop, so that no decision waits long
for it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from fair_allocator.observe.tallies import Tallies
from fair_allocator.observe.view import Key, PoolView, View
from fair_allocator.shard import Shard
from fair_allocator.shard.noted import remembered
from fair_allocator.shard.table import PoolTable

AT_ONCE: Final = 500
"""How many pools are copied before the look can be interrupted. It takes a few milliseconds."""


class Look:
    """A look at some shards. Call `go_on` until it returns True, then call `view`."""

    def __init__(
        self,
        before: View,
        time: float,
        shards: Mapping[int, Shard],
        watched: frozenset[Key] = frozenset(),
    ) -> None:
        self._before = before
        self._time = time
        self._watched = watched
        self._tables = {partition: shard.table for partition, shard in shards.items()}
        self._by_partition = any(s.settings.partitioner == "none" for s in shards.values())
        _let_note(self._tables, before.watched, watched)
        self._pools = dict(before.pools)
        self._todo = self._each(self._changed(before.watched | watched))

    def is_of(self, shards: Mapping[int, Shard]) -> bool:
        """Tell whether the look is at these shards. Shards are replaced when they are restored."""
        return self._tables.keys() == shards.keys() and all(
            shards[partition].table is table for partition, table in self._tables.items()
        )

    def _changed(self, also: Collection[Key]) -> dict[int, Collection[str]]:
        """Return the pools to look at. If the changes are not known, these are all pools."""
        before, names = self._before, dict[int, Collection[str]]()
        known = set[int]()
        for partition, table in self._tables.items():
            changes = table.take_changes()
            if changes is not None and partition in before.partitions:
                known.add(partition)
                changes.update(name for place, name in also if place == partition)
                names[partition] = changes
            else:
                names[partition] = list(table.pools)
        if not known or known != before.partitions:
            self._pools = {key: pool for key, pool in before.pools.items() if key[0] in known}
        return names

    def _each(self, names: Mapping[int, Collection[str]]) -> Iterator[tuple[int, PoolTable, str]]:
        for partition, some in names.items():
            table = self._tables[partition]
            for name in some:
                yield partition, table, name

    def go_on(self, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Copy pools until all are done or `is_over` returns True; return whether all are done."""
        pools, known = self._pools, self._before.pools
        for count, (partition, table, name) in enumerate(self._todo, start=1):
            key, hosted = (partition, name), table.pools.get(name)
            if hosted is None:
                pools.pop(key, None)
            else:
                hosted.changed = False
                pools[key] = PoolView(hosted, partition, known.get(key))
            if count % AT_ONCE == 0 and is_over():
                return False
        return True

    def view(self, number: int, tallies: Tallies) -> View:
        """Return the view, with this number, after the look is done."""
        tables = self._tables.values()
        stored = sum(table.stored for table in tables)
        damaged = sum(len(table.damaged) for table in tables)
        kept = sum(len(table) - len(table.pools) for table in tables)
        return View(
            number,
            self._time,
            self._pools,
            retired=kept - stored - damaged,
            stored=stored,
            damaged=damaged,
            partitions=frozenset(self._tables),
            by_partition=self._by_partition,
            watched=self._watched,
            tallies=tallies.copy(),
        )


def _let_note(
    tables: Mapping[int, PoolTable], before: frozenset[Key], watched: frozenset[Key]
) -> None:
    """Let the watched pools note their decisions, and let all others stop."""
    for partition, name in before | watched:
        hosted = tables[partition].pools.get(name) if partition in tables else None
        if hosted is not None:
            if (partition, name) not in watched:
                hosted.noted = None
            elif hosted.noted is None:
                hosted.noted = remembered(hosted.pool)


def only_counted(before: View, owned: Collection[int], tallies: Tallies) -> View:
    """Return a view with the pools and the time of the last view, and the current counts.

    Pools of partitions that this instance no longer owns are left out: the new owner shows them.
    """
    pools = {key: pool for key, pool in before.pools.items() if key[0] in owned}
    partitions = before.partitions & frozenset(owned)
    number, counts = before.number + 1, tallies.copy()
    return replace(before, number=number, pools=pools, partitions=partitions, tallies=counts)
