"""Ways to damage plain data, such as a state or an entry of the journal."""

import json
from random import Random
from typing import Any, Final

from tests.fuzz.events import ODD

OTHERS: Final[list[Any]] = [*ODD, "1e9999999", "1/0", "-1", 10**9, -(10**12), 0.1, float("inf")]


def damaged(data: Any, rng: Random) -> Any:
    """Return a copy with one to three places changed."""
    copy = json.loads(json.dumps(data))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(copy))
        if not places:
            return rng.choice(OTHERS)
        holder, key = rng.choice(places)
        _damage(holder, key, rng)
    return copy


def _places(data: Any) -> Any:
    """Yield every value with what holds it; of long lists only some."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield data, key
            yield from _places(value)
    elif isinstance(data, list):
        step = max(1, len(data) // 10)
        for place in range(0, len(data), step):
            yield data, place
            yield from _places(data[place])


def _damage(holder: Any, key: Any, rng: Random) -> None:
    value = holder[key]
    chance = rng.random()
    if chance < 0.35 and isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = value + rng.choice((-1, 1, -7, 1_000, 0.5))
    elif chance < 0.5 and isinstance(value, list) and value:
        rng.choice((value.pop, value.reverse, lambda: value.append(value[0])))()
    elif chance < 0.6:
        del holder[key]
    elif chance < 0.7 and isinstance(value, str):
        holder[key] = value + rng.choice(("x", " ", "\x00", "9"))
    else:
        holder[key] = rng.choice(OTHERS)
