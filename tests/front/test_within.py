"""The line to a service of the same process: what it hears, and in which order."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

import pytest

from fair_allocator.errors import LogUnavailable
from fair_allocator.front.answers import Answers
from fair_allocator.front.waiting import LogAway
from fair_allocator.front.within import ServiceLine
from fair_allocator.log.base import LogClient
from fair_allocator.log.intake import Intake
from fair_allocator.log.records import Incoming, Place, Record
from fair_allocator.log.sqlite import Memory, SqliteClient
from tests.support.pace import scaled


class Ear:
    """Remembers what it hears, and on which thread."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.began: list[Mapping[Place, int]] = []
        self.threads: set[int] = set()

    def begin(self, positions: Mapping[Place, int]) -> None:
        self.began.append(dict(positions))

    def hear(self, records: Sequence[Record]) -> None:
        self.heard += [record.offset for record in records]
        self.threads.add(threading.get_ident())


class Site:
    """A log in memory whose service commits at the moments that a test chooses."""

    def __init__(self, memory: Memory) -> None:
        self.client = SqliteClient(memory, 1)
        self.intake = Intake()
        self.intake.open(1, lambda: None)
        self.ear = Ear()
        self.answers = Answers(10)
        self.troubles: list[Exception] = []
        self.meanwhile: dict[str, Callable[[], None]] = {}
        self.line = ServiceLine(self.intake, self.open, self.answers, [self.ear], 3)
        self._memory = memory

    def open(self) -> LogClient:
        return _Client(self, self._memory)

    def publish(self, count: int = 1, told: bool = True) -> None:
        """Commit outputs; without `told`, the line hears nothing of them."""
        places = self.client.append_many(
            [Incoming("assignments", b"p", b"{}", 0) for _ in range(count)]
        )
        first = places[0][1]
        records = list(self.client.read("assignments", 0, first, first + count))
        if told:
            self.intake.commit([], [], records)


class _Client(SqliteClient):
    def __init__(self, site: Site, memory: Memory) -> None:
        super().__init__(memory)
        self._site = site

    def _now(self, moment: str) -> None:
        self._site.meanwhile.pop(moment, lambda: None)()

    def end_offset(self, topic: str, partition: int) -> int:
        if self._site.troubles:
            raise self._site.troubles.pop()
        self._now("before the end is known")
        end = super().end_offset(topic, partition)
        self._now("after the end is known")
        return end

    def read(
        self, topic: str, partition: int, start: int | None = None, stop: int | None = None
    ) -> Iterator[Record]:
        self._now("before it is read")
        yield from super().read(topic, partition, start, stop)
        self._now("after it is read")

    def close(self) -> None:
        """The memory is shared."""


@pytest.fixture
def site() -> Iterator[Site]:
    with Memory() as memory:
        yield Site(memory)


def in_loop(site: Site, work: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        site.answers.attach(asyncio.get_running_loop())
        site.line.start()
        try:
            await work()
        finally:
            site.line.stop()
            await asyncio.get_running_loop().run_in_executor(None, site.line.join, scaled(60))

    asyncio.run(run())


async def until(look: Callable[[], object]) -> None:
    async with asyncio.timeout(scaled(60)):
        while not look():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    "moment",
    [
        "before the end is known",
        "after the end is known",
        "before it is read",
        "after it is read",
    ],
)
def test_what_is_committed_while_it_looks_back_is_heard_once_and_in_order(
    site: Site, moment: str
) -> None:
    site.publish(5, told=False)
    site.meanwhile[moment] = site.publish

    async def work() -> None:
        await until(lambda: not site.line.cannot_hear)
        site.publish()
        await until(lambda: 6 in site.ear.heard)

    in_loop(site, work)
    assert site.ear.heard[-3:] == [4, 5, 6]
    assert site.ear.heard == sorted(set(site.ear.heard))
    assert site.ear.began[0]["assignments", 0] == site.ear.heard[0]


def test_all_is_heard_on_the_servers_thread(site: Site) -> None:
    site.publish(2, told=False)

    async def work() -> None:
        await until(lambda: not site.line.cannot_hear)
        thread = threading.Thread(target=site.publish, args=[600])
        thread.start()
        await until(lambda: len(site.ear.heard) == 602)
        assert site.ear.threads == {threading.get_ident()}

    in_loop(site, work)
    assert site.ear.heard == sorted(site.ear.heard)


def test_a_log_that_cannot_be_read_at_first_is_read_later(site: Site) -> None:
    site.publish(2, told=False)
    site.troubles = [LogUnavailable("no disk"), LogUnavailable("no disk")]

    async def work() -> None:
        await until(lambda: "no disk" in site.line.cannot_hear)
        assert not site.line.cannot_append, "requests are taken, and answered later"
        await until(lambda: not site.line.cannot_hear)

    in_loop(site, work)
    assert site.ear.heard == [0, 1]


def test_a_receipt_ends_when_its_record_is_durable_or_refused(site: Site) -> None:
    async def work() -> None:
        good, bad = site.answers.receipt(), site.answers.receipt()
        for receipt in (good, bad):
            site.line.submit(Incoming("rewards", b"p", b"{}", 0), receipt)
        first, second = site.intake.take()
        site.intake.commit([first.ticket], [(0, 7)], [])
        site.intake.fail([second.ticket], "the disk is full")
        await good.future
        assert good.place == (0, 7)
        with pytest.raises(LogAway, match="disk is full"):
            await bad.future
        assert (site.line.appends, site.line.records) == (1, 1)

    in_loop(site, work)


def test_after_the_service_nothing_is_taken(site: Site) -> None:
    async def work() -> None:
        assert site.line.is_alive
        waiting, late = site.answers.receipt(), site.answers.receipt()
        site.line.submit(Incoming("rewards", b"p", b"{}", 0), waiting)
        site.intake.close()
        assert "not opened" in site.line.cannot_append
        site.line.submit(Incoming("rewards", b"p", b"{}", 0), late)
        for receipt in (waiting, late):
            with pytest.raises(LogAway, match="not opened"):
                await receipt.future

    in_loop(site, work)
    assert "shutting down" in site.line.cannot_append
