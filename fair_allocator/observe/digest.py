"""A view (a copy of the pools) together with the figures computed from it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fair_allocator.observe.figures import PoolFigures
from fair_allocator.observe.view import Key, View


@dataclass(frozen=True, slots=True)
class Digest:
    """A view with its figures by pool.

    `broken` has the keys of the pools that break their promise. `worst` is the first pool by
    `urgency`.
    """

    view: View
    figures: Mapping[Key, PoolFigures]
    broken: list[Key]
    worst: PoolFigures | None = None

    @classmethod
    def of(
        cls,
        view: View,
        figures: Mapping[Key, PoolFigures],
        worst: PoolFigures | None = None,
        fresh: Collection[PoolFigures] = (),
    ) -> "Digest":
        """Return the digest of a view.

        If only the figures `fresh` are new, pass the worst of the other pools as `worst`.
        """
        broken = [key for key, each in figures.items() if each.broken]
        some: Iterable[PoolFigures] = figures.values()
        if worst is not None and figures.get(worst.of.key) is worst:
            some = (worst, *fresh)
        return cls(view, figures, broken, min(some, key=urgency, default=None))


def urgency(each: PoolFigures) -> tuple[float, float, str, int]:
    """Return the key that sorts pools, the worst first.

    The key is how far the worst arm is beyond the promise, then how close to the promise the peak
    came. It rarely changes, so the pools keep their places in a list.
    """
    of, bound = each.of, each.of.terms.bound
    if bound is None:
        return 0.0, float("inf"), of.name, of.partition
    return -max(0.0, each.worst - bound), float(bound - each.peak), of.name, of.partition
