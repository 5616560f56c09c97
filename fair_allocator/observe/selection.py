"""Choose a few of many things to have their own series, and keep the choice as long as possible."""

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Generic, TypeVar

Thing = TypeVar("Thing", bound=Hashable)


class Selection(Generic[Thing]):
    """At most `limit` chosen things. Each stays while it exists, unless it must make room.

    A chosen thing must make room only if the caller of `update` names another thing as urgent, and
    does not name this one.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.chosen: dict[Thing, None] = {}

    def update(
        self,
        there: Collection[Thing],
        urgent: Iterable[Thing],
        best_first: Callable[[], Iterable[Thing]],
    ) -> list[Thing]:
        """Choose among the things in `there`; call `best_first` only if there is room."""
        if len(there) <= self.limit:
            self.chosen = dict.fromkeys(there)
            return list(there)
        pressing = dict.fromkeys(urgent)
        kept = [thing for thing in self.chosen if thing in there]
        new = [thing for thing in pressing if thing not in self.chosen]
        room = self.limit - len(kept)
        if len(new) > room:
            # Remove things that are not urgent, the last chosen first.
            calm = [thing for thing in kept if thing not in pressing]
            leaving = set(calm[max(0, len(calm) + room - len(new)) :])
            kept = [thing for thing in kept if thing not in leaving]
        self.chosen = dict.fromkeys(kept)
        self._fill(new)
        if len(self.chosen) < self.limit:
            self._fill(best_first())
        return list(self.chosen)

    def _fill(self, things: Iterable[Thing]) -> None:
        for thing in things:
            if len(self.chosen) >= self.limit:
                return
            self.chosen[thing] = None
