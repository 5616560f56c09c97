"""Every sequence of a learner's choices, and of changes, on small pools, in exact arithmetic."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from math import floor
from typing import Any

import pytest

from fair_allocator import Pool
from tests.support.reference import Audited, Reference, Told, find_violation, fractions, is_even

pytestmark = pytest.mark.slow

HALF = Fraction(1, 2)
TOLERANCES = (Fraction(0), HALF, Fraction(1), 3 * HALF, Fraction(2))


def shares(largest_denominator: int) -> list[Fraction]:
    """Return every fraction from 0 to 1 with a denominator up to this one."""
    return sorted({Fraction(p, q) for q in range(1, largest_denominator + 1) for p in range(q + 1)})


def vectors(size: int, largest_denominator: int, least_sum: Fraction) -> Iterator[list[Fraction]]:
    """Yield quotas with a sum from `least_sum` to 1, largest first and largest last."""
    for quotas in combinations_with_replacement(shares(largest_denominator), size):
        if least_sum <= sum(quotas) <= 1:
            yield list(quotas)
            if quotas[0] != quotas[-1]:
                yield list(reversed(quotas))


# -- fixed quotas ---------------------------------------------------------------------------------


def search(quotas: Sequence[Fraction], tolerance: Fraction, rule: str, depth: int) -> int:
    """Try every learner against a real pool; return how many states were reached."""
    bound, names = floor(tolerance), [f"arm{index}" for index in range(len(quotas))]
    start = Pool(dict(zip(names, quotas, strict=True)), tolerance, Told(), rule, remember=0)
    layer = {(): (start, Reference.guarded(quotas, tolerance, rule))}
    reached = 0
    for _ in range(depth):
        below: dict[Any, tuple[Pool, Reference]] = {}
        for pool, reference in layer.values():
            forced = reference.must_serve()
            for arm in range(len(quotas)) if forced is None else [forced]:
                told = Told(names[arm])
                branch = Pool.from_state(pool.state(), learner=told) if forced is None else pool
                answer = branch.assign("request")
                branch.expire("request")
                after = reference.copy()
                after.count(arm)
                where = f"{rule}, tolerance {tolerance}, {[*map(str, quotas)]}, {after.pulls}"
                assert answer.arm == names[arm], where
                assert answer.reason == ("learner" if forced is None else "fairness"), where
                assert after.violation() <= bound, where
                assert branch.violation() == after.violation(), where
                below.setdefault(tuple(after.pulls), (branch, after))
        layer = below
        reached += len(layer)
    return reached


def rules(quotas: Sequence[Fraction]) -> list[str]:
    """Return the rules that are guaranteed for these quotas."""
    return ["max-deficit", "earliest-deadline"] if is_even(quotas) else ["earliest-deadline"]


@pytest.mark.parametrize("tolerance", TOLERANCES, ids=str)
def test_no_learner_breaks_the_bound_of_two_arms(tolerance: Fraction) -> None:
    for quotas in vectors(2, 6, Fraction(0) if tolerance < 1 else Fraction(3, 4)):
        for rule in rules(quotas):
            search(quotas, tolerance, rule, depth=8 + 3 * floor(tolerance))


@pytest.mark.parametrize("tolerance", TOLERANCES, ids=str)
def test_no_learner_breaks_the_bound_of_three_arms(tolerance: Fraction) -> None:
    least = Fraction(1, 2) if tolerance == 0 else Fraction(9, 10)
    for quotas in vectors(3, 6, least):
        for rule in rules(quotas):
            search(quotas, tolerance, rule, depth=9)


@pytest.mark.parametrize("tolerance", [Fraction(0), Fraction(1)], ids=str)
def test_no_learner_breaks_the_bound_of_four_arms(tolerance: Fraction) -> None:
    for quotas in vectors(4, 5, Fraction(9, 10)):
        for rule in rules(quotas):
            search(quotas, tolerance, rule, depth=8)


def test_the_search_finds_what_is_broken() -> None:
    skewed = fractions("2/3", "1/5", "1/10")
    assert find_violation(Reference(skewed, 0, "max-deficit"), bound=0, depth=6) is not None
    late = Reference(fractions("1/2", "1/2", 0), 0, "earliest-deadline")
    assert find_violation(late, bound=0, depth=6) is not None


# -- changes --------------------------------------------------------------------------------------

Configuration = dict[str, Any]


def configuration(
    tolerance: int | str = 0, rule: str = "auto", **quotas: str | int
) -> Configuration:
    return {"arms": quotas, "tolerance": tolerance, "rule": rule}


def search_changes(configurations: Sequence[Configuration], depth: int, learner: str = "") -> int:
    """Try every change before every round, and every learner unless one is given."""
    seen = set()
    layer = [(Audited(**configurations[0]), 0)]
    for _ in range(depth):
        below = []
        for audited, current in layer:
            for index, wanted in enumerate(configurations):
                changed = audited
                if index != current:
                    changed = audited.clone()
                    changed.reconfigure(**wanted)
                for branch in rounds(changed, [learner] if learner else list(wanted["arms"])):
                    key = branch.key()
                    if key not in seen:
                        seen.add(key)
                        below.append((branch, index))
        layer = below
    return len(seen)


def rounds(audited: Audited, wishes: list[str]) -> Iterator[Audited]:
    """Yield what one round makes of a pool for each of a learner's wishes."""
    for wish in wishes:
        branch = audited.clone()
        answer = branch.play(wish)
        yield branch
        if answer.reason == "fairness":
            return


CHANGES = {
    "quotas under max deficit": [
        configuration(a="2/5", b="2/5", c=0, s=0),
        configuration(a="1/5", b=0, c="2/5", s=0),
        configuration(a=0, b="1/3", c="1/4", s=0),
    ],
    "quotas set to zero under max deficit": [
        configuration(a="2/5", b="2/5", c=0, d=0, s=0),
        configuration(a=0, b=0, c="2/5", d="2/5", s=0),
    ],
    "fewer arms with larger quotas under max deficit": [
        configuration(a="6/25", b="6/25", c="6/25", d="6/25", s=0),
        configuration(c="12/25", d="12/25", s=0),
        configuration(d="24/25", s=0),
    ],
    "arms joining and leaving under max deficit": [
        configuration(a="3/10", b="3/10", c="3/10", s=0),
        configuration(b="3/10", c="3/10", d="3/10", s=0),
        configuration(c="2/5", s=0),
    ],
    "quotas under earliest deadline": [
        configuration(a="3/5", b="1/5", c="1/10", s=0),
        configuration(a="1/5", b="3/5", c="1/10", s=0),
        configuration(a="1/10", b="1/5", c="3/5", s=0),
    ],
    "quotas under earliest deadline that sum to 1": [
        configuration(a="1/2", b="1/4", c="1/4"),
        configuration(a="1/4", b="1/2", c="1/4"),
        configuration(a="1/3", b="1/3", c="1/3"),
    ],
    "one share handed round among three": [
        configuration(rule="earliest-deadline", a="1/2", b=0, c=0, y="1/4", z="1/4"),
        configuration(rule="earliest-deadline", a=0, b="1/2", c=0, y="1/4", z="1/4"),
        configuration(rule="earliest-deadline", a=0, b=0, c="1/2", y="1/4", z="1/4"),
    ],
    "arms that leave once they were served": [
        configuration(x="1/2", y="1/4", z="1/4"),
        configuration(w="1/2", y="1/4", z="1/4"),
        configuration(x="1/2", y="1/4"),
    ],
    "arms that leave below a sum of 1": [
        configuration(x="1/2", y="1/5", z="1/5", s=0),
        configuration(w="1/2", y="1/5", z="1/5", s=0),
        configuration(y="1/5", z="3/5", s=0),
    ],
    "arms joining and leaving up to a sum of 1": [
        configuration(a="1/2", b="1/3", s=0),
        configuration(a="1/2", b="1/3", c="1/6", s=0),
        configuration(b="1/2", c="1/2", s=0),
        configuration(c=1, s=0),
    ],
    "tolerance under max deficit": [
        configuration(0, a="2/5", b="2/5", s=0),
        configuration(1, a="2/5", b="2/5", s=0),
        configuration("5/2", a="1/4", b="2/5", s=0),
    ],
    "tolerance under earliest deadline": [
        configuration(1, a="3/5", b="1/4", s=0),
        configuration(0, a="3/5", b="1/4", s=0),
        configuration("3/2", a="1/4", b="3/5", s=0),
    ],
    "tolerance where quotas sum to 1": [
        configuration(1, a="3/5", b="2/5"),
        configuration(0, a="3/5", b="2/5"),
        configuration(2, a="2/5", b="3/5"),
    ],
    "rules": [
        configuration(a="2/5", b="2/5", c="1/10", s=0),
        configuration(a="3/10", b="3/10", c="3/10", s=0),
        configuration(a="1/10", b="1/4", c="3/5", s=0),
    ],
    "rules with tolerances and arms": [
        configuration(1, a="2/3", b="1/4", s=0),
        configuration(0, a="1/3", b="1/4", s=0),
        configuration(1, b="1/4", c="1/3", s=0),
    ],
}


@pytest.mark.parametrize("configurations", CHANGES.values(), ids=CHANGES.keys())
def test_no_learner_and_no_changes_break_the_bound(configurations: list[Configuration]) -> None:
    search_changes(configurations, depth=5)


@pytest.mark.parametrize("configurations", CHANGES.values(), ids=CHANGES.keys())
def test_no_long_run_of_changes_breaks_the_bound(configurations: list[Configuration]) -> None:
    first, *others = (list(wanted["arms"]) for wanted in configurations)
    always = [arm for arm in first if all(arm in arms for arms in others)]
    search_changes(configurations, depth=7, learner=always[-1])
