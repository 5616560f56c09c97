"""From the configuration to what runs: the log, and the settings of service and shards."""

from dataclasses import replace
from typing import Any

from fair_allocator.config import (
    TEMPLATE,
    Configuration,
    PoolConfiguration,
    fingerprint,
    secret_of,
)
from fair_allocator.errors import ConfigurationError
from fair_allocator.log import Log, LogClient
from fair_allocator.log.kafka import (
    DELIVERIES,
    KafkaClient,
    KafkaLog,
    KafkaSettings,
    Security,
    default_instance,
    driver,
    longest_wait,
)
from fair_allocator.log.sqlite import SqliteClient, SqliteLog
from fair_allocator.service import FilePool, ServiceSettings
from fair_allocator.shard import ShardSettings


def open_log(configuration: Configuration, *, exactly_once: bool = False) -> Log:
    """Return the service's side of the configured log, not opened yet.

    With `exactly_once`, its commits are transactions over all partitions, whatever is configured.
    """
    log = configuration.log
    if log.kind != "sqlite":
        settings = kafka_settings(configuration)
        if exactly_once:
            settings = replace(settings, delivery=DELIVERIES[0])
        return KafkaLog(driver(log.kind, settings), settings, log.partitions)
    return SqliteLog(
        log.path,
        log.partitions,
        retain_records=log.retain_records,
        retain_seconds=log.retain_seconds,
    )


def open_client(configuration: Configuration, *, create: bool = False) -> LogClient:
    """Return anyone's side of the configured log.

    Without `create`, the log must be there, and has the partitions it has. Topics of Kafka are
    made by the command `topics` alone.
    """
    log = configuration.log
    if log.kind != "sqlite":
        settings = kafka_settings(configuration)
        return KafkaClient(driver(log.kind, settings), settings, partitioner=log.partitioner)
    return SqliteClient(log.path, log.partitions if create else None, partitioner=log.partitioner)


def kafka_settings(configuration: Configuration) -> KafkaSettings:
    """Return what the log on Kafka needs to know.

    Raises
    ------
    ConfigurationError
        If the password cannot be told, or a name is not one for Kafka.
    """
    kafka = configuration.kafka
    password = secret_of("kafka.sasl_password", kafka.sasl_password, kafka.sasl_password_file)
    if kafka.security_protocol.startswith("SASL") and not password:
        raise ConfigurationError(
            f"kafka.security_protocol {kafka.security_protocol} needs a password: give it in "
            "FAIR_ALLOCATOR_KAFKA__SASL_PASSWORD or kafka.sasl_password_file"
        )
    return KafkaSettings(
        bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix=kafka.topic_prefix,
        group=kafka.group,
        instance=kafka.instance or default_instance(),
        delivery=kafka.delivery,
        transactional_id=kafka.transactional_id,
        session_seconds=kafka.session_seconds,
        transaction_seconds=kafka.transaction_seconds,
        request_seconds=kafka.request_seconds,
        rebalance_seconds=kafka.rebalance_seconds,
        security=Security(
            protocol=kafka.security_protocol,
            mechanism=kafka.sasl_mechanism,
            username=kafka.sasl_username,
            password=password,
            ca_file=kafka.tls_ca_file,
            certificate_file=kafka.tls_certificate_file,
            key_file=kafka.tls_key_file,
        ),
    )


def log_name(configuration: Configuration) -> str:
    """Return what messages call the configured log."""
    kafka = configuration.kafka
    if configuration.log.kind == "sqlite":
        return str(configuration.log.path)
    return f"{kafka.topic_prefix}* at {kafka.bootstrap_servers}"


def shard_settings(configuration: Configuration, partitions: int) -> ShardSettings:
    """Return what every shard of a log with that many partitions needs to know."""
    limits = configuration.limits
    retire = limits.retire_after_seconds
    template = configuration.pools.get(TEMPLATE)
    return ShardSettings(
        seed=configuration.seed,
        partitions=partitions,
        partitioner=configuration.log.partitioner,
        record_bytes=limits.record_bytes,
        pending_per_pool=limits.pending_per_pool,
        remembered_per_pool=limits.remembered_per_pool,
        pools_per_shard=limits.pools_per_shard,
        arms_per_pool=limits.arms_per_pool,
        clock_skew=_milliseconds(limits.clock_skew_seconds),
        retire_after=None if retire is None else _milliseconds(retire),
        standing_every=configuration.audit.epochs_every_requests,
        template=None if template is None else _plain(template),
        template_fingerprint="" if template is None else fingerprint(template),
    )


def service_settings(
    configuration: Configuration, partitions: int, accept_offsets: bool = False
) -> ServiceSettings:
    """Return what the loop over a log with that many partitions needs to know.

    Raises
    ------
    ConfigurationError
        If settings that are each valid contradict each other.
    """
    service, snapshots = configuration.service, configuration.snapshots
    if service.stuck_seconds <= service.poll_seconds:
        raise ConfigurationError(
            f"service.stuck_seconds ({service.stuck_seconds:g}) must be above "
            f"service.poll_seconds ({service.poll_seconds:g}): a loop that waits for records "
            "would count as stuck"
        )
    if configuration.log.kind != "sqlite":
        patience = longest_wait(configuration.kafka.transaction_seconds)
        if service.stuck_seconds < patience:
            raise ConfigurationError(
                f"service.stuck_seconds ({service.stuck_seconds:g}) must be at least {patience:g}, "
                "which is kafka.transaction_seconds and 15: so long a restore may wait for the "
                "transaction that a dead instance left open, and would count as stuck"
            )
    return ServiceSettings(
        shard=shard_settings(configuration, partitions),
        pools={
            name: FilePool(_plain(pool), fingerprint(pool))
            for name, pool in configuration.pools.items()
            if name != TEMPLATE
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
    """Return a pool's settings as the journal keeps them."""
    return pool.model_dump(mode="json")
