"""The JSON that the page and other programs read.

Producers choose the names of pools and arms, and a name may be any text. So this code treats a name
as any text, and the page shows it as plain text, never as HTML.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from fair_allocator import __version__
from fair_allocator.observe.digest import Digest, urgency
from fair_allocator.observe.figures import PoolFigures
from fair_allocator.observe.history import Point
from fair_allocator.shard.noted import Noted
from fair_allocator.text import part_in

PAGE_ROWS: Final = 50
MOST_ROWS: Final = 500

Json = dict[str, Any]

POOL_ORDERS: Final[Mapping[str, Callable[[PoolFigures], Any]]] = {
    "worst": urgency,
    "name": lambda each: (each.of.name, each.of.partition),
    "rounds": lambda each: (-each.of.rounds, each.of.name, each.of.partition),
}
ARM_ORDERS: Final = ("worst", "name", "pulls", "quota", "mean")


@dataclass(frozen=True, slots=True)
class ClientWish:
    """What a client wants to see: which pools, in which order, and which arms of which pool."""

    search: str = ""
    sort: str = "worst"
    page: int = 1
    size: int = PAGE_ROWS
    pool: str | None = None
    partition: int | None = None
    arm_search: str = ""
    arm_sort: str = "worst"
    arm_page: int = 1

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> "ClientWish":
        """Read a query; raise `ValueError` if it is not valid."""
        known: Json = dict(parameters)
        for name in _NUMBERS:
            if name in known:
                known[name] = int(known[name])
        try:
            wish = cls(**known)
        except TypeError as error:
            raise ValueError(str(error)) from None
        if (
            wish.sort not in POOL_ORDERS
            or wish.arm_sort not in ARM_ORDERS
            or min(wish.page, wish.arm_page, wish.size) < 1
            or wish.size > MOST_ROWS
        ):
            raise ValueError("a parameter is out of range")
        return wish

    @property
    def of_pools(self) -> "ClientWish":
        """The part of the wish that the list of pools depends on."""
        return replace(
            _ANYTHING, search=self.search, sort=self.sort, page=self.page, size=self.size
        )

    @property
    def of_arms(self) -> "ClientWish":
        """The part of the wish that the list of a pool's arms depends on."""
        return replace(
            _ANYTHING,
            size=self.size,
            arm_search=self.arm_search,
            arm_sort=self.arm_sort,
            arm_page=self.arm_page,
        )


_ANYTHING: Final = ClientWish()
_NUMBERS: Final = ("page", "size", "arm_page", "partition")


def encoded(content: object) -> bytes:
    """Return JSON in ASCII, on one line."""
    return json.dumps(content, separators=(",", ":")).encode()


# -- all pools --------------------------------------------------------------------------------


def overview(digest: Digest) -> Json:
    """Return the numbers at the top of the page, over all pools."""
    view, figures = digest.view, digest.figures.values()
    tallies = view.tallies
    worst = digest.worst
    paused = sum(each.of.paused for each in figures)
    lag = [
        {
            "topic": place[0],
            "partition": place[1],
            "records": records,
            "seconds": tallies.lag_seconds[place],
        }
        for place, records in sorted(tallies.lag_records.items())
    ]
    return {
        "time": view.time,
        "view": view.number,
        "version": __version__,
        "partitions": tallies.partitions,
        "pools": len(digest.figures),
        "paused": paused,
        "retired": view.retired,
        "stored": view.stored,
        "damaged": view.damaged,
        "unpromised": sum(each.of.terms.bound is None for each in figures),
        "broken": len(digest.broken),
        "arms_broken": sum(digest.figures[key].broken for key in digest.broken),
        "by_partition": view.by_partition,
        "worst": None if worst is None else _pool_row(worst),
        "rounds": sum(each.of.rounds for each in figures),
        "assignments": sum(each.pulls for each in figures),
        "forced": sum(each.forced for each in figures),
        "rewards": sum(each.rewards for each in figures),
        "pending": sum(each.of.open for each in figures),
        "waiting": sum(each.of.waiting for each in figures),
        "waited": tallies.waited,
        "declined": tallies.declined,
        "lag": lag,
        "dead_letters": dict(tallies.dead_letters),
        "rewards_ignored": dict(tallies.rewards_ignored),
        "transactions": dict(tallies.transactions),
    }


def pool_page(digest: Digest, wish: ClientWish) -> Json:
    """Return a page of pools, in the order that the client wants."""
    wanted = wish.search.casefold()
    found = [
        each for each in digest.figures.values() if not wanted or wanted in each.of.name.casefold()
    ]
    found.sort(key=POOL_ORDERS[wish.sort])
    rows, page, pages = _cut(found, wish.page, wish.size)
    return {
        "total": len(found),
        "page": page,
        "pages": pages,
        "rows": [_pool_row(each) for each in rows],
    }


def _pool_row(each: PoolFigures) -> Json:
    of = each.of
    return {
        "name": of.name,
        "partition": of.partition,
        "rounds": of.rounds,
        "arms": each.size,
        "worst": each.worst,
        "peak": each.peak,
        "bound": of.terms.bound,
        "rule": of.terms.rule,
        "changing": of.terms.changing,
        "broken": each.broken,
        "paused": of.paused,
        "assignments": each.pulls,
        "forced": each.forced,
        "rewards": each.rewards,
        "pending": of.open,
        "waiting": of.waiting,
        "waiting_since": None if of.waiting_since is None else of.waiting_since / 1000,
        "gap": each.gap,
        "gap_bound": each.gap_bound,
        "asleep": len(of.asleep),
        "busy": of.busy,
        "faults": of.faults,
        "regret": each.regret,
        "r_regret": each.r_regret,
        "r_regret_bound": each.r_regret_bound,
    }


def _cut(found: Sequence[Any], page: int, size: int) -> tuple[Sequence[Any], int, int]:
    """Return the items of a page, the page's number, and the number of pages."""
    pages = max(1, -(-len(found) // size))
    page = min(page, pages)
    return found[(page - 1) * size : page * size], page, pages


# -- one pool ---------------------------------------------------------------------------------


def find(digest: Digest, name: str, partition: int | None) -> PoolFigures | None:
    """Return the figures of a pool, or None.

    If several partitions have a pool of this name, return the pool that is worst by
    `digest.urgency`.

    If `partition` is given, only this partition is searched, which is faster.
    """
    if partition is not None:
        return digest.figures.get((partition, name))
    found = (each for (_, known), each in digest.figures.items() if known == name)
    return min(found, key=urgency, default=None)


def pool(figures: PoolFigures, wish: ClientWish, past: Iterable[Point]) -> Json:
    """Return a pool's figures, with one page of its arms, and its past for the charts."""
    return {
        **_pool_row(figures),
        "epoch": figures.of.terms.epoch,
        "learner": figures.of.terms.learner,
        "tolerance": str(figures.of.terms.tolerance),
        "requests": figures.of.terms.requests,
        "bank": figures.of.terms.bank,
        "split": _split(figures),
        "page": _arm_page(figures, wish),
        "oldest": [{**each._asdict(), "since": each.since / 1000} for each in figures.of.oldest],
        "recent": [_decision(each) for each in figures.of.recent],
        "past": [list(point) for point in past],
    }


def _split(figures: PoolFigures) -> Json | None:
    """Return which pool this one is a part of, and what its parts promise together."""
    part, terms = part_in(figures.of.name), figures.of.terms
    if part is None:
        return None
    finest = Fraction(1, max(terms.unit, default=1))  # of the arm with the largest joint bound
    return {**part._asdict(), "joint_bound": terms.guarantee.joint_bound(finest, part.parts)}


def _decision(noted: Noted) -> Json:
    """Return a decision, with the figures that explain it."""
    return {
        **noted._asdict(),
        "time": noted.time / 1000,
        "picks": [
            {**pick._asdict(), "stood": pick.stood and pick.stood._asdict()} for pick in noted.picks
        ],
    }


def _arm_page(figures: PoolFigures, wish: ClientWish) -> Json:
    names, of = figures.of.terms.names, figures.of
    wanted = wish.arm_search.casefold()
    found: Sequence[int] = range(len(names))
    if wish.arm_sort == "worst":
        found = _least_above_quota(figures)
    if wanted:
        found = [arm for arm in found if wanted in names[arm].casefold()]
    if wish.arm_sort == "name":
        found = sorted(found, key=names.__getitem__)
    elif wish.arm_sort == "pulls":
        found = sorted(found, key=of.pulls.__getitem__, reverse=True)
    elif wish.arm_sort == "quota":
        found = sorted(found, key=figures.quota, reverse=True)
    elif wish.arm_sort == "mean":
        found = sorted(found, key=lambda arm: -(figures.mean(arm) or 0.0))
    rows, page, pages = _cut(found, wish.arm_page, wish.size)
    return {
        "total": len(found),
        "page": page,
        "pages": pages,
        "rows": [_arm_row(figures, arm) for arm in rows],
    }


def _least_above_quota(figures: PoolFigures) -> list[int]:
    """Return the arms, beginning with the fewest pulls above their entitlement.

    Arms without a quota that are owed nothing come last. An arm whose share is just its quota
    alternates between 0 and 1 pulls above. So 1 counts as 0, and such arms keep their places in the
    list.
    """
    above = -figures.short
    spare = np.maximum(above - 1, np.minimum(above, 0))
    slope = figures.of.terms.slope
    promised = np.fromiter(map(bool, slope), dtype=bool, count=len(slope))
    order: list[int] = np.lexsort((spare, ~promised & (spare >= 0))).tolist()
    return order


def _arm_row(figures: PoolFigures, arm: int) -> Json:
    of = figures.of
    return {
        "name": of.terms.names[arm],
        "state": of.state(arm),
        "gap": of.own(arm) - of.last[arm],
        "quota": figures.quota(arm),
        "share": figures.share(arm),
        "short": int(figures.short[arm]),
        "pulls": of.pulls[arm],
        "forced": of.forced[arm],
        "rewards": of.observed[arm],
        "mean": figures.mean(arm),
    }
