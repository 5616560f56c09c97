"""Move the state of pools from one log to another: read shards, write and read exports, import."""

from fair_allocator.transfer.importing import import_shards, place_pools
from fair_allocator.transfer.shards import JournalReader, read_shard, read_shards

__all__ = ["import_shards", "JournalReader", "place_pools", "read_shard", "read_shards"]
