"""A pool as a shard hosts it: with its settings, and with rewards that are waited for in time."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from json.encoder import encode_basestring as quoted
from typing import Any

from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.guarantee import Epoch
from fair_allocator.core.pool import Pool
from fair_allocator.core.quotas import Number, parse_quota
from fair_allocator.core.requests import Assignment, Reason

LONGEST_TIMEOUT = 1e12
"""Seconds; beyond it a timeout is for ever anyway, and its milliseconds no number."""


HOSTING_SETTINGS = ("reward_timeout", "default_reward")
"""Settings that mean something when they are there and None."""


@lru_cache(maxsize=1_000, typed=True)
def _quota(share: Number) -> Number:
    """Read a quota once for all the pools of a template; what is none is the pool's to refuse."""
    try:
        return parse_quota(share, "")
    except InvalidPool:
        return share


@dataclass(frozen=True, slots=True)
class Hosting:
    """What a shard was told of a pool beyond what the pool itself keeps.

    Attributes
    ----------
    reward_timeout
        Milliseconds of record time after which a reward is no longer waited for; None: never.
    default_reward
        The reward that is counted at the timeout; None: none.
    on_demand
        Whether the pool came from the template and was never configured by itself.
    fingerprint
        Of the template it was last made or changed by, for a pool on demand.
    paused
        Whether requests are turned away.
    """

    reward_timeout: int | None = None
    default_reward: float | None = None
    on_demand: bool = False
    fingerprint: str = ""
    paused: bool = False

    def changed(self, settings: Mapping[str, Any]) -> "Hosting":
        """Return this with the settings of a control or of the configuration file."""
        changes = {name: settings[name] for name in HOSTING_SETTINGS if name in settings}
        if (timeout := changes.get("reward_timeout")) is not None:
            # At least 1: what is due in the moment it is made would expire twice in a restore.
            changes["reward_timeout"] = max(1, round(min(timeout, LONGEST_TIMEOUT) * 1000))
        return replace(self, **changes)


class HostedPool:
    """A pool, its hosting, and its open requests in the order of their time."""

    __slots__ = (
        "_first",
        "_room",
        "bucket",
        "epochs",
        "hosting",
        "key",
        "opening",
        "pool",
        "scheduled",
        "stood",
        "waiting",
    )

    def __init__(self, pool: Pool, hosting: Hosting, epochs: list[Epoch], bucket: int) -> None:
        self.pool = pool
        self.hosting = hosting
        self.epochs = epochs
        """Epochs that came into force and are not published yet; the pool appends to it."""
        self.bucket = bucket
        self.key = pool.name.encode("utf-8", "surrogatepass")
        self.opening = f'{{"type":"assignment","pool":{quoted(pool.name)},"request_id":'
        """The key of its records, and how an assignment begins."""
        self.scheduled: int | None = None
        """The time at which the shard will look for expired requests next."""
        self.stood = 0
        """The position in the requests at which the pool's standing was last published."""
        self.waiting: list[Assignment] = pool.waiting()
        """The open requests, oldest first, and some that were answered."""
        self._first = 0
        self._room = 64

    @classmethod
    def made(cls, name: str, settings: Mapping[str, Any], bucket: int) -> "HostedPool":
        """Make a new pool from the settings of a control or of the configuration file."""
        if settings.get("arms") is None:
            raise InvalidPool("a new pool needs its arms")
        epochs: list[Epoch] = []
        pool = Pool(
            {arm: _quota(share) for arm, share in settings["arms"].items()},
            settings.get("tolerance") or 0,
            settings.get("learner") or "ucb1",
            settings.get("rule") or "auto",
            settings["seed"],
            name=name,
            remember=settings["remember"],
            on_epoch=epochs.append,
        )
        return cls(pool, Hosting().changed(settings), epochs, bucket)

    def reconfigure(self, settings: Mapping[str, Any]) -> None:
        """Change the pool; refused settings raise `InvalidPool` and change nothing."""
        self.pool.reconfigure(
            settings.get("arms"),
            settings.get("tolerance"),
            settings.get("learner"),
            settings.get("rule"),
        )
        self.hosting = self.hosting.changed(settings)

    # -- requests and rewards -----------------------------------------------------------------

    def assign(self, request_id: str, clock: int) -> Assignment:
        """Decide a request, or repeat its answer."""
        assignment = self.pool.assign(request_id)
        if not assignment.repeat:
            self._await(assignment, clock)
        return assignment

    def follow(
        self,
        request_id: str,
        arm: str,
        epoch: int,
        reason: Reason,
        propensity: float | None,
        clock: int,
    ) -> None:
        """Count a decision made before."""
        self._await(self.pool.follow(request_id, arm, epoch, reason, propensity), clock)

    def _await(self, assignment: Assignment, clock: int) -> None:
        assignment.clock = clock
        self.waiting.append(assignment)
        if len(self.waiting) > self._room:
            self._tidy()

    def _tidy(self) -> None:
        """Drop the answered requests, once the queue is twice as long as it was without them."""
        self.waiting = [each for each in self.waiting if each.later is None]
        self._first = 0
        self._room = 2 * len(self.waiting) + 64

    def oldest(self) -> Assignment | None:
        """Return the oldest open assignment."""
        waiting, first = self.waiting, self._first
        while first < len(waiting) and waiting[first].later is not None:
            first += 1
        if 2 * first > len(waiting):
            del waiting[:first]
            first = 0
        self._first = first
        return waiting[first] if waiting else None

    def expire(self, request_id: str) -> None:
        """Stop waiting for a reward; count the default one if there is one."""
        default = self.hosting.default_reward
        if default is None:
            self.pool.expire(request_id)
        else:
            self.pool.reward(request_id, default)

    def due(self) -> int | None:
        """Return when the oldest open request expires, None if none does."""
        if self.hosting.reward_timeout is None:
            return None
        oldest = self.oldest()
        return None if oldest is None else oldest.clock + self.hosting.reward_timeout

    def expire_due(self, clock: int) -> int:
        """Expire what is due by `clock`, oldest first; tell how many."""
        count = 0
        while (due := self.due()) is not None and due <= clock:
            self.expire(self.waiting[self._first].request_id)
            count += 1
        return count

    # -- plain data ---------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that determines the pool's future, as plain data without caches."""
        hosting = self.hosting
        return {
            "pool": self.pool.state(),
            "reward_timeout": hosting.reward_timeout,
            "default_reward": hosting.default_reward,
            "on_demand": hosting.on_demand,
            "fingerprint": hosting.fingerprint,
            "paused": hosting.paused,
            "stood": self.stood,
            "clocks": [each.clock for each in self.pool.waiting()],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], bucket: int) -> "HostedPool":
        """Make the hosted pool that `state` gave."""
        epochs: list[Epoch] = []
        fields = Hosting.__dataclass_fields__
        hosted = cls(
            Pool.from_state(state["pool"], on_epoch=epochs.append),
            Hosting(**{field: state[field] for field in fields}),
            epochs,
            bucket,
        )
        hosted.stood = state["stood"]
        for assignment, clock in zip(hosted.waiting, state["clocks"], strict=True):
            assignment.clock = clock
        return hosted
