"""Read the ends of the hash chains from the journal, to compare them with the assignments topic."""

import sys

from fair_allocator.audit.chain import Head
from fair_allocator.audit.journal_heads import journal_head
from fair_allocator.config import Configuration
from fair_allocator.errors import LogError
from fair_allocator.log import JOURNAL, LogClient


def journal_heads(client: LogClient, configuration: Configuration) -> list[Head]:
    """Return the ends of all partitions' chains according to the journal.

    Call this before you read the topic, so that the topic has all records that the heads cover. If
    the journal cannot be read, print a warning: the audit would not notice if the last records of
    the topic were removed.
    """
    skip_last = configuration.kafka.delivery == "at_least_once"
    heads = []
    for partition in range(client.partitions):
        try:
            records = ((each.key, each.value) for each in client.read(JOURNAL, partition))
            head = journal_head(partition, records, skip_last=skip_last)
        except LogError as error:
            print(f"a dropped tail would go unnoticed: {error}", file=sys.stderr)
            return []
        if head is not None:
            heads.append(head)
    return heads


def record_count(client: LogClient) -> int:
    """Return approximately how many assignment records there are."""
    return sum(
        client.end_offset("assignments", partition) - client.start_offset("assignments", partition)
        for partition in range(client.partitions)
    )
