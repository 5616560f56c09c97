"""A pool in a shard, with its settings, its open assignments and its waiting requests.

`core.Pool` knows no time. This module adds what depends on time: timeouts, waits and rates. A
*bucket* is a group of pools that a snapshot writes together. A pool's *standing* is the quota,
entitlement and pulls of its arms. Times are in milliseconds.
"""

from collections.abc import Container, Mapping
from typing import Any, Final

from fair_allocator.core.all_but import AllBut
from fair_allocator.core.errors import (
    FairAllocatorError,
    InvalidPool,
    InvalidRequest,
    InvalidState,
)
from fair_allocator.core.guarantee import Change, Epoch
from fair_allocator.core.pool import KEEP, Pool, begun, collect_epochs, collected_epochs
from fair_allocator.core.requests import Assignment, Request, RewardOutcome
from fair_allocator.events import wire
from fair_allocator.shard.asked import Asked, Waiter
from fair_allocator.shard.beginnings import beginning_of
from fair_allocator.shard.hosting import Hosting, shared
from fair_allocator.shard.needs import Remembered, who_meets
from fair_allocator.shard.noted import Noted
from fair_allocator.shard.pace import Pace
from fair_allocator.shard.stored import check_hosted, check_open
from fair_allocator.text import to_bytes

_remembered: Final = Remembered(16_000_000)
"""The arms that met expressions over tags; a cache for all pools of this process."""

_NEVER: Final = 1 << 62

_NOTHING: Final[dict[Any, Any]] = {}
"""An empty dictionary, shared by pools that have no waiting requests, kept requests or tags."""


class HostedPool:
    """A pool, its `Hosting`, and what waits in it.

    Attributes
    ----------
    bucket
        The number of the pool's bucket.
    scheduled
        The next time at which something in the pool times out, as the shard last computed it; None
        if nothing will.
    stood
        The position in the requests at which the pool's standing was last published.
    open
        The assignments that wait for their reward, oldest first. Assignments that no longer wait
        may still be in it.
    waiting
        The requests that no arm can take now, in their order.
    asked
        The requests that may have to be decided again, by id.
    tags
        The tags of the arms that have some.
    pace
        The rate at which requests are taken; None if it is not limited.
    own_bytes, kept_bytes, counted
        Estimated bytes of memory. `own_bytes` is for the pool itself, 0 unless it was made on
        demand. `kept_bytes` is for `waiting` and `asked`. `counted` is the part of the pool's
        memory that `Memory` has counted so far.
    changed
        Whether the shard has already noted for its watchers that this pool changed.
    noted
        The decisions since a watcher last looked at the pool; None while no one watches it.
    """

    __slots__ = (
        *("_first", "_tagging", "asked", "bucket", "changed", "counted", "hosting"),
        *("kept_bytes", "key", "noted", "open", "opening", "own_bytes", "pace", "pool"),
        *("scheduled", "stood", "tags", "waiting"),
    )

    def __init__(self, pool: Pool, hosting: Hosting, bucket: int) -> None:
        self.pool = pool
        self.hosting = hosting
        self.bucket = bucket
        self.key = to_bytes(pool.name)
        self.opening = ""
        """The beginning of every assignment event of the pool, as JSON."""
        self.scheduled: int | None = None
        self.stood = 0
        self.open: list[Assignment] = []
        self.waiting: dict[tuple[str, str], Waiter] = _NOTHING
        self.asked: dict[str, Asked] = _NOTHING
        self.tags: dict[str, frozenset[str]] = _NOTHING
        self.changed = False
        self.noted: list[Noted] | None = None
        self._tagging: object | None = None
        self._first = 0
        self.pace: Pace | None = None
        self.own_bytes = self.kept_bytes = self.counted = 0
        self._settle()

    @classmethod
    def made(cls, name: str, settings: Mapping[str, Any], bucket: int) -> "HostedPool":
        """Make a new pool from the settings of a control or of the configuration file.

        The pool does not collect its first epoch, because the shard publishes the standing of a new
        pool.
        """
        if settings.get("arms") is None:
            raise InvalidPool("a new pool needs arms; name them with their quotas in `arms`")
        _check_tags(settings, settings["arms"])
        learner = settings.get("learner") or "ucb1"
        pool = begun(beginning_of(settings), learner, name)
        hosted = cls(pool, Hosting().changed(settings), bucket)
        hosted._retag(settings.get("tags") or {})
        return hosted

    def reconfigure(self, settings: Mapping[str, Any]) -> None:
        """Change the pool; refused settings raise `InvalidPool` and change nothing."""
        _check_tags(settings, settings.get("arms") or self.pool.columns.index)
        self.pool.reconfigure(
            settings.get("arms"),
            settings.get("tolerance"),
            settings.get("learner"),
            settings.get("rule"),
            requests=settings.get("requests"),
            bank=settings.get("bank", KEEP),
            caps=settings.get("caps", KEEP),
            max_open=settings.get("max_open", KEEP),
        )
        self.hosting = self.hosting.changed(settings)
        self._retag(settings["tags"] or {} if "tags" in settings else self.tags)

    def set_arms(self, arms: Mapping[str, Mapping[str, Any]]) -> Change:
        """Add or change some arms. The other arms do not change."""
        pool = self.pool
        quotas: dict[str, Any] = dict(pool.quotas)
        caps: dict[str, Any] = dict(pool.caps)
        most: dict[str, Any] = dict(pool.max_open)
        tags: dict[str, Any] = dict(self.tags)
        common = pool.common_max_open
        for arm, said in arms.items():
            if common is not None and arm not in quotas:
                most[arm] = common
            quotas[arm] = quotas.get(arm, 0) if said.get("quota") is None else said["quota"]
            for setting, values in (("cap", caps), ("max_open", most)):
                if said.get(setting) is not None:
                    values[arm] = said[setting]
                elif setting in said:
                    values.pop(arm, None)
            if "tags" in said:
                tags[arm] = said["tags"] or ()
        limits = common if common is not None and set(most.values()) == {common} else most or None
        change = pool.reconfigure(quotas, caps=caps or None, max_open=limits)
        self._retag(tags)
        return change

    def remove_arms(self, names: list[str]) -> Change:
        """Remove some arms."""
        quotas = self.pool.quotas
        for name in names:
            if quotas.pop(name, None) is None:
                raise InvalidPool(f"the pool has no arm {name!r}")
        change = self.pool.reconfigure(quotas)
        self._retag(self.tags)
        return change

    def _retag(self, tags: Mapping[str, Any]) -> None:
        """Keep the tags of the pool's current arms, and drop the tags of other arms."""
        arms = self.pool.columns.index
        found = {arm: frozenset(some) for arm, some in tags.items() if some and arm in arms}
        self.tags = found or _NOTHING
        self._settle()

    def _settle(self) -> None:
        """Update everything that depends on the settings."""
        any_kind = self.pool.requests == "any"
        self.opening = (wire.opening_any if any_kind else wire.opening)(self.pool.name)
        rate, before = self.hosting.rate, self.pace
        if rate is None:
            self.pace = None
        else:
            level, at = (0, 0) if before is None else (before.level, before.at)
            self.pace = Pace(rate, self.hosting.burst or rate, level, at)
        self._tagging = None

    # -- epochs -------------------------------------------------------------------------------

    @property
    def epochs(self) -> list[Epoch]:
        """The epochs that came into force and are not published yet."""
        return collected_epochs(self.pool)

    def forget_epochs(self) -> None:
        """Forget the collected epochs.

        Call this after they were published, alone or in a standing.
        """
        collect_epochs(self.pool, [])

    # -- requests -----------------------------------------------------------------------------

    def request(self, event: dict[str, Any], instead_of: str = "") -> Request:
        """Return the request in an event, in the form that the core's pool takes."""
        needs = event.get("needs")
        eligible: Any = event.get("eligible") if needs is None else self.who_meets(needs)
        return Request(event["request_id"], eligible, event.get("slots") or 1, instead_of)

    def knows(self, request_id: str) -> bool:
        """Tell whether the pool has answered a request and remembers it, or lets it wait."""
        return self.pool.recall(request_id) is not None or (request_id, "") in self.waiting

    def who_meets(self, needs: str) -> Any:
        """Return the arms that meet an expression over tags, in the form that a pool takes."""
        tagging = self._tagging
        if tagging is None:
            tagging = self._tagging = object()
        met = _remembered.get(tagging, needs)
        if met is None:
            arms = self.pool.columns.names
            listed = who_meets(needs, arms, self.tags)
            met = listed
            if 2 * len(listed) > len(arms):
                some = set(listed)
                listed = [arm for arm in arms if arm not in some]
                met = AllBut(listed)
            _remembered.put(tagging, needs, met, len(listed))
        if not isinstance(met, AllBut) and not met:
            raise InvalidRequest("needs: no arm of the pool meets this expression")
        return met

    def count(self, made: Assignment, clock: int) -> None:
        """Begin to wait for the rewards of a decision that the core's pool has counted."""
        made.clock = clock
        self.open.append(made)
        for pick in made.others:
            pick.clock = clock
            self.open.append(pick)
        self._tidy()

    def _tidy(self) -> None:
        """Drop from `open` what no longer waits, once that is more than half of it."""
        listed = self.open
        if len(listed) > 2 * self.pool.open + 64:
            self.open = [each for each in listed if each.later is None]
            self._first = 0

    def oldest(self) -> Assignment | None:
        """Return the oldest open assignment."""
        waiting, first = self.open, self._first
        while first < len(waiting) and waiting[first].later is not None:
            first += 1
        if 2 * first > len(waiting):
            del waiting[:first]
            first = 0
        self._first = first
        return waiting[first] if waiting else None

    # -- how assignments end ------------------------------------------------------------------

    def reward(self, request_id: str, value: float, arm: str | None) -> RewardOutcome:
        """Count a reward."""
        outcome = self.pool.reward(request_id, value, arm)
        if self.asked:
            self._let_go(request_id)
        self._tidy()
        return outcome

    def decline(self, request_id: str, arm: str | None) -> RewardOutcome:
        """End an assignment that its arm declines."""
        hold = self.hosting.reassign and request_id in self.asked
        outcome = self.pool.decline(request_id, arm, hold=hold)
        if self.asked and not hold:
            self._let_go(request_id)
        return outcome

    def expire(self, pick: Assignment) -> bool:
        """Stop waiting for a reward at its timeout; tell whether to decide the request again."""
        request_id, arm = pick.request_id, pick.arm
        if self.hosting.reassign and request_id in self.asked:
            self.pool.expire(request_id, arm, hold=True)
            return True
        self.expire_early(pick)
        return False

    def expire_early(self, pick: Assignment) -> None:
        """Stop waiting for a reward; count the default reward if one is configured."""
        default = self.hosting.default_reward
        if default is None:
            self.pool.expire(pick.request_id, pick.arm)
        else:
            self.pool.reward(pick.request_id, default, pick.arm)
        if self.asked:
            self._let_go(pick.request_id)

    def give_up(self, request_id: str, instead_of: str) -> None:
        """Forget a request that waited, or one for which no other arm is left."""
        self.end_wait(request_id, instead_of)
        if instead_of:
            self.pool.give_up(request_id)
            self._let_go(request_id)

    # -- requests that are kept as they came --------------------------------------------------

    def begin_wait(self, waiter: Waiter) -> None:
        """Let a request wait."""
        if not self.waiting:
            self.waiting = {}
        self.waiting[waiter.key] = waiter
        self.kept_bytes += waiter.asked.footprint

    def end_wait(self, request_id: str, instead_of: str) -> bool:
        """End the wait of a request; tell whether it was waiting."""
        waiter = self.waiting.pop((request_id, instead_of), None)
        if waiter is None:
            return False
        self.kept_bytes -= waiter.asked.footprint
        return True

    def keep(self, asked: Asked) -> None:
        """Keep a request that may have to be decided again."""
        if not self.asked:
            self.asked = {}
        self.asked[asked.request_id] = asked
        self.kept_bytes += asked.footprint

    def _let_go(self, request_id: str) -> None:
        """Forget a request that was kept to be decided again, if it has no open assignment."""
        if request_id in self.asked and not self.pool.is_open(request_id):
            self.kept_bytes -= self.asked.pop(request_id).footprint

    # -- time ---------------------------------------------------------------------------------

    def due(self) -> int | None:
        """Return the next time at which an assignment or a waiting request times out."""
        due, hosting = _NEVER, self.hosting
        if hosting.reward_timeout is not None:
            oldest = self.oldest()
            if oldest is not None:
                due = oldest.clock + hosting.reward_timeout
        if hosting.wait_timeout is not None and self.waiting:
            first = next(iter(self.waiting.values()))
            due = min(due, first.since + hosting.wait_timeout)
        return None if due == _NEVER else due

    def overdue(self, clock: int) -> Assignment | None:
        """Return the oldest open assignment if it has timed out at the time `clock`, else None."""
        timeout = self.hosting.reward_timeout
        if timeout is None:
            return None
        oldest = self.oldest()
        return oldest if oldest is not None and oldest.clock + timeout <= clock else None

    def tired(self, clock: int) -> list[Waiter]:
        """Return the requests that have waited for too long at the time `clock`."""
        timeout = self.hosting.wait_timeout
        if timeout is None:
            return []
        return [each for each in self.waiting.values() if each.since + timeout <= clock]

    # -- plain data ---------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return everything that determines the pool's future, as plain data without caches."""
        state = {
            "pool": self.pool.state(),
            **self.hosting.state(),
            "stood": self.stood,
            "clocks": [each.clock for each in self.pool.waiting()],
        }
        pace = self.pace
        newer: dict[str, Any] = {
            "pace": None if pace is None or not pace.level else [pace.level, pace.at],
            "tags": {arm: sorted(tags) for arm, tags in sorted(self.tags.items())},
            "asked": [asked.plain() for _, asked in sorted(self.asked.items())],
            "waiting": [
                [*each.asked.plain(), each.instead_of, each.since] for each in self.waiting.values()
            ],
        }
        return state | {name: value for name, value in newer.items() if value}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], bucket: int) -> "HostedPool":
        """Return the hosted pool that `state` describes, or refuse an invalid state."""
        try:
            check_hosted(state)
            return cls._restored(state, bucket)
        except FairAllocatorError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InvalidState(f"not a pool's state: {error!r}") from error

    @classmethod
    def _restored(cls, state: Mapping[str, Any], bucket: int) -> "HostedPool":
        epochs: list[Epoch] = []
        pool = Pool.from_state(state["pool"], on_epoch=epochs.append, stand_in=True)
        collect_epochs(pool, epochs)
        hosted = cls(pool, shared(Hosting.from_state(state)), bucket)
        hosted.stood = state["stood"]
        hosted.open = pool.waiting()
        check_open(state["clocks"], len(hosted.open))
        for assignment, clock in zip(hosted.open, state["clocks"], strict=True):
            assignment.clock = clock
        if pool.requests == "any":  # an arm that replaced another one was assigned at a later time
            hosted.open.sort(key=_round)
        hosted._retag(state.get("tags", {}))
        if hosted.pace is not None and "pace" in state:
            hosted.pace.level, hosted.pace.at = state["pace"]
        for plain in state.get("asked", ()):
            hosted.keep(Asked.read(plain))
        for *plain, instead_of, since in state.get("waiting", ()):
            hosted.begin_wait(Waiter(Asked.read(plain), instead_of, since))
        return hosted


def _check_tags(settings: Mapping[str, Any], arms: Container[str]) -> None:
    """Refuse tags of arms that a pool does not have."""
    for arm in settings.get("tags") or ():
        if arm not in arms:
            raise InvalidPool(f"tags: the pool has no arm {arm!r}")


def _round(assignment: Assignment) -> int:
    return assignment.round
