"""Random numbers without a state: each number is computed from (seed, pool, round, purpose).

So a pool that is restored or replayed draws exactly the same numbers as in the first run. The order
of the draws has no effect, nor has anything that happened in between. The purpose is a small
integer that tells apart the draws of one round.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np

from fair_allocator.core.among import Among
from fair_allocator.core.compiling import mypyc_attr

_MASK = (1 << 64) - 1

_STEP_BITS: Final = 8
"""Purposes are numbers below 2**8. A draw that needs more numbers adds 2**8 for each of them."""


def _mixed(x: int) -> int:
    """Scramble 64 bits (the finaliser of SplitMix64; Steele, Lea and Flood, 2014)."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


@mypyc_attr(allow_interpreted_subclasses=True)
class Draws:
    """The random numbers of one pool.

    >>> draws = Draws(seed=7, pool="tasks")
    >>> draws.uniform(3, purpose=0) == draws.uniform(3, purpose=0)
    True
    >>> draws.below(10, 3, purpose=0) in range(10)
    True
    """

    __slots__ = ("_key", "_pool", "_seed")

    def __init__(self, seed: int, pool: str) -> None:
        self._seed: Final = seed
        self._pool: Final = pool
        self._key = 0  # made when first needed, because most pools draw no numbers

    def _made_key(self) -> int:
        """Return the key that every draw of this pool uses. The first call makes it."""
        if not self._key:
            text = f"{self._seed}\0{self._pool}".encode("utf-8", "surrogatepass")
            self._key = int.from_bytes(blake2b(text, digest_size=16).digest())
        return self._key

    def _word(self, round: int, purpose: int) -> int:
        key = self._key or self._made_key()
        high, low = key >> 64, key & _MASK
        return _mixed(_mixed(low + round * 0x9E3779B97F4A7C15 & _MASK) ^ _mixed(high + purpose))

    def uniform(self, round: int, purpose: int) -> float:
        """Return a float in [0, 1), on a grid of 2**-53."""
        return (self._word(round, purpose) >> 11) * 2.0**-53

    def below(self, bound: int, round: int, purpose: int) -> int:
        """Return an integer in ``range(bound)``.

        All are equally likely, up to an error of bound / 2**64.
        """
        return self._word(round, purpose) * bound >> 64

    def shuffled(self, bound: int, round: int, purpose: int) -> Iterator[int]:
        """Yield ``range(bound)`` in a random order. The first number is what `below` returns."""
        moved: dict[int, int] = {}
        for step in range(bound):
            place = step + self.below(bound - step, round, purpose + (step << _STEP_BITS))
            yield moved.get(place, place)
            moved[place] = moved.get(step, step)

    def sample(self, count: int, among: Among, round: int, purpose: int) -> list[int]:
        """Return `count` different arms of `among`. Every such set is equally likely."""
        arms = among.named
        if arms is None and 2 * len(among) < among.size:
            arms = list(among)
        found: list[int] = []
        # A loop, not a generator expression: compiled code would first go through the whole range.
        for place in self.shuffled(among.size if arms is None else len(arms), round, purpose):
            if arms is not None:
                found.append(arms[place])
            elif place in among:
                found.append(place)
            if len(found) == count:
                break
        return found

    def generator(self, round: int, purpose: int) -> "np.random.Generator":
        """Return numpy's generator for a round that needs many numbers at once."""
        import numpy as np  # here, since most learners never need it and it is slow to load

        counter = (purpose << 192) | (round << 64)
        return np.random.Generator(np.random.Philox(counter=counter, key=self._made_key()))
