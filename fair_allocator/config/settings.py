"""Every setting, by section. The docstrings of the attributes are the text of the reference.

To add a section, add a class here and a field of `Configuration`; `kafka_section` and `pool` have
the two long ones. Variables, reference and example follow from these. If another room uses a
setting, that room defines the default, and this module only repeats it. The text "none" means that
a setting has no value, because TOML has no null.
"""

from base64 import b64decode
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
from fair_allocator.signing import Senders, key_name
from fair_allocator.signing.keys import KEY_BYTES
from fair_allocator.text import part_in

_SERVICE: Final = ServiceSettings()
_SHARD: Final = ShardSettings()
"""The settings of the rooms, which define the defaults."""


def _named_file(path: Path) -> Path:
    if not path.name or "\0" in str(path):
        raise ValueError(f"must name a file, got {str(path)!r}")
    return path


class LogSection(Section):
    """Section ``log``."""

    kind: Literal["sqlite", "kafka", "confluent"] = "sqlite"
    """Where the topics are: in a file, or on Kafka through kafka-python or confluent-kafka."""
    path: Annotated[Path, Field(strict=False), AfterValidator(_named_file)] = Path(
        "fair-allocator.db"
    )
    """The file of the embedded log, relative to the folder in which the command runs."""
    partitions: Annotated[int, Field(ge=1, le=1024)] = 4
    """How many partitions every topic has. Kafka's topics must have the same number."""
    partitioner: Partitioner = "murmur2"
    """How producers choose a record's partition from its key. With "none", it is not checked."""
    retain_records: CountOrNone = 1_000_000
    """How many inputs and outputs to keep in each partition; "none": all. Not used on Kafka."""
    retain_seconds: SpanOrNone = None
    """How many seconds to keep inputs and outputs; "none": for ever. Not used on Kafka."""


class ServiceSection(Section):
    """Section ``service``."""

    batch_records: Annotated[int, Field(ge=1, le=100_000)] = _SERVICE.batch_records
    """The largest number of inputs that one commit may have."""
    poll_seconds: Span = _SERVICE.poll_seconds
    """How many seconds the service waits for new records before it does other work."""
    tick_seconds: Span = _SERVICE.tick_seconds
    """After this many seconds without an input, the service checks what has timed out."""
    stuck_seconds: Span = 60.0
    """After this many seconds without progress, the service ends itself with exit code 70."""
    give_up_seconds: Annotated[float, Field(ge=0)] = _SERVICE.give_up_seconds
    """If commits or restores fail for this many seconds, the service ends with exit code 69."""
    drain_seconds: Annotated[float, Field(ge=0)] = 10.0
    """How many seconds the service may take to commit its current work when it is stopped."""


class SnapshotSection(Section):
    """Section ``snapshots``."""

    every_entries: Count = _SERVICE.snapshot_entries
    """After this many journal entries, the service writes a new snapshot of a shard."""
    chunk_bytes: Annotated[int, Field(ge=1024, le=900_000)] = _SERVICE.snapshot_chunk_bytes
    """The size of one piece of a snapshot, in bytes; it must fit into a record of the log."""


class LimitsSection(Section):
    """Section ``limits``."""

    record_bytes: Count = _SHARD.record_bytes
    """The largest size of an input, in bytes; a larger input becomes a dead letter."""
    pending_per_pool: Count = _SHARD.pending_per_pool
    """How many assignments of a pool may wait for their reward; beyond that, the oldest expire."""
    waiting_per_pool: Annotated[int, Field(ge=0)] = _SHARD.waiting_per_pool
    """How many requests of a pool may wait for an arm; a further request becomes a dead letter."""
    remembered_per_pool: Annotated[int, Field(ge=0)] = _SHARD.remembered_per_pool
    """How many closed requests a pool remembers, so that a repeat gets its first answer."""
    memory_bytes: Annotated[int, Field(ge=100_000)] | Literal["auto"] = "auto"
    """How many bytes of memory a partition's requests may take; "auto": see docs/security.md."""
    pools_per_shard: Count = _SHARD.pools_per_shard
    """How many pools a partition may have; beyond that, the service makes no pools on demand."""
    arms_per_pool: Count = _SHARD.arms_per_pool
    """How many arms a pool may have."""
    unknown_fields: Literal["ignore", "check", "refuse"] = "check"
    """What to do with unknown fields of events; "check" refuses those that resemble a known one."""
    clock_skew_seconds: Annotated[float, Field(ge=0)] = _SHARD.clock_skew / 1000
    """How many seconds a record may be ahead of the clock; else it becomes a dead letter."""
    retire_after_seconds: SpanOrNone = None
    """After this many idle seconds, a pool made on demand is kept compressed; "none": never."""


class AuditSection(Section):
    """Section ``audit``."""

    epochs_every_requests: Count = _SHARD.standing_every
    """After this many requests to its partition, a pool's complete epoch record is repeated."""


class ObserveSection(Section):
    """Section ``observe``."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """The address of the server for page, metrics, health and API; "0.0.0.0": all addresses."""
    port: Annotated[Annotated[int, Field(ge=0, le=65535)] | None, BeforeValidator(none)] = 9464
    """The port of this server; 0 takes any free one, "none" starts no server."""
    port_required: bool = True
    """If the port is taken: true ends the service with exit 78, false runs it without a server."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level of the log lines that the service writes to standard error."""
    token: SecretStr = SecretStr("")
    """The token with which clients may read metrics and pools; without any token, all may read."""
    token_file: Annotated[Path | None, Field(strict=False), BeforeValidator(none)] = None
    """A file with this token; set it instead of `token`."""
    tokens_file: Annotated[Path | None, Field(strict=False), BeforeValidator(none)] = None
    """A file of tokens with the rights read, ask and control, see docs/operations.md."""
    tls_certificate_file: Annotated[Path | None, Field(strict=False), BeforeValidator(none)] = None
    """A PEM file with the server's certificate and chain; with it, the server speaks only https."""
    tls_key_file: Annotated[Path | None, Field(strict=False), BeforeValidator(none)] = None
    """A PEM file with the key of this certificate."""
    page_controls: bool = False
    """Whether people whose token has the right `control` can change pools on the page."""
    max_clients: Count = 50
    """How many web pages may watch the service at the same time."""
    max_connections: Count = 1_000
    """How many connections the server keeps; for a further one, it closes an idle or slow one."""
    hosts: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)] = ()
    """Host names that clients may use for the server, or any IP address; if empty, any name."""

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
    """How many events clients may wait for at the same time; other clients must try later."""
    max_wait_seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    """How many seconds a client may wait for an answer."""
    remembered_answers: Count = 50_000
    """How many answers the server keeps in memory, for clients that ask for them again."""
    look_back_records: Annotated[int, Field(ge=0)] = 10_000
    """How many records of each output the server reads at its start, to know recent answers."""
    control_key_file: Annotated[Path | None, Field(strict=False), BeforeValidator(none)] = None
    """A file with the private key with which the API signs controls, see docs/security.md."""
    max_streams: Count = 100
    """How many clients may follow the stream of assignments at the same time."""


def _key_names(keys: dict[str, str]) -> dict[str, str]:
    for name, text in keys.items():
        if key_name(name) != name:
            raise ValueError(f"{name!r}: the name of a key has no slash")
        try:
            length = len(b64decode(text, validate=True))
        except ValueError:
            length = 0
        if length != KEY_BYTES:
            raise ValueError(f"{name}: must be the text that `seal --new-key` printed")
    if len(set(keys.values())) < len(keys):
        raise ValueError("two names have the same key")
    return keys


class ControlsSection(Section):
    """Section ``controls``."""

    keys: Annotated[dict[Name, str], AfterValidator(_key_names)] = Field(default={})
    """The public keys of those who sign controls, by name, see docs/security.md."""
    deployment: Annotated[str, Field(max_length=MOST_CHARACTERS)] = ""
    """A name for this deployment: a control that was signed for another one does not count here."""
    signed_only: bool = False
    """Whether a control without a signature becomes a dead letter."""

    @model_validator(mode="after")
    def _fits_together(self) -> "ControlsSection":
        if self.keys and not self.deployment:
            raise ValueError("deployment: give a name; every signature with these keys covers it")
        if self.signed_only and not self.keys:
            raise ValueError("signed_only: without keys, no control could count; add keys")
        return self


class MetricsSection(Section):
    """Section ``metrics``."""

    max_arms_per_pool: Annotated[int, Field(ge=0)] = 100
    """How many arms of a pool have series of their own; the pool's series cover all its arms."""
    max_arms: Annotated[int, Field(ge=0)] = 5_000
    """How many arms of all pools together have series of their own."""
    max_pools: Annotated[int, Field(ge=0)] = 5_000
    """How many pools have series of their own; a pool that breaks its promise always has some."""


class Configuration(Section):
    """All settings."""

    seed: int = _SHARD.seed
    """All random numbers of learners depend on this seed, the name of the pool and the round."""
    log: LogSection = LogSection()
    """Where the topics are kept."""
    kafka: KafkaSection = KafkaSection()
    """How to reach Kafka, for `log.kind` "kafka" and "confluent", see docs/kafka.md."""
    service: ServiceSection = ServiceSection()
    """How much the service does at once, and how long it waits."""
    snapshots: SnapshotSection = SnapshotSection()
    """How often the service writes the whole state of a shard, and how large the pieces are."""
    limits: LimitsSection = LimitsSection()
    """Limits on memory and on inputs, see docs/security.md."""
    audit: AuditSection = AuditSection()
    """What the service publishes for the audit."""
    observe: ObserveSection = ObserveSection()
    """The server for page, metrics, health and API, see docs/operations.md."""
    api: ApiSection = ApiSection()
    """What the HTTP API allows, see docs/http.md."""
    controls: ControlsSection = ControlsSection()
    """Who may sign controls, and whether a control needs a signature, see docs/security.md."""
    metrics: MetricsSection = MetricsSection()
    """How many series of metrics there may be, see docs/operations.md."""
    pools: dict[Name, PoolConfiguration] = Field(default={})
    """The settings of pool NAME; "*" is the template of pools on demand, see docs/service.md."""

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

    @property
    def senders(self) -> Senders | None:
        """The senders whose signatures count; None if no sender has a key."""
        controls, skew = self.controls, round(self.limits.clock_skew_seconds * 1000)
        if not controls.keys:
            return None
        return Senders(controls.keys, controls.deployment, controls.signed_only, skew)


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
