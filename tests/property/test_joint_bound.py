"""The joint bound of a split pool: kept in every order of the parts, and attained by some order."""

import json
from collections.abc import Iterable
from fractions import Fraction
from itertools import product
from math import ceil, floor
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fair_allocator import Guarantee, Learner, Pool
from fair_allocator.audit import Audit
from fair_allocator.core.among import Among
from fair_allocator.core.learners import Choice
from fair_allocator.log.parts import part_names
from tests.support.audit_log import Book
from tests.support.audit_log import audit as audited

Standing = tuple[int, int]
"""Rounds and pulls of the arm in a part."""


class Hostile(Learner):
    """Always chooses the first arm."""

    name = "hostile"
    cost = "O(1)"

    def choose(self, round: int, among: Among | None = None) -> Choice:
        return 0, 1.0


def laziest(quota: Fraction, tolerance: int) -> list[Standing]:
    """Return the course of a part that serves the arm only when its promise demands it."""
    rounds = range((tolerance + 2) * quota.denominator)
    return [(t, max(0, floor(quota * t) - tolerance)) for t in rounds]


def joint_shortfall(quota: Fraction, parts: Iterable[Standing]) -> int:
    stood = list(parts)
    rounds, pulls = sum(t for t, _ in stood), sum(n for _, n in stood)
    return floor(quota * rounds) - pulls


def worst_of_any_order(quota: Fraction, course: Iterable[Standing], parts: int) -> int:
    """Return the largest joint shortfall of parts that all take the same course.

    In some order of the rounds, every combination of moments of the parts is seen.
    """
    distinct = {quota * t - n: (t, n) for t, n in course}.values()
    return max(joint_shortfall(quota, moments) for moments in product(distinct, repeat=parts))


def stated(quota: Fraction, tolerance: int, parts: int) -> int:
    """Return what the library says, checked against the formula of docs/theory.md."""
    found = Guarantee("max-deficit", tolerance, tolerance, False).joint_bound(quota, parts)
    assert found == parts * (tolerance + 1) - ceil(Fraction(parts, quota.denominator))
    return found


QUOTAS = sorted({Fraction(p, q) for q in range(1, 8) for p in range(1, q + 1)})


@pytest.mark.parametrize("tolerance", [0, 1, 2])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_parts_that_keep_their_promise_can_attain_the_bound(parts: int, tolerance: int) -> None:
    for quota in QUOTAS:
        course = laziest(quota, tolerance)
        worst = worst_of_any_order(quota, course, parts)
        assert worst == stated(quota, tolerance, parts), (quota, parts)


@pytest.mark.parametrize("arms", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("parts", [2, 3, 4])
def test_our_own_parts_attain_the_bound(parts: int, arms: int) -> None:
    """Equal quotas that sum to 1, and no tolerance: the last arm is served in the last round."""
    quota = Fraction(1, arms)
    pool = Pool({f"arm-{n}": quota for n in range(arms)}, 0, Hostile())
    course = [(0, 0)]
    for number in range(3 * arms):
        pool.assign(f"r{number}")
        course += [(pool.rounds, pulls) for pulls in pool.pulls.values()]
    assert worst_of_any_order(quota, course, parts) == stated(quota, 0, parts)


@given(
    quotas=st.sampled_from([["1/2", "1/3"], ["1/4"] * 4, ["2/7", "3/7", "1/7"], ["1/10"] * 9]),
    tolerance=st.integers(0, 2),
    parts=st.integers(2, 5),
    seed=st.integers(0, 1_000_000),
)
def test_an_adversary_that_chooses_the_order_keeps_within_the_bound(
    quotas: list[str], tolerance: int, parts: int, seed: int
) -> None:
    arms = {"free": Fraction(0)} | {f"arm-{n}": Fraction(quota) for n, quota in enumerate(quotas)}
    pools = [Pool(arms, tolerance, Hostile()) for _ in range(parts)]
    chance = Random(seed)
    for number in range(20 * parts):
        chance.choice(pools).assign(f"r{number}")
        for arm, quota in arms.items():
            stood = [(pool.rounds, pool.pulls[arm]) for pool in pools]
            assert joint_shortfall(quota, stood) <= stated(quota, tolerance, parts)


def in_parts(counts: list[int], quota: str, tolerance: int) -> list[Book]:
    """Write the records of parts whose arm gets its first pull after so many rounds."""
    names = part_names("tasks", len(counts))
    books = []
    for partition, (name, count) in enumerate(zip(names, counts, strict=True)):
        arms = {"ann": quota, "bob": "0"}
        book = Book(arms, str(tolerance), tolerance, pool=name, partition=partition)
        books.append(book.play("bob " * count))
    return books


def feed(books: list[Book]) -> Audit:
    audit = Audit()
    for book in books:
        for offset, record in enumerate(book.log):
            audit.feed(book.partition, offset, json.dumps(record).encode())
    return audit


def test_the_audit_attains_the_bound_and_not_more() -> None:
    report = feed(in_parts([9, 9, 9, 9], "1/10", 0)).report()
    (row,) = report.splits
    assert (row.pool, row.parts, row.found, row.rounds) == ("tasks", 4, 4, 36)
    assert (row.worst, row.tolerated, row.arm, row.broken) == (3, 3, "ann", ())
    assert report.ok


def test_the_audit_joins_peaks_of_different_times() -> None:
    """After its pull a part owes nothing; another order of the same rounds shows what it owed."""
    books = in_parts([9, 9, 9, 9], "1/10", 0)
    for book in books[:3]:
        book.play("ann bob bob")
    (row,) = feed(books).report().splits
    assert (row.worst, row.tolerated) == (3, 3)


def test_a_joint_violation_is_found() -> None:
    report = feed(in_parts([9, 9, 9, 19], "1/10", 0)).report()
    (row,) = report.splits
    assert (row.worst, row.tolerated, row.broken) == (4, 3, ("ann",))
    assert not report.ok
    said = "\n".join(report.lines())
    assert "pool 'tasks': together its 4 parts can leave arm 'ann' 4 pulls short" in said
    assert report.as_json()["splits"][0]["broken"] == ("ann",)


def test_a_part_that_breaks_its_own_bound_may_leave_the_joint_one_intact() -> None:
    report = feed(in_parts([0, 0, 0, 10], "1/10", 0)).report()
    (row,) = report.splits
    assert (row.worst, row.tolerated, row.broken) == (1, 3, ())
    assert report.offences == 1


def test_changed_quotas_and_bounds_count_with_their_own_denominators() -> None:
    books = in_parts([9, 9], "1/10", 0)
    books[0].announce({"ann": "1/3", "bob": "0"}).play("ann bob bob")
    (row,) = feed(books).report().splits
    assert row.tolerated == floor(2 * Fraction(1) - Fraction(1, 30) - Fraction(1, 10))
    assert not row.broken


def test_what_was_owed_to_an_arm_that_left_counts() -> None:
    books = in_parts([9, 9, 9, 9], "1/10", 0)
    books[0].announce({"bob": "0"}).play("bob bob")
    books[1].remove()
    (row,) = feed(books).report().splits
    assert (row.worst, row.tolerated) == (3, 3)


def test_without_a_promise_there_is_no_joint_one() -> None:
    names = part_names("tasks", 2)
    books = [
        Book({"ann": "1/2", "bob": "0"}, bound=None, pool=name, partition=at).play("bob " * 9)
        for at, name in enumerate(names)
    ]
    report = feed(books).report()
    (row,) = report.splits
    assert (row.worst, row.tolerated, row.broken) == (9, None, ())
    assert report.ok


def test_pools_that_are_no_parts_are_not_joined() -> None:
    assert audited(Book().play("ann bob cyd ann").log).splits == ()
