"""One sweep over every learner that can be named: the rules of `Learner`, checked from outside."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fair_allocator import Assignment, Pool
from fair_allocator.core import FORM
from fair_allocator.core.among import Among
from fair_allocator.core.learners import known_learners, make_learner
from fair_allocator.core.quotas import Number
from tests.support.learners import Table

pytestmark = pytest.mark.slow

Arms = dict[str, Number]
Step = tuple[str, int]

NEEDED: dict[str, dict[str, object]] = {"t-fair-ucb": {"horizon": 400}}
"""The parameters a learner cannot be made without."""

SPECS = {name: {"name": name, **NEEDED.get(name, {})} for name in known_learners()}
UNFORCED = ("t-fair-ucb", "lfg", "tscsf-b")
"""Meant for rule "none"; they must cope with forcing all the same."""

RANDOM = {"thompson", "epsilon-greedy", "exp3", "uniform", "tscsf-b"}

every_learner = pytest.mark.parametrize("name", SPECS)
every_setting = pytest.mark.parametrize(
    ("name", "rule"), [*((name, "auto") for name in SPECS), *((name, "none") for name in UNFORCED)]
)

POOLS: list[Arms] = [
    {"a": "0.2", "b": "0.3", "c": "0.25"},
    {"c": "0.25", "a": "0.1", "d": 0},
    {"b": "1/3", "c": "1/3", "a": "1/3"},
    {"a": "0.67", "b": "0.2", "c": "0.1"},
    {"d": "0.5", "e": "1/7", "f": 0, "b": "0.05", "a": "0.05"},
    {"b": "0.9"},
    {"a": 0, "b": 0, "c": 0, "d": 0, "e": 0, "f": 0, "g": 0},
]
"""What a pool is changed to: arms come, go, move and come back, sums of 1 included."""

ACTIONS = ("assign", "assign", "assign", "assign", "reward", "reward", "expire", "change", "save")

steps = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, 2**16)), min_size=10, max_size=120
)


def saved(pool: Pool) -> dict[str, Any]:
    """Return a pool's state as it comes back from a disk."""
    state: dict[str, Any] = json.loads(json.dumps(pool.state()))
    return state


def is_plain(data: object) -> bool:
    """Tell whether data is of Python's own types only; a numpy float passes for a float."""
    if isinstance(data, dict):
        return all(type(key) is str and is_plain(value) for key, value in data.items())
    if isinstance(data, list):
        return all(map(is_plain, data))
    return type(data) in (str, int, float, bool, type(None))


def check(pool: Pool, assignment: Assignment) -> None:
    """Check what is true of any decision."""
    assert assignment.arm in pool.arms
    assert type(assignment.propensity) in (float, type(None))
    assert assignment.propensity is None or 0 < assignment.propensity <= 1
    assert assignment.reason == "learner" or assignment.propensity == 1
    bound = pool.guarantee.bound
    assert bound is None or pool.peak_violation() <= bound


def look(pool: Pool) -> None:
    """Ask a learner twice for what it will not be told it chose."""
    choice = pool.learner.choose(pool.rounds + 1)
    assert type(choice[0]) is int
    assert choice == pool.learner.choose(pool.rounds + 1)


class Walk:
    """A pool, one restored from it at its last save, and one that follows its decisions."""

    def __init__(self, learner: dict[str, object], rule: str, arms: Arms, seed: int) -> None:
        def pool() -> Pool:
            return Pool(arms, learner=learner, rule=rule, seed=seed, name="walk", remember=5)

        self.live, self.twin, self.follower = pool(), pool(), pool()
        self.waiting: list[str] = []

    def each(self, act: Callable[[Pool], object]) -> None:
        """Do the same to all, with the same outcome."""
        outcome = act(self.live)
        assert act(self.twin) == outcome
        assert act(self.follower) == outcome

    def step(self, action: str, number: int) -> None:
        if action == "assign":
            self.assign()
        elif action == "change":
            self.each(lambda pool: pool.reconfigure(POOLS[number % len(POOLS)]))
        elif action == "save":
            assert is_plain(self.live.state())
            self.twin = Pool.from_state(saved(self.live))
            assert self.twin.state() == self.live.state()
        elif self.waiting:
            request = self.waiting.pop(number % len(self.waiting))
            value = (number % 5) / 4 if number % 3 else number / 2**16
            if action == "reward":
                self.each(lambda pool: pool.reward(request, value))
            else:
                self.each(lambda pool: pool.expire(request))

    def assign(self) -> None:
        request = f"r{self.live.rounds + 1}"
        look(self.live)
        made = self.live.assign(request)
        check(self.live, made)
        assert self.twin.assign(request) == made
        assert made == self.follower.follow(
            request, made.arm, made.epoch, made.reason, made.propensity
        )
        self.waiting.append(request)


@every_setting
@settings(derandomize=True, max_examples=100, deadline=None)
@given(steps=steps, start=st.sampled_from(POOLS), seed=st.integers(0, 5))
def test_a_restored_and_a_following_pool_equal_the_live_one_whatever_happens(
    name: str, rule: str, steps: list[Step], start: Arms, seed: int
) -> None:
    walk = Walk(SPECS[name], rule, start, seed)
    if name == "t-fair-ucb":  # which may refuse a change before round 1
        walk.step("assign", 0)
    for action, number in steps:
        walk.step(action, number)
    assert walk.live.state() == walk.twin.state() == walk.follower.state()
    walk.step("save", 0)


@every_setting
def test_many_arms_are_restored_at_any_moment(name: str, rule: str) -> None:
    rng = Random(2)
    arms: Arms = {f"arm-{i}": "0.005" if i % 3 == 0 else 0 for i in range(100)}
    walk = Walk(SPECS[name], rule, arms, seed=1)
    for _ in range(400):
        walk.step("assign", 0)
        walk.step(rng.choice(["reward"] * 9 + ["expire"]), rng.randrange(2**16))
        if rng.random() < 0.04:
            walk.step("save", 0)
    assert walk.live.state() == walk.twin.state() == walk.follower.state()


class Visit:
    """A table without a pool: sets of arms, slots, sleep, and a twin restored in each request."""

    def __init__(self, name: str, size: int, seed: int) -> None:
        self.table = Table(make_learner(SPECS[name]), [f"1/{4 * size}"] * size, seed)
        self.rng = Random(seed)

    def request(self) -> None:
        table, rng = self.table, self.rng
        among = table.among(rng)
        count = rng.randrange(1, len(among) + 1)
        choices = table.choose(among, count)
        if count == len(among):
            assert all(chance is None or chance == pytest.approx(1.0) for _, chance in choices)
        assert table.twin().choose(among, count) == choices
        table.assign(choices)


@every_learner
@settings(derandomize=True, max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**16), size=st.integers(1, 9), happenings=st.integers(0, 4))
def test_sets_of_arms_and_slots_are_served_whatever_happens(
    name: str, seed: int, size: int, happenings: int
) -> None:
    visit = Visit(name, size, seed)
    for _ in range(40):
        visit.request()
        for _ in range(happenings):
            visit.table.happen(visit.rng)


@every_learner
def test_some_of_many_arms_are_chosen_as_a_restored_learner_would(name: str) -> None:
    visit = Visit(name, 100, seed=3)
    for _ in range(60):
        visit.request()
        for _ in range(30):
            visit.table.happen(visit.rng)


@every_learner
def test_a_set_can_be_given_by_its_members_or_by_who_is_missing(name: str) -> None:
    table = Table(make_learner(SPECS[name]), ["1/60"] * 8)
    rng = Random(4)
    for _ in range(150):
        kept = sorted(rng.sample(range(8), rng.randrange(1, 9)))
        count = rng.randrange(1, len(kept) + 1)
        missing = set(range(8)) - set(kept)
        named = table.choose(Among(8, named=kept), count)
        others = table.choose(Among(8, extra=missing), count)
        if name in ("uniform", "epsilon-greedy", "exp3"):  # which draw by place in the set
            assert len(named) == len(others)
        else:
            assert named == others
        table.assign(others)
        for _ in range(rng.randrange(4)):
            if table.open:
                table.reward(rng.randrange(len(table.open)), rng.random())


def journey(name: str, seed: int, pool_name: str = "") -> list[Assignment]:
    pool = Pool(POOLS[0], learner=SPECS[name], seed=seed, name=pool_name)
    rng = Random(4)
    made = []
    for i in range(200):
        made.append(pool.assign(f"r{i}"))
        pool.reward(f"r{rng.randrange(i + 1)}", rng.random())
    return made


@every_learner
def test_seed_and_name_determine_every_choice(name: str) -> None:
    first = journey(name, seed=1)
    assert journey(name, seed=1) == first
    assert (journey(name, seed=2) != first) == (name in RANDOM)
    assert (journey(name, seed=1, pool_name="other") != first) == (name in RANDOM)


@every_setting
def test_one_arm_gets_every_round(name: str, rule: str) -> None:
    pool = Pool({"only": "0.3"}, learner=SPECS[name], rule=rule)
    for i in range(50):
        assignment = pool.assign(f"r{i}")
        assert assignment.arm == "only"
        assert assignment.propensity in (1.0, None)
        pool.reward(f"r{i // 2}", 0.5)


@every_learner
def test_propensities_of_a_frozen_learner_sum_to_1_and_are_kept(name: str) -> None:
    pool = Pool(POOLS[0], learner=SPECS[name], seed=9)
    rng = Random(6)
    for i in range(500):
        mean = {"a": 0.4, "b": 0.6, "c": 0.5}[pool.assign(f"r{i}").arm]
        pool.reward(f"r{i}", float(rng.random() < mean))
    rounds = 3000
    choices = [pool.learner.choose(pool.rounds + 1 + i) for i in range(rounds)]
    chances = dict(choices)
    if None in chances.values():
        return
    if name not in RANDOM:
        assert set(chances.values()) == {1.0}
        return
    assert len(set(choices)) == len(chances) == 3
    assert sum(chance or 0 for chance in chances.values()) == pytest.approx(1)
    for arm, chance in chances.items():
        assert chance is not None
        found = sum(1 for chosen, _ in choices if chosen == arm) / rounds
        assert abs(found - chance) <= 4 * (chance * (1 - chance) / rounds) ** 0.5


@every_learner
@pytest.mark.parametrize("other", SPECS)
def test_a_learner_takes_over_from_any_other(name: str, other: str) -> None:
    walk = Walk(SPECS[other], "auto", POOLS[0], seed=1)
    rng = Random(8)
    for i in range(90):
        walk.step("assign", 0)
        walk.step(rng.choice(["reward", "reward", "expire"]), rng.randrange(2**16))
        if i in (30, 60):
            walk.each(lambda pool: pool.reconfigure(learner=SPECS[name]))
            walk.step("save", 0)
            walk.each(lambda pool: pool.reconfigure(POOLS[4]))
    assert walk.live.learner.name == name
    assert walk.live.state() == walk.twin.state() == walk.follower.state()


@every_learner
def test_a_late_reward_of_an_arm_that_left_teaches_nothing(name: str) -> None:
    pool = Pool({"a": 0, "b": 0, "c": 0}, learner=SPECS[name])
    made = [pool.assign(f"r{i}") for i in range(60)]
    pool.reconfigure({"b": 0})
    pool.reconfigure({"a": 0, "b": 0})
    before = saved(pool)
    for assignment in made:
        if assignment.arm != "b":
            assert not pool.reward(assignment.request_id, 1.0)
    after = saved(pool)
    for part in ("arms", "learned"):
        assert after[part] == before[part]


@every_learner
def test_a_learner_says_what_it_costs_and_what_makes_it_again(name: str) -> None:
    kind = known_learners()[name]
    assert kind.name == name
    assert kind.cost.startswith("O(")
    assert kind.__doc__ or FORM == "compiled"  # which has no texts of classes
    pool = Pool(POOLS[0], learner=SPECS[name])
    parameters = pool.learner.parameters()
    assert kind(**parameters).parameters() == parameters
    assert is_plain(parameters)
