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
    """Each arm's name with its quota, the share of rounds it is guaranteed: 0.2, "0.2", "1/5"."""
    tolerance: Annotated[Share, BeforeValidator(_slack)] = 0
    """By how many pulls an arm may fall short of its entitlement."""
    rule: Literal["auto", "max-deficit", "earliest-deadline", "none"] = "auto"
    """The rule that serves arms that are owed a pull; "none" guarantees nothing."""
    learner: _Learner = "ucb1"
    """The learner that fills the free rounds: a name, or a table with its name and parameters."""
    reward_timeout: SpanOrNone = None
    """Seconds of record time that the pool waits for a reward; "none": for ever."""
    default_reward: RewardOrNone = None
    """The reward counted at the timeout; "none" counts nothing."""
    requests: Literal["plain", "any"] = "plain"
    """What requests may ask for; with "any" they may name arms and slots, and arms may sleep."""
    bank: Annotated[Count | None, BeforeValidator(none)] = None
    """The largest lead, in pulls, that counts for an arm; it limits waits. "none": any lead."""
    caps: dict[Name, Annotated[Share, BeforeValidator(_share)]] | None = None
    """Upper shares by arm: the learner does not choose an arm that has reached its cap."""
    max_open: Annotated[Count | dict[Name, Count] | None, BeforeValidator(none)] = None
    """Open assignments that an arm may have, one number or one per arm; "none": any number."""
    tags: dict[Name, Tags] | None = None
    """Tags of arms, such as skills; requests say in `needs` which tags they want."""
    when_busy: Literal["wait", "refuse"] = "wait"
    """What happens to a request that no arm can take now, or whose pool is paused."""
    wait_timeout: SpanOrNone = None
    """Seconds of record time that a request may wait; "none": for ever."""
    reassign: bool = False
    """Whether a request is decided again when its arm declines or its reward_timeout passes."""
    rate: Annotated[Rate | None, BeforeValidator(none)] = None
    """Requests taken in a second of record time; a further one is a dead letter. "none": all."""
    burst: Annotated[Rate | None, BeforeValidator(none)] = None
    """Requests taken at once, before the rate counts; "none": as many as `rate`."""

    parts: Annotated[int, Field(ge=1, le=MOST_PARTS)] = 1
    """Parts that share the requests of a pool too busy for one partition, see docs/splitting.md."""

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
    """Return a hash of a pool's meaning; it does not depend on notation or order."""
    learner = {"name": pool.learner} if isinstance(pool.learner, str) else pool.learner
    content = pool.model_dump(mode="json", exclude_defaults=True) | {
        "arms": {arm: str(parse_quota(quota, arm)) for arm, quota in pool.arms.items()},
        "tolerance": str(parse_tolerance(pool.tolerance)),
        "learner": learner,
    }
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
