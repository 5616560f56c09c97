"""Read the shards (the pools of a partition) of a log, even while a service writes to the log."""

from collections.abc import Iterator
from typing import Final

from fair_allocator.errors import LogUnavailable, OffsetGone
from fair_allocator.log import JOURNAL, Committed, LogClient, Record
from fair_allocator.shard import Shard, ShardSettings, restore

_ATTEMPTS: Final = 5


class JournalReader:
    """The part of a log that `restore` needs, read through a client."""

    def __init__(self, client: LogClient) -> None:
        self._client = client

    def committed(self, partition: int) -> Committed:  # noqa: ARG002
        """Return no positions and no hint, because a client cannot read them from the log.

        Without a hint, which tells a restore where to begin, the whole journal is read.
        """
        return Committed({}, "")

    def journal_start(self, partition: int) -> int:
        """Return the position at which the journal starts."""
        return self._client.start_offset(JOURNAL, partition)

    def read_journal(self, partition: int, start: int) -> Iterator[Record]:
        """Return the journal up to its current end."""
        return self._client.read(JOURNAL, partition, start)


def read_shard(client: LogClient, partition: int, settings: ShardSettings) -> Shard:
    """Return a shard in the state of its last commit."""
    reader = JournalReader(client)
    for _ in range(_ATTEMPTS):
        try:
            return restore(reader, partition, settings, only_look=True)[0]
        except OffsetGone:
            continue  # a running service trimmed the journal; now there is a newer snapshot to read
    raise LogUnavailable(f"journal {partition} is trimmed faster than it can be read: try again")


def read_shards(
    client: LogClient, settings: ShardSettings, partitions: range | None = None
) -> Iterator[Shard]:
    """Yield the shards of some partitions, by default all, in the state of their last commits."""
    partitions = range(client.partitions) if partitions is None else partitions
    for partition in partitions:
        yield read_shard(client, partition, settings)
