"""Make assignments logs for tests of the audit, for pools whose requests may name arms and slots.

The decisions come from a pool of the core. The records are written by code of this module, not by
the service's.
"""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from fair_allocator import InvalidRequest, NobodyFree, Pool
from fair_allocator.core.all_but import AllBut
from fair_allocator.core.guarantee import Epoch, Standing
from fair_allocator.core.requests import Assignment, Request

Record = dict[str, Any]


class Scribe:
    """Sends requests to a pool of the core, and writes the records that the service would write."""

    def __init__(self, arms: dict[str, Any], **settings: Any) -> None:
        self.log: list[Record] = []
        self.folded = {"requests": 0, "rewards": 0, "controls": 0}
        self.epochs: list[Epoch] = []
        self.pool = Pool(
            arms, name="crowd", on_epoch=self.epochs.append, **{"requests": "any", **settings}
        )
        self.open: list[tuple[int, Request, str]] = []
        """The offset, request and arm of every open assignment."""
        self.waiting: list[tuple[int, Request]] = []
        self.stand()

    # -- writing ------------------------------------------------------------------------------

    def write(self, **fields: Any) -> None:
        said = {name: value for name, value in fields.items() if value not in (None, (), [])}
        self.log.append({**said, "partition": 0, "folded": dict(self.folded)})

    def stand(self, chunks: int = 1) -> None:
        """Write the epoch with every arm, in `chunks` records."""
        self.epochs.clear()
        epoch = self.pool.in_force()
        names = list(epoch.arms)
        for chunk in range(chunks):
            self._epoch(epoch, names[chunk::chunks], chunk=chunk, chunks=chunks, complete=True)
        self.pool.forget_moves()

    def change(self, named: list[str], left: list[str] = []) -> None:  # noqa: B006
        """Write the epoch record of a change: the arms that changed, and those that left."""
        names = dict.fromkeys([*named, *(arm for epoch in self.epochs for arm in epoch.arms)])
        self.epochs.clear()
        self._epoch(self.pool.in_force(names), list(names), complete=False, left=left)

    def _epoch(self, epoch: Epoch, names: list[str], **more: Any) -> None:
        arms = {arm: stated(epoch.arms[arm]) for arm in names}
        self.write(
            type="epoch", pool="crowd", epoch=epoch.number, round=epoch.round, rule=epoch.rule,
            tolerance=str(epoch.tolerance), bound=epoch.bound, requests=self.pool.requests,
            bank=self.pool.guarantee.bank, **more,
        )  # fmt: skip
        self.log[-1] |= {"arms": arms, "bound": epoch.bound}

    # -- requests -----------------------------------------------------------------------------

    def ask(self, request: Request) -> None:
        """Decide a new request, or let it wait."""
        self.folded["requests"] += 1
        offset = self.folded["requests"] - 1
        if not self.try_to_decide(offset, request, None):
            self.wait(offset, request)

    def try_to_decide(self, offset: int, request: Request, late: int | None) -> bool:
        """Decide a request if an arm can take it; tell whether it was decided."""
        try:
            made = self.pool.propose(request)
        except NobodyFree:
            return False
        plain, (away, back), names = (
            self.pool.requests == "plain",
            self.pool.moved(),
            self.pool.arms,
        )
        able = names if plain else [names[arm] for arm in self.pool.proposed_among()]
        present = [name for arm, name in enumerate(names) if arm not in self.pool.away]
        but = [name for name in present if name not in able]
        few = len(able) <= len(but)
        self.pool.count(made, instead_of=request.instead_of)
        first, *others = made.picks
        self.write(
            type="assignment", version=None if plain else 2, pool="crowd",
            request_id=request.request_id, arm=first.arm, round=first.round, epoch=first.epoch,
            reason=first.reason,
            others=[pick(each) for each in others], eligible=able if few else None,
            but=None if few else but, away=away, back=back, request_offset=late,
            instead_of=request.instead_of or None,
        )  # fmt: skip
        self.log[-1] |= {"propensity": first.propensity, "repeat": False}
        self.open += [(offset, request, each.arm) for each in made.picks]
        while self.epochs:
            epoch = self.epochs.pop(0)
            self._epoch(epoch, list(epoch.arms), complete=False)
        return True

    def wait(self, offset: int, request: Request) -> None:
        self.waiting.append((offset, request))
        self.write(
            type="waiting", pool="crowd", request_id=request.request_id, request_offset=offset,
            why="nobody-free", instead_of=request.instead_of or None,
        )  # fmt: skip

    def serve_waiting(self) -> None:
        for each in list(self.waiting):
            try:
                if self.try_to_decide(*each, each[0]):
                    self.waiting.remove(each)
            except InvalidRequest:  # its arms have left the pool, or no other arm is left for it
                self.waiting.remove(each)
                if each[1].instead_of:
                    self.pool.give_up(each[1].request_id)

    def repeat(self, request_id: str) -> None:
        """Send a request again that was answered before."""
        made = self.pool.recall(request_id)
        if made is not None:
            self.folded["requests"] += 1
            first, *others = made.repeated().picks
            self.write(
                type="assignment", version=2, pool="crowd", request_id=request_id, arm=first.arm,
                round=first.round, epoch=first.epoch, reason=first.reason, repeat=True,
                others=[pick(each) for each in others],
            )  # fmt: skip
            self.log[-1]["propensity"] = first.propensity

    def decline(self, place: int) -> None:
        """Let an arm decline, and decide its request again."""
        offset, request, arm = self.open.pop(place)
        self.folded["rewards"] += 1
        self.pool.decline(request.request_id, arm, hold=True)
        again = Request(request.request_id, request.eligible, 1, arm)
        try:
            if not self.try_to_decide(offset, again, offset):
                self.wait(offset, again)
        except InvalidRequest:
            self.pool.give_up(request.request_id)

    def reward(self, place: int, value: float) -> None:
        _, request, arm = self.open.pop(place)
        self.folded["rewards"] += 1
        self.pool.reward(request.request_id, value, arm)


def pick(made: Assignment) -> Record:
    return {"arm": made.arm, "reason": made.reason, "propensity": made.propensity}


def stated(standing: Standing) -> Record:
    said = {
        "quota": str(standing.quota), "entitled": str(standing.entitled), "pulls": standing.pulls,
    }  # fmt: skip
    if standing.cap is not None:
        said |= {"cap": str(standing.cap), "capped": str(standing.capped)}
    return {**said, "away": True} if standing.away else said


# -- random logs ----------------------------------------------------------------------------------


def _share(rng: random.Random) -> str:
    return rng.choice(["0", "0", "1/3", "2/5", f"{rng.randint(1, 9)}/97", "0.07", "1/6"])


def _quotas(rng: random.Random, names: list[str]) -> dict[str, Any]:
    shares = {name: Fraction(_share(rng)) for name in names}
    total = sum(shares.values())
    return {name: str(share / max(1, total)) for name, share in shares.items()}


def _settings(rng: random.Random, quotas: dict[str, Any]) -> dict[str, Any]:
    capped = rng.sample(sorted(quotas), len(quotas) if rng.random() < 0.3 else len(quotas) // 2)
    caps = {arm: str(max(Fraction(quotas[arm]), Fraction(rng.randint(3, 9), 11))) for arm in capped}
    if len(caps) == len(quotas) and sum(map(Fraction, caps.values())) < 1:
        caps = {}
    return {
        "tolerance": rng.choice([0, 0, 1, "5/2"]),
        "bank": rng.choice([None, 1, 2, 5]),
        "caps": rng.choice([None, caps]),
        "max_open": rng.choice([None, None, 2, {rng.choice(sorted(quotas)): 1}]),
    }


def played(seed: int, steps: int = 120) -> Scribe:
    """Play a pool for some random steps, with everything that can happen to a pool."""
    rng = random.Random(seed)
    names = [f"a{number}" for number in range(rng.randint(2, 9))]
    quotas = _quotas(rng, names)
    scribe = Scribe(quotas, learner=rng.choice(["ucb1", "uniform"]), **_settings(rng, quotas))
    for step in range(steps):
        _play_step(rng, scribe, step)
        scribe.serve_waiting()
    scribe.stand()
    return scribe


def _play_step(rng: random.Random, scribe: Scribe, step: int) -> None:
    pool = scribe.pool
    plain = pool.requests == "plain"
    arms = list(pool.arms)
    some = rng.sample(arms, rng.randint(1, len(arms)))
    match rng.randrange(24):
        case 0 if not plain:
            pool.sleep(rng.choice(arms))
        case 1 | 2 if not plain:
            pool.wake(rng.choice(arms))
        case 3 | 4 | 5 | 6 if scribe.open:
            scribe.reward(rng.randrange(len(scribe.open)), rng.random())
        case 7 if scribe.open and not plain:
            scribe.decline(rng.randrange(len(scribe.open)))
        case 8:
            scribe.stand(rng.randint(1, min(3, len(arms))))
        case 9 if rng.random() < 0.5:
            quotas = _quotas(rng, [*some, *([f"b{step}"] if rng.random() < 0.5 else [])])
            kind = rng.choice(["any", "any", "plain"])
            settings = _settings(rng, quotas)
            if kind == "plain":
                settings["max_open"] = None
                for arm in pool.asleep:
                    pool.wake(arm)
            pool.reconfigure(quotas, requests=kind, **settings)
            _changed(scribe, scribe.stand)
        case 10 if len(arms) < 12:
            quotas = {**{arm: str(quota) for arm, quota in pool.quotas.items()}, f"c{step}": "0"}
            pool.reconfigure(quotas)
            _changed(scribe, lambda: scribe.change([f"c{step}"]))
        case 11 if len(arms) > 3 and not pool.caps:
            gone = rng.choice(arms)
            pool.reconfigure({arm: str(pool.quotas[arm]) for arm in arms if arm != gone})
            _changed(scribe, lambda: scribe.change([], [gone]))
        case 12 if scribe.open:
            scribe.repeat(rng.choice(scribe.open)[1].request_id)
        case 13:
            pool.reconfigure(tolerance=rng.choice([0, 1, 2]))
            _changed(scribe, lambda: scribe.change([]))
        case _:
            eligible: Any = rng.choice([None, None, some, AllBut(some[1:])])
            slots = rng.choice([1, 1, 1, 2, 3])
            scribe.ask(Request(f"r{step}") if plain else Request(f"r{step}", eligible, slots))


def _changed(scribe: Scribe, tell: Callable[[], None]) -> None:
    scribe.folded["controls"] += 1
    tell()
