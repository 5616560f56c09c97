"""A learner that fails or cheats changes which rewards are earned, and nothing else."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fair_allocator import Learner, LearnerWarning, Pool
from fair_allocator.core.among import Among

pytestmark = pytest.mark.slow

QUOTAS: dict[str, Any] = {"ann": "0.2", "bob": "0.1", "cyd": 0}


class Said(Learner):
    """Says what it is told to say, or raises it."""

    def __init__(self, said: Any) -> None:
        self.said = said

    def choose(self, round: int, among: Any = None) -> Any:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said

    def choose_several(self, round: int, among: Among, count: int) -> Any:
        said = self.choose(round)
        return said if isinstance(said, list) else [said]


FAULTS: list[tuple[Any, str]] = [
    (RuntimeError("boom"), "raised"),
    (RecursionError(), "raised"),
    ((3, 1.0), "unknown arm"),
    ((-1, 1.0), "unknown arm"),
    (10**30, "unknown arm"),
    ((2, float("nan")), "propensity"),
    ((2, 1.5), "propensity"),
    ((2, 0.0), "propensity"),
    ((2, -0.5), "propensity"),
    ((2, "often"), "propensity"),
    (None, "no choice"),
    ("cyd", "no choice"),
    (2.0, "no choice"),
    (True, "no choice"),
    ((2,), "no choice"),
    ((2, 1.0, 1.0), "no choice"),
    ({}, "no choice"),
]


@pytest.mark.parametrize(("said", "kind"), FAULTS, ids=lambda value: repr(value)[:25])
@pytest.mark.parametrize("requests", ["plain", "any"])
def test_a_fault_is_counted_and_the_least_pulled_arm_is_taken(
    said: Any, kind: str, requests: str
) -> None:
    pool = Pool(QUOTAS, tolerance=1, learner=Said(said), requests=requests)
    with pytest.warns(LearnerWarning, match="the pool decided without it"):
        first = pool.assign("first")
    assert (first.arm, first.reason, first.propensity) == ("ann", "learner", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # told once
        for number in range(200):
            pool.assign(str(number))
            assert pool.violation() <= 1
    assert pool.faults[kind] > 1
    assert set(pool.faults) == {kind}
    assert min(pool.pulls.values()) >= 66, "least pulled first is everybody in turns"


def test_the_report_has_the_traceback() -> None:
    pool = Pool(QUOTAS, learner=Said(RuntimeError("boom")))
    with pytest.warns(LearnerWarning, match=r"(?s)learner Said.*in choose.*RuntimeError: boom"):
        pool.assign("r")


@pytest.mark.filterwarnings("ignore::fair_allocator.LearnerWarning")
def test_only_the_first_traceback_is_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    """To format one takes much longer than to decide."""
    formatted = iter(["the first"])
    monkeypatch.setattr("fair_allocator.core.proposals.format_exc", lambda: next(formatted))
    pool = Pool(QUOTAS, learner=Said(RuntimeError("boom")))
    for number in range(3):
        pool.assign(str(number))
    assert pool.faults["raised"] > 1


@pytest.mark.parametrize("said", [2, np.int64(2), np.argmax([0, 0, 1]), (2, np.float64(0.5))])
def test_a_bare_index_and_numpy_numbers_are_choices(said: Any) -> None:
    for requests in ("plain", "any"):
        pool = Pool(QUOTAS, tolerance=1, learner=Said(said), requests=requests)
        answer = pool.assign("r")
        assert (answer.arm, pool.faults) == ("cyd", {})
        assert answer.propensity == (0.5 if isinstance(said, tuple) else None)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ([0, 0], "chosen twice"),
        ([0, 1], "not eligible"),
        ([0], "no choice"),
        ([0, 2, 3], "no choice"),
        ([], "no choice"),
    ],
    ids=str,
)
def test_what_can_be_used_of_several_is_used(said: Any, kind: str) -> None:
    pool = Pool({"a": 0, "b": 0, "c": 0, "d": 0}, learner=Said(said), requests="any")
    with pytest.warns(LearnerWarning):
        answer = pool.assign("r", eligible=["a", "c", "d"], slots=2)
    assert pool.faults == {kind: 1}
    assert answer.arms[0] == "a"
    assert set(answer.arms) < {"a", "c", "d"}
    assert len(set(answer.arms)) == 2


HOOKS: dict[str, Callable[[Pool], object]] = {
    "assigned": lambda pool: pool.assign("more"),
    "observed": lambda pool: pool.reward("r", 0.5),
    "expired": lambda pool: pool.expire("r"),
    "present": lambda pool: pool.sleep("ann"),
    "reshape": lambda pool: pool.reconfigure({**QUOTAS, "dan": 0}),
}


@pytest.mark.filterwarnings("ignore::fair_allocator.LearnerWarning")
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_fails_leaves_the_counts_right(hook: str) -> None:
    def fail(self: Learner, *args: Any) -> None:
        raise RuntimeError("boom")

    broken = type("Broken", (Said,), {hook: fail})
    bad = Pool(QUOTAS, learner=broken(2), requests="any")
    good = Pool(QUOTAS, learner=Said(2), requests="any")
    for pool in (bad, good):
        pool.assign("r")
        assert HOOKS[hook](pool)
    assert bad.faults["raised"] >= 1
    one, other = bad.state(), good.state()
    assert one["arms"] == other["arms"]
    assert one["requests"] == other["requests"]


@pytest.mark.filterwarnings("ignore::fair_allocator.LearnerWarning")
def test_a_learner_that_chooses_at_random_among_everybody_breaks_nothing() -> None:
    class Wild(Learner):
        def choose_several(self, round: int, among: Among, count: int) -> Any:
            return [self.draws.below(12, round, purpose) - 4 for purpose in range(count)]

    pool = Pool(
        {"a": "0.4", "b": "0.3", "c": "0.2", "d": 0}, learner=Wild(), requests="any", remember=0
    )
    for number in range(3_000):
        names = ["a", "b", "c", "d"][number % 3 :]
        pool.assign(str(number), names, slots=1 + number % 2)
        assert pool.violation() <= 0
    assert pool.violated_epochs == 0
    assert set(pool.faults) == {"unknown arm", "not eligible", "chosen twice"}


# -- learners that reach for more than they are given ---------------------------------------------


class Draining(Learner):
    """Takes the arms it chooses out of what it was given, as one draws without replacement."""

    def choose_several(self, round: int, among: Among, count: int) -> Any:
        if among.named is not None:
            return [among.named.pop() for _ in range(count)]
        chosen = list(among)[:count]
        among.extra.update(chosen)
        among.away.update(chosen)
        return chosen


@pytest.mark.parametrize("named", [True, False])
def test_what_a_learner_does_to_its_arms_to_choose_among_changes_nothing(named: bool) -> None:
    quotas: dict[str, Any] = {"a": "0.4", "b": "0.3", "c": 0}
    pool = Pool(quotas, tolerance=1, learner=Draining(), requests="any")
    other = Pool(quotas, tolerance=1, requests="any")
    for number in range(60):
        for each in (pool, other):
            each.assign(str(number), ["a", "b", "c"] if named else None)
            assert each.violation() <= 1
    assert pool.entitled == other.entitled == {"a": 24, "b": 18, "c": 0}
    assert pool.faults == {}


@pytest.mark.filterwarnings("ignore::fair_allocator.LearnerWarning")
def test_a_learner_cannot_ask_its_own_pool_while_it_chooses() -> None:
    class Nested(Learner):
        pool: Pool

        def choose(self, round: int, among: Any = None) -> Any:
            self.pool.assign(f"nested {round}")
            return 2

    learner = Nested()
    pool = learner.pool = Pool({"a": "0.3", "b": "0.3", "c": 0}, learner=learner)
    for number in range(100):
        pool.assign(str(number))
        assert pool.violation() <= 0
    assert pool.rounds == 100
    assert pool.faults["raised"] > 10


class Spiteful:
    ndim = 0

    def __repr__(self) -> str:
        raise RuntimeError("boom")


class Slippery(float):
    def __lt__(self, other: object) -> bool:
        raise RuntimeError("boom")

    __le__ = __gt__ = __ge__ = __lt__


@pytest.mark.filterwarnings("ignore::fair_allocator.LearnerWarning")
@pytest.mark.parametrize(
    "said", [Spiteful(), (2, Slippery(0.5)), (Spiteful(), 1.0)], ids=["arm", "chance", "both"]
)
def test_a_choice_that_cannot_even_be_looked_at_is_a_fault(said: Any) -> None:
    for requests in ("plain", "any"):
        pool = Pool(QUOTAS, tolerance=1, learner=Said(said), requests=requests)
        assert pool.assign("r").arm == "ann"
        assert sum(pool.faults.values()) == 1


def test_a_fault_in_a_forced_round_is_reported() -> None:
    class Deaf(Learner):
        def assigned(self, arm: int, assignment: Any) -> None:
            raise RuntimeError("boom")

    pool = Pool({"a": 1}, learner=Deaf())
    with pytest.warns(LearnerWarning, match="boom"):
        pool.assign("r")


@pytest.mark.filterwarnings("ignore::fair_allocator.LearnerWarning")
def test_a_learner_that_cannot_be_reshaped_starts_again_on_the_new_arms() -> None:
    class Rigid(Said):
        def reshape(self, arms: Any, kept: Any) -> None:
            raise RuntimeError("boom")

    learner = Rigid(0)
    pool = Pool(QUOTAS, learner=learner)
    pool.reconfigure({**QUOTAS, "dan": 0})
    assert len(learner.arms) == 4


def test_another_learner_without_parameters_takes_the_place_of_the_first() -> None:
    pool = Pool({"a": 0, "b": 0}, learner=Said(0))
    assert pool.assign("0").arm == "a"
    pool.reconfigure(learner=Said(1))
    assert pool.assign("1").arm == "b"
