"""A log that fails at every step: a process' death, a commit that did not happen, a lost partition.

It keeps its records where `SqliteLog` keeps them, and reads the inputs in an order of its own
choosing, so that a run can be repeated exactly. It also sees to the contract in `log.base`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from fair_allocator.errors import CommitFailed, LogUnavailable
from fair_allocator.log.base import Log, Ownership
from fair_allocator.log.records import (
    INPUTS,
    JOURNAL,
    OUTPUTS,
    RECORD_BYTES,
    Committed,
    Outgoing,
    Record,
)
from fair_allocator.log.sqlite import Memory, SqliteClient, SqliteLog
from fair_allocator.service import Service
from fair_allocator.shard.journal import ENTRY, MANIFEST, PART
from tests.support.verifier import require

POINTS: Final = frozenset(
    f"{when} {what}"
    for when in ("before", "after")
    for what in (
        "open", "poll", "committed", "seek", "journal", "entry", "parts", "manifest", "trim",
        "losing", "drain", "ahead",
    )
) | {"while restoring", "before close"}  # fmt: skip
"""Where a process may die."""


REFUSALS: Final = frozenset(
    {"no poll", "no journal", "no ahead", "no behind", "no commit", "no trim"}
)
"""What else may fail."""

RARELY: Final = 0.2
OFTEN: Final = 5.0
"""How much rarer or more frequent a death is where every start goes through, or few ever come."""


class Crash(BaseException):
    """The process dies here."""


class Step(NamedTuple):
    """A turn of the loop that was committed: all that its decisions may depend on."""

    version: int
    owned: frozenset[int]
    records: list[Record]
    now: int


@dataclass
class Faults:
    """How often what goes wrong, and what did; `crashes` is how many more are allowed."""

    rng: Random
    rate: float = 0.0
    crashes: int = 0
    hits: Counter[str] = field(default_factory=Counter)

    def strikes(self, weight: float = 1.0) -> bool:
        if self.crashes <= 0 or self.rng.random() >= self.rate * weight:
            return False
        self.crashes -= 1
        return True

    def at(self, point: str, weight: float = 1.0) -> None:
        """Die here, perhaps."""
        if self.strikes(weight):
            self.hits[point] += 1
            raise Crash(point)

    def refuse(self, what: str, error: type[Exception], weight: float = 0.5) -> None:
        """Fail with an error of the log, perhaps."""
        if self.strikes(weight):
            self.hits[what] += 1
            raise error(what)


class Poll(NamedTuple):
    """What a driver lets a poll do: own these partitions, and return these records."""

    owned: frozenset[int]
    records: list[Record]


Driver = Callable[["FaultyLog", int], Poll]
Watcher = Callable[["FaultyLog", Sequence[int]], None]


class FaultyLog(Log):
    """One process' hold of a log in memory.

    `drive` says what to poll; `committed_now` is told of every commit that happened, before
    the service knows of it.
    """

    def __init__(
        self, memory: Memory, faults: Faults, drive: Driver, committed_now: Watcher
    ) -> None:
        self.inner = SqliteLog(memory)
        self.client = SqliteClient(memory)
        self.service: Service
        self.step: tuple[frozenset[int], list[Record]] | None = None
        self.positions: dict[tuple[str, int], int] = {}
        self.owned: set[int] = set()
        self._faults = faults
        self._drive = drive
        self._committed_now = committed_now
        self._where = "outside"
        self._ahead = False

    @property
    def partitions(self) -> int:
        return self.inner.partitions

    def open(self, handler: Ownership) -> None:
        self._faults.at("before open", RARELY)
        self.inner.open(Nobody())
        self.inner.poll(0, 1)  # gives it every partition; what is owned here is decided here
        self._handler = handler
        self._faults.at("after open", RARELY)

    # -- ownership and reading ----------------------------------------------------------------

    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        if self._ahead:
            self._spoil()
        self.step = None
        self._faults.at("before poll")
        self._faults.refuse("no poll", LogUnavailable)
        owned, chosen = self._drive(self, limit)
        self._own(owned)
        records = []
        for record in chosen:
            name = record.topic, record.partition
            # A commit that failed in a rebalance: nothing is read until it is sought again.
            if name in self.positions:
                require(self.positions[name] == record.offset, "sought elsewhere:", name)
                self.positions[name] += 1
                records.append(record)
        self.step = owned, records
        self._faults.at("after poll")
        return records

    def _own(self, owned: frozenset[int]) -> None:
        leaving, coming = sorted(self.owned - owned), sorted(owned - self.owned)
        if leaving:
            self._let_go(leaving)
        if coming:
            self.owned |= owned
            self._handler.gained(coming)

    def _let_go(self, leaving: list[int]) -> None:
        rude = self._faults.rate > 0 and self._faults.rng.random() < 0.3
        if not rude:
            self._faults.at("before losing", OFTEN)
            self._where = "losing"
            self._handler.losing(leaving)
            self._where = "outside"
        self.owned -= set(leaving)
        self.positions = {n: at for n, at in self.positions.items() if n[1] in self.owned}
        self._handler.lost(leaving)
        self._faults.at("after losing", OFTEN)

    def _may(self, call: str) -> None:
        require(self._where != "losing", f"only commit may be called in losing, not {call}")

    def committed(self, partition: int) -> Committed:
        self._may("committed")
        self._faults.at("before committed", RARELY)
        said = self.inner.committed(partition)
        self._faults.at("after committed", RARELY)
        return said

    def seek(self, partition: int, offsets: Mapping[str, int]) -> dict[str, int]:
        self._may("seek")
        require(partition in self.owned, "sought, but not owned:", partition)
        self._faults.at("before seek", RARELY)
        positions = {topic: offsets.get(topic, 0) for topic in INPUTS}
        for topic, position in positions.items():
            self.positions[topic, partition] = position
        self._faults.at("after seek", RARELY)
        return positions

    def journal_start(self, partition: int) -> int:
        self._may("journal_start")
        return self.inner.journal_start(partition)

    def read_journal(self, partition: int, start: int) -> Iterator[Record]:
        self._may("read_journal")
        self._faults.at("before journal", RARELY)
        self._faults.refuse("no journal", LogUnavailable)
        for record in self.inner.read_journal(partition, start):
            yield record
            self._faults.at("while restoring", RARELY)
        self._faults.at("after journal", RARELY)

    def behind(self) -> dict[tuple[str, int], int]:
        """Say that all was read that has come, but for one record after an odd number of them."""
        self._faults.refuse("no behind", LogUnavailable)
        more = len(self.step[1]) % 2 if self.step is not None else 0
        return dict.fromkeys(self.positions, more)

    # -- writing ------------------------------------------------------------------------------

    def send_ahead(self, outgoing: Sequence[Outgoing]) -> None:
        self._may("send_ahead")
        self._check(outgoing)
        for record in outgoing:
            require(record.topic in OUTPUTS, "sent ahead, but no output:", record.topic)
        self._faults.at("before ahead", RARELY)
        self._refuse("no ahead", 0.5)
        self.inner.send_ahead(outgoing)
        self._ahead = self._ahead or bool(outgoing)
        self._faults.at("after ahead", RARELY)

    def _check(self, outgoing: Sequence[Outgoing]) -> None:
        for record in outgoing:
            require(record.partition in self.owned, "committed, but not owned:", record)
            size = len(record.key or b"") + len(record.value or b"")
            require(size <= RECORD_BYTES, "a record of", size, "bytes:", record.topic)

    def _refuse(self, what: str, weight: float) -> None:
        """Fail as a commit does, perhaps."""
        try:
            self._faults.refuse(what, CommitFailed, weight)
        except CommitFailed:
            self._spoil()
            raise

    def _spoil(self) -> None:
        self.inner.poll(0, 1)  # of which nothing was sought: it takes back what was sent ahead
        self._ahead = False
        self.positions.clear()
        self.step = None

    def commit(
        self,
        outgoing: Sequence[Outgoing],
        offsets: Mapping[tuple[str, int], int],
        hints: Mapping[int, str],
    ) -> list[int]:
        partitions = sorted({record.partition for record in outgoing})
        self._check(outgoing)
        kinds = {record.key for record in outgoing if record.topic == JOURNAL}
        what = "manifest" if MANIFEST in kinds else "parts" if PART in kinds else "entry"
        draining = self.step is None and self._where == "outside"
        if draining:
            self._faults.at("before drain", OFTEN)
        self._faults.at(f"before {what}", OFTEN if what == "manifest" else 1)
        self._refuse("no commit", OFTEN if self._where == "losing" else 0.5)
        placed = self.inner.commit(outgoing, offsets, hints)
        self._ahead = False
        if ENTRY in kinds or self.step is not None:
            self._committed_now(self, partitions)
        self.step = None
        self._faults.at(f"after {what}", OFTEN if what == "manifest" else 1)
        if draining:
            self._faults.at("after drain", OFTEN)
        return placed

    def trim_journal(self, partition: int, before: int) -> None:
        self._may("trim_journal")
        self._faults.at("before trim", 4 * OFTEN)
        self._faults.refuse("no trim", LogUnavailable, 4 * OFTEN)
        self.inner.trim_journal(partition, before)
        self._faults.at("after trim", 4 * OFTEN)

    def close(self) -> None:
        try:
            self._faults.at("before close")
        finally:
            self.inner.close()


class Nobody:
    """Is told of what the inner log owns, which is everything at all times."""

    def gained(self, partitions: Sequence[int]) -> None: ...

    def losing(self, partitions: Sequence[int]) -> None: ...

    def lost(self, partitions: Sequence[int]) -> None: ...
