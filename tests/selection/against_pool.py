"""The adversary's scenarios on a real pool beside the oracle, and everything public compared.

The pool is asked as a user asks it: arms are left out of a request by name, or sleep, or have
as many open assignments as they may have. It is stored and restored in the middle of a scenario.
"""

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from random import Random
from typing import Any

from fair_allocator import AllBut, Learner, NobodyFree, Pool
from tests.selection import oracle
from tests.selection.adversary import Broken, Request, Scenario, Setup, Tally, Wish, tell
from tests.selection.invariant import Line, fits


class Told(Learner):
    """A learner that takes arms by a given order, then from the last arm backwards."""

    name = "told"
    cost = "O(k)"

    def __init__(self) -> None:
        self.preference: Sequence[str] = ()

    def choose(self, round: int, among: Any = None) -> int:
        everybody = range(len(self.arms.names)) if among is None else among
        return self._ordered(everybody)[0]

    def choose_several(self, round: int, among: Any, count: int) -> list[int]:
        return self._ordered(among)[:count]

    def _ordered(self, among: Iterable[int]) -> list[int]:
        candidates = list(among)
        wished = [self.arms.index[name] for name in self.preference if name in self.arms.index]
        first = [arm for arm in wished if arm in candidates]
        return first + [arm for arm in reversed(candidates) if arm not in first]


class Match:
    """A pool and its oracle, which must agree after every event."""

    def __init__(self, setup: Setup, rng: Random) -> None:
        self.rng, self.unit, self.generation = rng, setup.unit, 0
        self.names = [f"a{arm}" for arm in range(len(setup.quotas))]
        self.requests = "plain" if setup.plain else "any"
        caps = {
            name: Fraction(cap, setup.unit)
            for name, cap in zip(self.names, setup.caps, strict=True)
            if cap is not None
        }
        self.max_open: dict[str, int] = {}
        if not setup.plain and rng.random() < 0.3:
            self.max_open = {name: rng.randint(1, 3) for name in self.names if rng.random() < 0.5}
        self.open: list[tuple[str, str]] = []
        self.gaps = dict.fromkeys(self.names, 0)
        self.was: tuple[dict[str, Fraction], int | None] = {}, setup.bank
        self.told = Told()
        self.pool = Pool(
            self.shares(setup.quotas),
            setup.tolerance,
            self.told,
            "earliest-deadline",
            requests=self.requests,
            bank=setup.bank,
            caps=caps or None,
            max_open=self.max_open or None,
        )
        self.oracle = oracle.Oracle(
            self.shares(setup.quotas),
            setup.tolerance,
            "plain" if setup.plain else "general",
            setup.bank,
            caps,
            fits,
        )

    def shares(self, quotas: Sequence[int]) -> dict[str, Fraction]:
        return {name: Fraction(q, self.unit) for name, q in zip(self.names, quotas, strict=True)}

    # -- requests -----------------------------------------------------------------------------

    def request(self, number: int, request: Request) -> None:
        """Play a request on both."""
        named = [self.names[arm] for arm in request.eligible]
        eligible = [name for name in named if not self._is_busy(name)]
        preference = [self.names[arm] for arm in request.preference]
        self.told.preference = preference
        try:
            decision = self.oracle.decide(eligible, request.slots, preference)
        except oracle.NobodyFree:
            try:
                self._assign(number, named, request.slots)
            except NobodyFree:
                return
            raise Broken("the pool decided a request that nobody is free for") from None
        answer = self._assign(number, named, request.slots)
        picks = [(pick.arm, pick.reason) for pick in answer.picks]
        expected = [(name, "fairness") for name in decision.forced]
        expected += [(name, "learner") for name in decision.chosen]
        demand(picks == expected, f"the pool picks {picks}, the oracle {expected}")
        demand(answer.arms == decision.picks, f"arms are {answer.arms}")
        demand((answer.arm, answer.reason) == picks[0], f"the first pick is {answer}")
        self.oracle.count(decision)
        self.oracle.advance()
        for name in eligible:
            self.gaps[name] += decision.filled
        for name in decision.picks:
            self.gaps[name] = 0
            self.open.append((f"r{number}", name))
        self._answer_some()

    def _assign(self, number: int, named: list[str], slots: int) -> Any:
        pool, rng, request_id = self.pool, self.rng, f"r{number}"
        if self.requests == "plain":
            return pool.assign(request_id)
        absent = [name for name in self.names if name not in named]
        way = rng.randrange(3)
        for name in pool.asleep:
            if name in named or way != 2:
                pool.wake(name)
        if way == 0:
            return pool.assign(request_id, rng.sample(named, len(named)), slots)
        if way == 1:
            return pool.assign(request_id, AllBut(absent), slots)
        asleep = [name for name in absent if rng.random() < 0.5]
        for name in asleep:
            pool.sleep(name)
        absent = [name for name in absent if name not in asleep]
        return pool.assign(request_id, AllBut(absent) if absent else None, slots)

    def _is_busy(self, name: str) -> bool:
        most = self.max_open.get(name)
        return most is not None and sum(arm == name for _, arm in self.open) >= most

    def _answer_some(self) -> None:
        """Reward or expire some of the open assignments."""
        for request_id, name in list(self.open):
            if self.rng.random() < 0.5:
                if self.rng.random() < 0.5:
                    self.pool.reward(request_id, 0.5, arm=name)
                else:
                    self.pool.expire(request_id, arm=name)
                self.open.remove((request_id, name))

    # -- changes ------------------------------------------------------------------------------

    def change(self, wish: Wish) -> None:
        """Play a change on both."""
        for arm in wish.renewed:
            self.generation += 1
            left, self.names[arm] = self.names[arm], f"a{arm}.{self.generation}"
            self.open = [(request_id, name) for request_id, name in self.open if name != left]
            self.max_open.pop(left, None)
        self.gaps = {name: self.gaps.get(name, 0) for name in self.names}
        quotas, pool = self.shares(wish.quotas), self.pool
        changed: dict[str, Any] = {}
        if wish.tolerance != pool.tolerance:
            changed["tolerance"] = wish.tolerance
        if wish.bank != pool.bank:
            changed["bank"] = wish.bank
        pool.reconfigure(quotas if quotas != pool.quotas else None, **changed)
        self.oracle.change(quotas, wish.tolerance, wish.bank)

    def switch_requests(self) -> None:
        """Let requests name arms from now on, or no longer."""
        if self.requests == "any":
            for name in self.pool.asleep:
                self.pool.wake(name)
        self.requests = "any" if self.requests == "plain" else "plain"
        self.oracle.rule = "general" if self.requests == "any" else "plain"
        self.pool.reconfigure(requests=self.requests)

    def restore(self) -> None:
        """Go on with a pool made from the state of this one, by way of JSON."""
        before = json.dumps(self.pool.state())
        self.told = Told()
        self.pool = Pool.from_state(json.loads(before), learner=self.told)
        demand(json.dumps(self.pool.state()) == before, "a restored pool has another state")

    # -- what must hold -----------------------------------------------------------------------

    def compare(self) -> None:
        """Compare all that is public."""
        pool, book = self.pool, self.oracle
        arms = book.arms
        entitled = {name: arm.entitled for name, arm in arms.items()}
        demand(pool.entitled == entitled, f"entitled: pool {pool.entitled}, oracle {entitled}")
        pulls = {name: arm.pulls for name, arm in arms.items()}
        demand(pool.pulls == pulls, f"pulls: pool {pool.pulls}, oracle {pulls}")
        in_force = pool.quotas_in_force, pool.guarantee.bound, pool.guarantee.bank
        expected = book.in_force(), book.bound, book.bank_in_force
        demand(in_force == expected, f"in force: pool {in_force}, oracle {expected}")
        self._restart_gaps()
        demand(pool.gaps() == self.gaps, f"gaps: pool {pool.gaps()}, here {self.gaps}")
        demand(pool.guarantee.changing == book.is_waiting, "they differ on what waits")
        check_invariant(pool)

    def _restart_gaps(self) -> None:
        """Count waits anew of arms whose quota, or of all if a stricter bank, came into force."""
        quotas, bank = self.oracle.in_force(), self.oracle.bank_in_force
        was_quotas, was_bank = self.was
        stricter = bank is not None and (was_bank is None or bank < was_bank)
        for name, quota in quotas.items():
            if stricter or was_quotas.get(name, quota) != quota:
                self.gaps[name] = 0
        self.was = quotas, bank


def check_invariant(pool: Pool) -> None:
    """Demand (I) of a pool's public figures."""
    bound, entitled, pulls = pool.guarantee.bound, pool.entitled, pool.pulls
    assert bound is not None
    lines: list[Line] = [
        (entitled[name] - pulls[name] - bound, quota)
        for name, quota in pool.quotas_in_force.items()
    ]
    demand(fits(lines), f"(I) does not hold: bound {bound}, {lines}")
    demand(pool.violation() <= bound, f"the bound {bound} is broken: {pool.shortfalls()}")


def demand(holds: bool, complaint: str) -> None:
    if not holds:
        raise Broken(complaint)


def play_pool(seed: int) -> tuple[Tally, str]:
    """Play a scenario on a real pool; return its story if the pool and the oracle differ."""
    scenario = Scenario(seed)
    tally = scenario.play()
    rng = Random(-seed)
    restored = rng.randrange(len(scenario.story))
    switched = rng.randrange(len(scenario.story)) if scenario.setup.plain else -1
    number = 0
    try:
        match = Match(scenario.setup, rng)
        for number, event in enumerate(scenario.story):
            if isinstance(event, Request):
                match.request(number, event)
            else:
                match.change(event)
            if number == restored:
                match.restore()
            if number == switched:
                match.switch_requests()
            match.compare()
    except Exception as error:  # whatever it is, the story tells how to see it again
        tally.broken = 1
        return tally, f"event {number}: {error!r}\n  {tell(scenario)}"
    return tally, ""


def play_plain_pool(seed: int) -> tuple[Tally, str]:
    """Play plain requests and changes on a pool that may choose its rule; demand (I)."""
    scenario = Scenario(seed, plain=True)
    tally = scenario.play()
    number = 0
    try:
        match = Match(scenario.setup, Random(-seed))
        match.pool.reconfigure(rule="auto")
        for number, event in enumerate(scenario.story):
            if isinstance(event, Request):
                match.told.preference = [match.names[arm] for arm in event.preference]
                tally.max_deficit += match.pool.guarantee.rule == "max-deficit"
                match.pool.assign(f"r{number}")
            else:
                match.change(event)
            check_invariant(match.pool)
    except Exception as error:  # whatever it is, the story tells how to see it again
        tally.broken = 1
        return tally, f"event {number}: {error!r}\n  {tell(scenario)}"
    return tally, ""
