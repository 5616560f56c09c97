"""Every setting, by section. The docstrings of the attributes are the text of the reference.

To add a section, add a class here and a field of `Configuration`; `kafka_section` and `pool` have
the two long ones. Variables, reference and example follow from these. If another room uses a
setting, that room defines the default, and this module only repeats it. The text "none" means that
a setting has no value, because TOML has no null.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from fair_allocator.config.kafka_section import KafkaSection
from fair_allocator.config.pool import TEMPLATE, PoolConfiguration
from fair_allocator.config.section import Count, CountOrNone, Section, Span, SpanOrNone, none
from fair_allocator.events import Name
from fair_allocator.events.model import MOST_CHARACTERS
from fair_allocator.log.partitioner import Partitioner
from fair_allocator.log.parts import Splits, part_names
from fair_allocator.service.settings import ServiceSettings
from fair_allocator.shard import ShardSettings
from fair_allocator.text import part_in

_SERVICE: Final = ServiceSettings()
_SHARD: Final = ShardSettings()
"""The settings of the rooms, which define the defaults."""


def _named_file(path: Path) -> Path:
    if not path.name:
        raise ValueError(f"must name a file, got {str(path)!r}")
    return path


class LogSection(Section):
    """Section ``log``."""

    kind: Literal["sqlite", "kafka", "confluent"] = "sqlite"
    """Where the topics are: in a file, or on Kafka through kafka-python or confluent-kafka."""
    path: Annotated[Path, Field(strict=False), AfterValidator(_named_file)] = Path(
        "fair-allocator.db"
    )
    """The file of the embedded log, relative to where the command is run."""
    partitions: Annotated[int, Field(ge=1, le=1024)] = 4
    """Partitions of every topic. Each pool lives on one. Kafka's topics must have as many."""
    partitioner: Partitioner = "murmur2"
    """How producers choose a record's partition from its key; "none" leaves it unchecked."""
    retain_records: CountOrNone = 1_000_000
    """Input and output records kept per topic partition; "none": all. Not used on Kafka."""
    retain_seconds: SpanOrNone = None
    """Seconds for which input and output records are kept; "none" keeps them for ever."""


class ServiceSection(Section):
    """Section ``service``."""

    batch_records: Annotated[int, Field(ge=1, le=100_000)] = _SERVICE.batch_records
    """Most records folded in one commit."""
    poll_seconds: Span = _SERVICE.poll_seconds
    """Seconds a poll waits for records."""
    tick_seconds: Span = _SERVICE.tick_seconds
    """Seconds between clock ticks of an idle shard; a tick lets rewards time out."""
    stuck_seconds: Span = 60.0
    """Seconds without a turn of the loop after which the service reports itself dead."""
    give_up_seconds: Annotated[float, Field(ge=0)] = _SERVICE.give_up_seconds
    """Seconds for which commits and restores may fail before the service ends with exit 69."""
    drain_seconds: Annotated[float, Field(ge=0)] = 10.0
    """Seconds that a stop may take to commit the current work."""


class SnapshotSection(Section):
    """Section ``snapshots``."""

    every_entries: Count = _SERVICE.snapshot_entries
    """Journal entries after which a shard writes a snapshot."""
    chunk_bytes: Annotated[int, Field(ge=1024, le=900_000)] = _SERVICE.snapshot_chunk_bytes
    """Bytes of one piece of a snapshot, to stay below the log's message limit."""


class LimitsSection(Section):
    """Section ``limits``."""

    record_bytes: Count = _SHARD.record_bytes
    """Bytes of the longest record that is read; a longer one is a dead letter."""
    pending_per_pool: Count = _SHARD.pending_per_pool
    """Assignments of a pool that wait for their reward; beyond that the oldest expire."""
    waiting_per_pool: Annotated[int, Field(ge=0)] = _SHARD.waiting_per_pool
    """Requests of a pool that wait because no arm can take them; a further one is a dead letter."""
    remembered_per_pool: Annotated[int, Field(ge=0)] = _SHARD.remembered_per_pool
    """Settled requests that a pool remembers, so that a repeat gets its first answer."""
    memory_bytes: Annotated[int, Field(ge=100_000)] | Literal["auto"] = "auto"
    """Memory that requests may take in a partition; "auto" is a part of the machine's memory."""
    pools_per_shard: Count = _SHARD.pools_per_shard
    """Pools of one partition; beyond that, the service creates no pool on demand."""
    arms_per_pool: Count = _SHARD.arms_per_pool
    """Arms of one pool."""
    unknown_fields: Literal["ignore", "check", "refuse"] = "check"
    """What to do with unknown fields of events; "check" refuses those that resemble a known one."""
    clock_skew_seconds: Annotated[float, Field(ge=0)] = _SHARD.clock_skew / 1000
    """Seconds a record may be ahead of the clock; a record further ahead is a dead letter."""
    retire_after_seconds: SpanOrNone = None
    """Idle seconds after which a pool created on demand is kept compressed; "none": never."""


class AuditSection(Section):
    """Section ``audit``."""

    epochs_every_requests: Count = _SHARD.standing_every
    """Requests of a partition after which an active pool's full standing is published again."""


class ObserveSection(Section):
    """Section ``observe``."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """The address on which metrics, health and the page are served; "0.0.0.0" means any."""
    port: Annotated[Annotated[int, Field(ge=0, le=65535)] | None, BeforeValidator(none)] = 9464
    """The port of that address; 0 takes any free one, "none" serves nothing."""
    port_required: bool = True
    """Whether the service ends with exit 78 if it cannot use the port; else it runs without it."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level of the log lines that the service writes to standard error."""
    token: SecretStr = SecretStr("")
    """The bearer token for metrics and pools; if empty, clients need no token."""
    token_file: Annotated[Path | None, Field(strict=False), BeforeValidator(none)] = None
    """A file that holds the token, in place of `token`."""
    tokens_file: Annotated[Path | None, Field(strict=False), BeforeValidator(none)] = None
    """A file of tokens with the rights read, ask and control, see docs/operations.md."""
    tls_certificate_file: Annotated[Path | None, Field(strict=False), BeforeValidator(none)] = None
    """The server's certificate with its chain, in PEM; with it, everything is served by https."""
    tls_key_file: Annotated[Path | None, Field(strict=False), BeforeValidator(none)] = None
    """The key of the certificate, in PEM."""
    page_controls: bool = False
    """Whether the page can change pools, for people whose token has the right to control."""
    max_clients: Count = 50
    """Pages that may watch at the same time."""
    max_connections: Count = 1_000
    """Connections at the same time; for a further one, the server closes an idle or slow one."""
    hosts: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)] = ()
    """Host names that clients may use for the server, besides addresses; if empty, any name."""

    @model_validator(mode="after")
    def _fits_together(self) -> "ObserveSection":
        if (self.tls_certificate_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_certificate_file and tls_key_file: give both or none")
        return self


class ApiSection(Section):
    """Section ``api``."""

    enabled: Annotated[bool | None, BeforeValidator(none)] = None
    """Whether `run` serves the HTTP API; "none": yes on the embedded log, no on Kafka."""
    max_in_flight: Count = 10_000
    """Events that clients wait for at the same time; beyond that, clients must ask again later."""
    max_wait_seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    """Seconds for which a client may wait for an answer."""
    remembered_answers: Count = 50_000
    """Requests whose answers are kept in memory, for clients that ask for them again."""
    look_back_records: Annotated[int, Field(ge=0)] = 10_000
    """Records read from the end of each output partition at the start, to know recent answers."""
    max_streams: Count = 100
    """Streams of assignments at the same time."""


class MetricsSection(Section):
    """Section ``metrics``."""

    max_arms_per_pool: Annotated[int, Field(ge=0)] = 100
    """Arms of a pool with their own series; series of the pool always cover all its arms."""
    max_arms: Annotated[int, Field(ge=0)] = 5_000
    """Arms with their own series, over all pools."""
    max_pools: Annotated[int, Field(ge=0)] = 5_000
    """Pools with their own series; a pool that breaks its promise always has one."""


class Configuration(Section):
    """All settings."""

    seed: int = _SHARD.seed
    """Determines, with a pool's name and round, every random number a learner draws."""
    log: LogSection = LogSection()
    """Where the topics are kept."""
    kafka: KafkaSection = KafkaSection()
    """How to reach the cluster, and the name of this instance."""
    service: ServiceSection = ServiceSection()
    """How the service's loop works."""
    snapshots: SnapshotSection = SnapshotSection()
    """How often a shard writes its whole state, and in what pieces."""
    limits: LimitsSection = LimitsSection()
    """Limits on memory and on input."""
    audit: AuditSection = AuditSection()
    """What the service publishes for the audit."""
    observe: ObserveSection = ObserveSection()
    """Where metrics, health and the page are served."""
    api: ApiSection = ApiSection()
    """What the HTTP API allows."""
    metrics: MetricsSection = MetricsSection()
    """How many metric series there may be."""
    pools: dict[Name, PoolConfiguration] = Field(default={})
    """The pools by name; the one called "*" is the template of pools created on demand."""

    @field_validator("pools")
    @classmethod
    def _within_limits(
        cls, pools: dict[str, PoolConfiguration], info: ValidationInfo
    ) -> dict[str, PoolConfiguration]:
        limits = info.data.get("limits", LimitsSection())
        log = info.data.get("log", LogSection())
        for name, pool in pools.items():
            _check_parts(name, pool.parts, log)
            if len(pool.arms) > limits.arms_per_pool:
                raise ValueError(
                    f"pool {name!r} has {len(pool.arms)} arms, more than limits.arms_per_pool, "
                    f"which is {limits.arms_per_pool}"
                )
        return pools

    @property
    def splits(self) -> Splits:
        """The pools that are split into parts."""
        parts = {name: pool.parts for name, pool in self.pools.items() if pool.parts > 1}
        return Splits(parts, self.log.partitioner)


def _check_parts(name: str, parts: int, log: LogSection) -> None:
    """Refuse the name of a part, and a pool that cannot be split into so many parts."""
    if (part := part_in(name)) is not None:
        raise ValueError(
            f"pool {name!r}: this is the name of a part of pool {part.pool!r}; choose another "
            "name, or split that pool with `parts`"
        )
    if parts == 1:
        return
    if name == TEMPLATE:
        raise ValueError('pool "*" is the template of others and cannot be split; leave out parts')
    if log.partitioner == "none":
        raise ValueError(
            f'pool {name!r} cannot be split: log.partitioner is "none", and its parts need one'
        )
    if parts > log.partitions:
        raise ValueError(
            f"pool {name!r} has {parts} parts, more than log.partitions, which is {log.partitions}"
        )
    longest = max(map(len, part_names(name, parts, log.partitioner)))
    if longest > MOST_CHARACTERS:
        raise ValueError(
            f"pool {name!r} cannot be split: the names of its parts have up to {longest} "
            f"characters, more than {MOST_CHARACTERS}"
        )
