"""Play many scenarios of the adversary, here or in several processes, and add up what they came to.

A scenario is its seed: `--seed 1 --scenarios 1000` plays the seeds 1 to 1000, and a search that
was stopped goes on from the seed it had come to.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

from tests.selection.adversary import Scenario, Tally, tell
from tests.selection.scaled import RIGHT, Variant

CONTROLS = {
    "without clause B": Variant(ahead=False),
    "largest claim first": Variant(by_slots=False),
    "changes at once": Variant(at_once=True),
}
"""Rules that must break under the same scenarios, or the search is too weak."""

BATCH = 500
"""Scenarios between two reports of progress."""


class Batch(NamedTuple):
    """What a run of seeds came to; `failures` has the stories of the first broken ones."""

    first: int
    size: int
    tally: Tally
    failures: list[str]


Player = Callable[[int], tuple[Tally, str]]


def play_oracle(seed: int, variant: Variant = RIGHT) -> tuple[Tally, str]:
    """Play a scenario on the oracle; return its story if it broke (I)."""
    scenario = Scenario(seed, variant)
    tally = scenario.play()
    return tally, tell(scenario) if tally.broken else ""


def play_batch(first: int, count: int, player: Player = play_oracle, stories: int = 1) -> Batch:
    """Play seeds in order."""
    total = Tally()
    failures: list[str] = []
    for seed in range(first, first + count):
        tally, story = player(seed)
        total.add(tally)
        if story and len(failures) < stories:
            failures.append(story)
    return Batch(first, count, total, failures)


def play_batches(
    first: int, count: int, player: Player = play_oracle, processes: int = 1
) -> Iterator[Batch]:
    """Play seeds in batches, in order of their seeds."""
    starts = range(first, first + count, BATCH)
    sizes = [min(BATCH, first + count - start) for start in starts]
    play = partial(play_batch, player=player)
    if processes == 1:
        yield from map(play, starts, sizes)
        return
    with ProcessPoolExecutor(processes) as workers:
        yield from workers.map(play, starts, sizes)


def count_control_failures(first: int, count: int) -> dict[str, tuple[int, int | None]]:
    """Return for each control how many scenarios broke it, and after how many the first did."""
    found: dict[str, tuple[int, int | None]] = {}
    for name, variant in CONTROLS.items():
        broken = _broken_seeds(range(first, first + count), variant)
        found[name] = len(broken), broken[0] - first + 1 if broken else None
    return found


def _broken_seeds(seeds: Sequence[int], variant: Variant) -> list[int]:
    return [seed for seed in seeds if play_oracle(seed, variant)[1]]
