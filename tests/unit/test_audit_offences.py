"""Every kind of offence against a log's guarantees is found, at its exact place."""

import json
from collections.abc import Callable

import pytest

from fair_allocator.audit import Audit
from tests.support.audit_log import ARMS, FAIR, Book, Record, audit

OFFENCES: dict[str, tuple[Callable[[list[Record]], object], int, int | None, str]] = {
    "a lost round": (
        lambda log: log.pop(3),
        3, 4, "round 3 should come first"),
    "a round twice": (
        lambda log: log[5].update(round=4),
        5, 4, "was already played, round 5 is next"),
    "a record twice": (
        lambda log: log.insert(5, log[4]),
        5, 4, "answers the request at 3 after the one at 3"),
    "a request passed over": (
        lambda log: (log[4]["folded"].update(requests=3), log[3]["folded"].update(requests=4)),
        4, 4, "folded requests, rewards and controls go back, from 4, 1, 1 to 3, 2, 1"),
    "an id twice": (
        lambda log: log[6].update(request_id="tasks 2"),
        6, 6, "request 'tasks 2' was answered in round 2"),
    "an arm starved": (
        lambda log: log[8].update(arm="cyd"),
        8, 8, "arm 'ann' is 1 pull short of its entitlement 4, tolerated are 0"),
    "a stranger": (
        lambda log: log[3].update(arm="eve"),
        3, 3, "arm 'eve' is not an arm of the pool"),
    "an epoch not in force": (
        lambda log: log[3].update(epoch=2),
        3, 3, "is of epoch 2, but 1 is in force"),
    "rewards go back": (
        lambda log: log[7]["folded"].update(rewards=1),
        7, 7, "folded requests, rewards and controls go back, from 6, 3, 1 to 7, 1, 1"),
    "controls go back in a tick": (
        lambda log: log.insert(2, {"type": "tick", "clock": 5, "partition": 0,
                                   "folded": {"requests": 1, "rewards": 0, "controls": 0}}),
        2, None, "folded requests, rewards and controls go back, from 1, 0, 1 to 1, 0, 0"),
    "not opened": (
        lambda log: log.pop(0),
        0, 1, "is assigned before a complete epoch record opened the pool"),
    "opened late": (
        lambda log: log[0].update(round=9),
        0, 9, "opens the pool, but the rounds before it are not in the log"),
    "opened with a past": (
        lambda log: log[0]["arms"]["bob"].update(pulls=7),
        0, 1, "arm 'bob' is new, but is said to be entitled to 0 and to have 7 pulls"),
    "no bound for a rule": (
        lambda log: log[0].update(bound=None),
        0, 1, "rule 'earliest-deadline' does not go with the bound None"),
    "a bound below the tolerance": (
        lambda log: log[0].update(tolerance="5/2", bound=1),
        0, 1, "the bound 1 is below the tolerance 5/2"),
    "a bound above the tolerance": (
        lambda log: log[0].update(tolerance="5/2", bound=3),
        0, 1, "the bound 3 is above the tolerance 5/2, there was none before"),
    "quotas above 1": (
        lambda log: log[0]["arms"]["cyd"].update(quota="26/100"),
        0, 1, "the quotas in force sum to more than 1"),
    "quotas above 1 by a hair": (
        lambda log: log[0]["arms"]["cyd"].update(quota=f"{10**90 + 1}/{4 * 10**90}"),
        0, 1, "the quotas in force sum to more than 1"),
    "one quota above 1": (
        lambda log: log[0]["arms"]["cyd"].update(quota="3/2"),
        0, 1, "arm 'cyd': quota 3/2 is above 1"),
    "a quota that fills the memory": (
        lambda log: log[0]["arms"]["cyd"].update(quota="1e-999999999"),
        0, 1, "arm 'cyd': quota '1e-999999999' is not a fraction of at least 0"),
    "a division by nothing": (
        lambda log: log[0]["arms"]["cyd"].update(entitled="0/0"),
        0, 1, "arm 'cyd': entitlement '0/0' is not a fraction of at least 0"),
    "pulls below 0": (
        lambda log: log[0]["arms"]["cyd"].update(pulls=-1),
        0, 1, "arm 'cyd' cannot have -1 pulls"),
    "a round before the first": (
        lambda log: log[0].update(round=0),
        0, 0, "an epoch cannot begin with round 0"),
    "no such chunk": (
        lambda log: log[0].update(chunk=1),
        0, 1, "a complete epoch record has no chunk 1 of 1"),
    "chunks of a change": (
        lambda log: log[0].update(chunks=2, complete=False),
        0, 1, "another epoch record has no chunk 0 of 2"),
    "a change before the opening": (
        lambda log: log[0].update(complete=False),
        0, 1, "changes a pool that no complete epoch record opened"),
    "a chunk missing": (
        lambda log: log[0].update(chunks=2),
        1, 1, "comes before chunk 1 of an epoch record"),
    "a chunk without its first": (
        lambda log: log[0].update(chunk=1, chunks=2),
        0, 1, "chunk 1 of 2 comes without those before it"),
    "removed and not known": (
        lambda log: log.insert(0, {"type": "removed", "pool": "old", "rounds": 9, "partition": 0,
                                   "folded": {"requests": 0, "rewards": 0, "controls": 0}}),
        0, 9, "a pool is removed that no complete epoch record opened"),
    "a wrong partition in the record": (
        lambda log: log[2].update(partition=1, at=0),
        2, 2, "says it is of partition 1"),
    "a pool on two partitions": (
        lambda log: log[2].update(partition=1),
        2, 2, "the pool lives on partition 0"),
}  # fmt: skip


MALFORMED = {
    "nothing": b"",
    "no text": b"\xff\xfe",
    "no object": b"[]",
    "another type": b'{"type": "\\u001b[2J"}',
    "a lone surrogate": b'{"type": "tick", "clock": "\\ud800"}',
    "a field missing": b'{"type": "tick", "clock": 1, "partition": 0}',
    "text for a number": b'{"type": "tick", "clock": "1", "partition": 0, "folded": {}}',
    "nested too deeply": b"[" * 100_000,
    "a number too long": b'{"type": "tick", "clock": ' + b"9" * 9999 + b"}",
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_record_is_an_offence_at_its_place(what: str) -> None:
    audit = Audit()
    audit.feed(3, 17, MALFORMED[what])
    audit.feed(3, 18, b"{}")
    report = audit.report()
    assert report.offences == 2
    text = str(report.first)
    assert text.startswith("assignments 3 @ 17: is not a record of this topic: ")
    assert text.isprintable()


@pytest.mark.parametrize("what", OFFENCES)
def test_an_offence_is_found_at_its_place(what: str) -> None:
    spoil, offset, round, sentence = OFFENCES[what]
    log = json.loads(json.dumps(Book().play(FAIR).log))
    spoil(log)
    first = audit(log).first
    assert first is not None
    assert (first.offset, first.round, first.sentence) == (offset, round, sentence)


LATER_OFFENCES: dict[str, tuple[Callable[[Book], object], str]] = {
    "another pull count": (
        lambda book: book.pretend(pulls={**book.pulls, "bob": 3}).announce(again=True),
        "arm 'bob' is said to be entitled to 2 and to have 3 pulls; by the log it is 2 and 2"),
    "another entitlement": (
        lambda book: book.pretend(entitled={"bob": "7/4"}).announce({"bob": "0"}, complete=False),
        "arm 'bob' is said to be entitled to 7/4 and to have 2 pulls; by the log it is 2 and 2"),
    "a joining arm with a past": (
        lambda book: book.pretend(pulls={**book.pulls, "dan": 1}).announce({**ARMS, "dan": "1/8"}),
        "arm 'dan' is new, but is said to be entitled to 0 and to have 1 pulls"),
    "an arm that joins in a change with a past": (
        lambda book: book.pretend(pulls={**book.pulls, "eve": 2}).announce(
            {"eve": "0"}, complete=False),
        "arm 'eve' is new, but is said to be entitled to 0 and to have 2 pulls"),
    "a change within an epoch": (
        lambda book: book.announce({"bob": "0"}, complete=False, again=True),
        "epoch 1 is announced after epoch 1"),
    "an epoch again, an arm less": (
        lambda book: book.announce({"ann": "1/2", "bob": "1/4"}, again=True),
        "epoch 1 is stated again with other terms"),
    "an epoch again, other tolerance": (
        lambda book: book.announce(None, "1", 1, again=True),
        "epoch 1 is stated again with other terms"),
    "an epoch before": (
        lambda book: book.announce().pretend(epoch=0).announce(),
        "epoch 1 is announced after epoch 2"),
    "an epoch from another round on": (
        lambda book: book.pretend(round=11).announce(),
        "epoch 2 is announced from this round on, but round 9 is next"),
    "a bound above the one before": (
        lambda book: book.announce(None, "0", 1),
        "the bound 1 is above the tolerance 0, it was 0 before"),
    "quotas above 1": (
        lambda book: book.announce({"cyd": "1/3"}, complete=False),
        "the quotas in force sum to more than 1"),
    "an arm in two chunks": (
        lambda book: book.announce(chunks=2).log[-1].update(arms=book.log[-2]["arms"]),
        "is named in two chunks of an epoch record"),
    "chunks that disagree": (
        lambda book: book.announce(chunks=2).log[-1].update(tolerance="1"),
        "the chunks of an epoch record disagree"),
    "a chunk missing before the next record": (
        lambda book: book.announce(chunks=2).log.pop() and book.announce(),
        "comes before chunk 1 of an epoch record"),
    "a chunk missing before the end": (
        lambda book: book.announce(chunks=2).log.pop() and book.remove(),
        "comes before chunk 1 of an epoch record"),
    "another number of rounds at the end": (
        lambda book: book.pretend(round=8).remove(),
        "the pool is removed after 7 rounds, but the log has 8"),
    "a repeat with another arm": (
        lambda book: book.repeat(arm="bob"),
        "request 'tasks 5' was answered with arm 'cyd' in round 5, but its repeat says arm 'bob'"),
    "a repeat with another round": (
        lambda book: book.repeat(round=3),
        "request 'tasks 5' was answered with arm 'cyd' in round 5, but its repeat says arm 'cyd'"),
    "a repeat of nothing": (
        lambda book: book.repeat(request_id="other"),
        "repeats request 'other', which was not answered in this round"),
    "a repeat of what is to come": (
        lambda book: book.repeat(request_id="other", round=9),
        "repeats request 'other', which was not answered in this round"),
    "a repeat of a round that never was": (
        lambda book: book.repeat(request_id="other", round=0),
        "repeats request 'other', which was not answered in this round"),
    "a repeat of an epoch to come": (
        lambda book: book.repeat(epoch=2),
        "repeats an answer of epoch 2, which is to come"),
}  # fmt: skip


@pytest.mark.parametrize("what", LATER_OFFENCES)
def test_an_offence_after_a_fair_beginning_is_found_at_its_place(what: str) -> None:
    spoil, expected = LATER_OFFENCES[what]
    book = Book().play(FAIR)
    spoil(book)
    first = audit(book.log).first
    assert first is not None
    assert first.sentence.endswith(expected)
    assert (first.partition, first.offset, first.pool) == (0, len(book.log) - 1, "tasks")
