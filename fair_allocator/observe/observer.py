"""Receive the reports of the service's loop, and publish views: copies of its pools.

The methods of `Probe` run on the loop's thread. Only they change the published data. The other
methods may be called on any thread. To ask for a view, `view` sets a flag. At the end of a step,
the loop clears the flag and publishes a view.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from fair_allocator.errors import CommitFailed
from fair_allocator.log.records import INPUTS, Place, Record
from fair_allocator.observe.looking import Look, only_counted
from fair_allocator.observe.tallies import Tallies
from fair_allocator.observe.view import Key, View
from fair_allocator.service.probe import Probe
from fair_allocator.shard import Shard, Snapshots
from fair_allocator.shard.settings import Tally

logger = logging.getLogger(__name__)

VIEW_SECONDS: Final = 2.0
"""How long to wait for a view.

During a restore the loop makes no view; the caller gets the last one.
"""

PART_OF_A_STEP: Final = 0.1
LEAST_SECONDS: Final = 0.005
"""The part of the loop's time that a look at very many pools may take, and the seconds that it may
always take in a step."""

LOOK_SECONDS: Final = 3.0
"""After this time, a look is finished within one step."""

WATCH_SECONDS: Final = 30.0
"""How long a pool notes its decisions after a page last watched it."""

MOST_WATCHED: Final = 100
"""Pools that note their decisions at the same time."""


class Observer(Probe):
    """Watches one loop; `wall` and `monotonic` are its clocks, in seconds."""

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.errors = 0
        """How many views failed here; the reporter counts its own errors."""
        self.spent = 0.0
        """Seconds of the loop's time that the last view took."""
        self.started = monotonic()
        self.beat_at = self.started
        self.stepped_at: float | None = None
        """The time of the last successful step; None before the first."""
        self.restoring_now = ""
        """The progress of the current restore; empty if there is none."""
        self.failure = ""
        """Why the last step failed; empty if it succeeded."""
        self.assigned = False
        """Whether the log has told us at least once which partitions we own, even if none."""
        self._serving = False
        self._failing = False
        self._wall = wall
        self._monotonic = monotonic
        self._tallies = Tallies()
        self._last_read: dict[Place, int] = {}
        self._view = View()
        self._asked = False
        self._look: Look | None = None
        """The look at the pools that is not finished yet; None if there is none."""
        self._look_began = self._looked_at = self.started
        self._looking = 0.0
        """Seconds of the loop's time that this look has taken."""
        self._closed = False
        self._watched: dict[Key, float] = {}
        """Until when each pool is watched; the last watched pool is at the end."""
        self._published = threading.Condition()

    # -- for other threads --------------------------------------------------------------------

    def view(self, seconds: float = VIEW_SECONDS) -> View:
        """Return a new view, or the last one if the loop does not answer in time."""
        with self._published:
            number = self._view.number
            self._asked = True
            self._published.wait_for(lambda: self._closed or self._view.number > number, seconds)
            return self._view

    def age(self, view: View) -> float:
        """Return how many seconds ago a view was taken; 0 if it has no time."""
        return 0.0 if view.time is None else max(0.0, self._wall() - view.time)

    def watch(self, pool: Key) -> None:
        """Let a pool note its decisions for `WATCH_SECONDS`, from the next view on."""
        with self._published:
            self._watched.pop(pool, None)
            self._watched[pool] = self._monotonic() + WATCH_SECONDS
            while len(self._watched) > MOST_WATCHED:
                del self._watched[next(iter(self._watched))]

    def close(self) -> None:
        """End all waits for a view, now and from now on."""
        with self._published:
            self._closed = True
            self._published.notify_all()

    @property
    def serving(self) -> bool:
        """Whether all owned partitions are restored and the log answers."""
        return self._serving

    # -- the loop's side ----------------------------------------------------------------------

    def beat(self) -> None:
        """Note that the loop makes progress."""
        self.beat_at = self._monotonic()

    def owned(self, kind: str, partitions: Sequence[int]) -> None:
        self.assigned = True
        self._tallies.rebalances[kind] += bool(partitions)
        if kind != "gained":
            for place in [place for place in self._tallies.lag_records if place[1] in partitions]:
                self._forget(place)
            for partition in partitions:
                self._tallies.entries.pop(partition, None)
                self._tallies.snapshots.pop(partition, None)
                self._tallies.memory.pop(partition, None)

    def _forget(self, place: Place) -> None:
        for known in (self._tallies.lag_records, self._tallies.lag_seconds, self._last_read):
            known.pop(place, None)

    def restoring(self, progress: str) -> None:
        self.restoring_now = progress
        self._serving = False

    def restored(self, seconds: float) -> None:
        self._tallies.restores.add(seconds)

    def ticked(
        self,
        now: int,
        records: Sequence[Record],
        behind: Mapping[tuple[str, int], int],
        shards: Mapping[int, Shard],
    ) -> None:
        self._note_read(records)
        tallies = self._tallies
        for partition, shard in shards.items():
            for topic in INPUTS:
                place = topic, partition
                unread = behind.get(place, 0)
                tallies.lag_records[place] = unread
                # If no record of an input was read yet, the shard's own time is the best estimate.
                read = self._last_read.get(place, shard.table.clock or now)
                tallies.lag_seconds[place] = max(0.0, (now - read) / 1000) if unread else 0.0

    def committed(self, seconds: float) -> None:
        self._tallies.transactions["committed"] += 1
        self._tallies.commits.add(seconds)

    def counted(self, tally: Tally) -> None:
        self._tallies.take(tally)

    def _note_read(self, records: Sequence[Record]) -> None:
        """Remember the timestamp of the last record of each topic and partition.

        A poll may have records of only a few topics and partitions. The others keep their last
        timestamp.
        """
        self._last_read |= {(each.topic, each.partition): each.timestamp for each in records}

    def decided(self, records: Sequence[Record]) -> None:
        self._note_read(records)
        stamps = [record.timestamp for record in records if record.topic == "requests"]
        if stamps:
            self._tallies.latency.add_all(stamps, self._wall())

    def failed(self, error: Exception) -> None:
        if isinstance(error, CommitFailed):
            self._tallies.transactions["aborted"] += 1
        else:
            self._tallies.log_failures += 1
        self._failing = True
        self.failure = str(error)
        self._serving, self.restoring_now = False, ""

    def stepped(
        self,
        owned: Collection[int],
        shards: Mapping[int, Shard],
        snapshots: Mapping[int, Snapshots],
    ) -> None:
        whole = not self._failing and len(owned) == len(shards)
        self._failing = False
        if whole:
            self._serving, self.restoring_now, self.failure = True, "", ""
            self.assigned = self.assigned or bool(owned)
            self.stepped_at = self._monotonic()
        if self._asked or self._look is not None:
            self._asked = False
            self._tallies.partitions = len(owned)
            if whole:
                self._tallies.entries = {partition: each.seq for partition, each in shards.items()}
                self._tallies.snapshots = {
                    partition: (each.closed_at, each.bytes, each.due)
                    for partition, each in snapshots.items()
                }
                self._tallies.memory = {
                    partition: (each.table.memory.taken, each.settings.memory_bytes)
                    for partition, each in shards.items()
                }
            # If a shard is missing, the pools stay as in the last view, and only the counters are
            # updated.
            self._publish(owned, shards if whole else None)

    def _publish(self, owned: Collection[int], shards: Mapping[int, Shard] | None) -> None:
        began = time.thread_time()
        try:
            if shards is None:
                view: View | None = only_counted(self._view, owned, self._tallies)
            else:
                view = self._looked(shards)
        except Exception:
            # An error in the observer must never stop the loop.
            self.errors += 1
            logger.exception("no view of the pools could be taken")
            self._give_up_look()
            return
        self._looking += time.thread_time() - began
        if view is not None:
            with self._published:
                self._view, self.spent, self._looking = view, self._looking, 0.0
                self._published.notify_all()

    def _looked(self, shards: Mapping[int, Shard]) -> View | None:
        """Go on copying pools for a limited time; return a view when all are copied, else None."""
        if self._look is not None and not self._look.is_of(shards):
            self._give_up_look()
        now = self._monotonic()
        if self._look is None:
            self._look = Look(self._view, self._wall(), shards, self._watched_now())
            self._look_began = self._looked_at = now
        until = now + max(LEAST_SECONDS, PART_OF_A_STEP * (now - self._looked_at))
        is_late = now - self._look_began > LOOK_SECONDS
        if not self._look.go_on(lambda: not is_late and self._monotonic() > until):
            self._looked_at = self._monotonic()
            return None
        view = self._look.view(self._view.number + 1, self._tallies)
        self._look = None
        return view

    def _give_up_look(self) -> None:
        """Forget a look that cannot be finished. The next one looks at every pool."""
        self._look = None
        self._view = replace(self._view, partitions=frozenset())

    def _watched_now(self) -> frozenset[Key]:
        """Return the pools that are watched now, and forget the others."""
        now = self._monotonic()
        with self._published:
            self._watched = {pool: until for pool, until in self._watched.items() if until > now}
            return frozenset(self._watched)
