"""What the loop reports to its watchers: at most once per step, never per record."""

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
        """Hear that partitions were "gained", "revoked" (committed first) or "lost"."""

    def restoring(self, progress: str) -> None:
        """Hear that a restore begins, and later, in words, how far it has come."""

    def restored(self, seconds: float) -> None:
        """Hear how long the restore of a shard took."""

    def ticked(
        self,
        now: int,
        records: Sequence[Record],
        behind: Mapping[tuple[str, int], int],
        shards: Mapping[int, Shard],
    ) -> None:
        """Hear how much of the inputs is unread after `records`, at wall time `now` in ms."""

    def committed(self, seconds: float) -> None:
        """Hear that a transaction happened, and how long it took."""

    def counted(self, tally: Tally) -> None:
        """Receive the counts of a shard since its last commit, now that they are committed."""

    def decided(self, records: Sequence[Record]) -> None:
        """Hear that the decisions on these records are durable."""

    def failed(self, error: Exception) -> None:
        """Hear why a step or a last snapshot failed; the loop throws the shards away."""

    def stepped(
        self,
        owned: Collection[int],
        shards: Mapping[int, Shard],
        snapshots: Mapping[int, Snapshots],
    ) -> None:
        """Hear that a step is over; everything in the shards is committed."""
