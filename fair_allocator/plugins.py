"""Learners of installed packages, found by their entry points when a name is not built in."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.learners import Learner

GROUP = "fair_allocator.learners"


class InstalledLearners(Mapping[str, type[Learner]]):
    """Learners by name.

    Each is loaded when it is needed, so a broken one does not affect others.
    """

    def __init__(self, points: Iterable[Any]) -> None:
        self._points = {point.name: point for point in points}

    def __getitem__(self, name: str) -> type[Learner]:
        point = self._points[name]
        try:
            kind = point.load()
        except (Exception, SystemExit) as error:
            raise InvalidPool(
                f"learner {name!r}: its package cannot be loaded: {error!r}; repair or remove it"
            ) from error
        if not isinstance(kind, type) or not issubclass(kind, Learner):
            raise InvalidPool(
                f"learner {name!r}: its package brings {kind!r}, which is not a Learner"
            )
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)


@cache
def installed_learners() -> InstalledLearners:
    """Return the learners that installed packages bring, by name."""
    # Imported here, because most services do not need it and it takes long to load.
    from importlib.metadata import entry_points

    return InstalledLearners(entry_points(group=GROUP))
