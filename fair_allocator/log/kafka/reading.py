"""Read the records of a topic's partition (a *place*) between two positions, through a driver."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from fair_allocator.errors import ConfigurationError, LogLocked, LogUnavailable, OffsetGone
from fair_allocator.log.kafka.driver import (
    Admin,
    Driver,
    DriverError,
    Edge,
    GroupReader,
    InstanceFenced,
    NotPermitted,
    Place,
    PositionGone,
    Reader,
    Stored,
    Unreachable,
)
from fair_allocator.log.kafka.frames import unframed
from fair_allocator.log.kafka.settings import KafkaSettings, longest_wait
from fair_allocator.log.records import INPUTS, JOURNAL, Record

CHUNK_RECORDS: Final = 2_000
SLICE_SECONDS: Final = 0.02

MARKER_SECONDS: Final = 0.5
MARKER_PAUSE_SECONDS: Final = 0.005
"""How long the marker that ends a transaction may take to appear in its partitions, and how often
to look for it."""


@contextmanager
def reaching(settings: KafkaSettings) -> Iterator[None]:
    """Raise a driver's error as an error of the log, with a message that says what to do."""
    try:
        yield
    except Unreachable as error:
        check = "the address and port, and kafka.security_protocol"
        if settings.security.uses_password:
            check += ", kafka.sasl_mechanism, user name and password"
        if settings.security.uses_tokens:
            check += ", kafka.sasl_mechanism, and whether the broker accepts the tokens"
        raise LogUnavailable(
            f"no connection to Kafka at {settings.bootstrap_servers} ({error}): check {check}"
        ) from error
    except InstanceFenced as error:
        raise LogLocked(
            f"another process runs as instance {settings.instance!r} of group "
            f"{settings.group!r}: give each its own kafka.instance",
            None,
        ) from error
    except NotPermitted as error:
        raise ConfigurationError(
            f"Kafka at {settings.bootstrap_servers} does not permit it ({error}): grant "
            f"{settings.security.username or 'this client'} what docs/kafka.md lists under Security"
        ) from error
    except PositionGone as error:
        raise OffsetGone(str(error)) from error
    except DriverError as error:
        raise LogUnavailable(f"Kafka at {settings.bootstrap_servers}: {error}") from error


def gone(settings: KafkaSettings, place: Place, position: int, why: str) -> OffsetGone:
    """Return the error for a position that the log does not have; `why` says why not."""
    topic, partition = place
    return OffsetGone(
        f"{topic}/{partition} ({settings.topics[topic]}): there is no position {position}: {why}"
    )


def held(place: Place, start: int, end: int) -> str:
    """Return a message on the positions of a place; for an input, add what to do about a loss."""
    text = f"it has positions from {start} to {end}"
    if place[0] not in INPUTS:
        return text
    return (
        f"{text}. Records were deleted before they were read, so the service stops. Make topics "
        "under another kafka.topic_prefix, move the state there with `fair-allocator export` and "
        "`import`, and send what is left of the inputs there (see docs/kafka.md)"
    )


def require_within(
    settings: KafkaSettings, place: Place, position: int, edges: tuple[int, int]
) -> None:
    """Refuse a position that is not between the start and the end of a place (`edges`)."""
    start, end = edges
    if not start <= position <= end:
        raise gone(settings, place, position, held(place, start, end))


class Scanner:
    """Reads records between positions. Several reads may be in progress at the same time."""

    def __init__(self, driver: Driver, admin: Admin, settings: KafkaSettings) -> None:
        self._driver = driver
        self._admin = admin
        self._settings = settings
        self._opened: Reader | None = None
        self._patience = longest_wait(settings.transaction_seconds)

    @property
    def _reader(self) -> Reader:
        if self._opened is None:
            self._opened = self._driver.reader()
        return self._opened

    def start(self, place: Place) -> int:
        """Return where a place starts."""
        with reaching(self._settings):
            return self._admin.offsets([place], Edge.START)[place]

    def edges(self, places: Sequence[Place]) -> dict[Place, tuple[int, int]]:
        """Return the start and end of each place. The end is after records in open transactions."""
        with reaching(self._settings):
            starts = self._admin.offsets(places, Edge.START)
            ends = self._admin.offsets(places, Edge.END)
        return {place: (starts[place], ends[place]) for place in places}

    def end(self, place: Place) -> int:
        """Return the end of the committed records of a place. It is never inside a transaction.

        Wait for commits that have returned but whose end is not visible everywhere yet.
        """
        deadline = time.monotonic() + MARKER_SECONDS
        with reaching(self._settings):
            end = self._admin.offsets([place], Edge.END)[place]
            while True:
                stable = self._admin.offsets([place], Edge.STABLE)[place]
                if stable >= end or time.monotonic() > deadline:
                    return stable
                time.sleep(MARKER_PAUSE_SECONDS)

    def ends(self, known: Mapping[Place, int]) -> dict[Place, int]:
        """Return the end of each place, which is after records in open transactions.

        Wait until each end in `known` is visible.
        """
        deadline = time.monotonic() + MARKER_SECONDS
        while True:
            ends = self._admin.offsets(list(known), Edge.END)
            late = any(ends[place] < end for place, end in known.items())
            if not late or time.monotonic() > deadline:
                return ends
            time.sleep(MARKER_PAUSE_SECONDS)

    def stored(self, group: GroupReader, places: Sequence[Place]) -> dict[Place, Stored]:
        """Return what the group has stored; ask as a member of the group.

        Positions may be pending in an open transaction. This method waits until the transaction
        ends, for as long as a broker may take to abort it. The clients would only report a timeout.
        """
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return group.stored(places)
            except Unreachable as error:
                self._admin.stored(places)  # raises an error if there is no connection
                if time.monotonic() > deadline:
                    raise DriverError(
                        f"the positions of group {self._settings.group!r} have been pending in a "
                        f"transaction for {self._patience:g} s; find it with kafka-transactions.sh "
                        "and abort it"
                    ) from error

    def journal(self, partition: int, start: int, stop: int, end: int) -> Iterator[Record]:
        """Yield the records that count (see `frames`) between two positions of a journal.

        The journal ends at `end`.
        """
        yield from unframed(self.scan((JOURNAL, partition), start, end), start, stop)

    def scan(self, place: Place, start: int, stop: int) -> Iterator[Record]:
        """Yield the committed records between two positions.

        If `stop` lies in an open transaction, wait until the transaction ends.
        """
        try:
            yield from self._scan(place, start, stop)
        finally:
            if self._opened is not None:
                self._opened.rest()

    def _scan(self, place: Place, start: int, stop: int) -> Iterator[Record]:
        position, moved = start, time.monotonic()
        while position < stop:
            with reaching(self._settings):
                records, reached = self._reader.read(place, position, CHUNK_RECORDS, SLICE_SECONDS)
                if position > start:
                    first = self._admin.offsets([place], Edge.START)[place]
                    if first > position:
                        raise gone(self._settings, place, position, f"the oldest is now {first}")
            if reached > position:
                moved = time.monotonic()
            elif time.monotonic() - moved > self._patience:
                raise LogUnavailable(
                    f"{self._settings.topics[place[0]]}/{place[1]} cannot be read beyond "
                    f"{position}: a transaction of another writer has been open for "
                    f"{self._patience:g} s; find it with kafka-transactions.sh and abort it"
                )
            for record in records:
                if record.offset >= stop:
                    return
                yield record
            position = reached

    def close(self) -> None:
        """Close the connection."""
        if self._opened is not None:
            reader, self._opened = self._opened, None
            reader.close()
