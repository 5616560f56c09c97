"""What the loop reports to a watcher, such as metrics. It reports per step, never per record."""

from collections.abc import Collection, Mapping, Sequence

from fair_allocator.log.base import Record
from fair_allocator.shard import Shard, Snapshots
from fair_allocator.shard.settings import Tally


class Probe:
    """Receives every report and does nothing; a watcher overrides the methods it needs.

    The loop calls these methods on its own thread. They must not raise. The arguments belong to
    the loop: read them only during the call.
    """

    def owned(self, kind: str, partitions: Sequence[int]) -> None:
        """Hear that partitions were "gained", "revoked" (after a commit) or "lost"."""

    def restoring(self, progress: str) -> None:
        """Hear that a restore begins, and later how far it is, in words."""

    def restored(self, seconds: float) -> None:
        """Hear how long the restore of a shard took."""

    def ticked(
        self,
        now: int,
        records: Sequence[Record],
        behind: Mapping[tuple[str, int], int],
        shards: Mapping[int, Shard],
    ) -> None:
        """Hear how many inputs are still unread after `records`; `now` is the time in ms."""

    def committed(self, seconds: float) -> None:
        """Hear how long a successful transaction took."""

    def counted(self, tally: Tally) -> None:
        """Receive the counts of a shard for the commit that just happened."""

    def decided(self, records: Sequence[Record]) -> None:
        """Hear that the decisions on these records are durable."""

    def failed(self, error: Exception) -> None:
        """Hear why a step or the last snapshot failed. The loop discards the shards."""

    def stepped(
        self,
        owned: Collection[int],
        shards: Mapping[int, Shard],
        snapshots: Mapping[int, Snapshots],
    ) -> None:
        """Hear that a step is over; everything in the shards is committed."""
