"""What counts of a journal that is written without transactions."""

import os
from collections.abc import Callable

import pytest

from fair_allocator.errors import LogTooNew
from fair_allocator.log.kafka.driver import REQUEST_BYTES, Appended
from fair_allocator.log.kafka.frames import claim_of, framed, last_commit, unframed
from fair_allocator.log.records import JOURNAL, RECORD_BYTES, Committed, Outgoing, Record

NOWHERE = Committed({}, "")
PREFIX = b"\0at-least-once/"


class Journal:
    """A journal of partition 0 to which writers append; a place may be taken by the log itself."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.end = 0

    def append(self, *records: Appended | Outgoing) -> list[int]:
        given = []
        for _, partition, key, value, *_ in records:
            self.records.append(Record(JOURNAL, partition, self.end, key, value, 0))
            given.append(self.end)
            self.end += 1
        return given

    def claim(self) -> int:
        """Take over; return the position of what comes next."""
        return self.append(claim_of(0, "one"))[0] + 1

    def read(self, start: int = 0, stop: int | None = None) -> list[tuple[bytes | None, object]]:
        records = (record for record in self.records if record.offset >= start)
        stop = self.end if stop is None else stop
        return [(r.key, r.value) for r in unframed(records, start, stop)]

    def values(self, start: int = 0, stop: int | None = None) -> list[object]:
        return [value for _, value in self.read(start, stop)]


def entry(value: bytes | None, key: bytes | None = b"entry") -> Outgoing:
    return Outgoing(JOURNAL, 0, key, value)


def commit(at: int, *values: bytes, hint: str = "") -> list[Appended]:
    return framed(0, at, [entry(value) for value in values], Committed({}, hint))


@pytest.fixture
def journal() -> Journal:
    return Journal()


def test_what_a_shard_wrote_is_read_as_it_wrote_it(journal: Journal) -> None:
    at = journal.claim()
    written = [entry(b"1"), entry(None, None), entry(b"", b""), entry(b"x", b"a key = - \0")]
    answers = [Outgoing("assignments", 0, b"pool", b"answer")]
    journal.append(*framed(0, at, [*answers, *written], NOWHERE))
    assert journal.read() == [(record.key, record.value) for record in written]


def test_records_without_frames_count_as_they_are(journal: Journal) -> None:
    journal.append(entry(b"1"))
    journal.end += 1  # the end of a transaction
    journal.append(*commit(journal.claim(), b"2"))
    journal.append(entry(b"3"))
    assert journal.values() == [b"1", b"2", b"3"]


def test_a_publication_is_read_back_in_its_order(journal: Journal) -> None:
    published = [
        Outgoing("assignments", 0, b"pool", b"answer"),
        Outgoing("dead-letters", 0, None, None),
        Outgoing("assignments", 0, b"", b""),
        Outgoing("assignments", 0, b"pool", b"answer", (("traceparent", b"00-1"), ("é", b""))),
        Outgoing("dead-letters", 0, None, None, (("a", b"b"),)),
        Outgoing("assignments", 0, b"pool", b"last"),
    ]
    after = Committed({"requests": 7, "controls": 1}, "hint é")
    journal.append(*framed(0, journal.claim(), [published[0], entry(b"e"), *published[1:]], after))
    assert last_commit(journal.records, 0) == (after, published)


def test_only_a_commit_with_headers_is_unknown_to_releases_without(journal: Journal) -> None:
    answer = Outgoing("assignments", 0, b"pool", b"answer")
    for headers, version in ((), 1), ((("a", b"b"),), 2):
        frames = framed(0, 0, [answer._replace(headers=headers), entry(b"e")], NOWHERE)
        assert {frame.key[: len(PREFIX) + 1] for frame in frames if frame.key} == {
            PREFIX + b"%d" % version
        }
    assert (claim_of(0, "one").key or b"").startswith(PREFIX + b"1")


def test_a_large_publication_is_written_in_pieces_that_a_broker_takes(journal: Journal) -> None:
    published = [
        Outgoing("assignments", 0, b"pool", os.urandom(RECORD_BYTES - 4)) for _ in range(3)
    ]
    largest = entry(os.urandom(RECORD_BYTES - 1), b"k")
    frames = framed(0, journal.claim(), [*published, largest], NOWHERE)
    assert max(len(f.key or b"") + len(f.value or b"") for f in frames) <= REQUEST_BYTES - 200
    journal.append(*frames)
    last = last_commit(journal.records, 0)
    assert last is not None
    assert last.publication == published
    assert journal.values() == [largest.value]


def test_the_last_whole_commit_is_the_one_in_doubt(journal: Journal) -> None:
    at = journal.claim()
    journal.append(*commit(at, b"1", hint="first"))
    journal.append(*commit(journal.end, b"2", hint="second"))
    journal.append(*commit(journal.end, b"3", hint="third")[:-1])
    last = last_commit(journal.records, 0)
    assert last is not None
    assert last.committed.hint == "second"
    assert last_commit([], 0) is None


def test_nothing_is_in_doubt_after_the_other_mode_went_on(journal: Journal) -> None:
    journal.append(*commit(journal.claim(), b"1"))
    journal.append(entry(b"2"))
    assert last_commit(journal.records, 0) is None
    journal.append(*commit(journal.claim(), b"3", hint="third"))
    last = last_commit(journal.records, 0)
    assert last is not None
    assert last.committed.hint == "third"


def test_a_commit_without_its_end_is_void(journal: Journal) -> None:
    journal.append(*commit(journal.claim(), b"1", b"2")[:-1])
    assert journal.values() == []
    at = journal.claim()
    journal.append(*commit(at, b"3"))
    assert journal.values() == [b"3"]


def test_a_commit_cut_off_is_not_ended_by_the_next(journal: Journal) -> None:
    at = journal.claim()
    journal.append(*commit(at, b"1", b"2")[:1])
    journal.append(*commit(journal.end, b"3"))
    assert journal.values() == [b"3"]


def test_what_a_zombie_writes_after_a_claim_is_void_for_every_reader(journal: Journal) -> None:
    zombie = journal.claim()
    journal.append(*commit(zombie, b"1"))
    zombie = journal.end
    owner = journal.claim()
    journal.append(*commit(zombie, b"late"))
    assert journal.values() == [b"1"]
    journal.append(*commit(journal.claim(), b"2"))
    assert [journal.values(start) for start in range(owner, journal.end - 2)] == [[b"2"]] * (
        journal.end - 2 - owner
    )
    last = last_commit(journal.records, 0)
    assert last is not None
    assert journal.values() == [b"1", b"2"]


@pytest.mark.parametrize("before", [1, 2, 3])
def test_a_claim_within_a_commit_voids_all_of_it(journal: Journal, before: int) -> None:
    zombie = journal.claim()
    frames = commit(zombie, b"1", b"2", b"3")
    journal.append(*frames[:before])
    owner = journal.claim()
    journal.append(*frames[before:])
    assert journal.values() == []
    assert last_commit(journal.records, 0) is None
    # The owner's own lies one too far now, and is void too: it has to claim again.
    journal.append(*commit(owner, b"4"))
    assert journal.values() == []
    journal.append(*commit(journal.claim(), b"4"))
    assert journal.values() == [b"4"]


def test_of_two_who_claim_the_later_one_writes(journal: Journal) -> None:
    one, two = journal.claim(), journal.claim()
    journal.append(*commit(one, b"of one"))
    assert journal.values() == []
    journal.append(*commit(two, b"of two"))
    assert journal.values() == [], "the loser's attempt took up the place"
    journal.append(*commit(journal.claim(), b"of two"))
    assert journal.values() == [b"of two"]


def test_a_lost_frame_does_not_let_a_strangers_stand_for_it(journal: Journal) -> None:
    at = journal.claim()
    frames = commit(at, b"1", b"2", b"3")
    journal.append(frames[0])
    journal.claim()
    journal.append(*frames[2:])
    assert journal.values() == []


def test_a_commit_is_read_from_and_to_its_middle(journal: Journal) -> None:
    at = journal.claim()
    journal.append(*commit(at, b"1", b"2", b"3"))
    journal.append(*commit(journal.end, b"4"))
    assert journal.values(at + 1) == [b"2", b"3", b"4"]
    assert journal.values(at + 1, at + 2) == [b"2"]
    assert journal.values(0, at + 2) == [b"1", b"2"]
    assert journal.values(at, at) == []


@pytest.mark.parametrize("read", [lambda j: j.values(), lambda j: last_commit(j.records, 0)])
def test_a_frame_of_a_newer_release_is_refused(
    journal: Journal, read: Callable[[Journal], object]
) -> None:
    journal.append(entry(b"?", PREFIX + b"3 record 0 0 -"))
    with pytest.raises(LogTooNew, match="version 3"):
        read(journal)
