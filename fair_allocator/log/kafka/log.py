"""The service's side of the log on Kafka: opening, reading and committing.

`exactly_once` and `at_least_once` are the two modes of delivery: two ways to make a commit. An
*instance* is one running service, and the *group* is the consumer group of all instances.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from fair_allocator.errors import (
    CommitFailed,
    LogError,
    LogLocked,
    LogUnavailable,
)
from fair_allocator.log.base import Ownership
from fair_allocator.log.interleaving import by_time
from fair_allocator.log.kafka.at_least_once import AtLeastOnce
from fair_allocator.log.kafka.clocks import Clocks
from fair_allocator.log.kafka.commits import Commits
from fair_allocator.log.kafka.driver import (
    Driver,
    DriverError,
    Edge,
    InstanceFenced,
    NotPermitted,
    Place,
    PositionGone,
    WriterFenced,
)
from fair_allocator.log.kafka.exactly_once import ExactlyOnce
from fair_allocator.log.kafka.identity import noted, require_same
from fair_allocator.log.kafka.owning import Owning
from fair_allocator.log.kafka.positions import CARRIER, resumed
from fair_allocator.log.kafka.reading import Scanner, reaching, require_within
from fair_allocator.log.kafka.settings import DELIVERIES, KafkaSettings
from fair_allocator.log.kafka.topic_watch import TopicWatch
from fair_allocator.log.kafka.topics import (
    grown,
    noted_otherwise,
    require_keeping,
    require_partitions,
    stamped_by_brokers,
)
from fair_allocator.log.limits import require_committable
from fair_allocator.log.records import (
    INPUTS,
    JOURNAL,
    TOPICS,
    Committed,
    Mark,
    Outgoing,
    Record,
    unmarked,
)

MODES: Final[Mapping[str, type[Commits]]] = dict(
    zip(DELIVERIES, (ExactlyOnce, AtLeastOnce), strict=True)
)

SLICE_SECONDS: Final = 0.05
"""The longest wait in the client, so that the service soon learns what the group decides."""

JOINING_SECONDS: Final = 0.005
JOINING_LASTS: Final = 3.0
"""The longest wait in the client while this instance joins the group, during the first
`JOINING_LASTS` seconds. It is short, because no client returns early when the group has decided.
After that time, the group is probably waiting for other members, so waits may be longer."""

QUIET_SECONDS: Final = 5.0
"""After this time without a record or a commit, check that a commit would still work."""

PASSING_SECONDS: Final = 5.0
"""How often to look whether positions can move past offsets that readers never see."""


class KafkaLog(Owning):
    """The service's side of the log on Kafka.

    Parameters
    ----------
    driver
        The client library to use.
    partitions
        How many partitions the topics must have; None accepts any number.
    mark
        The function that marks the value of a record that is published again after a failure.
    wall
        This machine's clock, in seconds since 1970.
    """

    may_be_away = True

    def __init__(
        self,
        driver: Driver,
        settings: KafkaSettings,
        partitions: int | None = None,
        *,
        mark: Mark = unmarked,
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(driver, settings)
        self._wanted = partitions
        self._mark = mark
        self._wall = wall
        self._undo: ExitStack | None = None

    @property
    def partitions(self) -> int:
        self._require_open()
        return self._partitions

    def open(self, handler: Ownership) -> None:
        settings, driver = self._settings, self._driver
        self._forget_everything()
        with ExitStack() as undo, reaching(settings):
            self._admin = driver.admin()
            undo.callback(self._admin.close)
            self._topics = TopicWatch(self._admin, settings)
            self._partitions = self._topics.partitions
            found = self._admin.settings(TOPICS)
            require_keeping(found, settings.topics)
            self._clocks = Clocks(stamped_by_brokers(found), self._wall)
            self._scanner = Scanner(driver, self._admin, settings)
            undo.callback(self._scanner.close)
            self._commits = MODES[settings.delivery](
                driver, settings, self._scanner, self._partitions
            )
            self._commits.mark = self._mark
            self._commits.ids = self._topics.ids
            self._commits.prepare()
            undo.callback(self._commits.drop)
            self._group = self._commits.group = driver.group_reader(self)
            undo.callback(self._leave)
            self._check_partitions()
            undo.callback(self._store_if_possible, wait=True)
            undo.callback(self._commits.publish_rest)
            self._handler = handler
            self._undo = undo.pop_all()

    def _check_partitions(self) -> None:
        now, journal = self._partitions, self._settings.topics[JOURNAL]
        # Normally it is enough to look at one partition. If the number of partitions is not the
        # configured one, look at all of them, to find out whether the topics have grown or the
        # setting is wrong.
        some = now if self._wanted not in (None, now) else 1
        places = [(topic, p) for topic in (CARRIER, JOURNAL) for p in range(some)]
        stored = self._scanner.stored(self._group, places)
        require_same(noted(stored), self._commits.ids, self._settings.topics)
        was = noted_otherwise(stored, now)
        if was is not None:
            raise grown(was, now, journal)
        require_partitions(now, self._wanted, journal)

    def close(self) -> None:
        if self._undo is not None:
            undo, self._undo = self._undo, None
            with reaching(self._settings):
                undo.close()

    def _leave(self) -> None:
        self._group.close()

    def _require_open(self) -> None:
        if self._undo is None:
            raise LogUnavailable("the log is not open")

    def _require_owned(self, partition: int) -> None:
        self._require_open()
        if partition not in self._owned:
            raise ValueError(f"partition {partition} is not owned")

    # -- reading -------------------------------------------------------------------------------

    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        self._require_open()
        if self._commits.ahead:
            with reaching(self._settings):
                self._spoil()
        if time.monotonic() - self._passed_at > PASSING_SECONDS:
            self._pass_over()
        self._topics.look_sometimes()
        deadline = time.monotonic() + timeout_seconds
        while True:
            self._commits.polling()
            left = max(0.0, deadline - time.monotonic())
            try:
                with self._reaching():
                    blocks = self._poll_group(min(left, self._slice()), limit)
                    self._hand_over()
            except BaseException:
                self._stop_reading()  # the client may have moved past records it did not return
                raise
            blocks = [block for block in blocks if block[0][:2] in self._positions]
            if blocks:
                self._heard = time.monotonic()
                self._clocks.compare(blocks)
                for block in blocks:
                    topic, partition, offset, *_ = block[-1]
                    self._positions[topic, partition] = offset + 1
                return by_time(blocks)
            self._require_answer()
            if left <= 0:
                return []

    def _poll_group(self, timeout: float, limit: int) -> list[list[Record]]:
        try:
            return self._group.poll(timeout, limit)
        except PositionGone:
            # Raise our own error, because the messages of the two clients differ and do not say
            # what to do.
            edges = self._scanner.edges(list(self._positions))
            for at, position in self._positions.items():
                self._require_within(at, position, edges[at])
            raise

    def _require_within(self, at: Place, position: int, edges: tuple[int, int]) -> None:
        """Refuse a position that the log does not have.

        The error says if the topic was made again.
        """
        start, end = edges
        if not start <= position <= end:
            self._topics.look()
        require_within(self._settings, at, position, edges)

    def _pass_over(self) -> None:
        """Move positions past offsets that readers never see, before retention deletes these."""
        self._passed_at = time.monotonic()
        if self._rearranging or self._assigned is not None:
            return
        with reaching(self._settings):
            moved = self._commits.pass_over(self._positions)
        if moved:
            self.commit([], {}, {p: self._commits.known[p].hint for p in moved})

    def _slice(self) -> float:
        joining = self._commits.membership is None
        if joining and time.monotonic() - self._opened_at < JOINING_LASTS:
            return JOINING_SECONDS
        return SLICE_SECONDS

    def _require_answer(self) -> None:
        """Raise an error at an outage, or if another process has our name.

        A client would only wait.
        """
        if time.monotonic() - self._heard <= QUIET_SECONDS:
            return
        mine = None if self._rearranging else next(iter(self._commits.known), None)
        if mine is not None:
            self.commit([], {}, {mine: self._commits.known[mine].hint})  # changes nothing
        else:
            with reaching(self._settings):
                self._admin.offsets([(JOURNAL, 0)], Edge.END)
        self._heard = time.monotonic()

    def committed(self, partition: int) -> Committed:
        self._require_owned(partition)
        with self._reaching():
            return self._commits.recall(partition)

    def seek(self, partition: int, offsets: Mapping[str, int]) -> dict[str, int]:
        self._require_owned(partition)
        places = [(topic, partition) for topic in INPUTS]
        positions = {}
        for at, (start, end) in self._scanner.edges(places).items():
            passed = self._commits.passed.get(at, range(0))
            positions[at] = resumed(offsets.get(at[0], start), start, passed)
            self._require_within(at, positions[at], (start, end))
        with reaching(self._settings):
            self._group.seek(positions)
        self._positions |= positions
        return {topic: position for (topic, _), position in positions.items()}

    def journal_start(self, partition: int) -> int:
        self._require_owned(partition)
        return self._scanner.start((JOURNAL, partition))

    def read_journal(self, partition: int, start: int) -> Iterator[Record]:
        self._require_owned(partition)
        with reaching(self._settings):
            self._commits.settle(partition)
        place = JOURNAL, partition
        edges = self._scanner.edges([place])[place]
        self._require_within(place, start, edges)
        end = self._commits.journal_end(partition, edges[1])
        return self._scanner.journal(partition, start, end, end)

    def behind(self) -> dict[Place, int]:
        self._require_open()
        places = list(self._positions)
        if not places:
            return {}
        with reaching(self._settings):
            ends = self._admin.offsets(places, Edge.END)
            return {at: max(0, end - self._group.position(at)) for at, end in ends.items()}

    # -- writing -------------------------------------------------------------------------------

    def send_ahead(self, outgoing: Sequence[Outgoing]) -> None:
        self._require_open()
        require_committable(outgoing, (), {})
        if outgoing:
            with self._committing({record.partition for record in outgoing}):
                self._commits.send_ahead(outgoing)

    def commit(
        self,
        outgoing: Sequence[Outgoing],
        offsets: Mapping[tuple[str, int], int],
        hints: Mapping[int, str],
    ) -> list[int]:
        self._require_open()
        require_committable(outgoing, offsets, hints)
        commits = self._commits
        records = (*commits.ahead, *outgoing)
        touched = {r.partition for r in records} | {p for _, p in offsets} | set(hints)
        if not touched:
            return []
        with self._committing(touched):
            after = commits.after(touched, offsets, hints)
            given = commits.write(outgoing, after)
        self._heard = time.monotonic()
        commits.ahead.clear()
        commits.known |= after
        return given

    @contextmanager
    def _committing(self, partitions: set[int]) -> Iterator[None]:
        """If the work in this block fails, forget all knowledge that depends on the commit."""
        try:
            if alien := partitions - self._owned:
                raise DriverError(f"partition {min(alien)} is not owned")
            yield
        except BaseException as error:
            # Do this after every error, of whatever code: only the journal shows whether the commit
            # happened.
            self._spoil()
            if not isinstance(error, DriverError | LogError):
                raise
            # During a rebalance this instance may have replaced itself, because a client that the
            # group forgot joins again. If another process replaced it, the next poll shows that.
            replaced = None if self._rearranging else self._replacement(error, partitions)
            if isinstance(error, NotPermitted) or (replaced is not None and self._is_rival()):
                with reaching(self._settings):
                    raise (replaced or error) from None
            raise CommitFailed(f"the commit failed: {self._commits.explained(error)}") from error

    def _replacement(self, error: Exception, partitions: set[int]) -> Exception | None:
        """Return an error if another process has this instance's place in the group, else None.

        A process with the same instance name has the same transactional id. With it, the other
        process may make every transaction of this instance fail, and a client may not report the
        reason. So this method asks the group.
        """
        if isinstance(error, WriterFenced) and partitions & self._owned:
            try:
                self._commits.prove_place(min(partitions & self._owned))
            except InstanceFenced as fenced:
                return fenced
            except (DriverError, LogError):
                return None
        return error if isinstance(error, InstanceFenced | LogLocked) else None

    def _spoil(self) -> None:
        """Forget all knowledge that depends on a commit that may not have happened."""
        self._commits.spoil()
        self._stop_reading()

    def _stop_reading(self) -> None:
        """Stop reading all partitions, until `seek` is called for each."""
        read, self._positions = list(self._positions), {}
        with suppress(DriverError):
            self._group.pause(read)

    def trim_journal(self, partition: int, before: int) -> None:
        self._require_owned(partition)
        place = JOURNAL, partition
        start, end = self._scanner.edges([place])[place]
        if before > start:
            with reaching(self._settings):
                self._commits.store_now(wait=True)
                self._admin.delete_before({place: min(before, end)})
