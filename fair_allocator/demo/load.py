"""The load of the demo: it does what real producers and consumers do, on any log.

It sends the requests of a world (`demo.world`), reads the assignments from the log, and sends the
rewards when they are due. It needs only the log, so the service may run anywhere.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple
from uuid import uuid4

from fair_allocator.demo.grading import Due, Grading
from fair_allocator.demo.world import World
from fair_allocator.events import (
    AssignmentEvent,
    Configure,
    Decline,
    EpochEvent,
    NamedArms,
    Published,
    Request,
    Reward,
    WaitingEvent,
    out_events,
)
from fair_allocator.log.base import LogClient
from fair_allocator.log.records import Incoming, Record


class Seen(NamedTuple):
    """A record of the assignments topic, and the event in it."""

    record: Record
    event: Published


class Load:
    """Sends requests, rewards and controls of one pool.

    It calls `told` with the arm and the value of every reward.

    Attributes
    ----------
    sent, answered, waiting
        The number of requests sent, the number answered, and the requests that wait for an arm.
    ready
        Whether a service has made the pool.
    grading
        The rewards that are not due yet.
    """

    def __init__(
        self,
        client: LogClient,
        world: World,
        told: Callable[[str, float], None] = lambda _arm, _value: None,
    ) -> None:
        self.sent = 0
        self.answered = 0
        self.waiting: set[int] = set()
        self.ready = False
        self.grading = Grading(world, told)
        self._client = client
        self._world = world
        self._key = world.pool.encode()
        # Use new ids in every run, because the pool remembers the requests of earlier runs.
        self._label = f"{world.words.request}-{uuid4().hex[:8]}-"
        self._joined = False
        self._asleep: frozenset[str] = frozenset()

    @property
    def backlog(self) -> int:
        """How many requests are not answered yet and do not wait for an arm."""
        return self.sent - self.answered - len(self.waiting)

    def open(self) -> None:
        """Configure the pool; then call `look` until `ready`, before the first request."""
        partitions = range(self._client.partitions)
        ends = [self._client.end_offset("assignments", partition) for partition in partitions]
        configure = self._configure()
        self._partition, _ = self._client.append("controls", configure.key, configure.value)
        self._position = ends[self._partition]

    def send(self, count: int) -> None:
        """Append together the next requests, and the rewards and controls that come before them."""
        first = self.sent
        records = self._due(first)
        if not self._joined and first >= self._world.joining:
            self._joined = True
            records.append(self._configure())
        records += self._shift(first)
        records += (self._request(number) for number in range(first, first + count))
        if records:
            self._client.append_many(records)
        self.sent += count

    def settle(self) -> None:
        """Append all remaining rewards, but no declines, because these would need new decisions."""
        records = self._due(inf, declines=False)
        if records:
            self._client.append_many(records)

    def look(self) -> Sequence[Seen]:
        """Read the records of the assignments topic since the last call."""
        found = []
        for record in self._client.read("assignments", self._partition, self._position):
            self._position = record.offset + 1
            event = out_events.validate_json(record.value or b"")
            found.append(Seen(record, event))
            if isinstance(event, AssignmentEvent):
                self._take(event)
            elif isinstance(event, WaitingEvent):
                if event.request_id.startswith(self._label) and event.instead_of is None:
                    self.waiting.add(self._number(event.request_id))
            elif isinstance(event, EpochEvent) and event.pool == self._world.pool:
                self.ready = True
        return found

    def _take(self, event: AssignmentEvent) -> None:
        # Skip repeats, and answers to other loads that use the same pool.
        if event.request_id.startswith(self._label) and not event.repeat:
            number = self._number(event.request_id)
            if event.instead_of is None:
                self.answered += 1
                self.waiting.discard(number)
            for pick in event.picks:
                self.grading.assigned(number, pick.arm)

    def _number(self, request_id: str) -> int:
        return int(request_id.removeprefix(self._label))

    # -- records ------------------------------------------------------------------------------

    def _configure(self) -> Incoming:
        world = self._world
        quotas = world.quotas(self.sent)
        tags = {name: list(world.skills[name]) for name in quotas if name in world.skills}
        real = {"requests": "any", "tags": tags, "reassign": True} if world.real else {}
        settings = {
            "arms": quotas,
            "tolerance": world.tolerance,
            "learner": "ucb1",
            "reward_timeout": 3_600,
            "bank": world.bank,
            "max_open": world.max_open,
            **real,
        }
        return self._control(
            Configure.model_validate({"action": "configure", "pool": world.pool, **settings})
        )

    def _shift(self, number: int) -> list[Incoming]:
        """Return the controls that send arms to sleep and wake others when the shift changes.

        The list is empty if the same arms stay away.
        """
        before, self._asleep = self._asleep, self._world.asleep(number)
        changes = {"sleep": self._asleep - before, "wake": before - self._asleep}
        pool = self._world.pool
        return [
            self._control(
                NamedArms.model_validate({"action": action, "pool": pool, "arms": sorted(arms)})
            )
            for action, arms in changes.items()
            if arms
        ]

    def _control(self, control: Configure | NamedArms) -> Incoming:
        return Incoming("controls", self._key, _json(control))

    def _request(self, number: int) -> Incoming:
        world = self._world
        request = Request(
            request_id=f"{self._label}{number}",
            pool=world.pool,
            needs=world.kind(number) or None,
            slots=world.slots if world.slots > 1 else None,
        )
        return Incoming("requests", self._key, _json(request))

    def _due(self, now: float, *, declines: bool = True) -> list[Incoming]:
        found = self.grading.due(now)
        graded = (self._graded(due) for due in found if declines or due.value is not None)
        return [Incoming("rewards", self._key, _json(event)) for event in graded]

    def _graded(self, due: Due) -> Reward | Decline:
        request, pool = f"{self._label}{due.number}", self._world.pool
        arm = due.arm if self._world.real else None
        if due.value is None:
            return Decline(type="declined", request_id=request, pool=pool, arm=arm)
        return Reward(request_id=request, pool=pool, value=due.value, arm=arm)


def _json(event: Request | Reward | Decline | Configure | NamedArms) -> bytes:
    return event.model_dump_json(exclude_none=True).encode()
