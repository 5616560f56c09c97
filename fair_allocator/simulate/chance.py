"""The random numbers of a run. They depend only on (seed, run, round).

In one run, every policy gets the same random numbers, in both engines and in every process.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fair_allocator.simulate.policies import Floats

MOST: Final = (1 << 64) - 1
"""The largest seed, and the largest number of a run."""

_AT_ONCE: Final = 2048


def generator(seed: int, run: int, stream: int = 0) -> np.random.Generator:
    """Return a generator of random numbers for a run; each purpose has a stream of its own."""
    key = np.array([seed, run], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=stream << 128))


def uniforms(seed: int, runs: Sequence[int], horizon: int) -> Iterator[Floats]:
    """Yield for each round a number in [0, 1) for each run.

    The reward of an arm is 1 if the arm's mean is above the number, otherwise 0.
    """
    sources = [generator(seed, run) for run in runs]
    for start in range(0, horizon, _AT_ONCE):
        size = min(_AT_ONCE, horizon - start)
        yield from np.stack([source.random(size) for source in sources], axis=1)
