"""The settings of a pool in the configuration file."""

import json
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, JsonValue, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from fair_allocator.config.section import CONFIG, RewardOrNone, SpanOrNone, none
from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.pool import Pool
from fair_allocator.core.quotas import parse_quota, parse_tolerance
from fair_allocator.events import Name, PoolSettings, Share
from fair_allocator.events.inputs import Count, Rate, Tags
from fair_allocator.log.parts import MOST_PARTS

TEMPLATE: Final = "*"
"""The name under which the file keeps the template of pools created on demand."""


def _share(value: Any) -> Any:
    try:
        parse_quota(value, "")
    except InvalidPool as error:
        raise ValueError(str(error).removeprefix("arm '': ")) from None
    return value


def _slack(value: Any) -> Any:
    parse_tolerance(value)
    return value


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


class PoolConfiguration(PoolSettings):
    """All settings of a pool. The validation makes the pool, to check that it can be served."""

    model_config = CONFIG

    arms: dict[Name, Annotated[Share, BeforeValidator(_share)]]
    """The name of each arm and its quota, the share that it is promised: 0.2, "0.2" or "1/5"."""
    tolerance: Annotated[Share, BeforeValidator(_slack)] = 0
    """By how many pulls an arm may fall short of what it is entitled to."""
    rule: Literal["auto", "max-deficit", "earliest-deadline", "none"] = "auto"
    """The rule that serves arms that are owed a pull; "none" guarantees nothing."""
    learner: _Learner = "ucb1"
    """The learner, which chooses when no arm must be served: a name or a table, see Learners."""
    reward_timeout: SpanOrNone = None
    """How many seconds the pool waits for a reward; "none": for ever."""
    default_reward: RewardOrNone = None
    """The reward that counts if no reward comes in time; "none": nothing counts."""
    requests: Literal["plain", "any"] = "plain"
    """With "any", requests may name arms and ask for several, see docs/requests.md."""
    bank: Annotated[Count | None, BeforeValidator(none)] = None
    """How many pulls of an arm count in advance; a small bank limits waits. "none": any number."""
    caps: dict[Name, Annotated[Share, BeforeValidator(_share)]] | None = None
    """The cap of each arm: the largest share that the learner may give it."""
    max_open: Annotated[Count | dict[Name, Count] | None, BeforeValidator(none)] = None
    """How many open assignments an arm may have: one number, or a table. "none": any number."""
    tags: dict[Name, Tags] | None = None
    """The tags of each arm, such as skills; requests say in `needs` which tags an arm must have."""
    when_busy: Literal["wait", "refuse"] = "wait"
    """What happens to a request that no arm can take now, or whose pool is paused."""
    wait_timeout: SpanOrNone = None
    """How many seconds a request may wait for an arm; "none": for ever."""
    reassign: bool = False
    """Whether another arm gets a request whose arm declines or gives no reward in time."""
    rate: Annotated[Rate | None, BeforeValidator(none)] = None
    """How many requests the pool takes in a second; others become dead letters. "none": all."""
    burst: Annotated[Rate | None, BeforeValidator(none)] = None
    """How many requests the pool takes at once before the rate counts; "none": same as `rate`."""

    parts: Annotated[int, Field(ge=1, le=MOST_PARTS)] = 1
    """Into how many parts a pool that is too busy is split, see docs/splitting.md."""

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


def fingerprint(pool: PoolConfiguration) -> str:
    """Return a hash of a pool's settings that does not depend on their notation or order."""
    learner = {"name": pool.learner} if isinstance(pool.learner, str) else pool.learner
    content = pool.model_dump(mode="json", exclude_defaults=True) | {
        "arms": {arm: str(parse_quota(quota, arm)) for arm, quota in pool.arms.items()},
        "tolerance": str(parse_tolerance(pool.tolerance)),
        "learner": learner,
    }
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
