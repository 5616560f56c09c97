"""Records that are delivered again where delivery is at least once, told from others."""

from collections import deque
from typing import Final

from fair_allocator.events import first_delivered

DELIVERIES: Final = 20_000
"""How many records back one that is delivered again is looked for: several commits of any size
that is usual, at about 150 bytes each."""


class Deliveries:
    """The last records, by a fingerprint of each."""

    def __init__(self, most: int = DELIVERIES) -> None:
        self._most = most
        self._published: dict[int, bool] = {}
        """Whether a record was also seen without a mark."""
        self._order: deque[int] = deque()

    def is_again(self, value: bytes) -> bool:
        """Tell whether a record was seen before, the same but for its mark; remember it.

        Without a mark a record is published once. It may come late, after the marked one that
        stood in for it; what comes twice without a mark is not delivered again but another record.
        """
        first = first_delivered(value)
        unmarked, print = len(first) == len(value), hash(first)
        seen = self._published.get(print)
        if seen is None:
            if len(self._order) == self._most:
                del self._published[self._order.popleft()]
            self._order.append(print)
            self._published[print] = unmarked
            return False
        self._published[print] = seen or unmarked
        return not (seen and unmarked)
