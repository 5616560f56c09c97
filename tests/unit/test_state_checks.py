"""A state that no pool can be in is refused, by its key and value, and in bounded time."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from fair_allocator import AllBut, InvalidState, Pool
from fair_allocator.core.safety import is_safe, is_unsafe

State = dict[str, Any]
Forgery = Callable[[State], object]


def plain_pool() -> State:
    """A pool with plain requests: changed, with an arm that left, and requests open and closed."""
    pool = Pool({"ann": "0.3", "bob": "0.2", "cyd": 0, "dan": "0.1"}, tolerance=1)
    for number in range(40):
        pool.assign(f"r{number}")
        if number % 3:
            pool.reward(f"r{number}", 0.5)
    pool.reconfigure({"ann": "0.25", "bob": "0.2", "cyd": "0.1"})
    for number in range(40, 60):
        pool.assign(f"r{number}")
    return stored(pool)


def any_pool() -> State:
    """A pool whose requests name arms and slots, with sleepers, busy arms, caps and a bank."""
    pool = Pool(
        {"ann": "0.3", "bob": "0.2", "cyd": "0.1", "dan": 0, "eve": 0},
        requests="any",
        bank=2,
        caps={"dan": "0.5"},
        max_open={"eve": 1},
    )
    for number in range(40):
        pool.assign(f"r{number}", eligible=AllBut(["cyd"]) if number % 4 else None, slots=2)
    pool.sleep("ann")
    pool.decline("r38", pool.recall("r38").arms[0], hold=True)  # type: ignore[union-attr]
    return stored(pool)


def stored(pool: Pool) -> State:
    state: State = json.loads(json.dumps(pool.state()))
    return state


def put(path: str, value: Any) -> Forgery:
    """Return a forgery that puts a value somewhere; a path has keys and indices."""
    *way, last = [int(key) if key.lstrip("-").isdigit() else key for key in path.split(".")]

    def forge(state: State) -> None:
        place: Any = state
        for key in way:
            place = place[key]
        place[last] = value

    return forge


def add(path: str, more: int) -> Forgery:
    """Return a forgery that raises a number."""
    *way, last = [int(key) if key.lstrip("-").isdigit() else key for key in path.split(".")]

    def forge(state: State) -> None:
        place: Any = state
        for key in way:
            place = place[key]
        place[last] += more

    return forge


def both(*forgeries: Forgery) -> Forgery:
    """Return several forgeries as one."""

    def forge(state: State) -> None:
        for each in forgeries:
            each(state)

    return forge


def nested() -> list[Any]:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    return deep


PLAIN: dict[str, Forgery] = {
    "a tolerance that takes minutes to read": put("fairness.tolerance", "1e9999999"),
    "a negative tolerance": put("fairness.tolerance", "-1"),
    "a negative round": put("rounds", -5),
    "a round that is a bool": put("rounds", True),
    "rounds as text": put("rounds", "60"),
    "another number of rounds": add("rounds", 1),
    "a clock of its own": put("clock", 10**30),
    "a unit of 0": put("arms.unit.0", 0),
    "a unit of 10^40": put("arms.unit.0", 10**40),
    "a slope above 1": add("arms.slope.0", 100),
    "a negative slope": put("arms.slope.0", -1),
    "quotas above 1 together": both(put("arms.slope.0", 4), put("arms.slope.1", 1)),
    "an arm named twice": put("arms.names.1", "ann"),
    "an arm without a name": put("arms.names.1", ""),
    "no arms": put("arms.names", []),
    "a column too short": put("arms.pulls", [1, 2]),
    "a column of texts": put("arms.pulls", ["1", "2", "3"]),
    "pulls nobody played": add("arms.pulls.0", 5),
    "pulls moved to another arm": both(add("arms.pulls.0", -9), add("arms.pulls.2", 9)),
    "negative pulls": put("arms.pulls.2", -1),
    "an entitlement from nowhere": add("arms.base.0", 10**6),
    "a negative entitlement": add("arms.base.0", -(10**6)),
    "more forced than pulled": put("arms.forced.0", 1_000),
    "more rewards than pulls": put("arms.observed.0", 1_000),
    "rewards above 1": put("arms.total.0", 1_000.5),
    "rewards that are no number": put("arms.total.0", float("nan")),
    "open assignments nobody has": add("arms.pending.0", 1),
    "an arm from the future": put("arms.joined.0", 100),
    "a clock ahead of the pool's": put("arms.missed.0", -7),
    "a last pull to come": put("arms.last.0", 1_000),
    "a bound of a billion": put("fairness.terms.1", 10**9),
    "a bound below the tolerance": put("fairness.terms.1", 0),
    "another floor of the tolerance": put("fairness.terms.0", 0),
    "a rule that is none": put("fairness.rule", "first-come"),
    "a promise switched off": put("fairness.rule", "none"),
    "an epoch before the first": put("fairness.epoch", 0),
    "a bank of 0": put("fairness.bank", [0, None]),
    "a quota wanted of another arm": put("fairness.wanted", [[7, "0.1"]]),
    "a quota wanted above 1": put("fairness.wanted", [[0, "1.5"]]),
    "quotas wanted above 1 together": put("fairness.wanted", [[0, "0.9"], [1, "0.9"]]),
    "a quota wanted that takes minutes": put("fairness.wanted", [[0, "1e9999999"]]),
    "a pause without end": put("fairness.pause", 10**9),
    "a request answered twice": lambda s: s["requests"]["open"].append(s["requests"]["open"][0]),
    "a request of a round to come": put("requests.open.0.2", 1_000),
    "a request of an epoch to come": put("requests.open.0.3", 1_000),
    "a request for no reason": put("requests.open.0.4", "luck"),
    "a propensity above 1": put("requests.open.0.5", 1.5),
    "an open request cut short": put("requests.open.0", ["r0"]),
    "an open request that is closed": put(
        "requests.open.0", ["r0", "ann", 1, 1, "learner", 1, "late"]
    ),
    "a closed request that is open": lambda s: s["requests"]["closed"][0].__setitem__(6, None),
    "a request with an end of its own": lambda s: s["requests"]["closed"][0].__setitem__(6, "lost"),
    "picks in picks": put("requests.open.0", ["r0", "ann", 1, 1, "learner", 1, None, nested()]),
    "a number of ids below 0": put("requests.remember", -1),
    "a held request that is unknown": put("requests.held", {"nobody": 1}),
    "arms that left with more than was given": put("departed.3", 1_000),
    "rewards of arms that left": put("departed.2", 1e9),
    "presence in a plain pool": put("presence", {"asleep": [0], "max_open": None}),
    "a cap below the quota": put("caps", [[0, "0.1", 0, 1, 10]]),
    "a seed of text": put("seed", "7"),
    "a name of numbers": put("name", 7),
    "a learner nobody knows": put("learner.name", "oracle"),
    "a version before the first": put("version", 0),
}

ANY: dict[str, Forgery] = {
    "an arm away that is here": put("arms.away", []),
    "an arm away that is none": put("arms.away.0.0", 77),
    "a sleeper that is none": put("presence.asleep", [77]),
    "a sleeper that is not away": put("presence.asleep", [0, 1]),
    "no presence": put("presence", None),
    "a most of 0": put("presence.max_open", {"eve": 0}),
    "a most of a stranger": put("presence.max_open", {"zoe": 1}),
    "a cap of more than all": put("caps.0.1", "3/2"),
    "a cap that takes minutes": put("caps.0.1", "1e9999999"),
    "a cap's line of another slope": add("caps.0.3", 1),
    "a cap's unit of 0": put("caps.0.4", 0),
    "a cap's room from nowhere": add("caps.0.2", 10**9),
    "a cap twice": lambda s: s["caps"].append(s["caps"][0]),
    "pulls nobody played": add("arms.pulls.0", 1),
    "other pulls in all": add("pulls", 1),
    "a held request of no times": lambda s: s["requests"]["held"].update(r38=0),
}


@pytest.mark.parametrize("title", PLAIN)
def test_a_forged_plain_pool_is_refused(title: str) -> None:
    state = plain_pool()
    assert stored(Pool.from_state(state)) == state
    PLAIN[title](state)
    with pytest.raises(InvalidState):
        Pool.from_state(state)


@pytest.mark.parametrize("title", ANY)
def test_a_forged_pool_with_requests_of_any_kind_is_refused(title: str) -> None:
    state = any_pool()
    assert stored(Pool.from_state(state)) == state
    ANY[title](state)
    with pytest.raises(InvalidState):
        Pool.from_state(state)


def test_the_error_names_the_key_and_the_value() -> None:
    state = plain_pool()
    state["arms"]["unit"][1] = 0
    with pytest.raises(InvalidState, match=r"arms\.unit of 'bob' must be from 1 .*, got 0"):
        Pool.from_state(state)


def test_a_state_that_breaks_the_invariant_is_refused_though_nobody_is_short_yet() -> None:
    """Two arms with a whole pull due in the next slot each: no rule can serve both."""
    state = stored(Pool({"a": "0.5", "b": "0.5", "c": 0}, rule="earliest-deadline"))
    state |= {"rounds": 2, "clock": 2}
    for column in ("pulls", "observed"):
        state["arms"][column] = [1, 1, 0]
    assert Pool.from_state(state).violation() <= 0
    for column in ("pulls", "observed"):
        state["arms"][column] = [0, 0, 2]
    state["arms"]["base"] = [-1, -1, 0]  # both owed a half, and another half in the next slot
    with pytest.raises(InvalidState, match="cannot keep the bound"):
        Pool.from_state(state)


def test_max_deficit_is_refused_a_state_that_it_never_leaves() -> None:
    state = stored(Pool({"a": "0.2", "b": "0.2", "c": "0.2", "d": 0}))
    assert state["fairness"]["rule"] == "max-deficit"
    state |= {"rounds": 4, "clock": 4}
    for column in ("pulls", "observed"):
        state["arms"][column] = [0, 0, 0, 4]
    with pytest.raises(InvalidState, match="max-deficit"):
        Pool.from_state(state)  # all are owed 4/5


def test_what_cannot_be_decided_is_neither_safe_nor_unsafe() -> None:
    """Quotas that sum to 1 with a long period, and a backlog: nobody can look that far."""
    many = [(600_000, 333_327, 999_983), (600_000, 333_325, 999_979), (0, 333_317, 999_961)]
    assert not is_safe(many)
    assert not is_unsafe(many)


@pytest.mark.parametrize("arms", [3, 300])
def test_a_bound_that_a_change_left_behind_is_kept(arms: int) -> None:
    """The tolerance falls while somebody is owed: the bound is above it for a while."""
    quotas: dict[str, Any] = {f"a{number}": f"1/{arms + 1}" for number in range(arms)}
    pool = Pool({**quotas, "idle": 0}, tolerance=4, learner="uniform", requests="any")
    for number in range(4 * arms):
        pool.assign(f"r{number}", ["idle", f"a{number % 3}"])
    pool.reconfigure(tolerance=0)
    for number in range(400):
        if number % (arms // 3) == 0:
            assert stored(Pool.from_state(stored(pool))) == stored(pool)
        pool.assign(f"n{number}")
