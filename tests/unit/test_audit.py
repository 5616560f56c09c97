"""The audit: clean logs pass with what was seen in them, and shortfalls are found exactly."""

import json
import tracemalloc
from collections.abc import Iterator
from fractions import Fraction
from math import floor

import pytest

from fair_allocator.audit import Audit, Offence, audit_ndjson
from fair_allocator.audit.line import Line
from tests.support.audit_log import ARMS, FAIR, Book, Record, audit, row


def found(log: list[Record], start: int = 0) -> Offence:
    first = audit(log, start).first
    assert first is not None
    return first


def test_a_fair_log_passes_and_is_counted() -> None:
    book = Book().play(FAIR)
    book.log[4]["reason"] = "fairness"
    book.repeat().announce(again=True, chunks=3)
    seen = row(audit(book.log))
    assert (seen.rounds, seen.forced, seen.learned, seen.repeats, seen.epochs) == (8, 1, 7, 1, 1)
    assert (seen.worst, seen.tolerated, seen.bound, seen.unpromised) == (0, 0, 0, 0)


def test_a_repeat_counts_nothing_and_may_come_after_a_change() -> None:
    book = Book().play(FAIR).announce({"ann": "1/2", "bob": "1/4"})
    assert row(audit(book.repeat().play("ann ann").log)).rounds == 10


def test_an_old_repeat_is_taken_on_trust_and_an_old_id_may_return() -> None:
    book = Book().play(FAIR).repeat(arm="bob", request_id="old")
    book.play("cyd ann").log[-1]["request_id"] = "tasks 1"
    assert row(audit(book.log, window=2)).repeats == 1
    assert not audit(book.log).ok


# -- shortfalls, exactly -----------------------------------------------------------------------


def served_late(quota: str, bound: int, start: int, rounds: int) -> Book:
    """Serve arm a as late as the bound allows, from a whole entitlement on."""
    book = Book({"a": quota, "b": "0"}, str(bound), bound)
    whole = floor((start - 1) * Fraction(quota))
    book.pretend(round=start, entitled={"a": Fraction(whole)}, pulls={"a": whole}, log=[])
    book.announce(again=True)
    for _ in range(rounds):
        due = floor(book.entitled["a"] + Fraction(quota)) - book.pulls["a"] > bound
        book.play("a" if due else "b")
    return book


@pytest.mark.parametrize("quota", ["29/100", "57/100", "0.35", "0.58", "0.70", "1/4", "1"])
@pytest.mark.parametrize("bound", [0, 2])
@pytest.mark.parametrize("start", [1, 10**12 + 1])
def test_an_arm_is_short_in_the_round_that_makes_its_entitlement_whole(
    quota: str, bound: int, start: int
) -> None:
    offset = 0 if start == 1 else 7
    assert row(audit(served_late(quota, bound, start, 100).log, offset)).worst == bound
    first = found(served_late(quota, bound, start, 99).play("b a b").log, offset)
    assert (first.offset, first.round, first.arm) == (offset + 100, start + 99, "a")
    pulls = "1 pull" if bound == 0 else "3 pulls"
    assert first.sentence.startswith(f"arm 'a' is {pulls} short of its entitlement ")


def test_an_arm_that_is_never_pulled_again_is_found_once_per_pull_it_lacks() -> None:
    book = Book({"a": "1/10", "b": "1/2", "c": "0"}, "1", 1).play(" ".join("b" * 59))
    report = audit(book.log)
    assert str(report.first) == (
        "assignments 0 @ 20: pool 'tasks', round 20: "
        "arm 'a' is 2 pulls short of its entitlement 2, tolerated are 1"
    )
    assert report.offences == report.pools[0].offences == 4
    assert (report.pools[0].worst, report.pools[0].tolerated) == (5, 1)


def test_an_arm_that_caught_up_is_found_again_in_its_next_round() -> None:
    book = Book({"a": "1/2", "b": "0"}).play("b b a a b")
    assert (found(book.log).round, audit(book.log).offences) == (2, 1)
    assert audit(book.play("b a a b").log).offences == 2


def test_each_arm_is_looked_at_once_per_pull_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    first_above = Line.first_above

    def counted(self: Line, level: int) -> int | None:
        nonlocal looks
        looks += 1
        return first_above(self, level)

    monkeypatch.setattr(Line, "first_above", counted)
    arms = [f"arm-{number}" for number in range(200)]
    book = Book(dict.fromkeys(arms, "1/200")).play(" ".join(arms * 3))
    assert audit(book.log).ok
    assert looks <= 200 + 600


# -- changes -----------------------------------------------------------------------------------


def test_entitlements_go_on_when_a_quota_changes() -> None:
    book = Book({"a": "1/3", "b": "0"}).play("b b a b").announce({"a": "1/2"}, complete=False)
    assert row(audit(book.play("b a b a").log)).epochs == 2
    # 4/3 + 2 * 1/2 is 7/3, so the second pull is due in round 6.
    book = Book({"a": "1/3", "b": "0"}).play("b b a b").announce({"a": "1/2"}, complete=False)
    assert found(book.play("b b a").log).round == 6


def test_a_deadline_from_before_a_change_is_void() -> None:
    book = Book({"a": "1/10", "b": "0"}).play("b b b b b").announce({"a": "1/5"}, complete=False)
    book.play("b b b b b b b")
    assert found(book.log).round == 8
    assert audit(book.log).offences == 1


def test_a_quota_of_nothing_ends_the_growth_but_not_the_claim() -> None:
    book = Book({"a": "1/2", "b": "0"}, "1", 1).play("b b b").announce({"a": "0"}, complete=False)
    assert row(audit(book.play("b b b b b b").log)).worst == 1
    book.announce(None, "0", 0)
    assert found(book.play("b").log).sentence.startswith("arm 'a' is 1 pull short")


def test_a_lowered_tolerance_keeps_the_old_bound_until_the_new_one_is_stated() -> None:
    book = Book({"a": "1/2", "b": "0"}, "3", 3).play("b b b b b b").announce(None, "1", 3)
    book.announce(None, "0", 3, complete=False).play("b a a a a a a a").announce(
        None, "0", 0, complete=False
    )
    book.play("a b a b a")
    seen = row(audit(book.log))
    assert (seen.worst, seen.tolerated, seen.bound, seen.epochs) == (3, 3, 0, 4)
    assert found(book.play("b b b b b").log).sentence.endswith("tolerated are 0")


def test_a_bound_holds_at_the_end_of_its_first_round_not_before() -> None:
    book = Book({"a": "1/2", "b": "0"}, "1", 1).play("b b").announce(None, "0", 0)
    seen = row(audit(book.play("a a b").log))
    assert (seen.worst, seen.tolerated, seen.bound) == (1, 1, 0)
    book = Book({"a": "1/2", "b": "0"}, "1", 1).play("b b").announce(None, "0", 0)
    assert found(book.play("b a").log).round == 3


def test_arms_join_with_nothing_and_leave_with_their_claim() -> None:
    book = (
        Book({"a": "1/2", "b": "1/4", "c": "0"})
        .play("a b c a")
        .announce({"a": "1/2", "d": "1/4", "c": "0"}, chunks=2)
    )
    book.play("c a d a").announce({"a": "1/2", "b": "1/4"})
    assert row(audit(book.play("b a b a").log)).epochs == 3
    assert found(book.announce().play("d").log).sentence == "arm 'd' is not an arm of the pool"


def test_a_removed_pool_comes_back_as_a_new_one() -> None:
    book = Book().play(FAIR).remove().announce(ARMS).play(FAIR)
    seen = row(audit(book.log))
    assert (seen.rounds, seen.epochs) == (16, 2)
    book = Book().play(FAIR).remove().pretend(round=9).announce(ARMS)
    assert found(book.log, start=4).sentence.startswith("opens the pool, but")


def test_rule_none_promises_nothing_and_the_report_says_so() -> None:
    report = audit(Book(ARMS, "0", None).play("cyd " * 20).log)
    assert (row(report).unpromised, row(report).worst, row(report).tolerated) == (20, 10, None)
    assert "pool 'tasks': rule 'none' promises nothing, fairness was not checked in 20 rounds" in (
        list(report.lines())
    )


# -- logs without their beginning, several partitions, lines of text ---------------------------


def test_what_a_trimmed_log_does_not_cover_is_said_and_is_no_offence() -> None:
    book = (
        Book()
        .play(FAIR)
        .announce({"ann": "1/4"}, complete=False)
        .announce(chunks=3)
        .play("cyd cyd")
    )
    for trimmed, uncovered in ((3, 6), (9, 0), (10, 0)):
        seen = row(audit(book.log[trimmed:], start=trimmed))
        assert (seen.uncovered, seen.rounds) == (uncovered, 2)
    cut = audit(book.log[11:], start=11)
    assert cut.ok
    assert cut.pools[0].uncovered == 2
    assert any("2 assignments before" in line for line in cut.lines())
    assert not audit(book.log[11:], start=11, whole=True).ok
    assert audit(book.log[11:], start=0, whole=False).ok


def test_a_trimmed_log_is_audited_from_where_it_stands() -> None:
    book = Book().play(FAIR).announce().play("cyd cyd")
    assert found(book.log[9:], start=9).offset == 11
    book = Book(ARMS, "3", 3).play("cyd cyd").announce(None, "0", 3).play("cyd cyd")
    assert row(audit(book.log[3:], start=3)).worst == 2
    book = Book().pretend(pulls={"bob": 7}, log=[]).announce()
    assert found(book.log, start=9).sentence.startswith("arm 'bob' is new, but")


def test_pools_and_partitions_are_apart() -> None:
    books = [Book(pool=name, partition=at, log=[]) for at, name in enumerate("xyz")]
    other = Book(pool="w", partition=1, log=books[1].log)
    for arm in FAIR.split():
        for book in (*books, other):
            book.play(arm)
    audit = Audit()
    for offset in range(len(other.log)):
        for book in books:
            if offset < len(book.log):
                audit.feed(book.partition, offset, json.dumps(book.log[offset]).encode())
    report = audit.report()
    assert report.ok
    assert [(seen.pool, seen.partition, seen.rounds) for seen in report.pools] == [
        ("x", 0, 8), ("y", 1, 8), ("z", 2, 8), ("w", 1, 8)
    ]  # fmt: skip


def test_lines_of_text_are_audited_by_the_partition_they_state() -> None:
    log = Book(partition=4).play(FAIR).log
    lines = [json.dumps(record).encode() + b"\n" for record in log]
    assert audit_ndjson([*lines, b"\n"]).ok
    log[8]["arm"] = "cyd"
    lines[8] = json.dumps(log[8]).encode()
    first = audit_ndjson(lines).first
    assert str(first).startswith("assignments 4 @ 9: pool 'tasks', round 8: arm 'ann'")
    assert str(audit_ndjson([b"{}"]).first).startswith("assignments @ 1: is not a record")
    assert not audit_ndjson(lines[1:]).ok
    assert audit_ndjson(lines[1:], whole=False).ok


# -- the report, and what it costs -------------------------------------------------------------

HOSTILE = [
    "\x1b[2J",
    "[bold]x[/]",
    "a\nb: ok",
    "\u202egnp",
    "'; drop",
    "\x00",
    "0/1",
    "{}",
    "é" * 256,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_ever_printed_as_text(name: str) -> None:
    book = Book({"a": "1/2", name: "1/2"}, pool=name)
    for arm in ("a", name, "a"):
        book.play("x").log[-1]["arm"] = arm
    assert audit(book.log).ok
    book.log[1]["arm"] = book.log[3]["arm"] = name
    report = audit(book.log)
    assert report.offences
    assert all(line.isprintable() for line in report.lines())
    assert json.loads(json.dumps(report.as_json()))["pools"][0]["pool"] == name


def test_the_report_reads_as_a_table_and_as_data() -> None:
    log = Book().play(FAIR).log
    log[8]["arm"] = "cyd"
    report = audit(log)
    head, line, chain, uncovered, _, first, last = report.lines()
    assert chain == "0 records are chained, by 0 checkpoints"
    assert uncovered.startswith("9 records before the first checkpoint")
    assert head.split()[:3] == ["pool", "partition", "rounds"]
    assert "longest gap" in head
    assert "waited" in head
    assert line.split() == ["'tasks'", "0", "8", "1", "0", "4", "0", "8", "0", "0", "1", "0", "1"]
    assert first == str(report.first)
    assert last == "1 offences in all, the first is shown"
    data = report.as_json()
    assert (data["ok"], data["offences"], data["first"]["text"]) == (False, 1, first)
    assert list(audit([]).lines())[-1] == "every guarantee was kept at every round"


def test_memory_does_not_grow_with_the_log() -> None:
    def records(rounds: int) -> Iterator[Record]:
        book = Book({"a": "1/3", "b": "1/7", "c": "0"})
        for number in range(rounds):
            book.play("ab"[number % 2])
            if number % 5 == 0:
                # Each leaves a deadline far in the future behind; they must not pile up.
                book.announce({"b": str(Fraction(1, 9 + number % 10 * 10**5))}, complete=False)
            yield from book.log[:-1]
            book.log = book.log[-1:]

    def peak(rounds: int) -> int:
        audit = Audit(window=50, deliveries=50)
        tracemalloc.start()
        try:
            for offset, record in enumerate(records(rounds)):
                audit.feed(0, offset, json.dumps(record).encode())
            assert row(audit.report()).rounds >= rounds - 1
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(500)
    assert peak(3_000) < peak(500) + 10_000
