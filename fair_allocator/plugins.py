"""Learners of installed packages, found by their entry points when a name is not built in."""

from functools import cache

from fair_allocator.core.learners import Learner

GROUP = "fair_allocator.learners"


@cache
def installed_learners() -> dict[str, type[Learner]]:
    """Return the learners that installed packages bring, by name."""
    # Only here: most services ask for none, and loading it takes longer than restoring a shard.
    from importlib.metadata import entry_points

    return {point.name: point.load() for point in entry_points(group=GROUP)}
