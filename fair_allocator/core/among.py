"""The set of arms that a learner may choose from: a few named arms, or all except a few."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from fair_allocator.core.compiling import mypyc_attr

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_NOBODY: Final[set[int]] = set()
"""No arms. All objects share this one set to save time and memory, so never add to it."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Among:
    """The arms that one request may be given to, as indices into the pool's arms.

    A learner can use it like a set: it has a length, ``in`` works, and iterating gives the arms in
    ascending order. It can also return the arms as numpy arrays. A learner that must be fast can
    read the attributes. They show whether the set names its arms or leaves some arms out.

    Attributes
    ----------
    size
        How many arms the pool has.
    named
        The arms in ascending order, if the set names its arms; None if it has all arms except some.
    away
        The arms left out because they are asleep or busy. The pool has called `Learner.present` for
        each of them. Empty if `named` is given.
    extra
        The arms left out for this request only. Empty if `named` is given.

    Examples
    --------
    >>> few, most = Among(5, named=[1, 4]), Among(5, away={0}, extra={0, 3})
    >>> list(few), list(most), len(most), 3 in most
    ([1, 4], [1, 2, 4], 3, False)
    >>> list(most.without([2]))
    [1, 4]
    """

    __slots__ = ("away", "extra", "named", "size")

    def __init__(
        self,
        size: int,
        named: list[int] | None = None,
        away: set[int] | None = None,
        extra: set[int] | None = None,
    ) -> None:
        self.size = size
        self.named = named
        self.away: set[int] = _NOBODY if away is None or named is not None else away
        self.extra: set[int] = _NOBODY if extra is None or named is not None else extra

    def __len__(self) -> int:
        named, away = self.named, self.away
        if named is not None:
            return len(named)
        size = self.size - len(away) - len(self.extra)
        if away:
            for arm in self.extra:
                if arm in away:  # the arm is in both sets, so it was subtracted twice
                    size += 1
        return size

    def __contains__(self, arm: int) -> bool:
        named = self.named
        if named is None:
            return 0 <= arm < self.size and arm not in self.away and arm not in self.extra
        place = bisect_left(named, arm)
        return place < len(named) and named[place] == arm

    def __iter__(self) -> Iterator[int]:
        return iter(self.listed())

    def __repr__(self) -> str:
        if self.named is not None:
            return f"Among({self.size}, named={self.named})"
        return f"Among({self.size}, away={self.away}, extra={self.extra})"

    def listed(self) -> list[int]:
        """Return the arms in ascending order, as a list. Do not change it."""
        if self.named is not None:
            return self.named
        away, extra = self.away, self.extra
        if not away and not extra:
            return list(range(self.size))
        return [arm for arm in range(self.size) if arm not in away and arm not in extra]

    def copy(self) -> "Among":
        """Return a copy, for code that may change the set."""
        copy = Among(self.size, None if self.named is None else list(self.named))
        copy.away, copy.extra = set(self.away), set(self.extra)
        return copy

    def without(self, arms: Iterable[int]) -> "Among":
        """Return the same set without these arms."""
        out = {arm for arm in arms if arm in self}
        if self.named is not None:
            return Among(self.size, [arm for arm in self.named if arm not in out])
        return Among(self.size, None, self.away, self.extra | out)

    def mask(self) -> "npt.NDArray[np.bool_]":
        """Return a numpy array with a bool for every arm of the pool: whether it is in the set."""
        import numpy as np  # here, since most pools never need it and it is slow to load

        if self.named is not None:
            mask = np.zeros(self.size, dtype=np.bool_)
            mask[self.named] = True
            return mask
        mask = np.ones(self.size, dtype=np.bool_)
        for absent in (self.away, self.extra):
            mask[list(absent)] = False
        return mask

    def indices(self) -> "npt.NDArray[np.intp]":
        """Return the arms in ascending order, as a numpy array."""
        import numpy as np

        if self.named is not None:
            return np.array(self.named, dtype=np.intp)
        return np.flatnonzero(self.mask())


everybody: Final = lru_cache(maxsize=1_000)(Among)
"""Returns the set of all arms of a pool of this size. Pools share it, so never change it."""
