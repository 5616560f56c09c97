"""What the loop tells its watchers: at most once per step, never per record."""

from collections.abc import Collection, Mapping, Sequence

from fair_allocator.log.base import Record
from fair_allocator.shard import Shard, Snapshots
from fair_allocator.shard.settings import Tally


class Probe:
    """Hears of everything and does nothing; a watcher overrides what it wants to know.

    Called on the loop's thread, and must not raise. What it is handed is the loop's own and may
    be looked at only while it is called.
    """

    def owned(self, kind: str, partitions: Sequence[int]) -> None:
        """Hear that partitions were "gained", "revoked" (committed first) or "lost"."""

    def restoring(self, progress: str) -> None:
        """Hear that a restore begins, and then how far it is, in words."""

    def restored(self, seconds: float) -> None:
        """Hear how long the restore of a shard took."""

    def ticked(
        self,
        now: int,
        records: Sequence[Record],
        behind: Mapping[tuple[str, int], int],
        shards: Mapping[int, Shard],
    ) -> None:
        """Hear what is left of the inputs after `records` were folded, at wall time `now` in ms."""

    def committed(self, seconds: float) -> None:
        """Hear that a transaction happened, and how long it took."""

    def counted(self, tally: Tally) -> None:
        """Take what a shard did since its last commit, now that it is committed."""

    def decided(self, records: Sequence[Record]) -> None:
        """Hear that what was folded of these records is durable."""

    def failed(self, error: Exception) -> None:
        """Hear why a step or a last snapshot did not happen; the shards are thrown away."""

    def stepped(
        self,
        owned: Collection[int],
        shards: Mapping[int, Shard],
        snapshots: Mapping[int, Snapshots],
    ) -> None:
        """Hear that a step is over; all that the shards hold is committed."""
