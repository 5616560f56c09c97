"""The load: plays a world against any log, as the rest of the world would.

It asks, reads from the log who was assigned, and grades the answers when they are due. It knows
nothing of the service but its records, so that the two may be anywhere.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple
from uuid import uuid4

from fair_allocator.demo.grading import Grading
from fair_allocator.demo.world import World
from fair_allocator.events import (
    AssignmentEvent,
    Control,
    EpochEvent,
    RemovedEvent,
    Request,
    Reward,
    TickEvent,
    out_events,
)
from fair_allocator.log.base import Incoming, LogClient, Record


class Seen(NamedTuple):
    """A record of the assignments topic, as it came and as it reads."""

    record: Record
    event: AssignmentEvent | EpochEvent | TickEvent | RemovedEvent


class Load:
    """Requests, rewards and controls of one pool; `told` hears of every reward, by arm.

    Attributes
    ----------
    sent, answered
        Requests appended, and assignments of them read.
    ready
        Whether a service has taken up the pool.
    grading
        The rewards on their way.
    """

    def __init__(
        self,
        client: LogClient,
        world: World,
        told: Callable[[str, float], None] = lambda _arm, _value: None,
    ) -> None:
        self.sent = 0
        self.answered = 0
        self.ready = False
        self.grading = Grading(world, told)
        self._client = client
        self._world = world
        self._key = world.pool.encode()
        # New in every run, since a log remembers the requests of the one before.
        self._label = f"{world.words.request}-{uuid4().hex[:8]}-"
        self._joined = False

    @property
    def backlog(self) -> int:
        """How many requests were not answered yet."""
        return self.sent - self.answered

    def open(self) -> None:
        """Configure the pool; `look` until `ready` before the first request."""
        partitions = range(self._client.partitions)
        ends = [self._client.end_offset("assignments", partition) for partition in partitions]
        configure = self._configure()
        self._partition, _ = self._client.append("controls", configure.key, configure.value)
        self._position = ends[self._partition]

    def send(self, count: int) -> None:
        """Append, at once, the next requests and what is due before them."""
        first = self.sent
        records = self._due(first)
        if not self._joined and first >= self._world.joining:
            self._joined = True
            records.append(self._configure())
        records += (self._request(number) for number in range(first, first + count))
        if records:
            self._client.append_many(records)
        self.sent += count

    def settle(self) -> None:
        """Append every reward that is still on its way."""
        records = self._due(inf)
        if records:
            self._client.append_many(records)

    def look(self) -> Sequence[Seen]:
        """Read what was assigned since the last time."""
        found = []
        for record in self._client.read("assignments", self._partition, self._position):
            self._position = record.offset + 1
            event = out_events.validate_json(record.value or b"")
            found.append(Seen(record, event))
            if isinstance(event, AssignmentEvent):
                self._take(event)
            elif isinstance(event, EpochEvent) and event.pool == self._world.pool:
                self.ready = True
        return found

    def _take(self, event: AssignmentEvent) -> None:
        # A service that restarts never repeats an answer by itself, but others may share the pool.
        if event.request_id.startswith(self._label) and not event.repeat:
            self.answered += 1
            self.grading.assigned(int(event.request_id.removeprefix(self._label)), event.arm)

    # -- records ------------------------------------------------------------------------------

    def _configure(self) -> Incoming:
        world = self._world
        control = Control(
            action="configure",
            pool=world.pool,
            arms=dict(world.quotas(self.sent)),
            tolerance=world.tolerance,
            learner="ucb1",
            reward_timeout=3_600,
        )
        return Incoming("controls", self._key, _json(control))

    def _request(self, number: int) -> Incoming:
        request = Request(request_id=f"{self._label}{number}", pool=self._world.pool)
        return Incoming("requests", self._key, _json(request))

    def _due(self, now: float) -> list[Incoming]:
        pool = self._world.pool
        return [
            Incoming(
                "rewards",
                self._key,
                _json(Reward(request_id=f"{self._label}{number}", pool=pool, value=value)),
            )
            for number, value in self.grading.due(now)
        ]


def _json(event: Request | Reward | Control) -> bytes:
    return event.model_dump_json(exclude_none=True).encode()
