"""Every setting, by section. The docstrings of the attributes are the text of the reference.

To add a section, add a class here and a field of `Configuration`. Variables, reference and example
follow from these. If another room uses a setting, that room defines the default, and this module
only repeats it. The text "none" means that a setting has no value, because TOML has no null.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from fair_allocator.config.addresses import brokers, endpoint, function
from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.pool import Pool
from fair_allocator.core.quotas import parse_quota, parse_tolerance
from fair_allocator.events import Name, PoolSettings, Share
from fair_allocator.events.inputs import Count, Rate, Tags
from fair_allocator.log.kafka.settings import OAUTHBEARER, KafkaSettings
from fair_allocator.log.partitioner import Partitioner
from fair_allocator.service.settings import ServiceSettings
from fair_allocator.shard import ShardSettings

TEMPLATE: Final = "*"
"""The name under which the file keeps the template of pools created on demand."""


_BROKERS: Final = "127.0.0.1:9092"
_KAFKA: Final = KafkaSettings(_BROKERS)
_SERVICE: Final = ServiceSettings()
_SHARD: Final = ShardSettings()
"""The settings of the rooms, which define the defaults."""


def _none(value: object) -> object:
    return None if value == "none" else value


def _share(value: Any) -> Any:
    try:
        parse_quota(value, "")
    except InvalidPool as error:
        raise ValueError(str(error).removeprefix("arm '': ")) from None
    return value


def _slack(value: Any) -> Any:
    parse_tolerance(value)
    return value


def _named_file(path: Path) -> Path:
    if not path.name:
        raise ValueError(f"must name a file, got {str(path)!r}")
    return path


def _learner(value: object) -> object:
    name = value.get("name") if isinstance(value, dict) else value
    if not isinstance(name, str):
        raise PydanticCustomError("learner", "must be a name, or a table with name and parameters")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("parameters must be finite numbers, texts, lists or tables") from None
    return value


_Learner = Annotated[
    str | dict[str, JsonValue],
    PlainValidator(_learner, json_schema_input_type=str | dict[str, JsonValue]),
]
_Count = Annotated[int, Field(ge=1)]
_Span = Annotated[float, Field(gt=0)]
_Reward = Annotated[float, Field(ge=0, le=1)]
_CountOrNone = Annotated[_Count | None, BeforeValidator(_none)]
_SpanOrNone = Annotated[_Span | None, BeforeValidator(_none)]
_RewardOrNone = Annotated[_Reward | None, BeforeValidator(_none)]

_CONFIG: Final = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _Section(BaseModel):
    model_config = _CONFIG


class LogSection(_Section):
    """Section ``log``."""

    kind: Literal["sqlite", "kafka", "confluent"] = "sqlite"
    """What keeps the topics: a file, or Kafka through kafka-python or confluent-kafka."""
    path: Annotated[Path, Field(strict=False), AfterValidator(_named_file)] = Path(
        "fair-allocator.db"
    )
    """The file of the embedded log, relative to where the command is run."""
    partitions: Annotated[int, Field(ge=1, le=1024)] = 4
    """Partitions of every topic. Each pool lives on one. Kafka's topics must have as many."""
    partitioner: Partitioner = "murmur2"
    """How producers choose a record's partition from its key; "none" leaves it unchecked."""
    retain_records: _CountOrNone = 1_000_000
    """Input and output records kept per topic partition; "none": all. Not used on Kafka."""
    retain_seconds: _SpanOrNone = None
    """Seconds for which input and output records are kept; "none" keeps them for ever."""


class KafkaSection(_Section):
    """Section ``kafka``, for `log.kind` "kafka" and "confluent"."""

    bootstrap_servers: Annotated[str, Field(min_length=1), AfterValidator(brokers)] = _BROKERS
    """Brokers to ask first, host:port with commas between them."""
    topic_prefix: str = _KAFKA.topic_prefix
    """The prefix of the names of the six topics."""
    group: Annotated[str, Field(min_length=1)] = _KAFKA.group
    """The consumer group of the instances that share the work."""
    instance: str = ""
    """This instance's own name, the same after a restart; by default the host's name."""
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once"
    """How often consumers may see an answer; "at_least_once" is faster, see docs/kafka.md."""
    transactional_id: str = ""
    """The id of this instance's transactions at the broker; by default group and instance."""
    session_seconds: Annotated[float, Field(ge=1)] = _KAFKA.session_seconds
    """Seconds after which a silent instance's partitions go to the others."""
    transaction_seconds: Annotated[float, Field(ge=1)] = _KAFKA.transaction_seconds
    """Seconds after which the broker aborts a transaction that was left open."""
    request_seconds: Annotated[float, Field(ge=1)] = _KAFKA.request_seconds
    """Seconds to wait for an answer from the broker."""
    rebalance_seconds: Annotated[float, Field(ge=1)] = _KAFKA.rebalance_seconds
    """Seconds the group waits for an instance that is busy restoring; above `session_seconds`."""
    replication: Annotated[int, Field(ge=-1)] = -1
    """Copies of every topic that `topics --create` makes; -1 is the cluster's default."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How to connect to the brokers."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = (
        "SCRAM-SHA-512"
    )
    """How the client proves its identity."""
    sasl_username: str = ""
    """The user's name for SASL."""
    sasl_password: SecretStr = SecretStr("")
    """The user's password; better in a variable or in a file."""
    sasl_password_file: Annotated[Path | None, Field(strict=False), BeforeValidator(_none)] = None
    """A file that holds the password, in place of `sasl_password`."""
    oauth_token_url: Annotated[str, AfterValidator(endpoint)] = ""
    """The endpoint that gives tokens for OAUTHBEARER (OIDC, client credentials)."""
    oauth_client_id: str = ""
    """The name of this client at the token endpoint."""
    oauth_client_secret: SecretStr = SecretStr("")
    """The client's secret at the token endpoint; better in a variable or in a file."""
    oauth_client_secret_file: Annotated[
        Path | None, Field(strict=False), BeforeValidator(_none)
    ] = None
    """A file that holds the secret, in place of `oauth_client_secret`."""
    oauth_scope: str = ""
    """The scope to ask for, if the token endpoint wants one."""
    oauth_ca_file: str = ""
    """Authorities to trust for the token endpoint, in PEM; by default the system's."""
    oauth_token_source: Annotated[str, AfterValidator(function)] = ""
    """A function that returns token and expiry, "module:function", in place of the endpoint."""
    oauth_extensions: dict[str, str] = {}
    """Names and values to send with the token, such as Confluent Cloud's logicalCluster."""
    tls_ca_file: str = ""
    """Authorities to trust, in PEM; by default the system's."""
    tls_certificate_file: str = ""
    """The client's certificate, in PEM, where the broker asks for one."""
    tls_key_file: str = ""
    """The key of the client's certificate, in PEM."""

    @model_validator(mode="after")
    def _fits_together(self) -> "KafkaSection":
        if self.rebalance_seconds <= self.session_seconds:
            raise ValueError(
                f"rebalance_seconds ({self.rebalance_seconds:g}) must be above session_seconds "
                f"({self.session_seconds:g})"
            )
        if not self.security_protocol.startswith("SASL"):
            return self
        if self.sasl_mechanism != OAUTHBEARER:
            if not self.sasl_username:
                raise ValueError(f"{self.security_protocol} needs sasl_username")
        elif bool(self.oauth_token_source) == bool(self.oauth_token_url):
            raise ValueError(f"{OAUTHBEARER} needs oauth_token_url or oauth_token_source, not both")
        elif self.oauth_token_url and not self.oauth_client_id:
            raise ValueError("oauth_token_url needs oauth_client_id")
        return self


class ServiceSection(_Section):
    """Section ``service``."""

    batch_records: Annotated[int, Field(ge=1, le=100_000)] = _SERVICE.batch_records
    """Most records folded in one commit."""
    poll_seconds: _Span = _SERVICE.poll_seconds
    """Seconds a poll waits for records."""
    tick_seconds: _Span = _SERVICE.tick_seconds
    """Seconds between clock ticks of an idle shard; a tick lets rewards time out."""
    stuck_seconds: _Span = 60.0
    """Seconds without a turn of the loop after which the service reports itself dead."""
    give_up_seconds: Annotated[float, Field(ge=0)] = _SERVICE.give_up_seconds
    """Seconds for which commits and restores may fail before the service ends with exit 69."""
    drain_seconds: Annotated[float, Field(ge=0)] = 10.0
    """Seconds that a stop may take to commit the current work."""


class SnapshotSection(_Section):
    """Section ``snapshots``."""

    every_entries: _Count = _SERVICE.snapshot_entries
    """Journal entries after which a shard writes a snapshot."""
    chunk_bytes: Annotated[int, Field(ge=1024, le=900_000)] = _SERVICE.snapshot_chunk_bytes
    """Bytes of one piece of a snapshot, to stay below the log's message limit."""


class LimitsSection(_Section):
    """Section ``limits``."""

    record_bytes: _Count = _SHARD.record_bytes
    """Bytes of the longest record that is read; a longer one is a dead letter."""
    pending_per_pool: _Count = _SHARD.pending_per_pool
    """Assignments of a pool that wait for their reward; beyond that the oldest expire."""
    waiting_per_pool: Annotated[int, Field(ge=0)] = _SHARD.waiting_per_pool
    """Requests of a pool that wait because no arm can take them; a further one is a dead letter."""
    remembered_per_pool: Annotated[int, Field(ge=0)] = _SHARD.remembered_per_pool
    """Settled requests that a pool remembers, so that a repeat gets its first answer."""
    memory_bytes: Annotated[int, Field(ge=100_000)] = _SHARD.memory_bytes
    """Memory that requests may take in a partition, estimated; a further one is a dead letter."""
    pools_per_shard: _Count = _SHARD.pools_per_shard
    """Pools of one partition; beyond that, the service creates no pool on demand."""
    arms_per_pool: _Count = _SHARD.arms_per_pool
    """Arms of one pool."""
    unknown_fields: Literal["ignore", "check", "refuse"] = "check"
    """What to do with unknown fields of events; "check" refuses those that resemble a known one."""
    clock_skew_seconds: Annotated[float, Field(ge=0)] = _SHARD.clock_skew / 1000
    """Seconds a record may be ahead of the clock; a record further ahead is a dead letter."""
    retire_after_seconds: _SpanOrNone = None
    """Idle seconds after which a pool created on demand is kept compressed; "none": never."""


class AuditSection(_Section):
    """Section ``audit``."""

    epochs_every_requests: _Count = _SHARD.standing_every
    """Requests of a partition after which an active pool's full standing is published again."""


class ObserveSection(_Section):
    """Section ``observe``."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """The address on which metrics, health and the page are served; "0.0.0.0" is everywhere."""
    port: Annotated[Annotated[int, Field(ge=0, le=65535)] | None, BeforeValidator(_none)] = 9464
    """The port of that address; 0 takes any free one, "none" serves nothing."""
    port_required: bool = True
    """Whether the service ends with exit 78 if it cannot use the port; else it runs without it."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe log lines that the service writes to standard error."""
    token: SecretStr = SecretStr("")
    """The bearer token for metrics and pools; if empty, clients need no token."""
    token_file: Annotated[Path | None, Field(strict=False), BeforeValidator(_none)] = None
    """A file that holds the token, in place of `token`."""
    tokens_file: Annotated[Path | None, Field(strict=False), BeforeValidator(_none)] = None
    """A file of tokens with the rights read, ask and control, see docs/operations.md."""
    tls_certificate_file: Annotated[Path | None, Field(strict=False), BeforeValidator(_none)] = None
    """The server's certificate with its chain, in PEM; with it, everything is served by https."""
    tls_key_file: Annotated[Path | None, Field(strict=False), BeforeValidator(_none)] = None
    """The key of the certificate, in PEM."""
    page_controls: bool = False
    """Whether the page can change pools, for people whose token has the right to control."""
    max_clients: _Count = 50
    """Pages that may watch at the same time."""
    max_connections: _Count = 1_000
    """Connections at the same time; a further one replaces the one idle or slow for longest."""
    hosts: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)] = ()
    """Host names that clients may use for the server, besides addresses; if empty, any name."""

    @model_validator(mode="after")
    def _fits_together(self) -> "ObserveSection":
        if (self.tls_certificate_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_certificate_file and tls_key_file: give both or none")
        return self


class ApiSection(_Section):
    """Section ``api``."""

    enabled: Annotated[bool | None, BeforeValidator(_none)] = None
    """Whether `run` serves the HTTP API; "none": yes on the embedded log, no on Kafka."""
    max_in_flight: _Count = 10_000
    """Events that clients wait for at the same time; beyond that, clients must ask again later."""
    max_wait_seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    """Seconds for which a client may wait for an answer."""
    remembered_answers: _Count = 50_000
    """Requests whose answers are kept in memory, for clients that ask for them again."""
    look_back_records: Annotated[int, Field(ge=0)] = 10_000
    """Records read from the end of each output partition at the start, to know recent answers."""
    max_streams: _Count = 100
    """Streams of assignments at the same time."""


class MetricsSection(_Section):
    """Section ``metrics``."""

    max_arms_per_pool: Annotated[int, Field(ge=0)] = 100
    """Arms of a pool with their own series; series of the pool always cover all its arms."""
    max_arms: Annotated[int, Field(ge=0)] = 5_000
    """Arms with their own series, over all pools."""
    max_pools: Annotated[int, Field(ge=0)] = 5_000
    """Pools with their own series; a pool that breaks its promise always has one."""


class PoolConfiguration(PoolSettings):
    """All settings of a pool. The validation makes the pool, to check that it can be served."""

    model_config = _CONFIG

    arms: dict[Name, Annotated[Share, BeforeValidator(_share)]]
    """Each arm's name with its quota, the share of rounds it is guaranteed: 0.2, "0.2", "1/5"."""
    tolerance: Annotated[Share, BeforeValidator(_slack)] = 0
    """By how many pulls an arm may fall short of its entitlement."""
    rule: Literal["auto", "max-deficit", "earliest-deadline", "none"] = "auto"
    """The rule that serves arms that are owed a pull; "none" guarantees nothing."""
    learner: _Learner = "ucb1"
    """What fills the free rounds: a name, or a table with its name and parameters."""
    reward_timeout: _SpanOrNone = None
    """Seconds of record time after which a reward is given up; "none" waits for ever."""
    default_reward: _RewardOrNone = None
    """The reward counted at the timeout; "none" counts nothing."""
    requests: Literal["plain", "any"] = "plain"
    """What requests may ask for; with "any" they may name arms and slots, and arms may sleep."""
    bank: Annotated[Count | None, BeforeValidator(_none)] = None
    """How many pulls in advance count; limits every arm's longest wait. "none": all count."""
    caps: dict[Name, Annotated[Share, BeforeValidator(_share)]] | None = None
    """Upper shares by arm: the learner does not choose an arm that has reached its cap."""
    max_open: Annotated[Count | dict[Name, Count] | None, BeforeValidator(_none)] = None
    """Open assignments that an arm may have, one number or one per arm; "none": any number."""
    tags: dict[Name, Tags] | None = None
    """Tags of arms, such as skills; requests say in `needs` which tags they want."""
    when_busy: Literal["wait", "refuse"] = "wait"
    """What happens to a request that no arm can take now, or whose pool is paused."""
    wait_timeout: _SpanOrNone = None
    """Seconds of record time that a request may wait; "none": for ever."""
    reassign: bool = False
    """Whether a request is decided again when its arm declines or its reward_timeout passes."""
    rate: Annotated[Rate | None, BeforeValidator(_none)] = None
    """Requests taken in a second of record time; a further one is a dead letter. "none": all."""
    burst: Annotated[Rate | None, BeforeValidator(_none)] = None
    """Requests taken at once, before the rate counts; "none": as many as `rate`."""

    @model_validator(mode="after")
    def _can_be_made(self) -> "PoolConfiguration":
        self.make()
        for arm in self.tags or ():
            if arm not in self.arms:
                raise ValueError(f"tags: the pool has no arm {arm!r}")
        return self

    def make(self, name: str = "", seed: int = 0) -> Pool:
        """Return a fresh pool as configured."""
        return Pool(
            self.arms,
            self.tolerance,
            self.learner,
            self.rule,
            seed,
            name=name,
            requests=self.requests,
            bank=self.bank,
            caps=self.caps,
            max_open=self.max_open,
        )


class Configuration(_Section):
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
    pools: dict[Name, PoolConfiguration] = {}
    """The pools by name; the one called "*" is the template of pools created on demand."""

    @field_validator("pools")
    @classmethod
    def _within_limits(
        cls, pools: dict[str, PoolConfiguration], info: ValidationInfo
    ) -> dict[str, PoolConfiguration]:
        limits = info.data.get("limits", LimitsSection())
        for name, pool in pools.items():
            if len(pool.arms) > limits.arms_per_pool:
                raise ValueError(
                    f"pool {name!r} has {len(pool.arms)} arms, more than limits.arms_per_pool, "
                    f"which is {limits.arms_per_pool}"
                )
        return pools


def fingerprint(pool: PoolConfiguration) -> str:
    """Return a hash of a pool's meaning; it does not depend on notation or order."""
    learner = {"name": pool.learner} if isinstance(pool.learner, str) else pool.learner
    content = pool.model_dump(mode="json", exclude_defaults=True) | {
        "arms": {arm: str(parse_quota(quota, arm)) for arm, quota in pool.arms.items()},
        "tolerance": str(parse_tolerance(pool.tolerance)),
        "learner": learner,
    }
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
