"""An observer that takes a view after every step, for tests on one thread."""

from collections.abc import Callable, Collection, Mapping

from fair_allocator.config import MetricsSection
from fair_allocator.observe.observer import Observer
from fair_allocator.observe.reporter import Reporter
from fair_allocator.observe.view import View
from fair_allocator.shard import Shard, Snapshots
from tests.observe.scraped import Samples, parsed
from tests.support.served import START, Served


class Prompt(Observer):
    """Takes a view after every step, and calls `then` if the step succeeded."""

    def __init__(
        self,
        then: Callable[[], None] = lambda: None,
        wall: Callable[[], float] = lambda: START / 1000,
    ) -> None:
        super().__init__(wall=wall)
        self._then = then

    def view(self, seconds: float = 0.0) -> View:
        return super().view(0.0)

    def stepped(
        self,
        owned: Collection[int],
        shards: Mapping[int, Shard],
        snapshots: Mapping[int, Snapshots],
    ) -> None:
        self._asked = True
        succeeded = not self._failing and len(owned) == len(shards)
        super().stepped(owned, shards, snapshots)
        if succeeded:
            self._then()


def always_later() -> Callable[[], float]:
    """Return a clock by which every report is too old to be given again."""
    moments = iter(range(0, 10**12, 10**6))
    return lambda: float(next(moments))


class Scraped:
    """A served log in memory that can be scraped after every turn."""

    def __init__(self, served: Served, caps: MetricsSection | None = None) -> None:
        self.served = served
        self.observer = Prompt(wall=lambda: START / 1000 + served.now)
        self.reporter = Reporter(self.observer, caps, monotonic=always_later())
        self.attach()

    def attach(self) -> None:
        """Watch the service that runs now, and let it restore what it owns."""
        self.served.service._probe = self.observer
        while len(self.served.service.shards) < self.served.client.partitions:
            self.served.turn()

    def text(self, accept: str = "") -> str:
        return self.reporter.metrics(accept)[0].decode()

    def samples(self) -> Samples:
        return parsed(self.text())
