"""What can be configured, by section; the attributes' docstrings are the reference's words.

A new section is a class here and a field of `Configuration`: variables, reference and example
follow from that. Where a setting may be left without a value, the text "none" says so, since
TOML has no word for it.
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
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.pool import Pool
from fair_allocator.core.quotas import parse_quota, parse_tolerance
from fair_allocator.events import Name, PoolSettings, Quota

TEMPLATE: Final = "*"
"""The name under which the file keeps the template of pools created on demand."""


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

_CONFIG: Final = ConfigDict(
    extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
)


class _Section(BaseModel):
    model_config = _CONFIG


class LogSettings(_Section):
    """Section ``log``."""

    kind: Literal["sqlite"] = "sqlite"
    """What keeps the topics."""
    path: Annotated[Path, Field(strict=False), AfterValidator(_named_file)] = Path(
        "fair-allocator.db"
    )
    """The file of the embedded log, relative to where the command is run."""
    partitions: Annotated[int, Field(ge=1, le=1024)] = 4
    """Partitions of every topic, over which the pools are spread."""
    partitioner: Literal["murmur2", "crc32", "none"] = "murmur2"
    """How producers choose a record's partition from its key; "none" leaves it unchecked."""
    retain_records: _CountOrNone = 1_000_000
    """Input and output records kept per topic partition; "none" keeps all."""
    retain_seconds: _SpanOrNone = None
    """Seconds for which input and output records are kept; "none" keeps them for ever."""


class ServiceSettings(_Section):
    """Section ``service``."""

    batch_records: _Count = 1000
    """Most records folded in one commit."""
    poll_seconds: _Span = 0.2
    """Seconds a poll waits for records."""
    tick_seconds: _Span = 1.0
    """Seconds between clock ticks of an idle shard, by which rewards time out."""
    stuck_seconds: _Span = 60.0
    """Seconds without a turn of the loop after which the service reports itself dead."""
    drain_seconds: Annotated[float, Field(ge=0)] = 10.0
    """Seconds a stop may take to commit what is under way."""


class SnapshotSettings(_Section):
    """Section ``snapshots``."""

    every_entries: _Count = 500
    """Journal entries after which a shard writes a snapshot."""
    chunk_bytes: Annotated[int, Field(ge=1024)] = 262_144
    """Bytes of one piece of a snapshot, to stay below the log's message limit."""


class Limits(_Section):
    """Section ``limits``."""

    record_bytes: _Count = 65_536
    """Bytes of the longest record that is read; a longer one is a dead letter."""
    pending_per_pool: _Count = 100_000
    """Assignments of a pool that wait for their reward; beyond it the oldest expire."""
    remembered_per_pool: Annotated[int, Field(ge=0)] = 1_000
    """Settled requests a pool remembers, to answer a repeated one as before."""
    pools_per_shard: _Count = 1_000_000
    """Pools of one partition; beyond it no more are created on demand."""
    arms_per_pool: _Count = 200_000
    """Arms of one pool."""
    clock_skew_seconds: Annotated[float, Field(ge=0)] = 3600.0
    """Seconds a record's timestamp may lie ahead of the clock; beyond it is a dead letter."""
    retire_after_seconds: _SpanOrNone = None
    """Idle seconds after which a pool created on demand is kept compressed; "none": never."""


class AuditSettings(_Section):
    """Section ``audit``."""

    epochs_every_rounds: _Count = 10_000
    """Rounds after which a pool's full standing is repeated in the assignments topic."""


class PoolConfiguration(PoolSettings):
    """A pool in full: that it can be served is checked by making it."""

    model_config = _CONFIG

    arms: dict[Name, Annotated[Quota, BeforeValidator(_share)]]
    """Each arm's name with its quota, the share of rounds it is guaranteed: 0.2, "0.2", "1/5"."""
    tolerance: Annotated[Quota, BeforeValidator(_slack)] = 0
    """By how many pulls an arm may fall short of its entitlement."""
    rule: Literal["auto", "max-deficit", "earliest-deadline", "none"] = "auto"
    """How arms that are owed are served; "none" guarantees nothing."""
    learner: _Learner = "ucb1"
    """What fills the free rounds: a name, or a table with its name and parameters."""
    reward_timeout: _SpanOrNone = None
    """Seconds of record time after which a reward is given up; "none" waits for ever."""
    default_reward: _RewardOrNone = None
    """The reward counted at the timeout; "none" counts nothing."""

    @model_validator(mode="after")
    def _can_be_made(self) -> "PoolConfiguration":
        self.make()
        return self

    def make(self, name: str = "", seed: int = 0) -> Pool:
        """Return a fresh pool as configured."""
        return Pool(self.arms, self.tolerance, self.learner, self.rule, seed, name=name)


class Configuration(_Section):
    """All settings."""

    seed: int = 0
    """Determines, with a pool's name and round, every random number a learner draws."""
    log: LogSettings = LogSettings()
    """Where the topics are kept."""
    service: ServiceSettings = ServiceSettings()
    """How the service goes about its loop."""
    snapshots: SnapshotSettings = SnapshotSettings()
    """How often a shard's whole state is written, and in what pieces."""
    limits: Limits = Limits()
    """What keeps memory bounded and bad input out."""
    audit: AuditSettings = AuditSettings()
    """What is published for the audit."""
    pools: dict[Name, PoolConfiguration] = {}
    """The pools by name; the one called "*" is the template of pools created on demand."""

    @field_validator("pools")
    @classmethod
    def _within_limits(
        cls, pools: dict[str, PoolConfiguration], info: ValidationInfo
    ) -> dict[str, PoolConfiguration]:
        limits = info.data.get("limits", Limits())
        for name, pool in pools.items():
            if len(pool.arms) > limits.arms_per_pool:
                raise ValueError(
                    f"pool {name!r} has {len(pool.arms)} arms, more than limits.arms_per_pool, "
                    f"which is {limits.arms_per_pool}"
                )
        return pools


def fingerprint(pool: PoolConfiguration) -> str:
    """Return a hash that changes with what the pool says, not with how or in which order."""
    learner = {"name": pool.learner} if isinstance(pool.learner, str) else pool.learner
    content = pool.model_dump(mode="json", exclude_defaults=True) | {
        "arms": {arm: str(parse_quota(quota, arm)) for arm, quota in pool.arms.items()},
        "tolerance": str(parse_tolerance(pool.tolerance)),
        "learner": learner,
    }
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
