"""Logs of a naive fair allocator, one record spoilt at random: the audit against brute force."""

import json
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from math import floor
from typing import Any

import pytest

from tests.support.audit_log import Book, Record, audit

pytestmark = pytest.mark.slow

NAMES = ("ann", "bob", "cyd", "dan", "eve")


# -- a naive allocator, fair because five arms times the largest quota stay below 1 ------------


def quota(rng: random.Random) -> str:
    return rng.choice(["0", f"{rng.randint(1, 19)}/97", f"{rng.randint(1, 18)}/96", "0.07", "1/6"])


def quotas(rng: random.Random) -> dict[str, str]:
    return {name: quota(rng) for name in rng.sample(NAMES, rng.randint(2, 5))}


def lead(book: Book, arm: str) -> Fraction:
    return book.entitled.get(arm, Fraction(0)) - book.pulls.get(arm, 0)


def serve(rng: random.Random, book: Book, care: float) -> None:
    tolerance = floor(Fraction(book.tolerance))
    urgent = max(book.quotas, key=lambda arm: lead(book, arm))
    if lead(book, urgent) > tolerance and rng.random() < care:
        book.play(urgent)
        return
    if book.bound != tolerance:
        book.announce(None, book.tolerance, tolerance, complete=False)
    book.play(rng.choice([*book.quotas, *[min(book.quotas)] * 5]))


def change(rng: random.Random, book: Book) -> None:
    named = rng.sample(sorted(book.quotas), rng.randint(1, 2))
    book.announce({arm: quota(rng) for arm in named}, complete=False)


def set_tolerance(rng: random.Random, book: Book) -> None:
    tolerance = rng.choice(["0", "1", "5/2"])
    assert book.bound is not None
    bound = max(book.bound, floor(Fraction(tolerance)))
    book.announce(None, tolerance, bound, complete=rng.random() < 0.5)


def repeat(rng: random.Random, book: Book) -> None:
    ends = [offset for offset, record in enumerate(book.log) if record["type"] == "removed"]
    answers = [
        record
        for record in book.log[ends[-1] if ends else 0 :]
        if record["type"] == "assignment" and record["pool"] == book.pool
    ]
    if answers:
        book.write(**{**rng.choice(answers), "repeat": True})


def simulated(seed: int, care: float = 1) -> list[Record]:
    """Write a log that is right, but for arms that are not served for want of care."""
    rng = random.Random(seed)
    log: list[Record] = []
    books = [Book(quotas(rng), pool=name, log=log, chunks=rng.randint(1, 2)) for name in "xy"]
    for _ in range(60):
        book = rng.choice(books)
        match rng.randrange(30):
            case 0 | 1:
                change(rng, book)
            case 2:
                book.announce(quotas(rng), chunks=rng.randint(1, 3))
            case 3:
                book.announce(again=True, chunks=rng.randint(1, 3))
            case 4:
                set_tolerance(rng, book)
            case 5:
                repeat(rng, book)
            case 6:
                book.write(type="tick", clock=7)
            case 7 if rng.random() < 0.3:
                book.remove().announce(quotas(rng), "1", 1)
            case _:
                serve(rng, book, care)
    return log


# -- brute force: every arm at every round, until the first offence ----------------------------


class Oracle:
    def __init__(self) -> None:
        self.folded = {"requests": 0, "rewards": 0, "controls": 0}
        self.answered = 0
        self.pools: dict[str, Record] = {}
        self.parts: dict[str, list[Record]] = {}
        self.worst: dict[str, tuple[int, int]] = {}
        """By pool: how far a shortfall went above its bound, and the shortfall."""

    def accepts(self, record: Record) -> bool:
        folded = record["folded"]
        if any(folded[topic] < self.folded[topic] for topic in folded):
            return False
        self.folded = folded
        if record["type"] == "tick":
            return True
        if record["type"] == "epoch":
            return self.epoch(record)
        pool = self.pools.get(record["pool"])
        if self.parts.get(record["pool"]) or pool is None:
            return False
        if record["type"] == "removed":
            return bool(self.pools.pop(record["pool"])["rounds"] == record["rounds"])
        if folded["requests"] <= self.answered:
            return False
        self.answered = folded["requests"]
        return self.repeat(pool, record) if record.get("repeat") else self.play(pool, record)

    def repeat(self, pool: Record, record: Record) -> bool:
        first = pool["answers"].get(record["request_id"])
        known = first == (record["round"], record["arm"])
        return known and bool(record["epoch"] <= pool["epoch"])

    def play(self, pool: Record, record: Record) -> bool:
        pool["rounds"] += 1
        new = record["request_id"] not in pool["answers"]
        pool["answers"][record["request_id"]] = record["round"], record["arm"]
        known = record["arm"] in pool["arms"]
        for name, arm in pool["arms"].items():
            arm["entitled"] += arm["quota"]
            arm["pulls"] += name == record["arm"]
        agrees = (record["round"], record["epoch"]) == (pool["rounds"], pool["epoch"])
        shortfalls = [floor(arm["entitled"]) - arm["pulls"] for arm in pool["arms"].values()]
        self.note(record["pool"], max(shortfalls), pool["bound"])
        return new and known and agrees and max(shortfalls) <= pool["bound"]

    def note(self, pool: str, shortfall: int, bound: int) -> None:
        worst = shortfall - bound, shortfall
        self.worst[pool] = max(worst, self.worst.get(pool, worst))

    def epoch(self, record: Record) -> bool:
        terms = ("epoch", "round", "rule", "tolerance", "bound", "chunks", "complete")
        parts = self.parts.setdefault(record["pool"], [])
        parts.append(record)
        if [part["chunk"] for part in parts] != list(range(len(parts))):
            return False
        if any(part[term] != parts[0][term] for part in parts for term in terms):
            return False
        if len(parts) > record["chunks"] or (record["chunks"] > 1 and not record["complete"]):
            return False
        if len({arm for part in parts for arm in part["arms"]}) < sum(
            len(part["arms"]) for part in parts
        ):
            return False
        if not self.is_sensible(record):
            return False
        if len(parts) < record["chunks"]:
            return True
        self.parts[record["pool"]] = []
        stands = {name: read(arm) for part in parts for name, arm in part["arms"].items()}
        return self.state(record, stands)

    def is_sensible(self, record: Record) -> bool:
        arms = [read(arm) for arm in record["arms"].values()]
        fine = all(arm["quota"] <= 1 and arm["pulls"] >= 0 for arm in arms)
        return fine and record["round"] >= 1 and record["rule"] != "none"

    def state(self, record: Record, stands: dict[str, Record]) -> bool:
        old = self.pools.get(record["pool"])
        tolerance, bound, complete = (
            floor(Fraction(record["tolerance"])),
            record["bound"],
            record["complete"],
        )
        if bound < tolerance or (bound > tolerance and (old is None or bound > old["bound"])):
            return False
        before = {} if old is None else old["arms"]
        if old is None and not complete:
            return False
        if record["round"] != (1 if old is None else old["rounds"] + 1):
            return False
        for name, stand in stands.items():
            was = before.get(name, {"entitled": 0, "pulls": 0})
            if (stand["entitled"], stand["pulls"]) != (was["entitled"], was["pulls"]):
                return False
        arms = stands if complete else {**before, **stands}
        if sum(arm["quota"] for arm in arms.values()) > 1:
            return False
        terms = {term: record[term] for term in ("epoch", "rule", "tolerance", "bound")}
        if old is not None and record["epoch"] <= old["epoch"]:
            return (
                complete
                and all(old[term] == value for term, value in terms.items())
                and (
                    {name: arm["quota"] for name, arm in before.items()}
                    == {name: arm["quota"] for name, arm in arms.items()}
                )
            )
        history = {"rounds": 0, "answers": {}} if old is None else old
        self.pools[record["pool"]] = {**history, **terms, "arms": arms}
        self.note(record["pool"], 0, bound)
        return True


def read(arm: Record) -> Record:
    quota, entitled = Fraction(arm["quota"]), Fraction(arm["entitled"])
    return {"quota": quota, "entitled": entitled, "pulls": arm["pulls"]}


def first_offence(log: list[Record]) -> int | None:
    oracle = Oracle()
    return next((at for at, record in enumerate(log) if not oracle.accepts(record)), None)


# -- one thing spoilt --------------------------------------------------------------------------

Spoil = Callable[[random.Random, list[Record], int], object]


def nudge(rng: random.Random, value: Any) -> Any:
    """Return something else of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice([-2, -1, 1, 2])
    if value[:1].isdigit():
        return str(abs(Fraction(value) + rng.choice([-1, 1]) * Fraction(1, rng.randint(1, 97))))
    return rng.choice([name for name in (*NAMES, "x", "y", "x 1", "y 2") if name != value])


def nudge_field(rng: random.Random, log: list[Record], at: int) -> None:
    record = log[at]
    fields = [name for name in record if name not in ("type", "reason", "propensity", "partition")]
    field = rng.choice(fields)
    if field == "folded":
        topic = rng.choice(sorted(record["folded"]))
        record["folded"][topic] = nudge(rng, record["folded"][topic])
    elif field == "arms":
        nudge_arms(rng, record["arms"])
    else:
        record[field] = nudge(rng, record[field])


def nudge_arms(rng: random.Random, arms: dict[str, Record]) -> None:
    name = rng.choice([*arms, "eve"])
    if name not in arms:
        arms[name] = {"quota": "1/50", "entitled": "0", "pulls": 0}
    elif rng.random() < 0.2:
        del arms[name]
    else:
        field = rng.choice(["quota", "entitled", "pulls"])
        arms[name][field] = nudge(rng, arms[name][field])


def swap(rng: random.Random, log: list[Record], at: int) -> None:
    log[at - 1], log[at] = log[at], log[at - 1]


def swap_arms(rng: random.Random, log: list[Record], at: int) -> None:
    plays = [record for record in log[at - 12 :] if record["type"] == "assignment"]
    one, other = rng.sample(plays, 2)
    one["arm"], other["arm"] = other["arm"], one["arm"]


SPOILS: dict[str, Spoil] = {
    "drop": lambda rng, log, at: log.pop(at),
    "duplicate": lambda rng, log, at: log.insert(at, json.loads(json.dumps(log[at]))),
    "move": lambda rng, log, at: log.insert(rng.randrange(len(log)), log.pop(at)),
    "swap": swap,
    "swap arms": swap_arms,
    "field": nudge_field,
    "another arm": lambda rng, log, at: log[at].update(
        {"arm": nudge(rng, log[at]["arm"])} if "arm" in log[at] else {}
    ),
}


def offset_of_first(log: list[Record]) -> int | None:
    first = audit(log).first
    return None if first is None else first.offset


def test_naive_fair_logs_pass() -> None:
    for seed in range(100):
        log = simulated(seed)
        assert first_offence(log) is None, seed
        assert audit(log).ok, (seed, audit(log).first)


def test_a_shortfall_is_found_where_brute_force_finds_it() -> None:
    short = 0
    for seed in range(150):
        log = simulated(seed, care=0)
        expected = first_offence(log)
        assert offset_of_first(log) == expected, seed
        short += expected is not None
    assert short > 80


def test_the_worst_shortfall_is_the_one_brute_force_sees() -> None:
    for seed in range(100):
        log = simulated(seed, care=(seed % 4) / 3)
        oracle = Oracle()
        for record in log:
            oracle.accepts(record)
        for row in audit(log).pools:
            assert row.worst is not None
            assert row.tolerated is not None
            assert (row.worst - row.tolerated, row.worst) == oracle.worst[row.pool], seed


def test_the_first_offence_is_where_brute_force_finds_it() -> None:
    logs = [json.dumps(simulated(seed)) for seed in range(50)]
    spoilt: Counter[str] = Counter()
    for seed in range(500):
        rng = random.Random(seed)
        log = json.loads(logs[seed % len(logs)])
        kind = rng.choice(sorted(SPOILS) + ["field"] * 8)
        SPOILS[kind](rng, log, rng.randrange(12, len(log)))
        expected = first_offence(log)
        assert offset_of_first(log) == expected, (seed, kind)
        spoilt[kind] += expected is not None
    assert min(spoilt[kind] for kind in SPOILS) > 5
