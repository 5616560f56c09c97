"""Which of too many have series of their own: a sticky choice, so that series do not flicker."""

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Generic, TypeVar

Thing = TypeVar("Thing", bound=Hashable)


class Selection(Generic[Thing]):
    """At most `limit` things: once chosen, one stays until it is gone or must make room.

    Room is made for the urgent ones only.
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
        """Choose among those that are there; `best_first` is asked only if there is room."""
        if len(there) <= self.limit:
            self.chosen = dict.fromkeys(there)
            return list(there)
        pressing = dict.fromkeys(urgent)
        kept = [thing for thing in self.chosen if thing in there]
        new = [thing for thing in pressing if thing not in self.chosen]
        room = self.limit - len(kept)
        if len(new) > room:
            # The last ones in that are not urgent go first.
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
