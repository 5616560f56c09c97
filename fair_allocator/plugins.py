"""Learners of installed packages, found by their entry points when a name is not built in."""

from functools import cache
from importlib.metadata import entry_points

from fair_allocator.core.learners import Learner

GROUP = "fair_allocator.learners"


@cache
def installed_learners() -> dict[str, type[Learner]]:
    """Return the learners that installed packages bring, by name."""
    return {point.name: point.load() for point in entry_points(group=GROUP)}
