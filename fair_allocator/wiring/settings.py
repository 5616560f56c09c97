"""Make the settings of the service and its shards from the configuration."""

from typing import Any, Final

from fair_allocator.config import TEMPLATE, Configuration, PoolConfiguration, fingerprint
from fair_allocator.errors import ConfigurationError
from fair_allocator.service import FilePool, ServiceSettings
from fair_allocator.shard import ShardSettings
from fair_allocator.wiring.backends import backend_of
from fair_allocator.wiring.machine import memory_bytes

_LEAST_SHARE: Final = 10_000_000
"""The smallest automatic limit of memory for a partition, in bytes."""


def shard_settings(configuration: Configuration, partitions: int) -> ShardSettings:
    """Return the settings of all shards, for a log with this number of partitions."""
    limits = configuration.limits
    retire = limits.retire_after_seconds
    template = configuration.pools.get(TEMPLATE)
    return ShardSettings(
        seed=configuration.seed,
        partitions=partitions,
        partitioner=configuration.log.partitioner,
        record_bytes=limits.record_bytes,
        pending_per_pool=limits.pending_per_pool,
        waiting_per_pool=limits.waiting_per_pool,
        unknown_fields=limits.unknown_fields,
        remembered_per_pool=limits.remembered_per_pool,
        memory_bytes=_share(partitions) if limits.memory_bytes == "auto" else limits.memory_bytes,
        pools_per_shard=limits.pools_per_shard,
        arms_per_pool=limits.arms_per_pool,
        clock_skew=_milliseconds(limits.clock_skew_seconds),
        retire_after=None if retire is None else _milliseconds(retire),
        standing_every=configuration.audit.epochs_every_requests,
        template=None if template is None else _plain(template),
        split=configuration.splits.parts,
        senders=configuration.senders,
        template_fingerprint="" if template is None else fingerprint(template),
    )


def service_settings(
    configuration: Configuration, partitions: int, accept_offsets: bool = False
) -> ServiceSettings:
    """Return the settings of the loop, for a log with this number of partitions.

    Raises
    ------
    ConfigurationError
        If two settings contradict each other, although each is valid alone; or if signatures
        cannot be checked.
    """
    service, snapshots = configuration.service, configuration.snapshots
    if service.stuck_seconds <= service.poll_seconds:
        raise ConfigurationError(
            f"service.stuck_seconds ({service.stuck_seconds:g}) must be above "
            f"service.poll_seconds ({service.poll_seconds:g}): a loop that waits for records "
            "would count as stuck"
        )
    backend_of(configuration).check(configuration)
    if (senders := configuration.senders) is not None:
        senders.load()
    return ServiceSettings(
        shard=shard_settings(configuration, partitions),
        pools={
            part: FilePool(_plain(pool), fingerprint(pool))
            for name, pool in configuration.pools.items()
            if name != TEMPLATE
            for part in configuration.splits.names(name)
        },
        batch_records=service.batch_records,
        poll_seconds=service.poll_seconds,
        tick_seconds=service.tick_seconds,
        give_up_seconds=service.give_up_seconds,
        snapshot_entries=snapshots.every_entries,
        snapshot_chunk_bytes=snapshots.chunk_bytes,
        accept_offsets=accept_offsets,
    )


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _plain(pool: PoolConfiguration) -> dict[str, Any]:
    """Return the settings of a pool, or of each of its parts, as the journal keeps them."""
    return pool.model_dump(mode="json", exclude={"parts"})


def _share(partitions: int) -> int:
    """Return the bytes for the requests of a partition, if one instance owns all partitions."""
    return max(_LEAST_SHARE, memory_bytes() * 6 // 10 // partitions)
