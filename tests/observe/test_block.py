"""Lines that are kept and filled in anew say what lines written from nothing say."""

from collections.abc import Iterator
from random import Random
from unittest.mock import patch

import pytest

from fair_allocator.config import MetricsSection
from fair_allocator.observe import exposition
from fair_allocator.observe.exposition import PoolsText
from fair_allocator.observe.figures import PoolFigures, work_out
from fair_allocator.observe.view import Key
from tests.observe.prompt import Scraped
from tests.observe.scraped import parsed
from tests.support.served import House, houses

pytestmark = pytest.mark.slow

NAMES = ["p", "100%", "%d%s", 'quo"te', "back\\slash", "new\nline", "grün"]


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def renewed(known: dict[Key, PoolFigures], scraped: Scraped) -> dict[Key, PoolFigures]:
    """Return the figures of all pools; of those that are as they were, the same ones."""
    pools = scraped.observer.view().pools
    kept = {key: each for key, each in known.items() if pools.get(key) is each.of}
    changed = work_out([pool for key, pool in pools.items() if key not in kept])
    return kept | {each.of.key: each for each in changed}


def lines(text: PoolsText, figures: dict[Key, PoolFigures]) -> list[str]:
    written, _ = text.write(figures, by_partition=False, openmetrics=False)
    pools = {dict(labels)["pool"] for _, labels in parsed(written)}
    assert pools == {name for _, name in figures}
    return sorted(written.splitlines())


@pytest.mark.parametrize("seed", range(5))
def test_kept_lines_equal_lines_written_anew(house: House, seed: int) -> None:
    rng = Random(seed)
    crowd = {"arms": {"ann": "1/2", "bob": 0}, "requests": "any", "bank": 1}
    scraped = Scraped(house({"crowd%": crowd}))
    served = scraped.served
    caps = MetricsSection(max_arms_per_pool=4, max_arms=1_000, max_pools=1_000)
    kept = PoolsText(caps)
    there = ["crowd%"]
    waited = 0
    figures: dict[Key, PoolFigures] = {}
    with patch.object(exposition, "POOLS", 3):
        for turn in range(60):
            match rng.randrange(10):
                case 0 | 1 if len(there) <= len(NAMES):
                    there.append(next(name for name in NAMES if name not in there))
                    arms = {f"{n}%": f"1/{n + 6}" for n in range(rng.randint(1, 4))}
                    served.control("configure", there[-1], arms=arms)
                case 2 if len(there) > 1:
                    served.control("remove", there.pop(rng.randrange(1, len(there))))
                case 3 if len(there) > 1:
                    arms = {f"%{n}": f"1/{n + 5}" for n in range(rng.randint(1, 4))}
                    served.control("configure", rng.choice(there[1:]), arms=arms)
                case 4 | 5:
                    served.control(rng.choice(("sleep", "wake")), "crowd%", arms=["ann", "bob"])
                    served.turn()
                    served.request(f"r{turn}", "crowd%")
                case _:
                    pool = rng.choice(there)
                    served.request(f"r{turn}", pool)
                    served.reward(f"r{turn}", rng.random(), pool)
            served.turn()
            figures = renewed(figures, scraped)
            assert lines(kept, figures) == lines(PoolsText(caps), figures)
            waited += figures[0, "crowd%"].of.waiting
    assert {key[1] for key in figures} == set(there)
    assert waited
