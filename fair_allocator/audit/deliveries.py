"""Recognises records that were delivered again, where delivery is at least once."""

from collections import deque
from typing import Final

from fair_allocator.events import first_delivered

DELIVERIES: Final = 20_000
"""How many records back to look for an earlier delivery: several commits of usual size, at about
150 bytes a record."""


class Deliveries:
    """The last records, by a fingerprint of each."""

    def __init__(self, most: int = DELIVERIES) -> None:
        self._most = most
        self._published: dict[int, bool] = {}
        """Whether a record was also seen without a mark."""
        self._order: deque[int] = deque()

    def is_again(self, value: bytes) -> bool:
        """Tell whether the same record was seen before, apart from its mark; remember it.

        A record is published once without a mark. That one may come late, after its marked copy.
        If two equal records come without a mark, the second is a new record, not a copy.
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
