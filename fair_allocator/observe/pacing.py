"""Limit how often a client gets an answer, by the processor time that its answers take."""

import threading
from collections.abc import Callable
from typing import Final

PART_OF_THE_TIME: Final = 0.02
"""The part of a processor that the answers to one client may take."""

CREDIT_SECONDS: Final = 5.0
"""By how many seconds a client may exceed its part for a short time, as when a person clicks
quickly."""

MOST_CLIENTS: Final = 1_000
"""With more clients than this, forget the clients that need not wait."""


class Pacing:
    """Knows for each client how long it has to wait for its next answer."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._paid: dict[str, float] = {}
        self._lock = threading.Lock()

    def spent(self, client: str, seconds: float) -> None:
        """Note how many seconds of a processor an answer to a client took."""
        with self._lock:
            now = self._monotonic()
            if len(self._paid) >= MOST_CLIENTS:
                self._paid = {other: paid for other, paid in self._paid.items() if paid > now}
            since = max(now, self._paid.get(client, now))
            self._paid[client] = since + seconds / PART_OF_THE_TIME

    def wait(self, client: str) -> float:
        """Return how many seconds a client must wait for its next answer; 0 if it need not."""
        with self._lock:
            paid = self._paid.get(client)
        return 0.0 if paid is None else max(0.0, paid - self._monotonic() - CREDIT_SECONDS)
