"""A random greedy adversary: requests, a learner and changes that push a pool towards breaking (I).

A scenario is determined by its seed alone. `Scenario.play` stops at the first state without (I);
`story` has all that happened, which `against_pool` plays again on a real pool.
"""

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from tests.selection.scaled import RIGHT, Answer, Scaled, Variant

UNITS = (4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 60)


class Request(NamedTuple):
    """Who is eligible, for how many slots, and whom the learner prefers; by index."""

    eligible: tuple[int, ...]
    slots: int
    preference: tuple[int, ...]


class Wish(NamedTuple):
    """Other quotas in units, tolerance and bank; newcomers take the places of `renewed` arms."""

    quotas: tuple[int, ...]
    tolerance: int
    bank: int | None
    renewed: tuple[int, ...] = ()


Event = Request | Wish


@dataclass(frozen=True)
class Setup:
    """How a scenario begins; the last arms have no quota."""

    seed: int
    unit: int
    quotas: tuple[int, ...]
    tolerance: int
    bank: int | None
    caps: tuple[int | None, ...]
    slots: int
    length: int
    change_rate: float
    lookahead: int
    plain: bool


@dataclass
class Tally:
    """What scenarios came to."""

    scenarios: int = 0
    requests: int = 0
    changes: int = 0
    waited: int = 0
    ahead: int = 0
    forced: int = 0
    refused: int = 0
    max_deficit: int = 0
    broken: int = 0

    def add(self, other: "Tally") -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class Broken(AssertionError):
    """A promise does not hold; the message is the whole story."""


class Scenario:
    """One pool and its adversary."""

    def __init__(self, seed: int, variant: Variant = RIGHT, *, plain: bool | None = None) -> None:
        self.rng = rng = Random(seed)
        self.setup = setup = _setup(seed, rng, plain)
        self.pool = Scaled(
            setup.unit, setup.quotas, setup.tolerance, setup.bank, setup.caps, variant
        )
        self.story: list[Event] = []
        self.tally = Tally(scenarios=1)
        self.last: Answer | None = None

    def play(self) -> Tally:
        """Play to the end or to the first state without (I), which counts as broken."""
        for _ in range(self.setup.length):
            if self.rng.random() < self.setup.change_rate:
                self._change(self._wish())
            else:
                self._request(self._best_request())
            if not self.pool.holds():
                self.tally.broken = 1
                break
        return self.tally

    def _request(self, request: Request) -> None:
        self.story.append(request)
        pool, tally = self.pool, self.tally
        self.last = answer = pool.decide(request.eligible, request.slots, request.preference)
        tally.requests += 1
        if answer is None:
            tally.refused += 1
            return
        tally.forced += len(answer.forced)
        slack = pool.unit * (pool.bound - pool.tolerance)
        for arm in answer.forced:
            y = pool.claim[arm] + min(pool.unit, pool.quota[arm] * answer.filled)
            tally.ahead += y + slack <= 0
        pool.count(request.eligible, answer)
        if pool.waiting:
            pool.advance()

    def _change(self, wish: Wish) -> None:
        self.story.append(wish)
        for arm in wish.renewed:
            self.pool.replace(arm)
        self.pool.want(wish.quotas, wish.tolerance, wish.bank)
        self.tally.changes += 1
        self.tally.waited += self.pool.waiting

    # -- requests -----------------------------------------------------------------------------

    def _best_request(self) -> Request:
        """Return the request, of a few, that leaves the largest backlog."""
        best = self._some_request()
        if self.setup.lookahead > 1 and not self.setup.plain:
            worst = self._backlog_after(best)
            for _ in range(self.setup.lookahead - 1):
                other = self._some_request()
                backlog = self._backlog_after(other)
                if backlog > worst:
                    best, worst = other, backlog
        return best

    def _backlog_after(self, request: Request) -> int:
        pool, present = self.pool, request.eligible
        answer = pool.decide(present, request.slots, request.preference)
        if answer is None:
            return -1
        backlog = 0
        for arm, z in enumerate(pool.claim):
            if arm in present:
                z += min(pool.unit, pool.quota[arm] * answer.filled)
                if arm in answer.forced or arm in answer.chosen:
                    z -= pool.unit
            # Just below being owed is the next best thing to a backlog.
            if z > -pool.quota[arm]:
                backlog += z + pool.quota[arm]
        return backlog

    def _some_request(self) -> Request:
        rng, pool, setup = self.rng, self.pool, self.setup
        arms = range(pool.size)
        preference = [arm for arm in arms if not pool.wanted[arm]]
        if rng.random() < 0.25:
            preference = rng.sample(arms, pool.size)
        if setup.plain:
            return Request(tuple(arms), 1, tuple(preference))
        slots = rng.randint(1, setup.slots)
        eligible = self._eligible(rng.randrange(8), slots)
        return Request(tuple(eligible or arms), slots, tuple(preference))

    def _eligible(self, style: int, slots: int) -> list[int]:
        rng, pool = self.rng, self.pool
        arms, claim, quota = range(pool.size), pool.claim, pool.quota
        if style == 0:
            return list(arms)
        if style == 1:  # hide the owed
            return [arm for arm in arms if claim[arm] <= 0]
        if style == 2:  # nobody is owed: all may grow while the learner has the slot
            return [arm for arm in arms if claim[arm] + quota[arm] * slots <= 0]
        if style == 3:  # the owed alone: one is served, the others grow
            return [arm for arm in arms if claim[arm] + quota[arm] > 0]
        if style == 4:  # hide the most urgent
            order = sorted(arms, key=lambda arm: claim[arm])
            return sorted(order[: rng.randint(1, pool.size)])
        if style == 5:  # one arm and those without a quota
            alone = rng.randrange(pool.size)
            return [arm for arm in arms if arm == alone or not quota[arm]]
        if style == 6 and self.last is not None:  # those just served are away
            return [arm for arm in arms if arm not in self.last.forced]
        return sorted(rng.sample(arms, rng.randint(1, pool.size)))

    # -- changes ------------------------------------------------------------------------------

    def _wish(self) -> Wish:
        rng, pool = self.rng, self.pool
        quotas, tolerance, bank = list(pool.wanted), pool.tolerance, pool.bank
        renewed: tuple[int, ...] = ()
        kind = rng.random()
        if kind < 0.35:
            tolerance = rng.choice((0, 0, 1, 2, 5))
        elif kind < 0.75:
            self._move(quotas)
        elif kind < 0.85:
            quotas = _quotas(rng, pool.unit, pool.size)
        elif kind < 0.95:  # an arm leaves, and a newcomer wants its share
            arm = self.last.forced[0] if self.last and self.last.forced else 0
            renewed = (arm,)
        elif self.setup.bank is not None:
            bank = rng.choice((None, 1, 2))
        if rng.random() < 0.2:
            tolerance = rng.choice((0, pool.bound, pool.bound + 1))
        _keep_below_caps(quotas, pool.cap)
        return Wish(tuple(quotas), tolerance, bank, renewed)

    def _move(self, quotas: list[int]) -> None:
        """Move a share from an arm that has just been served, or is ahead, to one that is owed."""
        rng, pool = self.rng, self.pool
        holders = [arm for arm, quota in enumerate(quotas) if quota]
        if holders:
            least = min(holders, key=lambda arm: pool.claim[arm])
            giver = rng.choice((least, rng.choice(holders)))
            if self.last and self.last.forced and self.last.forced[0] in holders:
                giver = rng.choice((giver, self.last.forced[0]))
            taken = rng.choice((quotas[giver], rng.randint(1, quotas[giver])))
            quotas[giver] -= taken
        else:
            taken = pool.unit
        most = max(range(pool.size), key=lambda arm: pool.claim[arm])
        quotas[rng.choice((most, rng.randrange(pool.size)))] += taken


def _keep_below_caps(quotas: list[int], caps: list[int | None]) -> None:
    for arm, cap in enumerate(caps):
        if cap is not None:
            quotas[arm] = min(quotas[arm], cap)


def _quotas(rng: Random, unit: int, size: int, free: int = 0) -> list[int]:
    """Return quotas that sum to 1 or a little less: any, alike, or one large and many small."""
    holders = max(1, min(size - free, unit))
    total = unit if rng.random() < 0.65 else unit - rng.randint(1, max(1, unit // 4))
    cuts = sorted(rng.randint(0, total) for _ in range(holders - 1))
    found = [high - low for low, high in zip([0, *cuts], [*cuts, total], strict=True)]
    shape = rng.random()
    if shape < 0.1:  # max deficit serves these
        found = [(unit - 1) // holders] * holders
    elif shape < 0.4:
        small = max(1, unit // 12)
        found = [max(0, total - small * (holders - 1))] + [small] * (holders - 1)
        if sum(found) > total:
            found = [total // holders] * holders
    return found + [0] * (size - holders)


def _setup(seed: int, rng: Random, plain: bool | None) -> Setup:
    unit = rng.choice(UNITS)
    free = rng.randint(1, 3)
    size = rng.choice((2, 3, 3, 4, 5, 6)) + free
    quotas = _quotas(rng, unit, size, free)
    caps: list[int | None] = [None] * size
    if rng.random() < 0.2:
        for arm in rng.sample(range(size), rng.randint(1, size - 1)):
            caps[arm] = max(1, quotas[arm], rng.randint(0, unit))
    return Setup(
        seed=seed,
        unit=unit,
        quotas=tuple(quotas),
        tolerance=rng.choice((0, 0, 0, 1, 2, 5)),
        bank=rng.choice((None, None, 1, 2)),
        caps=tuple(caps),
        slots=rng.choice((1, 1, 1, 2, 3, 4)),
        length=rng.choice((20, 30, 50, 80)),
        change_rate=rng.choice((0.0, 0.0, 0.05, 0.15, 0.3)),
        lookahead=rng.choice((1, 2, 3, 6)),
        plain=rng.random() < 0.1 if plain is None else plain,
    )


def tell(scenario: Scenario) -> str:
    """Return the seed and the whole story of a scenario."""
    lines = [str(scenario.setup), *map(str, scenario.story)]
    return "\n  ".join(lines)
