"""What the loop of the service reports to a watcher, such as the metrics.

It reports at most a few times in each step, and never for each record.
"""

from collections.abc import Collection, Mapping, Sequence

from fair_allocator.log.records import Record
from fair_allocator.shard import Shard, Snapshots
from fair_allocator.shard.settings import Tally


class Probe:
    """Receives every report and does nothing. A watcher overrides the methods it needs.

    The loop calls these methods on its own thread. They must not raise. The arguments belong to
    the loop: read them only during the call.
    """

    def owned(self, kind: str, partitions: Sequence[int]) -> None:
        """Learn that partitions were "gained", "revoked" (after a commit) or "lost"."""

    def restoring(self, progress: str) -> None:
        """Learn that a restore begins, and later how far it has come, in words."""

    def restored(self, seconds: float) -> None:
        """Learn how long the restore of a shard took."""

    def ticked(
        self,
        now: int,
        records: Sequence[Record],
        behind: Mapping[tuple[str, int], int],
        shards: Mapping[int, Shard],
    ) -> None:
        """Learn how many inputs are still unread after `records`; `now` is the time in ms."""

    def committed(self, seconds: float) -> None:
        """Learn how long a successful transaction took."""

    def counted(self, tally: Tally) -> None:
        """Receive what a shard counted for the commit that just happened."""

    def decided(self, records: Sequence[Record]) -> None:
        """Learn that the decisions on these records are durable."""

    def failed(self, error: Exception) -> None:
        """Learn why a step or the last snapshot failed. The loop then discards the shards."""

    def stepped(
        self,
        owned: Collection[int],
        shards: Mapping[int, Shard],
        snapshots: Mapping[int, Snapshots],
    ) -> None:
        """Learn that a step is over; everything in the shards is committed."""
