"""One run of the demo: the load, the service's answers, the audit, and another allocator."""

import time
from collections.abc import Callable
from typing import Final

from fair_allocator.audit import Audit, Report
from fair_allocator.demo.board import Board
from fair_allocator.demo.load import Load, Seen
from fair_allocator.demo.rival import Rival
from fair_allocator.demo.world import World
from fair_allocator.errors import LogUnavailable
from fair_allocator.events import AssignmentEvent, EpochEvent
from fair_allocator.log.base import LogClient

_PATIENCE: Final = 60.0
_PAUSE: Final = 0.001


class Play:
    """Plays a world step by step with the service and with a rival, each counted on a `Board`.

    The records of a step are appended together, and the service answers them before the next step.
    All time is counted in requests. So the decisions of a run depend only on the seed and the step
    size.

    Attributes
    ----------
    ours, rival
        What the service decided, and what plain UCB1 or LFG would have decided.
    verdict
        The audit of the records seen so far.
    """

    def __init__(
        self, client: LogClient, world: World, requests: int, seed: int, check: Callable[[], None]
    ) -> None:
        self.world = world
        self.requests = requests
        self.ours = Board(world)
        self.load = Load(client, world, self.ours.reward)
        self._rival = Rival(world, seed)
        self._present: set[str] = set()
        self._audit = Audit()
        self._check = check
        self._began = time.monotonic()

    @property
    def rival(self) -> Board:
        """The board of the rival: the other allocator, without guarantees."""
        return self._rival.board

    @property
    def verdict(self) -> Report:
        """The audit's report on the records so far."""
        return self._audit.report()

    @property
    def seconds(self) -> float:
        """How long the play has run."""
        return time.monotonic() - self._began

    @property
    def left(self) -> int:
        """How many requests are not sent yet."""
        return self.requests - self.load.sent

    def open(self) -> None:
        """Configure the pool, and wait until the service has made it."""
        self.load.open()
        self._await(lambda: self.load.ready)
        self._began = time.monotonic()

    def step(self) -> None:
        """Let both allocators decide the next requests."""
        count = min(self.world.step, self.left)
        self.load.send(count)
        self._rival.step(count)
        self._await(lambda: not self.load.backlog)
        self.ours.mark(self.load.sent)
        self.rival.mark(self.load.sent)

    def settle(self) -> None:
        """Deliver the rewards that have not arrived yet."""
        self.load.settle()
        self._rival.settle()

    def _await(self, done: Callable[[], bool]) -> None:
        until = time.monotonic() + _PATIENCE
        while not done():
            seen = self.load.look()
            for each in seen:
                self._take(each)
            if not seen:
                self._check()
                if time.monotonic() > until:
                    raise LogUnavailable(f"no answer from the service for {_PATIENCE:.0f} seconds")
                time.sleep(_PAUSE)

    def _take(self, seen: Seen) -> None:
        record, event = seen
        self._audit.feed(record.partition, record.offset, record.value or b"")
        if isinstance(event, EpochEvent):
            self._take_epoch(event)
        elif isinstance(event, AssignmentEvent) and not event.repeat:
            self._present = (self._present - set(event.away)) | set(event.back)
            able = self._present - set(event.but or ())
            picks = [(pick.arm, pick.reason == "fairness") for pick in event.picks]
            self.ours.serve(able if event.eligible is None else event.eligible, picks)

    def _take_epoch(self, event: EpochEvent) -> None:
        if event.complete and event.chunk == 0:
            self._present = set()
        for name, arm in event.arms.items():
            if not arm.away and (event.complete or name not in self.ours.rows):
                self._present.add(name)
            self.ours.join(name)
        self._present -= set(event.left)


def audited(client: LogClient) -> Report:
    """Audit the assignments topic from its first record to its last."""
    audit = Audit()
    for partition in range(client.partitions):
        for record in client.read("assignments", partition):
            audit.feed(partition, record.offset, record.value or b"")
    return audit.report()
