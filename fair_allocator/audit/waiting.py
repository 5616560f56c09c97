"""The waiting requests of a partition, each of which may be answered at most once.

A request that waits too long becomes a dead letter. The audit does not read dead letters, so it
cannot tell such a request from one that still waits. Therefore it forgets the oldest waiting
requests if there are too many.
"""

from typing import Final

from fair_allocator.events import AssignmentEvent, WaitingEvent

MOST: Final = 100_000
"""How many waiting requests are remembered, at about 300 bytes each."""


class WaitingRequests:
    """The waiting requests, by offset and by the arm to be replaced.

    Pass `has_all` if the log is complete from its beginning: then every waiting request is known.
    """

    def __init__(self, *, has_all: bool, most: int = MOST) -> None:
        self._has_all = has_all
        self._most = most
        self._waiting: dict[tuple[int, str | None], tuple[str, str]] = {}

    def add(self, event: WaitingEvent, answered: int) -> str | None:
        """Add a waiting request; return what is wrong with it, or None.

        All requests below the offset `answered` have already been answered or had to wait.
        """
        offset, read = event.request_offset, event.folded.requests
        place = offset, event.instead_of
        if event.repeat:
            if place not in self._waiting and self._has_all:
                return f"the request at {offset} waits no longer"
            return None if read > answered else f"waits again after the request at {answered - 1}"
        if place in self._waiting:
            return f"the request at {offset} waits already"
        if offset >= read:
            return f"the request at {offset} waits before it was read"
        if event.instead_of is None and offset != read - 1:
            return f"the request at {offset} waits after the one at {read - 1} was read"
        if event.instead_of is None and offset < answered:
            return f"the request at {offset} waits after the one at {answered - 1}"
        if len(self._waiting) >= self._most:
            del self._waiting[next(iter(self._waiting))]
            self._has_all = False
        self._waiting[place] = event.pool, event.request_id
        return None

    def answer(self, event: AssignmentEvent, offset: int) -> str | None:
        """Note the answer to a request that was read earlier; return what is wrong, or None.

        A request that is decided again may be answered without having waited.
        """
        if offset >= event.folded.requests:
            return f"answers the request at {offset} before it was read"
        waited = self._waiting.pop((offset, event.instead_of), None)
        if waited is None:
            if event.instead_of is None and self._has_all:
                return f"answers the request at {offset}, which does not wait"
        elif waited != (event.pool, event.request_id):
            pool, request_id = waited
            return f"answers the request at {offset}, which is {request_id!r} of pool {pool!r}"
        return None
