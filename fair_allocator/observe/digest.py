"""A view together with the figures worked out from it."""

from collections.abc import Mapping
from dataclasses import dataclass

from fair_allocator.observe.figures import PoolFigures
from fair_allocator.observe.view import Key, View


@dataclass(frozen=True, slots=True)
class Digest:
    """A view with its figures by pool.

    `broken` names the pools that break their promise; `worst` is the first by `urgency`.
    """

    view: View
    figures: Mapping[Key, PoolFigures]
    broken: list[Key]
    worst: PoolFigures | None = None

    @classmethod
    def of(cls, view: View, figures: Mapping[Key, PoolFigures]) -> "Digest":
        """Return the digest of a view."""
        broken = [key for key, each in figures.items() if each.broken]
        return cls(view, figures, broken, min(figures.values(), key=urgency, default=None))


def urgency(each: PoolFigures) -> tuple[float, float, str, int]:
    """Return the sort key of pools, the worst first; it changes rarely, so pools keep their places.

    The key is how far the worst arm is beyond the promise, then how close the peak came to it.
    """
    of, bound = each.of, each.of.terms.bound
    if bound is None:
        return 0.0, float("inf"), of.name, of.partition
    return -max(0.0, each.worst - bound), float(bound - each.peak), of.name, of.partition
