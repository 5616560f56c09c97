"""Recognises records that were delivered twice, which can happen with at-least-once delivery."""

from collections import deque
from typing import Final

from fair_allocator.events import first_delivered

DELIVERIES: Final = 20_000
"""How many earlier records are remembered to recognise a second delivery.

This is several commits of usual size. A record takes about 150 bytes.
"""


class Deliveries:
    """The fingerprints of the last records."""

    def __init__(self, most: int = DELIVERIES) -> None:
        self._most = most
        self._published: dict[int, bool] = {}
        """For each fingerprint, whether its record was seen without the mark `redelivered`."""
        self._order: deque[int] = deque()

    def take(self, value: bytes) -> bytes | None:
        """Remember a record; return it without its mark, or None if it is a copy of an earlier one.

        Copies have the mark `redelivered`, and exactly one delivery of a record comes without it.
        The delivery without the mark may come after a copy. If two equal records come without a
        mark, the second is a new record, not a copy.
        """
        first = first_delivered(value)
        unmarked, print = len(first) == len(value), hash(first)
        seen = self._published.get(print)
        if seen is None:
            if len(self._order) == self._most:
                del self._published[self._order.popleft()]
            self._order.append(print)
            self._published[print] = unmarked
            return first
        self._published[print] = seen or unmarked
        return first if seen and unmarked else None
