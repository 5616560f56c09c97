"""What is exported of the loop itself: before it serves, while it fails, and when it gets on."""

import json
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from fair_allocator.config import MetricsSection
from fair_allocator.core.requests import Assignment, Reason
from fair_allocator.errors import CommitFailed, LogUnavailable
from fair_allocator.log.records import JOURNAL, Outgoing
from fair_allocator.observe.metrics import PREFIX, PROCESS_METRICS
from fair_allocator.observe.observer import Observer
from fair_allocator.observe.reporter import Reporter
from fair_allocator.observe.view import View
from fair_allocator.shard.journal import ENTRY, START_OF_CHAIN, Draft
from fair_allocator.shard.operations import Configured, Decided
from tests.observe.prompt import Scraped
from tests.observe.scraped import counted, parsed, value
from tests.support.served import ARMS, House, houses


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


# -- before there is anything to tell ---------------------------------------------------------


def test_before_the_first_view_nothing_is_claimed() -> None:
    observer = Observer()
    with patch.object(observer, "view", return_value=View()):
        text = Reporter(observer).metrics("")[0].decode()
    names = {name for name, _ in parsed(text) if not name.startswith(("process_", "python_"))}
    assert names == {metric.name for metric in PROCESS_METRICS}
    assert PREFIX + "restoring 0.0" in text


def test_a_restore_is_told_while_it_goes_on(house: House) -> None:
    scraped = Scraped(house({"p": {"arms": ARMS}}))
    scraped.served.serve("r1")
    assert value(scraped.samples(), "restoring") == 0
    scraped.observer.restoring("partition 0")
    assert value(scraped.samples(), "restoring") == 1
    scraped.served.turn()
    assert value(scraped.samples(), "restoring") == 0


# -- failures ---------------------------------------------------------------------------------


def test_failed_commits_are_counted_while_every_commit_fails(house: House) -> None:
    scraped = Scraped(house({"p": {"arms": ARMS}}))
    scraped.served.serve("r1", "r2")
    before = scraped.samples()
    scraped.served.request("never")
    with patch.object(scraped.served.service.log, "commit", side_effect=CommitFailed("no")):
        for failures in range(1, 4):
            scraped.served.service.step()
            samples = scraped.samples()
            assert value(samples, "transactions_total", outcome="aborted") == failures
            assert value(samples, "log_failures_total") == 0
            assert counted(samples) == counted(before)
            seen = value(samples, "view_timestamp_seconds")
            assert seen == value(before, "view_timestamp_seconds")


def test_a_log_that_does_not_answer_aborts_no_transaction(house: House) -> None:
    scraped = Scraped(house({"p": {"arms": ARMS}}))
    for method in ("poll", "read_journal"):
        with patch.object(scraped.served.service.log, method, side_effect=LogUnavailable("no")):
            scraped.served.service.step()
    samples = scraped.samples()
    assert value(samples, "log_failures_total") == 2
    assert value(samples, "transactions_total", outcome="aborted") == 0


def test_a_last_snapshot_that_fails_is_counted(house: House) -> None:
    scraped = Scraped(house({"p": {"arms": ARMS}}))
    scraped.served.serve("r1")
    with patch.object(scraped.served.service.log, "commit", side_effect=CommitFailed("no")):
        scraped.served.service.drain()
    scraped.served.turn()
    assert value(scraped.samples(), "transactions_total", outcome="aborted") == 1


def test_pools_that_are_another_s_vanish_even_while_steps_fail(house: House) -> None:
    served = house({"p": {"arms": ARMS}, "q": {"arms": ARMS}}, partitions=4)
    scraped = Scraped(served)
    served.turn()
    home = {n: partition for partition, s in served.service.shards.items() for n in s.table}
    assert home["p"] != home["q"]
    served.service.lost([home["p"]])
    with patch.object(served.service.log, "poll", side_effect=LogUnavailable("no")):
        served.service.step()
    samples = scraped.samples()
    assert {dict(labels)["pool"] for name, labels in samples if name == "arms"} == {"q"}
    assert value(samples, "assigned_partitions") == 3
    partitions = {dict(labels).get("partition") for _, labels in samples}
    assert str(home["p"]) not in partitions
    assert str(home["q"]) in partitions


# -- getting on -------------------------------------------------------------------------------


def test_decisions_are_counted_of_hidden_pools_too_and_repeats_are_not(house: House) -> None:
    pools = {f"p{number}": {"arms": {"a": "3/4", "b": 0}} for number in range(4)}
    scraped = Scraped(house(pools), caps=MetricsSection(max_pools=1))
    for name in pools:
        scraped.served.serve("r1", "r2", "r3", "r1", pool=name)
    scraped.served.send("requests", b"no json")
    scraped.served.turn()
    samples = scraped.samples()
    assert value(samples, "pools_hidden") == 3
    reasons = [value(samples, "decisions_total", reason=each) for each in ("fairness", "learner")]
    assert sum(reasons) == 12
    events = [event for event in scraped.served.out("assignment") if not event["repeat"]]
    assert reasons[0] == sum(event["reason"] == "fairness" for event in events) > 0


def test_a_snapshot_is_due_at_1_also_before_the_first(house: House) -> None:
    served = house({"p": {"arms": ARMS}}, service={"snapshot_entries": 10})
    scraped = Scraped(served)
    entries = served.shard.seq
    assert entries < 5
    for number in range(5 - entries):
        served.serve(f"r{number}")
    samples = scraped.samples()
    assert value(samples, "snapshot_due_ratio", partition=0) == 0.5
    assert ("snapshot_bytes", frozenset({("partition", "0")})) not in samples
    served.serve(*(f"s{number}" for number in range(800)))
    served.service.drain()
    served.turn()
    samples = scraped.samples()
    assert value(samples, "snapshot_due_ratio", partition=0) == 0
    size = value(samples, "snapshot_bytes", partition=0)
    for number in range(30):
        served.serve(f"t{number}")
        ratio = value(scraped.samples(), "snapshot_due_ratio", partition=0)
        assert ratio <= 1 + 1 / 10
    # As long as fewer bytes were written than the last one took, no number of entries makes it due.
    written = [
        len(record.value or b"")
        for record in served.service.log.read_journal(0, served.service.log.journal_start(0))
        if record.key == ENTRY
    ][-30:]
    assert ratio == min(30 / 10, sum(written) / size) < 3


def test_lag_is_by_the_last_record_read_of_each_place(house: House) -> None:
    """Also of one that the poll before a tick did not cover."""
    served = house({"p": {"arms": ARMS}}, service={"batch_records": 2, "tick_seconds": 5})
    scraped = Scraped(served)
    served.turn(now=6.0)  # a tick
    for number in range(3):
        served.request(f"r{number}", at=float(number))
    served.turn(now=7.0)  # reads two requests, and there is no tick
    served.reward("r0", 1.0, at=7.0)
    served.reward("r1", 1.0, at=7.0)
    served.reward("none", 1.0, at=7.0)
    log = served.service.log
    rewards = list(served.client.read("rewards", 0))
    with (
        patch.object(log, "poll", return_value=rewards[:2]),
        patch.object(
            log, "behind", return_value={("requests", 0): 1, ("rewards", 0): 1, ("controls", 0): 0}
        ),
    ):
        served.service._ticked = -10.0
        served.service.step()
    samples = scraped.samples()
    assert value(samples, "consumer_lag_seconds", topic="requests", partition=0) == 6
    assert value(samples, "consumer_lag_seconds", topic="rewards", partition=0) == 0


def test_a_retired_pool_is_counted_and_not_brought_back(house: House) -> None:
    served = house(retire_after=1_000, template={"arms": ARMS}, template_fingerprint="1")
    scraped = Scraped(served)
    served.serve("r1", pool="od")
    served.serve("r2", pool="other", at=10.0)
    served.turn(now=20.0)
    served.turn(now=40.0)
    samples = scraped.samples()
    assert value(samples, "pools", state="retired") == 2
    assert not [name for name, _ in samples if name == "arms"]
    assert not list(served.shard.table.resident())


# -- violations -------------------------------------------------------------------------------


def test_a_violation_is_counted_even_if_its_epoch_is_over(house: House) -> None:
    served = house()
    entry = Draft(1, 1, 0, served.shard.offsets, partitions=1)
    entry.note("p", Configured({"arms": ARMS, "seed": 0, "remember": 10}, False, ""))
    for arm, pulls in (("c", 8), ("a", 14), ("b", 7)):
        reason: Reason = "learner" if arm == "c" else "fairness"
        for number in range(pulls):
            made = Assignment(f"{arm}{number}", arm, number + 1, 1, reason, 1.0)
            entry.note("p", Decided(made))
    entry.note("p", Configured({"tolerance": 1}, False, ""))
    value_, _ = entry.encode(START_OF_CHAIN)
    served.service.log.commit([Outgoing(JOURNAL, 0, ENTRY, value_)], {}, {0: ""})
    served.restart()
    scraped = Scraped(served)
    served.turn()
    samples = scraped.samples()
    assert value(samples, "fairness_violation_peak", pool="p") == 0
    assert value(samples, "arms_in_violation", pool="p") == 0
    assert value(samples, "violated_epochs_total", pool="p") == 1
    served.serve("in the next epoch")
    assert value(scraped.samples(), "violated_epochs_total", pool="p") == 1
    served.service.drain()
    served.restart()
    again = Scraped(served)
    served.serve("r")
    assert value(again.samples(), "violated_epochs_total", pool="p") == 1


# -- names ------------------------------------------------------------------------------------


def test_pools_of_one_name_on_several_partitions_are_told_apart(house: House) -> None:
    served = house(partitions=2, partitioner="none")
    scraped = Scraped(served)
    for partition, arms in ((0, {"a": "1/2", "b": 0}), (1, {"a": "1/4", "c": 0})):
        control = {"pool": "p", "action": "configure", "arms": arms}
        served.send("controls", json.dumps(control).encode(), partition=partition)
    served.turn()
    for number in range(40):
        event = json.dumps({"pool": "p", "request_id": f"r{number}"}).encode()
        served.send("requests", event, partition=number % 4 == 0)
    served.turn()
    samples = scraped.samples()
    made = {
        partition: sum(
            value(samples, "pool_assignments_total", pool="p", partition=partition, reason=reason)
            for reason in ("fairness", "learner")
        )
        for partition in range(2)
    }
    assert made == {0: 30, 1: 10}
    assert value(samples, "quota_ratio", pool="p", partition=1, arm="a") == 0.25
    assert value(samples, "pools", state="serving") == 2
