"""How often a client may be answered: by what its answers cost, so that they cost little."""

import threading
from collections.abc import Callable
from typing import Final

PART_OF_THE_TIME: Final = 0.02
"""The part of a processor that the answers to one client may take."""

CREDIT_SECONDS: Final = 5.0
"""How far ahead of that a client may be: a person clicks, and then looks."""

MOST_CLIENTS: Final = 1_000
"""Remembered before those are forgotten that owe nothing."""


class Pacing:
    """Knows for each client until when it has had its part."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._paid: dict[str, float] = {}
        self._lock = threading.Lock()

    def spent(self, client: str, seconds: float) -> None:
        """Note that an answer took so much of a processor."""
        with self._lock:
            now = self._monotonic()
            if len(self._paid) >= MOST_CLIENTS:
                self._paid = {other: paid for other, paid in self._paid.items() if paid > now}
            since = max(now, self._paid.get(client, now))
            self._paid[client] = since + seconds / PART_OF_THE_TIME

    def wait(self, client: str) -> float:
        """Return for how many seconds a client must not be answered; 0 if it may be."""
        with self._lock:
            paid = self._paid.get(client)
        return 0.0 if paid is None else max(0.0, paid - self._monotonic() - CREDIT_SECONDS)
