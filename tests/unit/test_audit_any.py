"""The audit of requests of any kind: logs of the core pass, and every kind of forgery is found."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from fair_allocator.audit import Report
from fair_allocator.core.requests import Request
from tests.support.any_log import Record, Scribe, played
from tests.support.audit_log import audit, row

pytestmark = pytest.mark.slow


def test_logs_of_the_core_pass() -> None:
    rounds = waited = again = 0
    for seed in range(70):
        log = played(seed).log
        report = audit(log)
        assert report.ok, (seed, report.first)
        rounds += report.pools[0].rounds
        waited += report.pools[0].waited
        again += sum("instead_of" in record for record in log)
    assert rounds > 3_000
    assert waited > 500
    assert again > 100


def test_the_longest_gap_is_counted_in_slots_that_an_arm_could_take() -> None:
    scribe = Scribe({"a": "1/5", "b": "1/9", "c": 0}, bank=2)
    rng = random.Random(3)
    for number in range(200):
        some = rng.sample("abc", rng.randint(1, 3))
        scribe.ask(Request(f"r{number}", rng.choice([None, some]), rng.randint(1, 2)))
    seen = row(audit(scribe.log))
    assert seen.longest_gap == scribe.pool.longest_gap() > 0
    assert seen.forced + seen.learned == sum(scribe.pool.pulls.values()) > seen.rounds


def test_an_audit_may_begin_in_the_middle() -> None:
    for seed in range(20):
        log = played(seed).log
        for start in range(1, len(log), 7):
            report = audit(json.loads(json.dumps(log[start:])), start)
            assert report.ok, (seed, start, report.first)


# -- a log with one thing forged ------------------------------------------------------------------

Forge = Callable[[list[Record]], int | None]
"""Spoils a log, and returns where; None if there is no place for it."""


def fresh(record: Record) -> bool:
    return record["type"] == "assignment" and not record["repeat"]


def prompt(record: Record) -> bool:
    return fresh(record) and "request_offset" not in record


def give_to_one_left_out(log: list[Record]) -> int | None:
    for at, record in enumerate(log):
        if prompt(record) and "but" in record and "others" not in record:
            record["arm"] = record["but"][0]
            return at
    return None


def give_to_one_not_named(log: list[Record]) -> int | None:
    for at, record in enumerate(log):
        if fresh(record) and "eligible" in record and "others" not in record:
            record["eligible"].remove(record["arm"])
            return at
    return None


def give_to_one_away(log: list[Record]) -> int | None:
    for at, record in enumerate(log):
        if prompt(record) and "away" in record and "eligible" not in record:
            record["arm"] = record["away"][0]
            return at
    return None


def give_twice(log: list[Record]) -> int | None:
    for at, record in enumerate(log):
        if fresh(record) and "others" in record:
            record["others"][0]["arm"] = record["arm"]
            return at
    return None


def give_again(log: list[Record]) -> int | None:
    for at, record in enumerate(log):
        if (
            "instead_of" in record
            and fresh(record)
            and record["instead_of"] in record.get("but", [])
        ):
            record["but"].remove(record["instead_of"])
            record["arm"] = record["instead_of"]
            return at
    return None


def replace_again(log: list[Record]) -> int | None:
    first = next((r for r in log if "instead_of" in r and fresh(r)), None)
    if first is None:
        return None
    for at, record in enumerate(log):
        later = fresh(record) and record["round"] > first["round"]
        if later and not {"others", "request_offset"} & record.keys():
            for name in ("request_id", "instead_of", "request_offset"):
                record[name] = first[name]
            return at
    return None


def replace_a_stranger(log: list[Record]) -> int | None:
    for at, record in enumerate(log):
        if "instead_of" in record and fresh(record):
            record["instead_of"] = "nobody"
            return at
    return None


def answer_twice(log: list[Record]) -> int | None:
    places = [at for at, record in enumerate(log) if prompt(record)]
    log[places[-1]]["request_id"] = log[places[-2]]["request_id"]
    return places[-1]


def answer_late_twice(log: list[Record]) -> int | None:
    late = [r for r in log if "request_offset" in r and fresh(r) and "instead_of" not in r]
    for at, record in enumerate(log):
        if late and prompt(record) and record["round"] > late[0]["round"]:
            record["request_offset"] = late[0]["request_offset"]
            return at
    return None


def wait_twice(log: list[Record]) -> int | None:
    for at, record in enumerate(log):
        if record["type"] == "waiting":
            log.insert(at + 1, {**record, "why": "paused"})
            return at + 1
    return None


def repeat_another_arm(log: list[Record]) -> int | None:
    for at, record in enumerate(log):
        if record.get("repeat"):
            record["arm"] = "nobody"
            return at
    return None


def go_away_twice(log: list[Record]) -> int | None:
    for at, record in enumerate(log):
        if fresh(record) and "away" in record:
            record["away"].append(record["away"][0])
            return at
    return None


def come_back_from_nowhere(log: list[Record]) -> int | None:
    for at, record in enumerate(log):
        if fresh(record) and "back" not in record and record.get("version") == 2:
            record["back"] = [record["arm"]]
            return at
    return None


def loosen_a_cap(log: list[Record]) -> int | None:
    for at, record in enumerate(log[1:], 1):
        whole = record.get("complete") and record["chunks"] == 1
        for arm in record["arms"].values() if whole else ():
            if "capped" in arm:
                arm["capped"] = "1000"
                return at
    return None


def join_with_a_past(log: list[Record]) -> int | None:
    for at, record in enumerate(log):
        if record["type"] == "epoch" and not record["complete"]:
            record["arms"]["late"] = {"quota": "0", "entitled": "0", "pulls": 3}
            return at
    return None


def let_a_stranger_leave(log: list[Record]) -> int | None:
    for at, record in enumerate(log):
        if record["type"] == "epoch" and not record["complete"]:
            record["left"] = ["nobody"]
            return at
    return None


FORGERIES: dict[str, tuple[Forge, str]] = {
    "an arm that was left out": (give_to_one_left_out, "is picked, but was not eligible"),
    "an arm that was not named": (give_to_one_not_named, "is picked, but was not eligible"),
    "an arm that was away": (give_to_one_away, "is picked, but is away"),
    "an arm twice in a request": (give_twice, "is picked twice in one request"),
    "an arm again over a request's life": (give_again, " before, in round "),
    "an arm replaced twice": (replace_again, "was replaced in request "),
    "an arm replaced that was not given": (replace_a_stranger, "is replaced, but was not given"),
    "a request answered twice": (answer_twice, " was answered in round "),
    "a waiting request answered twice": (answer_late_twice, "which does not wait"),
    "a request that waits twice": (wait_twice, "waits already"),
    "a repeat that says something else": (repeat_another_arm, "but its repeat says arm"),
    "an arm that goes away twice": (go_away_twice, "goes away twice"),
    "an arm that comes back from nowhere": (come_back_from_nowhere, "but was not away"),
    "a cap that allows more": (loosen_a_cap, "its cap is said to allow 1000 pulls"),
    "an arm that joins with a past": (join_with_a_past, "arm 'late' is new, but is said"),
    "a stranger that leaves": (let_a_stranger_leave, "leaves, but is not an arm of the pool"),
}


@pytest.fixture(scope="module")
def logs() -> list[str]:
    return [json.dumps(played(seed).log) for seed in range(12)]


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forgery_is_found_at_its_place(what: str, logs: list[str]) -> None:
    forge, sentence = FORGERIES[what]
    found = 0
    for text in logs:
        log = json.loads(text)
        at = forge(log)
        if at is not None:
            first = audit(log).first
            assert first is not None
            assert first.offset == at
            assert sentence in first.sentence
            assert first.pool == "crowd"
            found += 1
    assert found > 2


def hide(name: str) -> Callable[[list[Record]], int | None]:
    """Return a forgery that leaves a field out of the last assignment that has it."""

    def forge(log: list[Record]) -> int | None:
        for at, record in reversed(list(enumerate(log))):
            if fresh(record) and name in record:
                del record[name]
                return at
        return None

    return forge


@pytest.mark.parametrize("name", ["others", "eligible", "but", "away", "back"])
def test_what_is_left_out_of_an_assignment_shows_later(name: str, logs: list[str]) -> None:
    """A lie about who could take a request is found when it is stated where the arms stand.

    Arms without a quota and without a cap leave no trace: it makes no difference to them.
    """
    found = 0
    for text in logs:
        log = json.loads(text)
        at = hide(name)(log)
        first = None if at is None else audit(log).first
        assert first is None or first.offset >= (at or 0)
        found += first is not None
    assert found > 3


# -- promises broken ------------------------------------------------------------------------------


def rewritten(picks: str, reason: str = "learner", **settings: Any) -> Report:
    """Play single requests, and pretend that they went to other arms."""
    scribe = Scribe({"a": "1/5", "b": "0"}, **settings)
    for number in range(len(picks)):
        scribe.ask(Request(f"r{number}"))
    for record, arm in zip(scribe.log[1:], picks, strict=True):
        record |= {"arm": arm, "reason": reason if arm == "a" else "learner"}
    return audit(scribe.log)


def sentence(report: Report) -> str:
    assert report.first is not None
    return f"{report.first.round}: {report.first.sentence}"


def test_a_shortfall_is_found() -> None:
    assert sentence(rewritten("bbbbb")) == (
        "5: arm 'a' is 1 pull short of its entitlement 1, tolerated are 0"
    )
    assert rewritten("bbbbb", tolerance=1).ok


@pytest.mark.parametrize("named", [5, 4, 1])
def test_a_shortfall_is_found_on_the_arms_own_clock(named: int) -> None:
    """Requests that do not name the arm change nothing; what names it and what is for all does."""
    scribe = Scribe({"a": "1/5", "b": "0", "c": "0", "d": "0"})
    for number in range(3):
        scribe.ask(Request(f"others-{number}", ["b", "c"]))
    for number in range(5):
        scribe.ask(Request(f"r{number}", ["a", "b"] if number < named else None))
    for record in scribe.log[4:]:
        record |= {"arm": "b", "reason": "learner"}
    assert sentence(audit(scribe.log)) == (
        "8: arm 'a' is 1 pull short of its entitlement 1, tolerated are 0"
    )


def test_an_arm_that_lives_on_its_past_is_found_where_there_is_a_bank() -> None:
    past = "aaaaaa" + "b" * 12
    assert rewritten(past).ok
    assert sentence(rewritten(past, bank=1)) == (
        "16: arm 'a' is 1 pull short of its entitlement 7, tolerated are 0 with a bank of 1"
    )
    assert rewritten("aaaaaa" + "b" * 9, bank=1).ok


def test_pulls_that_pretend_to_be_owed_are_found_where_there_is_a_bank() -> None:
    assert rewritten("aaaaaa", "fairness").ok
    assert sentence(rewritten("aaaaaa", "fairness", bank=1)) == (
        "2: arm 'a' is served as owed and is 8/5 pulls ahead, beyond its bank of 1"
    )


def test_a_learners_choice_beyond_a_cap_is_found_and_a_forced_one_is_none() -> None:
    caps = {"a": "1/3"}
    assert sentence(rewritten("aba", caps=caps)) == (
        "3: arm 'a' is the learner's choice with 1 pulls, its cap 1/3 allows 1"
    )
    assert rewritten("abba", caps=caps).ok
    assert rewritten("aba", "fairness", caps=caps).ok


def test_a_plain_pool_cannot_have_requests_that_name_arms() -> None:
    scribe = Scribe({"a": "1/5", "b": "0"}, requests="plain")
    scribe.ask(Request("r0"))
    assert audit(scribe.log).ok
    scribe.log[1] |= {"version": 2, "eligible": ["a"], "arm": "a"}
    assert "but the pool is plain" in sentence(audit(scribe.log))


def test_a_version_to_come_cannot_be_audited() -> None:
    scribe = Scribe({"a": "1/5", "b": "0"})
    scribe.ask(Request("r0"))
    scribe.log[1]["version"] = 3
    assert sentence(audit(scribe.log)) == "1: is of version 3, which cannot be audited here"


def test_a_bank_that_comes_into_force_ends_what_was_before_for_all_arms() -> None:
    scribe = Scribe({"a": "1/5", "b": "0"})
    for number in range(18):
        scribe.ask(Request(f"r{number}"))
    for record, arm in zip(scribe.log[1:], "aaaaaa" + "b" * 12, strict=True):
        record |= {"arm": arm, "reason": "learner"}
    assert audit(json.loads(json.dumps(scribe.log))).ok
    change = {**scribe.log[0], "epoch": 2, "round": 7, "complete": False, "bank": 1, "arms": {}}
    scribe.log.insert(7, {**change, "folded": scribe.log[6]["folded"]})
    for record in scribe.log[8:]:
        record["epoch"] = 2
    assert sentence(audit(scribe.log)).startswith("16: arm 'a' is 1 pull short")


def test_an_arm_that_was_served_ahead_beyond_its_bank_is_no_offence() -> None:
    scribe = Scribe({f"a{number}": "1/10" for number in range(10)}, bank=1)
    for number in range(5):
        scribe.ask(Request(f"r{number}"))
    for number in range(5, 9):  # four arms that are owed half a pull each
        scribe.pool.sleep(f"a{number}")
    for number in range(40):
        scribe.ask(Request(f"s{number}", ["a0"]))
        scribe.stand()
    forced = [record for record in scribe.log if fresh(record) and record["reason"] == "fairness"]
    assert sum(record["arm"] == "a0" for record in forced) > 2
    assert audit(scribe.log).ok, audit(scribe.log).first


def test_an_arm_that_was_sent_to_sleep_must_be_away() -> None:
    scribe = Scribe({"a": "1/5", "b": "0"})
    scribe.folded["controls"] += 1
    scribe.write(type="control", pool="crowd", action="sleep", arms=["a"])
    scribe.pool.sleep("a")
    scribe.ask(Request("r0"))
    assert audit(scribe.log).ok
    del scribe.log[-1]["away"]
    assert sentence(audit(scribe.log)) == "1: arm 'a' was sent to sleep, but is not away"
